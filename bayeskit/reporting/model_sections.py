"""What a page says of the model: its graph, its distributions and formulas, and the plan of its inference."""

from __future__ import annotations

from bayeskit.reporting.given_draws import METHOD
from bayeskit.reporting.graph import draw_structure, read_structure
from bayeskit.reporting.records import Section, cut_table
from bayeskit.reporting.subject import Subject

__all__ = ["graph_section", "plan_section", "priors_section"]

CAPTIONS = {"free": "Priors", "deterministic": "Deterministics", "observed": "Likelihood", "potential": "Potentials"}


def graph_section(subject: Subject) -> Section:
    """The graph of the model."""
    structure = read_structure(subject.post.model, subject.variables)
    words = ", ".join(f"{n.name} ({n.role})" for n in structure.nodes)
    legend = "Ellipses are random variables, shaded where observed; boxes are data and Deterministics."
    legend += " Dims are given with their lengths."
    hidden = (f"{structure.hidden} more variables are not shown.",) if structure.hidden else ()
    picture = draw_structure(structure, alt=f"Graph of the model: {words}.")
    return Section("graph", "The model", (legend, *hidden), pictures=(picture,))


def priors_section(subject: Subject) -> Section:
    """Every distribution and formula of the model."""
    tables = []
    for role, caption in CAPTIONS.items():
        rows = [(v.name, v.text, v.dims or "scalar") for v in subject.variables if v.role == role]
        what = "distribution" if role in {"free", "observed"} else "formula"
        tables += [cut_table(("variable", what, "dims"), rows, caption)] if rows else []
    return Section("priors", "Priors and likelihood", tables=tuple(tables))


def plan_section(subject: Subject) -> Section | None:
    """What was integrated out; draws that were given have no plan."""
    plan = subject.post.plan
    if plan.method == METHOD:
        return None
    tables = []
    if plan.eliminated:
        steps = [
            (i, ", ".join(s.variables), s.family.replace("_", " "), ", ".join(s.given) or "the data alone")
            for i, s in enumerate(plan.eliminated, 1)
        ]
        heads = ("step", "integrated out", "family", "given")
        tables.append(cut_table(heads, steps, "Closed forms, in order of elimination"))
    if plan.refusals:
        first = {r.advice: r for r in reversed(plan.refusals)}
        refusals = [(r.variable, r.reason, r.advice if first[r.advice] is r else "as above") for r in plan.refusals]
        tables.append(cut_table(("variable", "why there is no closed form", "advice"), refusals, "No closed form"))
    return Section("plan", "The plan", text=str(plan), tables=tuple(tables))
