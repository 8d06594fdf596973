"""An index of the pages in a folder: what each is of, and its verdict.

A page carries these in its head, as ``<meta name="bayeskit" content="...">``; what else is in the folder is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from os import PathLike
from pathlib import Path
from typing import Any

from bayeskit.arguments import checked
from bayeskit.errors import OptionError
from bayeskit.reporting.html import MARK, page, table_markup, write_page
from bayeskit.reporting.records import Link, Table

__all__ = ["report_index"]

HEAD = 100_000  # characters of a page that hold its head
COLUMNS = ("page", "method", "log evidence", "to distrust")
LONGEST = 200  # letters of a verdict that are shown


@checked
def report_index(folder: str | PathLike[str], *, title: str = "Reports") -> Path:
    """Write ``index.html``, a table of the reports in a folder and the folders in it, with what to distrust in each.

    Parameters
    ----------
    folder : path-like
        Where :func:`bayeskit.report` wrote its pages.
    title : str, default "Reports"
        Its heading.

    Returns
    -------
    pathlib.Path
        Where the index is.

    Raises
    ------
    OptionError
        If there is no such folder, no report in it, or the index cannot be written.

    Notes
    -----
    Pages are read, not run; what no report wrote is left out. Milliseconds a page.

    Examples
    --------
    >>> bk.report_index("reports")  # doctest: +SKIP
    """
    place = Path(folder)
    if not place.is_dir():
        raise OptionError(f"there is no folder {place}; give one that bk.report wrote pages to")
    index = place / "index.html"
    pages = sorted(path for path in place.rglob("*.html") if path != index and path.is_file())
    rows = [row for path in pages if (row := _row(path, path.relative_to(place).as_posix())) is not None]
    if not rows:
        raise OptionError(f"there is no report in {place}; bk.report(posterior, '{place}/page.html') writes one")
    table = Table(COLUMNS, tuple(rows), digits=8)
    return write_page(index, page(title, table_markup(table), lead=_counted(rows)))


def _counted(rows: Sequence[tuple[Any, ...]]) -> str:
    doubtful = sum(bool(row[-1] and row[-1] != "nothing") for row in rows)
    return f"{len(rows):,} reports; in {doubtful:,} there is something to distrust."


def _row(path: Path, link: str) -> tuple[Any, ...] | None:
    """What a page says of itself; None of what no report wrote."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = _Head()
        head.feed(file.read(HEAD))
    try:
        facts = json.loads(head.facts)
        doubts = [str(doubt) for doubt in facts.get("doubts", ())]
        evidence = facts.get("log_evidence")
    except (AttributeError, TypeError, ValueError):
        return None
    said = "; ".join(doubts)
    said = said if len(said) <= LONGEST else f"{said[:LONGEST].rpartition(' ')[0]} …"
    number = float(evidence) if isinstance(evidence, int | float) else None
    return (Link(head.title or link, link), str(facts.get("method", "")), number, said or "nothing")


class _Head(HTMLParser):
    """The title of a page, and what a report says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.facts, self.title, self._inside = "", "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta" and given.get("name") == MARK:
            self.facts = given.get("content") or ""
        self._inside = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        self.title += data if self._inside else ""
