"""Pictures of a posterior, by arviz-plots: marginals with their closed-form densities, and intervals.

No figure is left open. Large models are cut to what a reader can take in; the caption says how much is not shown.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr
from arviz_base import xarray_sel_iter
from matplotlib.axes import Axes

from bayeskit.graphs.environment import silently
from bayeskit.reporting.distinct_labels import distinct_labels
from bayeskit.reporting.records import (
    BLUE,
    INK,
    ORANGE,
    Picture,
    figure_of,
    interval_probability,
    say_instead,
    to_picture,
)
from bayeskit.results.records import Posterior
from bayeskit.validation import Validation

__all__ = [
    "MAX_INTERVALS",
    "flattened",
    "interval_pictures",
    "marginal_picture",
    "no_histogram",
    "split_variables",
    "variable_order",
]

MAX_PANELS = 12
MAX_INTERVALS = 40
MAX_INTERVAL_PICTURES = 4
PANEL_VARIABLE = 9  # a variable with more elements is shown as intervals
LABELS = ("categorical", "markov_chain")  # steps of the plan whose variables are labels
SAMPLE = ("chain", "draw")
NARROW = 10_000  # roundings that draws have to span for a histogram
SMALL = 1e-290  # where a density overflows


def variable_order(post: Posterior) -> tuple[str, ...]:
    """Free variables in the order the user wrote them, then the Deterministics that were kept."""
    stored = list(post.tree["posterior"].data_vars)
    free = [str(rv.name) for rv in post.model.free_RVs if rv.name in stored]
    return (*free, *(str(n) for n in stored if n not in free))


def split_variables(post: Posterior) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names shown as densities, as intervals, and not shown: small variables get panels while there is room."""
    draws = post.tree["posterior"].to_dataset()
    panels: list[str] = []
    intervals: list[str] = []
    hidden: list[str] = []
    room = MAX_PANELS
    # A component or a state is a label: an interval between labels says nothing.
    labels = {n for step in post.plan.eliminated if step.family in LABELS for n in step.variables}
    for name in variable_order(post):
        size = _size(draws[name])
        if draws[name].dtype.kind not in "biuf" or size == 0:
            hidden.append(name)
        elif size <= min(PANEL_VARIABLE, room):
            panels.append(name)
            room -= size
        elif len(intervals) < MAX_INTERVAL_PICTURES and name not in labels:
            intervals.append(name)
        else:
            hidden.append(name)
    return tuple(panels), tuple(intervals), tuple(hidden)


