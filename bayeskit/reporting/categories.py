"""Replicated categories, or zeros and ones, beside the observed ones: the share of each, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeskit.reporting.distinct_labels import shortened
from bayeskit.reporting.records import BLUE, ORANGE, interval_probability, subplots

__all__ = ["category_figure"]

LONGEST = 18  # letters of a name that are shown
LEVEL = 80  # letters of all names together that are written side by side
COLUMNS = 2  # panels beside each other
WIDTH, HEIGHT = 7.4, 2.9  # inches


def category_figure(columns: Mapping[str, tuple[np.ndarray, np.ndarray]], labels: Sequence[str]) -> tuple[Figure, str]:
    """Bars of the mean shares of replicated categories with their intervals, and the observed shares.

    ``columns`` have codes by their names, and replicated ones with the draws along the first axis; ``labels`` are what
    the first codes are called.
    """
    across = min(COLUMNS, len(columns))
    down = -(-len(columns) // across)
    height = HEIGHT if down == 1 else 2.0 * down
    figure, axes = subplots(down, across, figsize=(WIDTH, height), squeeze=False)
    for panel in axes.flat[len(columns) :]:
        panel.set_axis_off()
    for panel, (name, (codes, drawn)) in zip(axes.flat, columns.items(), strict=False):
        _draw(panel, name, np.ravel(codes), drawn.reshape(len(drawn), -1), list(labels), LEVEL // across)
    percent = f"{100 * interval_probability():g} %"
    words = f"The share of each category in replicated data (blue, with {percent} intervals) and observed (orange)."
    return figure, words


def _draw(axes: Axes, name: str, codes: np.ndarray, drawn: np.ndarray, labels: list[str], level: int) -> None:
    labels += [str(k) for k in range(len(labels), int(max(codes.max(), drawn.max())) + 1)]
    places = np.arange(len(labels))
    shares = np.stack([(drawn == k).mean(axis=1) for k in places])
    tail = (1 - interval_probability()) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=1)
    texts = [shortened(text, LONGEST) for text in labels]
    axes.bar(places, shares.mean(axis=1), width=0.6, color=BLUE, alpha=0.3)
    axes.vlines(places, low, high, color=BLUE, linewidth=2)
    axes.plot(places, [(codes == k).mean() for k in places], "o", color=ORANGE, markersize=5)
    upright: dict[str, Any] = {"rotation": 90} if sum(map(len, texts)) > level else {}
    axes.set_xticks(places, texts, **upright)
    axes.set(xlabel=name, ylabel="share", ylim=(0, None))
