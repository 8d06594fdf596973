"""The style that all pictures share: fonts, colours, and lines that are there for the data alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import arviz_base
import matplotlib.style

__all__ = ["BLUE", "COLOURS", "INK", "MUTED", "ORANGE", "SAFE", "panel_name", "picture_style"]

INK, MUTED, BLUE, ORANGE = "#1f2933", "#7b8794", "#2a6f97", "#c8553d"
# Of states, components and classes, in their order.
COLOURS = (BLUE, ORANGE, "#5a8f69", "#8d6a9f", "#b58900", "#3f7f7f", "#a65e8b", "#6b7a3a", "#4f5d95", "#8a6d5a")
# Of lines that cross: those of Okabe and Ito, which are told apart without red or green.
SAFE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.0,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', ['{BLUE}', '{ORANGE}', '#5a8f69', '#8d6a9f', '{MUTED}'])",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": "white",
    "figure.dpi": 100.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "bayeskit",
    "axes.formatter.useoffset": False,
    "text.parse_math": False,  # names are written as they are
}
ARVIZ = {"plot.backend": "matplotlib", "stats.ci_kind": "eti", "stats.point_estimate": "mean"}


@contextmanager
def picture_style() -> Iterator[None]:
    """Draw in this style, whatever the user's.

    Matplotlib's remark that its font lacks a letter of a variable's name, for which it draws a box, is not passed on.
    """
    style = matplotlib.style.context(["default", STYLE])
    with warnings.catch_warnings(), style, arviz_base.rc_context(ARVIZ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def panel_name(label: str) -> str:
    """A label as the name of a variable in a DataTree, which takes a slash for a path ("N/A", "km/h"): U+2215."""
    return label.replace("/", "\N{DIVISION SLASH}")
