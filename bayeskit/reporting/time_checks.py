"""Replicated data along time: the predictive band of each row, and what was observed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bayeskit.reporting.records import BLUE, ORANGE, interval_probability, label_rows, subplots

__all__ = ["time_figure"]

SIZE, ROW = (7.4, 2.7), 1.8  # inches
MANY = 500  # points from which on they are not drawn as paths


def time_figure(
    columns: Mapping[str, tuple[np.ndarray, np.ndarray]], labels: np.ndarray, time: str
) -> tuple[Figure, str]:
    """One panel a column, below each other: the 50 % and a wider predictive interval at each time.

    ``columns`` are the observed values by name, and the replicated ones with the draws along the first axis.
    """
    height = SIZE[1] if len(columns) == 1 else ROW * len(columns) + 0.3
    figure, axes = subplots(len(columns), 1, figsize=(SIZE[0], height), squeeze=False, sharex=True)
    tails = [(1 - interval_probability()) / 2, 0.25]
    for panel, (name, (values, drawn)) in zip(axes.flat, columns.items(), strict=True):
        at = np.arange(len(values))
        for tail, alpha in zip(tails, (0.2, 0.35), strict=True):
            low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
            panel.fill_between(at, low, high, color=BLUE, alpha=alpha, linewidth=0)
        panel.plot(at, values, "o", color=ORANGE, markersize=2.5, rasterized=len(at) > MANY)
        panel.set_ylabel(name)
        panel.margins(x=0.01)
    label_rows(axes.flat[-1], labels)
    axes.flat[-1].set_xlabel(time)
    percent = f"{100 * interval_probability():g} %"
    return figure, f"Along {time}: the 50 % and {percent} predictive intervals (blue), and what was observed (orange)."
