"""Sections as one HTML page that needs nothing else (no script, pictures as data), written whole or not at all.

How it looks is in ``style.css``, which becomes a part of every page.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from bayeskit.reporting.dates import plain_dates
from bayeskit.reporting.files import REPORT, replacing
from bayeskit.reporting.picture_bytes import SVG, address_of
from bayeskit.reporting.records import MAX_ROWS, Cell, Link, Picture, Section, Table

__all__ = ["MARK", "contents_markup", "notebook_markup", "number", "page", "render", "table_markup", "write_page"]

MARK = "bayeskit"  # of what a page says of itself
LEAST_WIDTH = 480  # pixels of a picture, below which its letters are too small: a narrower window moves along it
NARROW = 368  # pixels for a picture in a window of 400: a wider one is moved along, which is said there
WIDE = 8  # a table with more columns is set smaller
LONG_NAME = 12  # letters of the name of a row, from which on it may be broken
BREAKS = re.compile(r"(?<=[_,/])(?=\w)|(?<=\w)(?=\[)")  # where: after what joins words, and before an index
MINUS = re.compile(r"(?<![\w.)\]-])-(?=\d)")  # of a number in a sentence, no hyphen and no exponent
HUGE = 1e7  # from which on decimals say nothing
SIMILAR = 300  # largest over smallest number of a column that is written with the same decimals

NOTEBOOK = (
    ".bayeskit .panels { display: flex; flex-wrap: wrap; gap: .6rem 1rem; } .bayeskit figure { margin: 1rem 0; } "
    ".bayeskit .scroll, .bayeskit .frame { overflow-x: auto; } .bayeskit .doubts { border-left: 3px solid #c8553d; }"
)
BADGES = {"exact": "", "quadrature": "", "estimated": "", "agrees": "", "pass": "", "fail": " bad"}
DECIMALS = dict.fromkeys(("z_mean", "z_sd", "elpd_loo", "se_loo"), 2) | dict.fromkeys(("p_ecdf", "rhat", "r_hat"), 3)
DECIMALS |= dict.fromkeys(("prior", "likelihood"), 3)  # sensitivities, which ArviZ rounds so
DECIMALS |= dict.fromkeys(("log_evidence", "log_bayes_factor"), 3)
DECIMALS |= dict.fromkeys(("ess", "ess_bulk", "ess_tail"), 0)
HEADS = {
    "mcse_mean": "MCSE of mean",
    "p_ecdf": "p (ECDF)",
    "rhat": "R-hat",
    "r_hat": "R-hat",
    "ess": "ESS",
    "ess_bulk": "ESS (bulk)",
    "ess_tail": "ESS (tail)",
    "elpd_loo": "elpd (LOO)",
    "elpd_loo_error": "Monte Carlo error",
    "se_loo": "se over data",
    "mcmc_mean": "sampler's mean",
    "mcmc_sd": "sampler's sd",
    "log_bayes_factor": "log Bayes factor",
    "log_bayes_factor_error": "its error",
    "posterior_probability_error": "its error",
    "log_score": "log score of the last block",
    "log_score_error": "its error",
    "high_pareto_k": "high Pareto k",
}


def render(title: str, sections: Sequence[Section], facts: Mapping[str, Any] | None = None) -> str:
    """A whole page from sections: contents, then each section; the facts are for an index of pages."""
    contents = "".join(f'<a href="#{escape(s.key)}">{escape(s.title)}</a>' for s in sections)
    body = f'<nav aria-label="Contents">{contents}</nav>\n' + "\n".join(map(_section, sections))
    return page(title, body, facts=facts)


def page(title: str, body: str, *, lead: str = "", facts: Mapping[str, Any] | None = None) -> str:
    """The frame of every page around a body that is markup already."""
    mark = "" if facts is None else f'<meta name="{MARK}" content="{escape(json.dumps(dict(facts)))}">\n'
    intro = f"<p>{escape(lead)}</p>\n" if lead else ""
    style = (files(__package__) / "style.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{mark}<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{intro}{body}\n</main>\n</body>\n</html>\n"
    )


def number(value: float, digits: int = 5) -> str:
    """A number with so many significant digits; powers of ten where a plain number would be hard to read."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-4 <= abs(value) < HUGE:
        mantissa, power = f"{value:.1e}".split("e")
        return f"{mantissa} × 10^{int(power)}".replace("-", "−")
    text = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    return text.replace("-", "−")


def _column(values: Sequence[Cell], digits: int, decimals: int | None = None) -> list[str]:
    """The numbers of a column with the same decimals, where they are of similar size; each by itself otherwise."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    if decimals is None and all(isinstance(v, float) and v.is_integer() and abs(v) < 1e5 for v in values):
        decimals = 0
    elif decimals is None and sizes and max(sizes) <= SIMILAR * min(sizes) and max(sizes) < 1e5 and min(sizes) >= 1e-4:
        decimals = max(0, digits - math.ceil(math.log10(max(sizes))) - (max(sizes) <= 1))
    return [_cell(v, digits, decimals) for v in values]


def _section(section: Section) -> str:
    parts = [f'<section id="{escape(section.key)}">', f"<h2>{escape(section.title)}</h2>"]
    return "\n".join([*parts, *contents_markup(section), "</section>"])


def contents_markup(section: Section) -> list[str]:
    """What a section shows below its title."""
    parts = [f"<p>{_prose(p)}</p>" for p in section.paragraphs]
    if section.doubts:
        parts.append(f'<ul class="doubts">{"".join(f"<li>{_prose(doubt)}.</li>" for doubt in section.doubts)}</ul>')
    parts += [f"<pre>{escape(section.text)}</pre>"] if section.text else []
    parts += [*map(table_markup, section.tables), *map(_figure, section.pictures)]
    return [*parts, *(_folded(one.title, "\n".join(contents_markup(one))) for one in section.folded)]


def notebook_markup(section: Section) -> str:
    """A section by itself, with what of the page's style a notebook has no other rule for."""
    inside = "\n".join(contents_markup(section))
    return f'<div class="bayeskit"><style>{NOTEBOOK}</style><h3>{escape(section.title)}</h3>{inside}</div>'


