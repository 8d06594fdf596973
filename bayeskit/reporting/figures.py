"""Pictures of a posterior: marginals with their closed-form densities, and intervals.

No figure is left open. Large models are cut to what a reader can take in; the caption says how much is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from arviz_base import xarray_sel_iter
from arviz_stats.base import array_stats
from matplotlib.axes import Axes

from bayeskit.reporting.dates import plain_dates
from bayeskit.reporting.distinct_labels import distinct_labels, shortened
from bayeskit.reporting.intervals import draw_bands, draw_intervals
from bayeskit.reporting.records import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    Picture,
    in_a_grid,
    interval_probability,
    label_rows,
    say_instead,
    subplots,
    to_picture,
)
from bayeskit.reporting.subject import PANEL_VARIABLE, is_series, label_variables
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
SAMPLE = ("chain", "draw")
DRAWS_A_STEP, MOST_STEPS = 60, 30  # of the histogram of a prior
POINTS = 150  # of a density
LONGEST = 28  # letters of a title
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
    labels = label_variables(post)
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


def marginal_picture(
    post: Posterior,
    names: tuple[str, ...],
    validation: Validation | None = None,
    prior: Mapping[str, np.ndarray] | str = "",
) -> Picture | None:
    """Marginal posteriors, one panel a scalar: histogram of the draws, closed-form density, NUTS where it was run.

    Beside it the prior, where there are draws from it.
    """
    if not names:
        return None
    draws = _as_numbers(distinct_labels(post.tree["posterior"].to_dataset()[list(names)]))
    count = sum(_size(draws[n]) for n in names)
    columns = count if count < 4 else 4 if count in (4, 7, 8) or count > 9 else 3
    size = min(2.6 * columns, 7.8), 1.75 * -(-count // columns) + 0.15
    figure, grid = plt.subplots(-(-count // columns), columns, figsize=size, squeeze=False)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    sampled = _sampled(validation, names)
    drawn: dict[str, dict[tuple[int, ...], Axes]] = {}
    for axes, (name, labels, at) in zip(grid.flat, xarray_sel_iter(draws, skip_dims=set(SAMPLE)), strict=False):
        place = tuple(at.values())
        axes.set_title(_short(f"{name}[{', '.join(map(str, labels.values()))}]" if labels else str(name)), fontsize=9)
        if why := no_histogram(values := draws[name].isel(at).to_numpy()):
            say_instead(axes, why)
            continue
        drawn.setdefault(str(name), {})[place] = axes
        _draw_histogram(axes, values.ravel(), None if sampled is None else sampled[name].isel(at).to_numpy().ravel())
        if not isinstance(prior, str) and name in prior:
            _draw_prior(axes, _entry(prior[str(name)], place), draws[name].dtype.kind in "iu")
        axes.locator_params(axis="x", nbins=4)
    for name, places in drawn.items():
        if (marginal := post.marginals.get(name)) is not None and marginal.elementwise:
            _draw_densities(places, marginal, draws[name].shape[2:], np.issubdtype(draws[name].dtype, np.integer))
    number = f"{draws.sizes['chain'] * draws.sizes['draw']:,}"
    words = [f"Shaded: histogram of {number} {'independent ' if post.method == 'exact' else ''}draws"]
    words += ["blue line: density in closed form or by quadrature"] if any(n in post.marginals for n in names) else []
    words += ["grey: the prior"] if any(n in prior for n in names) else []
    words += ["dashed orange: NUTS"] if sampled is not None else []
    words += [f"point and bar: mean and {100 * interval_probability():g} % interval"]
    alt = f"Marginal posterior densities of {', '.join(names)}, one panel for each scalar."
    caption = f"Marginal posteriors. {'; '.join(words)}."
    return to_picture(in_a_grid(figure), alt=alt, caption=caption, stacked=True)


def _short(label: str) -> str:
    """What the title of a panel has room for."""
    return shortened(plain_dates(label), LONGEST)


def interval_pictures(post: Posterior, names: tuple[str, ...]) -> tuple[Picture, ...]:
    """50 % and wider intervals of large variables, one forest plot a variable, of its first elements."""
    draws = _as_numbers(post.tree["posterior"].to_dataset()[list(names)])
    pictures = []
    for name in names:
        size = _size(draws[name])
        if size > MAX_INTERVALS and draws[name].ndim == 3 and is_series(post, name):
            pictures.append(_band(name, draws[name]))
            continue
        first = flattened(draws[name], MAX_INTERVALS)
        values = first.transpose(*SAMPLE, "element").to_numpy()
        values, shown = values.reshape(-1, values.shape[-1]), values.shape[-1]
        figure, axes = subplots(figsize=(7.4, 0.19 * shown + 0.7))
        means = draw_intervals(axes, values, lying=True)
        axes.plot(means, np.arange(shown), "o", color=INK, markersize=4)
        axes.set_yticks(np.arange(shown), [_short(str(label)) for label in first["element"].to_numpy()])
        axes.set_ylim(shown - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        rest = f" The first {shown} of {size} elements; {size - shown} are not shown." if size > shown else ""
        infinite = not np.all(np.isfinite(values))
        rest += " Where a draw is not finite there is none." if infinite else ""
        caption = f"{name}: mean, 50 % and {100 * interval_probability():g} % intervals of each element.{rest}"
        alt = f"Posterior means and intervals of {shown} elements of {name}."
        pictures.append(to_picture(figure, alt=alt, caption=caption))
    return tuple(pictures)


def _band(name: str, draws: xr.DataArray) -> Picture:
    """A series of numbers along its steps: mean, and its intervals as bands."""
    (dim,) = (str(d) for d in draws.dims if d not in SAMPLE)
    figure, axes = subplots(figsize=(7.4, 2.7))
    draw_bands(axes, draws.transpose(*SAMPLE, dim).to_numpy().reshape(-1, draws.sizes[dim]))
    label_rows(axes, draws[dim].to_numpy())
    axes.set(xlabel=dim, ylabel=name)
    caption = f"{name}: mean, 50 % and {100 * interval_probability():g} % intervals along {dim}."
    return to_picture(figure, alt=f"Posterior means and intervals of {name} along {dim}.", caption=caption)


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


def _draw_histogram(axes: Axes, values: np.ndarray, sampled: np.ndarray | None) -> None:
    """A histogram with mean and interval below it, and the density of other draws as a dashed line."""
    heights, edges = array_stats.histogram(values)
    axes.stairs(heights, edges, fill=True, color=BLUE, alpha=0.25, linewidth=0)
    if sampled is not None and not no_histogram(sampled):
        axes.plot(*_density_of(sampled), color=ORANGE, linestyle="--", linewidth=1.4)
    tail = (1 - interval_probability()) / 2
    axes.plot(np.quantile(values, [tail, 1 - tail]), [0.0, 0.0], color=INK, linewidth=2)
    axes.plot(values.mean(), 0.0, "o", color=INK)
    axes.use_sticky_edges = False  # room for the point
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _density_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and an estimated density there; of whole numbers their shares, between which a density has gaps."""
    if values.dtype.kind not in "iu" or np.ptp(values) > len(values):
        return array_stats.kde(values)[:2]
    points = np.arange(values.min(), values.max() + 1)
    return points, np.bincount(values - values.min()) / len(values)


