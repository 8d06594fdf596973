"""The picture of a calibration: for each quantity the ECDF of its values, less the uniform one, with its band.

The curve of a right quantity stays inside of its band as a whole in 95 of 100 calibrations (Säilynoja, Bürkner and
Vehtari 2022, "Graphical test for discrete uniformity", Statistics and Computing 32). The bands are those of ArviZ,
whose own ``plot_ecdf_pit`` fails with bands (arviz-plots 1.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from arviz_stats.ecdf_utils import ecdf_pit

from bayeskit.comparison.canvas import Canvas
from bayeskit.results.picture_style import BLUE, MUTED, ORANGE, picture_style

if TYPE_CHECKING:
    from bayeskit.validation.calibration.record import Calibration

__all__ = ["draw_calibration"]

PANELS, COLUMNS = 12, 3  # the quantities that are farthest from uniform
WIDTH, HEIGHT = 3.0, 2.2  # inches a panel
INSIDE, SIMULATIONS = 0.95, 1000


def draw_calibration(calibration: Calibration, backend: str | None) -> Any:
    """The quantities, the worst first: orange where a test failed."""
    table = calibration.table.sort_values("p_ecdf", kind="stable", na_position="last")
    names = [str(q) for q in table.index if np.isfinite(calibration.pit[q]).all()][:PANELS]
    columns = max(1, min(COLUMNS, len(names)))
    rows = -(-len(names) // columns) or 1
    canvas = Canvas(names or ["no quantity has values"], (WIDTH * columns, HEIGHT * rows), backend, rows)
    with picture_style():
        for panel, name in zip(canvas.panels, names, strict=False):
            values = np.sort(calibration.pit[name].to_numpy())
            x, ecdf, low, high = ecdf_pit(values, INSIDE, SIMULATIONS)
            colour = BLUE if table.loc[name, "verdict"] == "calibrated" else ORANGE
            panel.marks.fill_between_y(x, low - x, high - x, panel.target, color=MUTED, alpha=0.25)
            panel.level(0.0)
            panel.marks.line(x, ecdf - x, panel.target, color=colour, width=1.4)
            panel.name(name, x="u", y="ECDF − u")
    return canvas.collection
