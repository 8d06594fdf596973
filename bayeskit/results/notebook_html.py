"""What a notebook shows of a result: a heading, a table by pandas in the printed formats, notes, folded text.

Every text goes through :func:`html.escape`, and pandas escapes names and cells: a variable may be called ``a<b``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from bayeskit.results.marginals import Marginal
    from bayeskit.results.plan import Plan
    from bayeskit.results.records import Posterior

__all__ = ["clipped", "marginal_html", "notebook_html", "plan_html", "posterior_html", "table_html"]

ROWS = 20  # of a table
NAMES = 6  # that one line lists
NUMBER = "{:.5g}"
# A browser would break the line at the hyphen of 1e-10.
CELL = re.compile(r"<td>(?=[+-]?\d[\d.,]*(?:e[+-]?\d+)?</td>)")


def notebook_html(
    heading: str,
    *,
    lines: Iterable[str] = (),
    tables: Iterable[str] = (),
    notes: Iterable[str] = (),
    folded: Mapping[str, str] | None = None,
) -> str:
    """One block of markup; ``tables`` are markup already, all else is text."""
    parts = [f"<p><strong>{escape(heading)}</strong></p>", *(f"<p>{escape(line)}</p>" for line in lines)]
    parts += [f'<div style="overflow-x:auto">{table}</div>' for table in tables]
    if said := "".join(f"<li>{escape(note)}</li>" for note in notes):
        parts.append(f"<ul>{said}</ul>")
    for title, text in (folded or {}).items():
        words = f'<pre style="white-space:pre-wrap">{escape(text)}</pre>'
        parts.append(f"<details><summary>{escape(title)}</summary>{words}</details>")
    return f'<div class="bayeskit">{"".join(parts)}</div>'


def table_html(frame: pd.DataFrame, formats: Mapping[str, str] | None = None, *, rows: int = ROWS) -> str:
    """The first rows of a table, its numbers in given formats or with five digits, and how many rows there are."""
    shown = frame.head(rows)
    forms = {str(name): (formats or {}).get(str(name), NUMBER) for name in shown.columns}
    formatters: dict[str, Callable[[Any], str]] = {n: _formatter(form) for n, form in forms.items()}
    # By their places: pandas would take two columns of one name for a table.
    markup = shown.to_html(border=0, na_rep="–", formatters=list(formatters.values()), escape=True)
    rest = (
        f"<p>{len(frame) - len(shown):,} of {len(frame):,} rows are not shown.</p>" if len(frame) > len(shown) else ""
    )
    return CELL.sub('<td style="white-space:nowrap">', str(markup)) + rest


def _formatter(form: str) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return "–" if number and value != value else form.format(value) if number else str(value)

    return text


def clipped(names: Iterable[object]) -> str:
    """The first names, and how many more there are."""
    every = [str(name) for name in names]
    more = f", … ({len(every) - NAMES} more)" if len(every) > NAMES else ""
    return ", ".join(every[:NAMES]) + more


def posterior_html(posterior: Posterior) -> str:
    """The first rows of the summary, the evidence, what is wrong with the draws, and the plan to unfold."""
    lines, tables, hidden = [f"log evidence: {posterior.log_evidence}"], [], 0
    if not np.isnan(posterior.certificate):
        lines.append(f"certificate: {posterior.certificate:.1e} nats")
    if "posterior" in posterior.tree.children:
        draws, names, entries = posterior.tree["posterior"].to_dataset(), list[str](), 0
        for name in map(str, draws.data_vars):  # a summary of thousands of scalars takes seconds
            if entries < ROWS:
                names.append(name)
                entries += draws[name].size // (draws.sizes["chain"] * draws.sizes["draw"])
        hidden = len(draws.data_vars) - len(names)
        tables = [table_html(posterior.summary(names))] if names else []
    lines += [f"{hidden} more variables are not shown: posterior.summary() has them"] if hidden else []
    found = () if posterior.diagnostics is None else str(posterior.diagnostics).splitlines()
    heading = f"Posterior by {posterior.method}"
    return notebook_html(heading, lines=lines, tables=tables, notes=found, folded={"plan": str(posterior.plan)})


def plan_html(plan: Plan) -> str:
    """What is integrated out, in its order, and what remains and why, as tables."""
    tables = []
    if plan.eliminated:
        steps = [
            (", ".join(s.variables), s.family.replace("_", " "), ", ".join(s.given), s.note) for s in plan.eliminated
        ]
        frame = pd.DataFrame(
            steps, columns=["integrated out", "family", "given", "note"], index=range(1, len(steps) + 1)
        )
        tables.append(table_html(frame))
    if plan.refusals:
        why = pd.DataFrame(
            {r.variable: (r.reason, r.advice) for r in plan.refusals}, index=["why it remains", "advice"]
        )
        tables.append(table_html(why.T))
    method = f": {plan.method}" if plan.method else ""
    return notebook_html(f"Plan{method}", lines=filter(None, [plan.outlook]), tables=tables, notes=plan.notes)


def marginal_html(marginal: Marginal, labels: Iterable[str]) -> str:
    """Mean, sd and, where the entries have distributions of their own, an interval."""
    columns = {"mean": marginal.dist.mean(), "sd": marginal.std()}
    if marginal.elementwise:
        columns["5.5 %"], columns["94.5 %"] = marginal.interval(0.89)
    names = list(labels)
    frame = pd.DataFrame({n: np.broadcast_to(np.ravel(v), len(names)) for n, v in columns.items()}, index=names)
    heading = f"{marginal.name}: {marginal.family.replace('_', ' ')} ({marginal.label})"
    unknown = "where there is no mean or sd, the density does not tell whether it has one: summary() looks at the draws"
    lines = [unknown] if frame[["mean", "sd"]].isna().any(axis=None) else []
    return notebook_html(heading, lines=lines, tables=[table_html(frame)])
