"""Intervals of many numbers beside each other: from draws, a line for each and a thicker one for its middle half.

arviz-plots draws the same an artist at a time, and a page of forty entries spent a third of its time on that.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from bayeskit.graphs.environment import silently
from bayeskit.reporting.records import BLUE, INK, interval_probability

__all__ = ["draw_bands", "draw_intervals"]

WIDTHS = 1.4, 3.4  # of the lines, in points


def draw_intervals(
    axes: Axes, draws: np.ndarray, *, lying: bool = False, alphas: tuple[float, float] = (1.0, 1.0)
) -> np.ndarray:
    """Draw the intervals of numbers whose draws are along the first axis, one above the other where they are lying.

    Returns their means. A number has neither where a draw of it is not finite.
    """
    tail = (1 - interval_probability()) / 2
    with silently():
        ends = np.quantile(draws, [tail, 1 - tail, 0.25, 0.75], axis=0)
        means = draws.mean(axis=0)
    whole = np.all(np.isfinite(draws), axis=0)
    means, ends = np.where(whole, means, np.nan), np.where(whole, ends, np.nan)
    at = np.repeat(np.arange(len(means)), 3)
    for pair, width, alpha in zip((ends[:2], ends[2:]), WIDTHS, alphas, strict=True):
        # One path, which ends where a number is not there: a path for each takes thrice the room of a page.
        along = np.column_stack([*pair, np.full(len(means), np.nan)]).ravel()
        both = (along, at) if lying else (at, along)
        axes.plot(*both, color=BLUE, linewidth=width, alpha=alpha, solid_capstyle="butt")
    return np.asarray(means)


def draw_bands(axes: Axes, draws: np.ndarray) -> None:
    """Draw the intervals of a series as bands, and its means as a line; the draws are along the first axis."""
    tail = (1 - interval_probability()) / 2
    at = np.arange(draws.shape[1])
    with silently():
        for share, alpha in ((tail, 0.2), (0.25, 0.35)):
            low, high = np.quantile(draws, [share, 1 - share], axis=0)
            axes.fill_between(at, low, high, color=BLUE, alpha=alpha, linewidth=0)
        axes.plot(at, draws.mean(axis=0), color=INK, linewidth=1)
    axes.margins(x=0.01)
