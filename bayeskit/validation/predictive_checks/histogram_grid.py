"""The grid of histograms that pictures of both checks are: how many panels, how large, and which are worth one."""

from __future__ import annotations

from typing import Any

import arviz_base
import numpy as np

__all__ = ["PANELS", "grid_options", "varies"]

PANELS, COLUMNS = 12, 3
WIDTH, HEIGHT = 2.7, 1.9  # inches a panel
ROUNDING = 1e-9  # relative


def grid_options(number: int, backend: str | None) -> dict[str, Any]:
    """What arviz-plots is asked for, of so many panels."""
    columns = min(COLUMNS, number)
    layout: dict[str, Any] = {"figsize": (WIDTH * columns, HEIGHT * -(-number // columns) + 0.3)}
    if (backend or arviz_base.rcParams["plot.backend"]) == "matplotlib":
        layout["layout"] = "constrained"  # the other backends lay out by themselves
    return {"col_wrap": columns, "figure_kwargs": layout, "backend": backend}


def varies(values: np.ndarray) -> bool:
    """Whether values differ by more than rounding."""
    return float(np.ptp(values)) > ROUNDING * float(np.abs(values).max())