def _text(words: str) -> str:
    return escape(plain_dates(words))


def _prose(words: str) -> str:
    """Sentences, where a number has the minus sign that it has in the tables."""
    return MINUS.sub("−", _text(words))


def _folded(title: str, markup: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n{markup}\n</details>"


def table_markup(table: Table) -> str:
    """A table; a column of numbers is aligned to the right, the first column heads its row. A long one is folded."""
    values = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    numeric = [any(isinstance(v, int | float) and not isinstance(v, bool) for v in column) for column in values]
    style = [' class="number"' if n else "" for n in numeric]
    heads = "".join(
        f'<th scope="col"{s}>{_text(c if table.named else _head(c))}</th>'
        for c, s in zip(table.columns, style, strict=True)
    )
    head = f"<thead><tr>{heads}</tr></thead>" if any(table.columns) else ""
    if any(table.columns):
        cells = [_column(v, table.digits, DECIMALS.get(c)) for v, c in zip(values, table.columns, strict=True)]
    else:  # facts of several kinds, which have no decimals in common
        cells = [[_cell(v, table.digits, None) for v in column] for column in values]
    rows = [_row(*one, style) for one in zip(table.rows, zip(*cells, strict=True), strict=True)]
    wide = " wide" if len(table.columns) > WIDE else ""
    markup = _scrolled(table.caption, head, rows[:MAX_ROWS], wide)
    if rest := rows[MAX_ROWS:]:
        markup += _folded(f"{len(rest):,} more rows", _scrolled("", head, rest, wide))
    return markup + (f'<p class="note">{escape(table.note)}</p>' if table.note else "")


def _scrolled(caption: str, head: str, rows: Sequence[str], wide: str) -> str:
    # A block in the caption, because the caption itself is as wide as the table, which may be wider than the window.
    said = f"<caption><span>{_text(caption)}</span></caption>" if caption else ""
    return f'<div class="scroll{wide}"><table>{said}{head}<tbody>\n{"".join(rows)}</tbody></table></div>'


def _row(row: Sequence[Cell], cells: Sequence[str], style: Sequence[str]) -> str:
    first, *others = cells
    # Words among numbers may be a sentence: unbroken, it would push the numbers out of a narrow window.
    styles = [' class="number words"' if s and isinstance(v, str) else s for v, s in zip(row, style, strict=True)]
    rest = "".join(f"<td{s}>{cell}</td>" for cell, s in zip(others, styles[1:], strict=True))
    if isinstance(row[0], str) and len(row[0]) > LONG_NAME and first == _text(row[0]):
        # In a narrow window it goes on below from its index, or its next word, not from its next letter.
        first = "<wbr>".join(map(escape, BREAKS.split(plain_dates(row[0]))))
    return f'<tr><th scope="row"{style[0]}>{first}</th>{rest}</tr>\n'


def _head(column: str) -> str:
    """A column's name in words."""
    if column.startswith("eti") and column.endswith(("_lb", "_ub")):
        side = "from" if column.endswith("_lb") else "to"
        return f"{column[3:-3]} % interval: {side}"
    return HEADS.get(column, column.replace("_", " "))


def _cell(value: Cell, digits: int, decimals: int | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, Link):
        return f'<a href="{escape(value.target)}">{escape(value.text)}</a>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if decimals is not None and value and abs(value) < HUGE:
            return f"{value:{',' if decimals == 0 else ''}.{decimals}f}".replace("-", "−")
        base, _, power = number(value, digits).partition("^")  # ``10^−7`` as a superscript
        return f"{base}<sup>{power}</sup>" if power else base
    return f'<span class="badge{BADGES[value]}">{escape(value)}</span>' if value in BADGES else _text(value)


def _figure(picture: Picture) -> str:
    caption = f"<figcaption>{_text(picture.caption)}</figcaption>" if picture.caption else ""
    if picture.panels:
        # What is seen in all of them is said once.
        alts = [f"{picture.alt} {picture.panels[0].name}", *(panel.name for panel in picture.panels[1:])]
        images = [_image(p.data, SVG, p.width, alt) for p, alt in zip(picture.panels, alts, strict=True)]
        return f'<figure><div class="panels">{"".join(images)}</div>{caption}</figure>'
    image = _image(picture.data, picture.media_type, picture.width, picture.alt)
    moves = " moves" if picture.width >= NARROW else ""
    return f'<figure><div class="frame{moves}">{image}</div>{caption}</figure>'


def _image(data: bytes, media_type: str, width: int, alt: str) -> str:
    kind = "" if media_type == SVG else ' class="raster"'
    size = f'width="{width}" style="min-width: {min(width, LEAST_WIDTH)}px"'
    return f'<img{kind} src="{address_of(data, media_type)}" {size} alt="{_text(alt or "A panel")}">'


def write_page(path: Path, page: str) -> Path:
    """Write a page whole, or leave what is there and say why."""
    with replacing(path, REPORT) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace", newline="\n")
    return path
