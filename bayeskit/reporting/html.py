"""Sections as one HTML page that needs nothing else (no script, pictures as data), written whole or not at all.

How it looks is in ``style.css``, which becomes a part of every page.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from bayeskit.reporting.files import REPORT, replacing
from bayeskit.reporting.records import Cell, Link, Picture, Section, Table

__all__ = ["number", "page", "render", "write_page"]

WIDE = 8  # a table with more columns is set smaller
SIMILAR = 300  # largest over smallest number of a column that is written with the same decimals

BADGES = {"exact": "", "quadrature": "", "estimated": "", "agrees": "", "pass": "", "fail": " bad"}
DECIMALS = dict.fromkeys(("z_mean", "z_sd", "elpd_loo", "se_loo"), 2) | dict.fromkeys(("p_ecdf", "rhat", "r_hat"), 3)
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
    "se_loo": "se (LOO)",
    "mcmc_mean": "sampler's mean",
    "mcmc_sd": "sampler's sd",
    "log_bayes_factor": "log Bayes factor",
    "log_bayes_factor_error": "its error",
    "posterior_probability_error": "its error",
    "high_pareto_k": "high Pareto k",
}


def render(title: str, sections: Sequence[Section]) -> str:
    """A whole page from sections: contents, then each section."""
    contents = "".join(f'<a href="#{escape(s.key)}">{escape(s.title)}</a>' for s in sections)
    return page(title, f'<nav aria-label="Contents">{contents}</nav>\n' + "\n".join(map(_section, sections)))


def page(title: str, body: str, *, lead: str = "") -> str:
    """The frame of every page around a body that is markup already."""
    intro = f"<p>{escape(lead)}</p>\n" if lead else ""
    style = (files(__package__) / "style.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{intro}{body}\n</main>\n</body>\n</html>\n"
    )


def number(value: float, digits: int = 5) -> str:
    """A number with so many significant digits; powers of ten where a plain number would be hard to read."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-4 <= abs(value) < 1e7:
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
    parts += [f"<p>{escape(p)}</p>" for p in section.paragraphs]
    parts += [f"<pre>{escape(section.text)}</pre>"] if section.text else []
    parts += [*map(table_markup, section.tables), *map(_figure, section.pictures), "</section>"]
    return "\n".join(parts)


def table_markup(table: Table) -> str:
    """A table; a column of numbers is aligned to the right, the first column heads its row."""
    values = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    numeric = [any(isinstance(v, int | float) and not isinstance(v, bool) for v in column) for column in values]
    style = [' class="number"' if n else "" for n in numeric]
    # A block in the caption, because the caption itself is as wide as the table, which may be wider than the window.
    caption = f"<caption><span>{escape(table.caption)}</span></caption>" if table.caption else ""
    heads = "".join(
        f'<th scope="col"{s}>{escape(c if table.named else _head(c))}</th>'
        for c, s in zip(table.columns, style, strict=True)
    )
    head = f"<thead><tr>{heads}</tr></thead>" if any(table.columns) else ""
    if any(table.columns):
        cells = [_column(v, table.digits, DECIMALS.get(c)) for v, c in zip(values, table.columns, strict=True)]
    else:  # facts of several kinds, which have no decimals in common
        cells = [[_cell(v, table.digits, None) for v in column] for column in values]
    rows = ""
    for row, (first, *others) in zip(table.rows, zip(*cells, strict=True), strict=True):
        # Words among numbers may be a sentence: unbroken, it would push the numbers out of a narrow window.
        styles = [' class="number words"' if s and isinstance(v, str) else s for v, s in zip(row, style, strict=True)]
        rest = "".join(f"<td{s}>{cell}</td>" for cell, s in zip(others, styles[1:], strict=True))
        rows += f'<tr><th scope="row"{style[0]}>{first}</th>{rest}</tr>\n'
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    wide = " wide" if len(table.columns) > WIDE else ""
    return f'<div class="scroll{wide}"><table>{caption}{head}<tbody>\n{rows}</tbody></table></div>{note}'


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
        if decimals is not None and value and math.isfinite(value):
            return f"{value:.{decimals}f}".replace("-", "−")
        base, _, power = number(value, digits).partition("^")  # ``10^−7`` as a superscript
        return f"{base}<sup>{power}</sup>" if power else base
    return f'<span class="badge{BADGES[value]}">{escape(value)}</span>' if value in BADGES else escape(value)


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.data).decode("ascii")
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    source = f"data:{picture.media_type};base64,{data}"
    image = f'<img src="{source}" width="{picture.width}" alt="{escape(picture.alt)}">'
    return f"<figure>{image}{caption}</figure>"


def write_page(path: Path, page: str) -> Path:
    """Write a page whole, or leave what is there and say why."""
    with replacing(path, REPORT) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace", newline="\n")
    return path
