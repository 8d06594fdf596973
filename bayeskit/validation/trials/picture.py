"""The picture of a trial: a mark for every reference and sampler, full where it is right, a cross where it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskit.comparison.canvas import Canvas
from bayeskit.results.picture_style import BLUE, INK, MUTED, ORANGE, picture_style

if TYPE_CHECKING:
    from bayeskit.validation.trials.scoreboard import Trial

__all__ = ["draw_trial"]

# Marker, face and edge: told apart without their colours.
MARKS = {
    "right": ("o", BLUE, BLUE),
    "wrong": ("X", ORANGE, ORANGE),
    "undecided": ("o", "white", MUTED),
    "failed": ("^", "white", ORANGE),
    "not applicable": ("_", MUTED, MUTED),
}
SAID = {"right": "●", "wrong": "✖", "undecided": "○", "failed": "△", "not applicable": "–"}
WIDTH, COLUMN, ROW, HEIGHT = 3.0, 0.75, 0.17, 1.4  # inches


def draw_trial(trial: Trial, backend: str | None) -> Any:
    """References from top to bottom in their groups, samplers from left to right."""
    table = trial.table
    references, samplers = (list(dict.fromkeys(table[column])) for column in ("reference", "sampler"))
    size = (WIDTH + COLUMN * len(samplers), HEIGHT + ROW * len(references))
    canvas = Canvas(["trial"], size, backend)
    marks, target = canvas.marks, canvas.panels[0].target
    x = table["sampler"].map(samplers.index).to_numpy(dtype=float)
    y = len(references) - 1 - table["reference"].map(references.index).to_numpy(dtype=float)
    with picture_style():
        groups = table.drop_duplicates("reference")["group"].to_numpy()
        for edge in np.flatnonzero(groups[1:] != groups[:-1]):
            marks.hline(len(references) - 1.5 - edge, target, color=MUTED, width=0.5, alpha=0.5)
        for word, (marker, face, edge_colour) in MARKS.items():
            own = (table["verdict"] == word).to_numpy()
            if own.any():
                shape = {"marker": marker, "facecolor": face, "edgecolor": edge_colour, "size": 40, "width": 1.2}
                marks.scatter(x[own], y[own], target, **shape)
        heads = {"horizontal_align": "center", "vertical_align": "bottom", "color": INK, "size": 8}
        shown = [word for word in MARKS if (table["verdict"] == word).any()]
        legend = ", ".join(f"{SAID[word]} {word}" for word in shown)
        canvas.panels[0].name(legend)
        for column, name in enumerate(samplers):
            marks.text(column, len(references) - 0.4, name, target, **heads)
        marks.xticks([], [], target)
        marks.yticks([len(references) - 1.0 - k for k in range(len(references))], references, target)
        marks.xlim((-0.6, len(samplers) - 0.4), target)
        marks.ylim((-0.7, len(references) + 0.6), target)
    return canvas.collection
