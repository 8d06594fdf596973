"""Replicated data beside the observed ones by functions of arviz-plots: densities, rootograms, intervals, one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from matplotlib.cbook import pts_to_prestep
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from bayeskit.reporting.distinct_labels import distinct_labels
from bayeskit.reporting.figures import flattened, no_histogram
from bayeskit.reporting.intervals import draw_intervals
from bayeskit.reporting.records import BLUE, ORANGE, figure_of, say_instead, subplots
from bayeskit.results.picture_style import panel_name

__all__ = ["OVERLAID", "distribution_figure", "interval_figure", "rootogram_figure", "value_figure", "words_figure"]

OVERLAID, CHOSEN = 40, 4214  # replicated data sets, and the seed by which they are chosen
STEPS = 200  # of a distribution function
SIZE = (7.4, 2.9)  # inches
ROW = 2.0  # inches, of panels below each other
COLUMNS = 2

type _Columns = Mapping[str, xr.DataArray]


def words_figure(why: str) -> tuple[Figure, str]:
    """Where there is nothing to be drawn."""
    figure, axes = subplots(figsize=(SIZE[0], 0.8))
    say_instead(axes, why, width=90)
    return figure, f"There is no picture: {why}."


def value_figure(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    """The predictive distribution of one value, which is marked."""
    if same := no_histogram(predicted.to_numpy()):
        return words_figure(f"{same} of the replicated data; the observed value is {observed.item():.6g}")
    hidden = dict.fromkeys(("dist", "point_estimate_text", "title", "remove_axis"), False)
    visuals = {"face": {"color": BLUE, "alpha": 0.3}, "credible_interval": {"color": BLUE}, **hidden}
    one = {name: observed}, {name: predicted}
    figure = _drawn("plot_dist", *one, visuals, group="posterior_predictive", kind="hist")
    figure.axes[0].axvline(float(observed.to_numpy().item()), color=ORANGE, linewidth=2)
    figure.axes[0].set_yticks([])
    figure.axes[0].set_xlabel(name)
    return figure, "Histogram of replicated values (blue); the orange line is the observed one."


def interval_figure(name: str, observed: xr.DataArray, predicted: xr.DataArray) -> tuple[Figure, str]:
    """The predictive interval of each value."""
    predicted = flattened(predicted.transpose("chain", "draw", *observed.dims))
    figure, axes = subplots(figsize=SIZE)
    draw_intervals(axes, predicted.to_numpy().reshape(-1, predicted.sizes["element"]), alphas=(0.5, 0.5))
    values = np.ravel(observed.to_numpy())
    axes.scatter(np.arange(values.size), values, s=24, color=ORANGE, zorder=5)
    labels = predicted["element"].to_numpy().tolist()
    step = 1 if len(labels) <= 30 else 5  # every element is labelled, or every few of many that are numbered
    axes.set_xticks(range(0, len(labels), step), labels[::step])
    if sum(map(len, labels[::step])) > 60:
        axes.tick_params(axis="x", rotation=90)
    axes.set_ylabel(name)
    return figure, "Each value's 50 % and wider predictive interval (blue), and what was observed (orange)."


def rootogram_figure(observed: _Columns, predicted: _Columns) -> tuple[Figure, str]:
    """How often each count is there, a panel a column."""
    # ArviZ counts along one axis
    predicted = {n: flattened(v.transpose("chain", "draw", *observed[n].dims)) for n, v in predicted.items()}
    observed = {n: flattened(v) for n, v in observed.items()}
    visuals: dict[str, Any] = {"predictive_markers": {"color": BLUE}, "credible_interval": {"color": BLUE}}
    visuals |= {"observed_markers": {"color": ORANGE, "size": 30}, "grid": {"color": "#e4e7eb"}}
    visuals |= dict.fromkeys(("xlabel", "ylabel", "title"), False)
    figure = _drawn("plot_ppc_rootogram", observed, predicted, visuals, **_panels(len(observed)))
    for axes, name in zip(figure.axes, observed, strict=False):
        axes.set_xlabel(name)
        axes.set_ylabel("frequency (root scale)" if len(observed) == 1 else "frequency (root)")
    return figure, "Rootogram: how often each count is predicted, with its interval (blue), and was observed (orange)."


def distribution_figure(kind: str, observed: _Columns, predicted: _Columns) -> tuple[Figure, str]:
    """Densities, or distribution functions, of some replicated data sets and of the observed one, a panel a column.

    The lines of all replicated data sets are one artist: :func:`arviz_plots.plot_ppc_dist` has one for each, and takes
    a quarter of the time of a page.
    """
    columns, rows = (1, 1) if len(observed) == 1 else (COLUMNS, -(-len(observed) // COLUMNS))
    figure, grid = subplots(
        rows, columns, figsize=SIZE if rows == columns == 1 else (SIZE[0], ROW * rows + 0.2), squeeze=False
    )
    for axes in grid.flat[len(observed) :]:
        axes.remove()
    for axes, (name, values) in zip(grid.flat, observed.items(), strict=False):
        drawn = predicted[name].transpose("chain", "draw", *values.dims).to_numpy().reshape(-1, values.size)
        some = np.random.default_rng(CHOSEN).choice(len(drawn), size=min(OVERLAID, len(drawn)), replace=False)
        lines = [np.column_stack(_distribution(kind, row)) for row in drawn[some]]
        axes.add_collection(LineCollection(lines, colors=BLUE, alpha=0.25, linewidths=0.8))
        axes.plot(*_distribution(kind, np.ravel(values.to_numpy())), color=ORANGE, linewidth=2)
        axes.set_xlabel(name)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    what = "Estimated densities" if kind == "kde" else "Distribution functions"
    return figure, f"{what} of {OVERLAID} replicated data sets (blue) and of the observed data (orange)."


def _distribution(kind: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places, and a density there or the corners of a distribution function."""
    if kind == "kde":
        return array_stats.kde(values)[:2]
    few = len(values) <= STEPS  # all of them; of more, ArviZ has as many places
    found = (np.sort(values), np.arange(1, len(values) + 1) / len(values)) if few else array_stats.ecdf(values)[:2]
    x, y = pts_to_prestep(*found)
    return x, y


def _panels(number: int) -> dict[str, Any]:
    if number == 1:
        return {}
    return {"col_wrap": COLUMNS, "figure_kwargs": {"figsize": (SIZE[0], ROW * -(-number // COLUMNS) + 0.2)}}


def _drawn(plot: str, observed: _Columns, predicted: _Columns, visuals: dict[str, Any], **options: Any) -> Figure:
    """What a function of arviz-plots draws of replicated data and the observed ones."""
    data = {panel_name(n): v.drop_vars([c for c in v.coords if c not in v.dims]) for n, v in observed.items()}
    drawn = {panel_name(n): v.drop_vars([c for c in v.coords if c not in v.dims]) for n, v in predicted.items()}
    groups = {"posterior_predictive": xr.Dataset(drawn), "observed_data": xr.Dataset(data)}
    groups = {group: distinct_labels(values) for group, values in groups.items()}
    options = {"figure_kwargs": {"figsize": SIZE}, **options}
    return figure_of(getattr(azp, plot)(xr.DataTree.from_dict(groups), visuals=visuals, **options))
