"""Panels that any backend of arviz-plots draws: dots with their errors, curves with bands, a matrix of numbers.

What is drawn is a collection of arviz-plots: ``.savefig(path)`` writes it, ``.show()`` shows it, and with the backend
``"none"`` its ``viz["plot"]`` lists each mark with its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import arviz_base
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from bayeskit.errors import OptionError
from bayeskit.results.picture_style import BLUE, INK, MUTED, ORANGE, SAFE, picture_style

__all__ = ["Canvas", "NamedCurve", "Panel", "spans"]

DOTS = 100  # an inch
CURVES = ("-", "--", "-.", ":")
STRONG = 5.0  # nats from which on a cell of a matrix has its full colour
TICKS = 6
CLOSE = 0.07  # of the height of a panel, the least between two names
DECADES = 1.3  # of positive values, from which on they are drawn by their logarithms


def spans(errors: Sequence[float], labels: Sequence[str]) -> np.ndarray:
    """Half the length of a bar: two standard errors of an estimate, the bound of what has one."""
    return np.array([(2.0 if label == "estimated" else 1.0) * e for e, label in zip(errors, labels, strict=True)])


@dataclass(frozen=True)
class NamedCurve:
    """A line with half the height of its band; curves of one number have one colour in all panels."""

    name: str
    y: np.ndarray
    half: np.ndarray
    number: int


class Canvas:
    """A figure of several panels side by side."""

    def __init__(self, names: Sequence[str], size: tuple[float, float], backend: str | None, rows: int = 1) -> None:
        self.name = backend or str(arviz_base.rcParams["plot.backend"])
        try:
            self.marks: Any = import_module(f"arviz_plots.backend.{self.name}")
        except ImportError as error:
            why = f"backend {self.name!r} cannot be had ({error}); install it, or use 'matplotlib'"
            raise OptionError(f"backend: {why}") from error
        columns = -(-len(names) // rows)
        # Bokeh and plotly lay out by themselves what Matplotlib must be asked for.
        layout = {"layout": "constrained"} if self.name == "matplotlib" else {}
        shape = {"figsize": tuple(DOTS * side for side in size), "figsize_units": "dots", "squeeze": False}
        with picture_style():
            figure, plots = self.marks.create_plotting_grid(len(names), rows, columns, **shape, **layout)
        targets = np.empty(len(names), dtype=object)
        for k, target in enumerate(plots.ravel()[: len(names)]):
            targets[k] = target
        self.panels = tuple(Panel(self.marks, target) for target in targets)
        drawn = {"figure": np.array(figure, dtype=object), "plot": ("panel", targets)}
        viz = xr.DataTree.from_dict({"/": xr.Dataset(drawn, {"panel": list(names)})})
        self.collection = PlotCollection(xr.Dataset({}), viz, backend=self.name)


class Panel:
    """One panel, and the marks that it may have."""

    def __init__(self, marks: Any, target: Any) -> None:
        self.marks, self.target = marks, target

    def name(self, title: str, x: str = "", y: str = "") -> None:
        """Title and labels of the axes."""
        self.marks.title(title, self.target)
        for label, text in ((self.marks.xlabel, x), (self.marks.ylabel, y)):
            if text:
                label(text, self.target)

    def dots(
        self,
        labels: Sequence[str],
        values: np.ndarray,
        half: np.ndarray,
        texts: Sequence[str],
        *,
        limits: tuple[float, float] | None = None,
        start: float | None = None,
        hollow: np.ndarray | None = None,
    ) -> None:
        """A dot a row with its bar, the first on top; a line to it from ``start``; circles for a second value."""
        rows = np.arange(len(labels))[::-1].astype(float)
        if start is not None:
            self.marks.vline(start, self.target, color=MUTED, width=0.8)
        known = np.isfinite(values)
        for row, value, length in zip(rows[known], values[known], half[known], strict=True):
            if start is not None:
                self.marks.line([start, value], [row, row], self.target, color=BLUE, alpha=0.35, width=3)
            if length > 0 and math.isfinite(length):
                self.marks.line([value - length, value + length], [row, row], self.target, color=INK, width=1.2)
        if hollow is not None:
            self.marks.scatter(hollow, rows, self.target, facecolor="white", edgecolor=ORANGE, size=30, width=1.2)
        self.marks.scatter(values[known], rows[known], self.target, color=BLUE, size=36)
        low, high = limits or _around(values[known], half[known], start)
        # Of numbers that are the same but for rounding, the difference is no length to be drawn.
        wide = 0.55 * (high - low)
        self.marks.xlim((low, high + wide), self.target)
        ends = np.where(known, values + np.where(np.isfinite(half), half, 0.0), low)
        for other in (hollow, start):
            ends = ends if other is None else np.where(known, np.maximum(ends, other), ends)
        for row, end, text in zip(rows, ends, texts, strict=True):
            place = end + 0.06 * (high - low)
            self.marks.text(place, row, text, self.target, horizontal_align="left", color=INK, size=8)
        self._ticks(low, high, False)  # none in the room for the texts
        self.marks.yticks(rows.tolist(), list(labels), self.target)
        self.marks.ylim((-0.6, len(labels) - 0.4), self.target)

    def curves(
        self,
        x: np.ndarray,
        lines: Sequence[NamedCurve],
        *,
        limits: tuple[float, float] | None = None,
        logarithmic: bool | None = None,
    ) -> None:
        """Lines with their bands, and at their ends their names, moved apart where they would overlap."""
        logarithmic, drawn = (
            self.logarithmic(x) if logarithmic is None else logarithmic,
            [line for line in lines if np.isfinite(line.y).any()],
        )
        for line in drawn:
            colour, style = SAFE[line.number % len(SAFE)], CURVES[line.number // len(SAFE) % len(CURVES)]
            if np.any(line.half > 0):
                self.marks.fill_between_y(
                    x, line.y - line.half, line.y + line.half, self.target, color=colour, alpha=0.2
                )
            self.marks.line(x, line.y, self.target, color=colour, linestyle=style, width=1.6)
        low, high = float(np.min(x)), float(np.max(x))
        span = (math.log(high / low) if logarithmic else high - low) or 1.0
        shares = (-0.02, 0.02, 0.05 + 0.024 * max((len(line.name) for line in drawn), default=0))
        ends = [(low, shares[0]), (high, shares[1]), (high, shares[2])]
        left, place, right = (at * math.exp(s * span) if logarithmic else at + s * span for at, s in ends)
        if logarithmic:
            self.marks.xscale(self.target, "log")
        self._ticks(low, high, logarithmic)
        self.marks.xlim((left, right), self.target)
        heights = [float(line.y[np.isfinite(line.y)][-1]) for line in drawn]
        every = np.concatenate([[], *(line.y[np.isfinite(line.y)] for line in drawn)])
        if limits is not None:
            self.marks.ylim(limits, self.target)
            every = np.array(limits)
        room = float(np.ptp(every) or 0.1 * np.max(np.abs(every)) or 0.1) if every.size else 0.0
        for line, y in zip(drawn, _apart(heights, CLOSE * room), strict=True):
            colour = SAFE[line.number % len(SAFE)]
            self.marks.text(place, y, line.name, self.target, horizontal_align="left", color=colour, size=8)

    def _ticks(self, low: float, high: float, logarithmic: bool) -> None:
        """Round numbers where there are data, written without markup."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        locator = LogLocator(numticks=TICKS) if logarithmic else MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10])
        slack = 1e-9 * (high - low)
        ticks = [float(t) for t in locator.tick_values(low, high) if low - slack <= t <= high + slack]
        self.marks.xticks(ticks, [f"{tick:.10g}".replace("-", "−") for tick in ticks], self.target)

    def logarithmic(self, x: np.ndarray) -> bool:
        """Whether values are drawn by their logarithms."""
        return bool(np.min(x) > 0 and math.log10(np.max(x) / np.min(x)) > DECADES)

    def level(self, y: float) -> None:
        """A line where nothing is said."""
        self.marks.hline(y, self.target, color=MUTED, width=0.8)

    def mark(self, x: float, text: str, top: float) -> None:
        """A dotted vertical line with its meaning at its top."""
        self.marks.vline(x, self.target, color=MUTED, linestyle=":", width=1.2)
        sides = {"horizontal_align": "left", "vertical_align": "bottom"}
        self.marks.text(x, top, f" {text}", self.target, color=INK, size=8, **sides)

    def matrix(self, labels: Sequence[str], values: np.ndarray) -> None:
        """Numbers in cells: blue above zero, orange below, the deeper the farther from it."""
        size = len(labels)
        for row, column in np.ndindex(size, size):
            value, top = values[row, column], size - 1.0 - row
            depth = min(1.0, abs(float(value)) / STRONG)
            edges = np.array([column - 0.49, column + 0.49])
            colour = BLUE if value > 0 else ORANGE
            if row != column:
                box = (edges, np.full(2, top - 0.49), np.full(2, top + 0.49))
                self.marks.fill_between_y(*box, self.target, color=colour, alpha=0.08 + 0.72 * depth)
            text, ink = "·" if row == column else f"{value:.3g}".replace("-", "−"), "white" if depth > 0.8 else INK
            self.marks.text(column, top, text, self.target, color=INK if row == column else ink, size=8)
        short = sum(map(len, labels)) <= 36
        heads = list(labels) if short else [str(k) for k in range(1, size + 1)]
        sides = list(labels) if short else [f"{name} ({k})" for k, name in enumerate(labels, 1)]
        self.marks.xticks(list(range(size)), heads, self.target)
        self.marks.yticks([size - 1.0 - k for k in range(size)], sides, self.target)
        self.marks.xlim((-0.5, size - 0.5), self.target)
        self.marks.ylim((-0.5, size - 0.5), self.target)


def _apart(heights: Sequence[float], least: float) -> list[float]:
    """Heights at least so far from each other, moved as a whole no farther than they must be."""
    order = np.argsort(heights, kind="stable")
    moved = np.array(heights, dtype=float)[order]
    for k in range(1, len(moved)):
        moved[k] = max(moved[k], moved[k - 1] + least)
    result = np.empty(len(moved))
    result[order] = moved - (float(np.mean(moved - np.array(heights)[order])) if len(moved) else 0.0)
    return [float(y) for y in result]


def _around(values: np.ndarray, half: np.ndarray, start: float | None) -> tuple[float, float]:
    """Limits with some room around values and their bars."""
    half = np.where(np.isfinite(half), half, 0.0)
    ends = np.concatenate([values - half, values + half, [] if start is None else [start]])
    if not ends.size:
        return 0.0, 1.0
    low, high = float(ends.min()), float(ends.max())
    room = 0.06 * (high - low) or max(1e-6, 0.02 * abs(high)) or 1.0
    return low - room, high + room
