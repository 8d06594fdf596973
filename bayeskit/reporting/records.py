"""The records a report is made of, plain data without markup, and its pictures.

Matplotlib figures are kept as bytes that are the same for the same numbers, in a style they share.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from textwrap import fill
from typing import Any

import arviz_base
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from bayeskit.reporting.colour_modes import with_modes
from bayeskit.reporting.dates import plain_dates
from bayeskit.reporting.panels import PicturePanel, panels_of
from bayeskit.reporting.picture_bytes import SVG, compact_png, compact_svg
from bayeskit.results.picture_style import BLUE, COLOURS, INK, MUTED, ORANGE, picture_style

__all__ = [
    "BLUE",
    "COLOURS",
    "INK",
    "MAX_ROWS",
    "MOST_ROWS",
    "MUTED",
    "ORANGE",
    "Cell",
    "Link",
    "Picture",
    "Section",
    "Table",
    "blend",
    "cut_table",
    "figure_of",
    "frame_table",
    "in_a_grid",
    "interval_probability",
    "label_rows",
    "say_instead",
    "styled",
    "subplots",
    "to_picture",
]

MAX_ROWS = 30  # of a table; the others are folded
MOST_ROWS = 500
MAX_TICKS = 8
RIGHT, TOP, BOTTOM = 0.12, 0.28, 0.25  # inches beside, above and below each panel of a grid
MAX_SVG = 150_000  # bytes; a larger drawing is stored as PNG


@dataclass(frozen=True)
class Picture:
    """A picture as it is embedded in a page."""

    data: bytes = field(repr=False)  # the file
    media_type: str
    width: int  # at which it is shown, in CSS pixels
    alt: str  # what it shows, for those who cannot see it
    caption: str = ""
    panels: tuple[PicturePanel, ...] = field(
        default=(), repr=False
    )  # the same, one at a time, as narrow windows show them


@contextmanager
def styled() -> Iterator[None]:
    """Use the report's style, whatever the user's, and show no window; figures made inside are closed at the end.

    The plot is chosen for the data before it is drawn, so ArviZ's advice to use another one is not passed on.
    """
    before = set(plt.get_fignums())
    with picture_style(), plt.ioff():
        warnings.filterwarnings("ignore", module="arviz_plots")
        # A rootogram of two or three different values, of classes say, has fewer of them than there are chains.
        warnings.filterwarnings("ignore", message="Found chain dimension to be longer than draw dimension")
        try:
            yield
        finally:
            for number in set(plt.get_fignums()) - before:
                plt.close(number)


def interval_probability() -> float:
    """Of all intervals and bands, as ArviZ has it."""
    return float(arviz_base.rcParams["stats.ci_prob"])


def subplots(*shape: int, **options: Any) -> tuple[Figure, Any]:
    """Matplotlib's, laid out so that no text is cut off."""
    return plt.subplots(*shape, layout="constrained", **options)


def blend(probabilities: np.ndarray) -> np.ndarray:
    """The colours of states, mixed as these are probable: the last axis in red, green and blue."""
    return np.clip(probabilities @ to_rgba_array(COLOURS[: probabilities.shape[-1]])[:, :3], 0.0, 1.0)


def label_rows(axes: Axes, labels: np.ndarray) -> None:
    """Ticks at some rows that are drawn at their numbers."""
    rows = np.unique(np.linspace(0, len(labels) - 1, MAX_TICKS).astype(int))
    axes.set_xticks(rows, [plain_dates(str(labels[row])) for row in rows])


def figure_of(panels: Any) -> Figure:
    """The matplotlib figure of an arviz-plots collection, laid out so that no text is cut off."""
    figure: Figure = panels.viz["figure"].item()
    figure.set_layout_engine("constrained")
    return figure


def in_a_grid(figure: Figure, *, left: float = 0.1) -> Figure:
    """A figure of panels of one kind, with room for their labels in inches, which takes half the time."""
    grid = figure.axes[0].get_gridspec()
    if grid is None:
        return figure
    figure.set_layout_engine(None)  # "none" would keep that of an engine that was there before
    width, height = figure.get_figwidth() / grid.ncols, figure.get_figheight() / grid.nrows
    across, down = width - left - RIGHT, height - TOP - BOTTOM
    margins = {"left": left / figure.get_figwidth(), "right": 1 - RIGHT / figure.get_figwidth()}
    margins |= {"top": 1 - TOP / figure.get_figheight(), "bottom": BOTTOM / figure.get_figheight()}
    figure.subplots_adjust(**margins, wspace=(left + RIGHT) / across, hspace=(TOP + BOTTOM) / down)
    return figure


