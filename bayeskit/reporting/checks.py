"""Posterior predictive checks, by the plot that suits the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from bayeskit.reporting.categories import MAX_CATEGORIES, category_figure, category_labels
from bayeskit.reporting.distinct_labels import distinct_labels
from bayeskit.reporting.figures import flattened, no_histogram
from bayeskit.reporting.records import BLUE, ORANGE, Picture, figure_of, say_instead, subplots, to_picture
from bayeskit.results.predictive import predict
from bayeskit.results.records import Posterior
from bayeskit.results.tree import observed_data

__all__ = ["check_pictures", "generator", "kind_of_check"]

MAX_PICTURES = 3
MAX_FACETS = 6
MAX_DRAWS = 1000
MAX_ROWS = 2000
MAX_ELEMENTS = 20_000_000  # replicated values held in memory
MAX_INTERVALS = 80
FEW = 12
MAX_COUNT = 60
OVERLAID = 40
SIZE = (7.4, 2.9)  # inches
FACET_COLUMNS = 2


def kind_of_check(observed: xr.DataArray, predicted: xr.DataArray) -> str:
    """Which plot suits the observed values.

    Categories: the share of each, by name. One value: the predictive distribution with the value marked. Few values, or
    counts that are predicted to differ from row to row (each has its own trials or exposure): an interval for each.
    Zeros and ones: the proportion of ones. Small counts: a rootogram; large ones, and measurements so rounded that most
    are there twice or so close together that a density estimate would show spikes: distribution functions. Else
    densities.
    """
    values = observed.to_numpy()
    if "labels" in observed.attrs and max(values.max(), predicted.max()) < MAX_CATEGORIES:
        return "category"
    if values.size == 1:
        return "value"
    if values.size <= FEW:
        return "interval"
    if values.dtype.kind not in "biu":
        # Rounded: fewer than half the values of some column are distinct.
        rounded = any(2 * np.unique(column).size < column.size for column in values.reshape(len(values), -1).T)
        narrow = any(no_histogram(v) for v in (values, predicted.to_numpy()))
        return "ecdf" if rounded or narrow else "kde"
    if values.min() >= 0 and values.max() <= 1:
        return "proportion"
    # Predictions differ from row to row where they do by more than a tenth of their own spread.
    sample = ("chain", "draw")
    if values.size <= MAX_INTERVALS and predicted.mean(sample).std() > 0.1 * predicted.std(sample).mean():
        return "interval"
    return "rootogram" if values.max() - values.min() <= MAX_COUNT else "ecdf"


def check_pictures(post: Posterior, note: str = "") -> tuple[Picture, ...]:
    """One predictive check for each observed variable, by the plot of :func:`kind_of_check`, with a note on each.

    Of a variable with many values, a random selection of rows is shown, and fewer replicated data sets are drawn.
    """
    observed, labels = observed_data(post.tree), category_labels(post.model)
    predicted = _replicated(post, max((v.size for v in observed.data_vars.values()), default=0))
    names = [n for n in observed.data_vars if n in predicted.data_vars][:MAX_PICTURES]
    observed = observed.assign({n: observed[n].assign_attrs(labels=labels[n]) for n in labels if n in observed})
    rng = generator(post)
    found = (_check(str(n), *_selected(observed[n], predicted[n], rng)) for n in names)
    return tuple(replace(p, caption=f"{p.caption} {note}".strip()) for p in found)


def generator(post: Posterior) -> np.random.Generator:
    """A stream of its own: with the posterior's seed alone, noise would repeat the numbers that made the draws."""
    return np.random.default_rng(np.random.SeedSequence(post.random_seed, spawn_key=(1,)))


