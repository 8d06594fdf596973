"""Where single observations lie in their predictive distributions: residuals, and the ECDF of their PIT with a band.

A residual is (y − m) / s with the predictive mean m and standard deviation s of the row. PIT values are the randomised
ranks of the observations among their replicated ones; a curve of independent uniform values stays inside of its band in
95 of 100 data sets. The data are used twice: those of a right model stay inside more often, but where observations have
parameters of their own, they lie too near to one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from arviz_stats.ecdf_utils import compute_ecdf, get_pointwise_confidence_band, simulate_confidence_bands
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeskit.reporting.records import BLUE, COLOURS, MUTED, ORANGE, say_instead, subplots
from bayeskit.validation.predictive_checks.columns import Column
from bayeskit.validation.predictive_checks.pit_distance import column_pit
from bayeskit.validation.predictive_checks.residuals import observed_residuals

__all__ = ["pit_outside", "residual_figure"]

INSIDE, SIMULATIONS = 0.95, 500
SIZE = (7.4, 2.5)  # inches
MANY = 500  # points from which on they are not drawn as paths
MOST = 1000  # PIT values
POINTS = 200  # at which their ECDF is drawn
NOISE = 4.0  # variances of a mean: those of neighbours are correlated, and vary more
CENTRAL = 0.22  # mean distance from one half below which PIT values are too central; of uniform ones it is 0.25


def residual_figure(
    columns: Sequence[Column], labels: np.ndarray, rows: str, rng: np.random.Generator
) -> tuple[Figure, str]:
    """Residuals against predictive means and against rows, which have ``labels``; and the PIT of all columns."""
    figure, (fitted, along, uniform) = subplots(1, 3, figsize=SIZE)
    values = []
    numbered = labels.dtype.kind in "iuf"
    places = labels if numbered else np.arange(len(labels))
    for number, column in enumerate(columns):
        mean, residuals = column.moments[0].ravel(), observed_residuals(column.observed, column.replicated)
        # One colour a column, where there are several.
        marks: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)] if len(columns) > 1 else BLUE}
        marks |= {"markersize": 3, "alpha": 0.7, "rasterized": residuals.size > MANY}
        fitted.plot(mean, residuals.ravel(), "o", **marks)
        along.plot(np.repeat(places, residuals.shape[1]), residuals.ravel(), "o", **marks)
        values.append(column_pit(column, rng)[0])
    shown = [(fitted, "predictive mean"), (along, rows)]
    if all(map(_one_mean, columns)):
        say_instead(fitted, "all rows have the same predictive mean, but for Monte Carlo error")
        shown = shown[1:]
    for axes, name in shown:
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        axes.set(xlabel=name, ylabel="residual")
    if not numbered:
        ends = [0, len(labels) - 1]
        along.set_xticks(ends, [str(labels[row]) for row in ends])
    pit = np.concatenate(values)
    outside = _draw_pit(uniform, pit if pit.size <= MOST else rng.choice(pit, MOST, replace=False))
    where = "leaves its 95 % band" if outside else "stays inside of its 95 % band"
    if outside and np.mean(np.abs(pit - 0.5)) < CENTRAL:
        where += " towards one half: the data lie nearer to their predictions than draws of these would, because"
        where += " observations have parameters of their own, or because the noise is not what the model has"
    against = "against the predictive means and " if len(shown) > 1 else ""
    words = f"Residuals in predictive standard deviations, {against}along the rows; "
    return figure, f"{words}the PIT of the observations, its ECDF less the uniform one, {where}."


def _one_mean(column: Column) -> bool:
    """Whether the predictive means differ by no more than those of so many draws do: of a series, say, or a process."""
    mean, spread = column.moments
    return bool(mean.var() <= NOISE * np.mean(spread**2) / len(column.replicated))


def pit_outside(pit: np.ndarray) -> tuple[bool, tuple[np.ndarray, ...]]:
    """Whether the ECDF of PIT values leaves its simultaneous band; the points, the ECDF and the band."""
    number = len(pit)
    # As arviz_stats.ecdf_utils.ecdf_pit, at no more points than a picture shows: most of the time goes into the band.
    x = np.unique(np.linspace(1, number - 1, min(number - 1, POINTS)).round()) / number
    inside = simulate_confidence_bands(number, 1, x, INSIDE, SIMULATIONS, np.random.default_rng(214))
    lines = (x, compute_ecdf(pit, x), *get_pointwise_confidence_band(inside, number, x))
    x, ecdf, low, high = (np.concatenate([[0.0], line, [1.0]]) for line in lines)
    return bool(np.any((ecdf < low) | (ecdf > high))), (x, ecdf, low, high)


def _draw_pit(axes: Axes, pit: np.ndarray) -> bool:
    outside, (x, ecdf, low, high) = pit_outside(pit)
    axes.fill_between(x, low - x, high - x, color=MUTED, alpha=0.25, linewidth=0)
    axes.axhline(0.0, color=MUTED, linewidth=0.8)
    axes.plot(x, ecdf - x, color=ORANGE if outside else BLUE, linewidth=1.4)
    axes.set(xlabel="PIT", ylabel="ECDF − uniform")
    return outside