def say_instead(axes: Axes, why: str, *, width: int = 26) -> None:
    """Words in the place of what a panel shows."""
    title = axes.get_title()
    axes.clear()
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
    axes.text(0.5, 0.5, fill(why, width), transform=axes.transAxes, ha="center", va="center", color=MUTED)


def to_picture(figure: Figure, *, alt: str, caption: str = "", stacked: bool = False) -> Picture:
    """Store a figure as SVG, or as PNG where the SVG would be large; no dates, so equal figures give equal bytes.

    What has several panels that say one thing each may be ``stacked``: a page lays them out as it has room.
    """
    width = round(figure.get_figwidth() * 96)
    panels: tuple[PicturePanel, ...] = ()
    _lay_out(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    data, media_type = compact_svg(buffer.getvalue()), SVG
    if len(data) > MAX_SVG:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
        data, media_type = compact_png(buffer.getvalue()), "image/png"
    else:
        data = with_modes(data)
        panels = panels_of(figure, data) if stacked else ()
        panels = tuple(replace(panel, data=compact_svg(panel.data, last=True)) for panel in panels)
        data = compact_svg(data, last=True)
    plt.close(figure)
    return Picture(data, media_type, width, alt, caption, panels)


def _lay_out(figure: Figure) -> None:
    """Once, and no more: a figure that has an engine for it is drawn twice, first to nowhere."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


@dataclass(frozen=True)
class Link:
    """A cell that leads to another page."""

    text: str
    target: str


Cell = str | int | float | bool | None | Link


@dataclass(frozen=True)
class Table:
    """Column heads and rows of raw values; numbers are formatted where they are shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    note: str = ""  # shown below, for instance how many rows are not shown
    digits: int = 5  # of the numbers, significant ones
    named: bool = False  # whether the heads are names of the user's, which are shown as they are


@dataclass(frozen=True)
class Section:
    """One section of a report: paragraphs, a text as it is typed, tables and pictures.

    Attributes
    ----------
    key, title : str
        What names it in links and in ``sections=[...]``, and what a reader sees.
    paragraphs : tuple of str
    text : str
        As it is printed, its lines kept.
    tables : tuple of Table or pandas.DataFrame
    pictures : tuple of Picture or matplotlib.figure.Figure
    doubts : tuple of str
        What it says against the answer, each a sentence without its full stop: the verdict repeats them.
    folded : tuple of Section
        What is shown when it is asked for.
    """

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    text: str = ""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    doubts: tuple[str, ...] = ()
    folded: tuple[Section, ...] = ()

    def __post_init__(self) -> None:
        tables = [
            frame_table(t, str(t.index.name or ""), "") if isinstance(t, pd.DataFrame) else t for t in self.tables
        ]
        alt = f"{self.title}: a picture."
        pictures = [to_picture(p, alt=alt) if isinstance(p, Figure) else p for p in self.pictures]
        for name, value in (("paragraphs", self.paragraphs), ("tables", tables), ("pictures", pictures)):
            object.__setattr__(self, name, tuple(value))

    def _repr_html_(self) -> str:
        return str(import_module("bayeskit.reporting.html").notebook_markup(self))


def frame_table(frame: pd.DataFrame, head: str, caption: str) -> Table:
    """A table of pandas, its index as the first column."""
    rows = frame.head(MOST_ROWS).itertuples(name=None)
    return cut_table((head, *map(str, frame.columns)), tuple(rows), caption, hidden=len(frame) - MOST_ROWS)


def cut_table(columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], caption: str, *, hidden: int = 0) -> Table:
    """As many rows as a page has room for, and how many there are besides."""
    hidden = max(hidden, len(rows) - MOST_ROWS)
    note = f"{hidden:,} of {hidden + MOST_ROWS:,} rows are not shown." if hidden > 0 else ""
    return Table(columns, tuple(rows[:MOST_ROWS]), caption, note)