def _replicated(post: Posterior, size: int) -> xr.Dataset:
    """Posterior predictive draws; where the data are large, of a part of the draws only, and not kept."""
    draws = post.tree["posterior"].to_dataset()
    count = draws.sizes["chain"] * draws.sizes["draw"]
    if "posterior_predictive" in post.tree.children or count * size <= MAX_ELEMENTS:
        return post.posterior_predictive(random_seed=post.random_seed)
    kept = max(1, max(MAX_ELEMENTS // size, OVERLAID) // draws.sizes["chain"])
    few = xr.DataTree.from_dict({"posterior": draws.isel(draw=slice(kept))})
    return predict(post.model, few, {}, random_seed=post.random_seed)


def _selected(observed: xr.DataArray, predicted: xr.DataArray, rng: np.random.Generator) -> list[xr.DataArray]:
    """A random selection of the rows of large data."""
    if observed.ndim == 0 or observed.shape[0] <= MAX_ROWS:
        return [observed, predicted]
    total = len(observed)
    rows = {observed.dims[0]: np.sort(rng.choice(total, MAX_ROWS, replace=False))}
    return [observed.isel(rows).assign_attrs(shown=f" {MAX_ROWS:,} of {total:,} rows."), predicted.isel(rows)]


def _check(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> Picture:
    step = max(1, predicted.sizes["chain"] * predicted.sizes["draw"] // MAX_DRAWS)
    predicted = predicted.isel(draw=slice(None, None, step))
    if share := np.mean(~np.isfinite(predicted.to_numpy())):
        figure, words = _words(f"{100 * share:.2g} % of the replicated values are not finite")
    else:
        figure, words = CHECKS[kind_of_check(observed, predicted)](name, observed, predicted)
    words += observed.attrs.get("shown", "")
    return to_picture(figure, alt=f"Posterior predictive check of {name}. {words}", caption=f"{name}. {words}")


def _words(why: str) -> tuple[Figure, str]:
    """Where there is nothing to be drawn."""
    figure, axes = subplots(figsize=(SIZE[0], 0.8))
    say_instead(axes, why, width=90)
    return figure, f"There is no picture: {why}."


def _value(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    if same := no_histogram(predicted.to_numpy()):
        return _words(f"{same} of the replicated data; the observed value is {observed.item():.6g}")
    hidden = dict.fromkeys(("dist", "point_estimate_text", "title", "remove_axis"), False)
    visuals = {"face": {"color": BLUE, "alpha": 0.3}, "credible_interval": {"color": BLUE}, **hidden}
    figure = _drawn("plot_dist", name, observed, predicted, visuals, group="posterior_predictive", kind="hist")
    figure.axes[0].axvline(float(observed.to_numpy().item()), color=ORANGE, linewidth=2)
    figure.axes[0].set_yticks([])
    figure.axes[0].set_xlabel(name)
    return figure, "Histogram of replicated values (blue); the orange line is the observed one."


def _interval(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    visuals: dict[str, Any] = {"trunk": {"color": BLUE, "alpha": 0.25}, "twig": {"color": BLUE, "alpha": 0.5}}
    visuals |= {"observed_markers": {"color": ORANGE, "size": 24, "zorder": 5}}
    visuals |= dict.fromkeys(("prediction_markers", "xlabel", "ylabel"), False)
    predicted = flattened(predicted.transpose("chain", "draw", *observed.dims))
    observed = flattened(observed).assign_coords(element=predicted["element"])
    figure = _drawn("plot_ppc_interval", name, observed, predicted, visuals)
    axes = figure.axes[0]
    labels = predicted["element"].to_numpy().tolist()
    step = 1 if len(labels) <= 30 else 5  # every element is labelled, or every few of many that are numbered
    axes.set_xticks(range(0, len(labels), step), labels[::step])
    if sum(map(len, labels[::step])) > 60:
        axes.tick_params(axis="x", rotation=90)
    axes.set_ylabel(name)
    return figure, "Each value's 50 % and wider predictive interval (blue), and what was observed (orange)."


def _proportion(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    ones = predicted.mean([d for d in predicted.dims if d not in ("chain", "draw")])
    if no_histogram(ones.to_numpy()):
        return _value(name, observed.mean(), ones)
    figure, _ = _value(name, observed.mean(), ones)
    figure.axes[0].set_xlabel(f"proportion of ones in {name}")
    return figure, "Histogram of the proportion of ones in replicated data (blue); the orange line is the observed one."


def _rootogram(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    if observed.ndim > 1:  # ArviZ counts along one axis
        predicted, observed = flattened(predicted.transpose("chain", "draw", *observed.dims)), flattened(observed)
    visuals: dict[str, Any] = {"predictive_markers": {"color": BLUE}, "credible_interval": {"color": BLUE}}
    visuals |= {"observed_markers": {"color": ORANGE, "size": 30}, "grid": {"color": "#e4e7eb"}}
    visuals |= dict.fromkeys(("xlabel", "ylabel", "title"), False)
    figure = _drawn("plot_ppc_rootogram", name, observed, predicted, visuals)
    figure.axes[0].set_xlabel(name)
    figure.axes[0].set_ylabel("frequency (root scale)")
    return figure, "Rootogram: how often each count is predicted, with its interval (blue), and was observed (orange)."


def _distribution(kind: str, name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    # The dim along which the quantities differ: the last of two, if it is short.
    facet = str(observed.dims[1]) if observed.ndim == 2 and observed.shape[1] <= MAX_FACETS else None
    visuals = {
        "predictive_dist": {"color": BLUE, "alpha": 0.25, "width": 0.8},
        "observed_dist": {"color": ORANGE, "width": 2},
        "title": {"size": 9} if facet else False,
    }
    layout: dict[str, Any] = {}
    if facet:
        size = (SIZE[0], 2.0 * -(-observed.sizes[facet] // FACET_COLUMNS) + 0.2)
        layout = {"cols": ["__variable__", facet], "col_wrap": FACET_COLUMNS, "figure_kwargs": {"figsize": size}}
    figure = _drawn("plot_ppc_dist", name, observed, predicted, visuals, kind=kind, num_samples=OVERLAID, **layout)
    if not facet:
        figure.axes[0].set_xlabel(name)
    what = "Estimated densities" if kind == "kde" else "Distribution functions"
    return figure, f"{what} of {OVERLAID} replicated data sets (blue) and of the observed data (orange)."


def _drawn(
    plot: str, name: str, observed: xr.DataArray, predicted: xr.DataArray, visuals: dict[str, Any], **options: Any
) -> Figure:
    """What a function of arviz-plots draws of replicated data and the observed ones."""
    groups = {"posterior_predictive": xr.Dataset({name: predicted}), "observed_data": xr.Dataset({name: observed})}
    groups = {group: distinct_labels(values) for group, values in groups.items()}
    options = {"figure_kwargs": {"figsize": SIZE}, **options}
    return figure_of(getattr(azp, plot)(xr.DataTree.from_dict(groups), visuals=visuals, **options))


CHECKS: dict[str, Callable[[str, xr.DataArray, xr.DataArray], tuple[Figure, str]]] = {
    "category": category_figure,
    "value": _value,
    "interval": _interval,
    "proportion": _proportion,
    "rootogram": _rootogram,
    "ecdf": partial(_distribution, "ecdf"),
    "kde": partial(_distribution, "kde"),
}
