"""The records a report is made of: sections of paragraphs, tables and pictures; plain data, no markup."""

from __future__ import annotations

from dataclasses import dataclass

from bayeskit.reporting.pictures import Picture

__all__ = ["Cell", "Link", "Section", "Table"]


@dataclass(frozen=True)
class Link:
    """A cell that leads to another page."""

    text: str
    target: str


Cell = str | int | float | bool | None | Link


@dataclass(frozen=True)
class Table:
    """Column heads and rows of raw values; numbers are formatted where they are shown.

    Attributes
    ----------
    columns : tuple of str
    rows : tuple of tuple
    caption : str
    note : str
        Shown below, for instance how many rows are not shown.
    digits : int
        Significant digits of the numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    note: str = ""
    digits: int = 5


@dataclass(frozen=True)
class Section:
    """One section of a report; ``key`` names it in links and tests."""

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    text: str = ""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
