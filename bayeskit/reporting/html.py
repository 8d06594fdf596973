"""Sections as one HTML page that needs nothing else (no script, pictures as data), written whole or not at all."""

from __future__ import annotations

import base64
import math
import os
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bayeskit.errors import OptionError
from bayeskit.reporting.records import Cell, Link, Picture, Section, Table

__all__ = ["check_writable", "number", "page", "render", "write_page"]

STYLE = """
:root { --ink: #1f2933; --muted: #616e7c; --line: #d9dee4; --accent: #2a6f97; --soft: #f5f7f9; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); line-height: 1.55;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .7rem; padding-top: .9rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
nav { font-size: .85rem; margin: 0 0 1rem; }
nav a { color: var(--accent); text-decoration: none; margin-right: .9rem; white-space: nowrap; display: inline-block; }
nav a:hover { text-decoration: underline; }
a { color: var(--accent); }
pre { background: var(--soft); border-left: 3px solid var(--accent); padding: .8rem 1rem; overflow-x: auto;
  font: .85rem/1.5 ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: 0 0 .4rem; caption-side: top; }
th, td { padding: .32rem .9rem .32rem 0; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 600; border-bottom: 2px solid var(--line); vertical-align: bottom; }
tbody th { font-weight: 600; }
.number { text-align: right; }
td.number, tbody th { white-space: nowrap; }
.wide table { font-size: .76rem; }
.wide th, .wide td { padding-right: .6rem; }
sup { line-height: 0; }
.note, figcaption { color: var(--muted); font-size: .85rem; }
figure { margin: 1.4rem 0; }
figure img { max-width: 100%; height: auto; display: block; }
.badge { display: inline-block; border-radius: 1rem; padding: 0 .6rem; font-size: .8rem;
  background: #e3eef5; color: #17557a; }
.badge.bad { background: #fbe4de; color: #8f2f1a; }
@media print { nav { display: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""

WIDE = 8  # a table with more columns is set smaller
SIMILAR = 300  # largest over smallest number of a column that is written with the same decimals

BADGES = {"exact": "", "quadrature": "", "estimated": "", "agrees": "", "pass": "", "fail": " bad"}
DECIMALS = {"z_mean": 2, "z_sd": 2, "p_ecdf": 3, "ess": 0, "rhat": 3, "elpd_loo": 2, "se_loo": 2}
HEADS = {
    "mcse_mean": "MCSE of mean",
    "p_ecdf": "p (ECDF)",
    "rhat": "R-hat",
    "ess": "ESS",
    "elpd_loo": "elpd (LOO)",
    "se_loo": "se (LOO)",
    "mcmc_mean": "sampler's mean",
    "mcmc_sd": "sampler's sd",
    "log_bayes_factor": "log Bayes factor",
}


def render(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """A whole page from sections: contents, then each section."""
    contents = "".join(f'<a href="#{escape(s.key)}">{escape(s.title)}</a>' for s in sections)
    body = f'<nav aria-label="Contents">{contents}</nav>\n' + "\n".join(map(_section, sections))
    return page(title, body, lead=lead)


def page(title: str, body: str, *, lead: str = "") -> str:
    """The frame of every page around a body that is markup already."""
    intro = f"<p>{escape(lead)}</p>\n" if lead else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
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
    if decimals is not None:
        return [_cell(v, digits, decimals) for v in values]
    if all(isinstance(v, float) and v.is_integer() and abs(v) < 1e5 for v in values):
        return [_cell(v, digits, 0) for v in values]
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    same = bool(sizes) and max(sizes) <= SIMILAR * min(sizes) and max(sizes) < 1e5 and min(sizes) >= 1e-4
    decimals = max(0, digits - math.ceil(math.log10(max(sizes))) - (max(sizes) <= 1)) if same else 0
    return [_cell(v, digits, decimals if same else None) for v in values]


def _section(section: Section) -> str:
    parts = [f'<section id="{escape(section.key)}">', f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(p)}</p>" for p in section.paragraphs]
    if section.text:
        parts.append(f"<pre>{escape(section.text)}</pre>")
    parts += [table_markup(t) for t in section.tables]
    parts += [_figure(p) for p in section.pictures]
    parts.append("</section>")
    return "\n".join(parts)


def table_markup(table: Table) -> str:
    """A table; a column of numbers is aligned to the right, the first column heads its row."""
    numeric = [any(_is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = ""
    if any(table.columns):
        heads = "".join(
            f'<th scope="col"{_class(n)}>{escape(_head(c))}</th>' for c, n in zip(table.columns, numeric, strict=True)
        )
        head = f"<thead><tr>{heads}</tr></thead>"
    columns = [
        _column([row[i] for row in table.rows], table.digits, DECIMALS.get(name))
        for i, name in enumerate(table.columns)
    ]
    rows = ""
    for cells in zip(*columns, strict=True):
        first, *others = zip(cells, numeric, strict=True)
        rows += f'<tr><th scope="row"{_class(first[1])}>{first[0]}</th>'
        rows += "".join(f"<td{_class(n)}>{cell}</td>" for cell, n in others) + "</tr>\n"
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
        return _exponent(number(value, digits))
    if value in BADGES:
        return f'<span class="badge{BADGES[value]}">{escape(value)}</span>'
    return escape(value)


def _exponent(text: str) -> str:
    """``10^−7`` as a superscript."""
    base, _, power = text.partition("^")
    return f"{base}<sup>{power}</sup>" if power else text


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _class(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.data).decode("ascii")
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    source = f"data:{picture.media_type};base64,{data}"
    image = f'<img src="{source}" width="{picture.width}" alt="{escape(picture.alt)}">'
    return f"<figure>{image}{caption}</figure>"


def check_writable(path: Path) -> None:
    """Make sure that a page can be put there, before anything is computed; nothing is left behind.

    Raises
    ------
    OptionError
        One line that says what stands in the way.
    """
    if path.is_dir():
        raise OptionError(
            f"cannot write the report {path}: that is a folder; name a file in it, such as {path / 'report.html'}"
        )
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        # Asking for permission is not enough: root is always told yes, even on a read-only file system.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(_message(path, error)) from error


def write_page(path: Path, page: str) -> Path:
    """Write a page beside its place and move it there, so that a reader never finds half a page.

    Raises
    ------
    OptionError
        If it cannot be written; nothing is left behind.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes a file that only its owner can read
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OptionError(_message(path, error)) from error
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _message(path: Path, error: OSError) -> str:
    return f"cannot write the report {path}: {error.strerror or error}; name a file in a folder you can write to"