def _draw_densities(
    places: Mapping[tuple[int, ...], Axes], marginal: Any, shape: tuple[int, ...], discrete: bool
) -> None:
    """The closed-form density (or mass) of the elements of a variable over the ranges of their panels, all at once."""
    ranges = {place: axes.get_xlim() for place, axes in places.items()}
    if discrete:
        for place, (low, high) in ranges.items():
            x = np.arange(np.ceil(low), np.floor(high) + 1)
            mass = np.asarray(marginal.dist.pmf(x.reshape(-1, *(1 for _ in shape))))
            mass = np.broadcast_to(mass.reshape(len(x), *mass.shape[1:]), (len(x), *shape))
            places[place].plot(x, _entry(mass, place), "o", color=BLUE, markersize=3)
        return
    grid = np.empty((POINTS, *shape))
    grid[:] = np.mean(next(iter(ranges.values())))  # of elements that have no panel
    for place, (low, high) in ranges.items():
        _entry(grid, place)[:] = np.linspace(low, high, POINTS)
    density = np.broadcast_to(np.asarray(marginal.dist.pdf(grid)), grid.shape)
    for place, axes in places.items():
        axes.plot(_entry(grid, place), _entry(density, place), color=BLUE, linewidth=1.8)


def _entry(values: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
    """One entry of a variable along the first axis, a view."""
    index: Any = (slice(None), *place)
    view: np.ndarray = values[index]
    return view


def _draw_prior(axes: Axes, values: np.ndarray, discrete: bool) -> None:
    """A histogram of prior draws over the range of a panel, in as many steps as these can tell apart."""
    low, high = axes.get_xlim()
    seen = values[(values >= low) & (values <= high)]
    steps = int(np.clip(len(seen) // DRAWS_A_STEP, 1, MOST_STEPS))
    edges = np.arange(np.floor(low), np.ceil(high) + 2) - 0.5 if discrete else np.linspace(low, high, steps + 1)
    counts, _ = np.histogram(seen, edges)
    axes.stairs(counts / (len(values) * np.diff(edges)), edges, color=MUTED, linewidth=1.2, baseline=None)
    axes.set_xlim(low, high)


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