def marginal_picture(post: Posterior, names: tuple[str, ...], validation: Validation | None = None) -> Picture | None:
    """Marginal posteriors, one panel a scalar: histogram of the draws, closed-form density, NUTS where it was run."""
    if not names:
        return None
    draws = _as_numbers(distinct_labels(post.tree["posterior"].to_dataset()[list(names)]))
    undrawn = _flat_entries(draws)
    draws = _filled(draws, undrawn)
    count = sum(_size(draws[n]) for n in names)
    columns = count if count < 4 else 4 if count in (4, 7, 8) or count > 9 else 3
    visuals: dict[str, Any] = {"face": {"color": BLUE, "alpha": 0.25}, "credible_interval": {"color": INK, "width": 2}}
    visuals |= {"dist": False, "point_estimate": {"color": INK}, "point_estimate_text": False, "title": {"size": 9}}
    size = min(2.6 * columns, 7.8), 1.75 * -(-count // columns) + 0.15
    layout = {"cols": ["__variable__", *(d for d in draws.dims if d not in SAMPLE)], "col_wrap": columns}
    panels = azp.plot_dist(draws, kind="hist", visuals=visuals, figure_kwargs={"figsize": size}, **layout)
    sampled = _sampled(validation, names)
    if sampled is not None:
        hidden = ("credible_interval", "point_estimate", "point_estimate_text", "title", "remove_axis")
        dashed = {"dist": {"color": ORANGE, "linestyle": "--", "width": 1.4}}
        sampled = _filled(_as_numbers(sampled), undrawn)
        azp.plot_dist(sampled, kind="kde", plot_collection=panels, visuals=dashed | dict.fromkeys(hidden, False))
    for name, labels, at in xarray_sel_iter(draws, skip_dims=set(SAMPLE)):
        axes, marginal = panels.get_target(name, labels), post.marginals.get(name)
        if (why := undrawn.get((name, *at.values()))) is not None:
            say_instead(axes, why)
            continue
        if marginal is not None and marginal.elementwise:
            _draw_density(axes, marginal, tuple(at.values()), np.issubdtype(draws[name].dtype, np.integer))
        axes.locator_params(axis="x", nbins=4)
        axes.set_ylim(bottom=min(axes.get_ylim()[0], 0.0))
    number = f"{draws.sizes['chain'] * draws.sizes['draw']:,}"
    words = [f"Shaded: histogram of {number} {'independent ' if post.method == 'exact' else ''}draws"]
    words += ["blue line: density in closed form or by quadrature"] if any(n in post.marginals for n in names) else []
    words += ["dashed orange: NUTS"] if sampled is not None else []
    words += [f"black: mean and {100 * interval_probability():g} % interval"]
    alt = f"Marginal posterior densities of {', '.join(names)}, one panel for each scalar."
    return to_picture(figure_of(panels), alt=alt, caption=f"Marginal posteriors. {'; '.join(words)}.")


def interval_pictures(post: Posterior, names: tuple[str, ...]) -> tuple[Picture, ...]:
    """50 % and wider intervals of large variables, one forest plot a variable, of its first elements."""
    draws = _as_numbers(post.tree["posterior"].to_dataset()[list(names)])
    visuals: dict[str, Any] = {"labels": {"size": 8}, "point_estimate": {"color": INK}, "ticklabels": False}
    visuals |= {"trunk": {"color": BLUE}, "twig": {"color": BLUE}}
    pictures = []
    for name in names:
        size, shown = _size(draws[name]), min(_size(draws[name]), MAX_INTERVALS)
        first = distinct_labels(xr.Dataset({name: flattened(draws[name], MAX_INTERVALS)}))
        layout = {"figsize": (7.4, 0.19 * shown + 0.7), "width_ratios": [1, 3]}
        with silently():  # of infinite draws there is no interval, and none is drawn
            panels = azp.plot_forest(first, combined=True, labels=["element"], visuals=visuals, figure_kwargs=layout)
        figure = figure_of(panels)
        figure.axes[0].axis("off")  # the column of labels
        rest = f" The first {shown} of {size} elements; {size - shown} are not shown." if size > shown else ""
        infinite = not np.all(np.isfinite(first[name].to_numpy()))
        rest += " Where a draw is not finite there is none." if infinite else ""
        caption = f"{name}: mean, 50 % and {100 * interval_probability():g} % intervals of each element.{rest}"
        alt = f"Posterior means and intervals of {shown} elements of {name}."
        pictures.append(to_picture(figure, alt=alt, caption=caption))
    return tuple(pictures)


def _as_numbers(draws: xr.Dataset) -> xr.Dataset:
    """With ones and zeros for true and false."""
    return draws.map(lambda v: v.astype(int) if v.dtype == bool else v)


def no_histogram(values: np.ndarray) -> str:
    """Why draws of one number have no histogram; empty where they have."""
    if not np.all(finite := np.isfinite(values)):
        share = np.mean(~finite)
        return "no draw is finite" if share == 1 else f"{100 * share:.2g} % of the draws are not finite"
    low, high = float(values.min()), float(values.max())
    if low == high:
        return f"every draw is {low:.6g}"
    if high - low < NARROW * np.spacing(max(-low, high)):
        return f"every draw is {low:.6g}, but for rounding"
    return "" if SMALL < high - low < 1 / SMALL else f"from {low:.2g} to {high:.2g}: out of what can be drawn"


def _flat_entries(draws: xr.Dataset) -> dict[tuple[Any, ...], str]:
    """Of entries that have no histogram, by name and place, why."""
    entries = ((name, at) for name, _, at in xarray_sel_iter(draws, skip_dims=set(SAMPLE)))
    found = {(name, *at.values()): no_histogram(draws[name].isel(at).to_numpy()) for name, at in entries}
    return {entry: why for entry, why in found.items() if why}


def _filled(draws: xr.Dataset, entries: Collection[tuple[Any, ...]]) -> xr.Dataset:
    """With zeros and ones in some entries, so that the others are drawn."""
    lengths = draws.sizes["chain"], draws.sizes["draw"]
    draws = draws.assign({name: draws[name].transpose(*SAMPLE, ...).copy() for name, *_ in entries})
    for name, *at in entries:
        draws[name].values[:, :, *at] = (np.arange(lengths[0] * lengths[1]) % 2).reshape(lengths)
    return draws


def _draw_density(axes: Axes, marginal: Any, index: tuple[int, ...], discrete: bool) -> None:
    """The closed-form density (or mass) of one element over the range of its panel."""
    low, high = axes.get_xlim()
    if discrete:
        x = np.arange(np.ceil(low), np.floor(high) + 1)
        axes.plot(x, _element(marginal.dist.pmf, x, index), "o", color=BLUE, markersize=3)
    else:
        x = np.linspace(low, high, 200)
        axes.plot(x, _element(marginal.dist.pdf, x, index), color=BLUE, linewidth=1.8)


def _element(density: Any, x: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
    """Density of one element of an array-valued distribution at the points x."""
    values = np.asarray(density(x.reshape(-1, *(1 for _ in index))))
    if values.ndim == 1:
        return values
    return values.reshape(len(values), -1)[:, np.ravel_multi_index(index, values.shape[1:])]


def _sampled(validation: Validation | None, names: tuple[str, ...]) -> xr.Dataset | None:
    """The sampler's draws of the same variables, where a validation kept them."""
    if validation is None or validation.draws is None:
        return None
    draws = validation.draws["posterior"].to_dataset()
    return distinct_labels(draws[list(names)]) if set(names) <= set(draws.data_vars) else None


def flattened(variable: xr.DataArray, limit: int | None = None) -> xr.DataArray:
    """The first elements along one dim ``element``, labelled by their coordinates."""
    dims = [d for d in variable.dims if d not in SAMPLE]
    if not dims:
        return variable.expand_dims(element=[str(variable.name)], axis=-1)
    names = [variable[d].to_numpy() for d in dims]
    indices = islice(np.ndindex(*(len(n) for n in names)), limit)
    labels = [", ".join(str(n[i]) for n, i in zip(names, index, strict=True)) for index in indices]
    first = variable.isel({d: slice(limit) for d in dims[:1]})  # no more than these are read of a large one
    stacked = first.stack(element=dims, create_index=False).isel(element=slice(limit))
    return stacked.drop_vars(dims, errors="ignore").assign_coords(element=labels)


def _size(variable: xr.DataArray) -> int:
    return int(np.prod([n for d, n in variable.sizes.items() if d not in SAMPLE], dtype=int))
