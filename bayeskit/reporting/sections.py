"""What a report says, as plain data: sections of paragraphs, tables and pictures. No markup; :mod:`html` renders it."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pandas as pd

from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import ModelError
from bayeskit.model.snapshot import WrittenModel, on_its_data
from bayeskit.reporting.checks import check_pictures
from bayeskit.reporting.classes import class_picture, class_plane
from bayeskit.reporting.compared_models import comparison_section
from bayeskit.reporting.components import allocation_picture, component_picture, gaussian_components, same_component
from bayeskit.reporting.curve import curve_picture, fitted_curve
from bayeskit.reporting.decoding import decoded_series, decoding_picture
from bayeskit.reporting.figures import interval_pictures, marginal_picture, split_variables, variable_order
from bayeskit.reporting.formulas import VariableText, describe_variables
from bayeskit.reporting.graph import draw_structure, read_structure
from bayeskit.reporting.latent_states import latent_states
from bayeskit.reporting.projection import latent_projection, projection_picture
from bayeskit.reporting.records import MAX_ROWS, Cell, Picture, Section, Table, cut_table, frame_table, styled
from bayeskit.reporting.states import state_picture, state_series
from bayeskit.results.records import Posterior
from bayeskit.results.tree import observed_data
from bayeskit.validation import Validation

__all__ = ["MAX_ROWS", "build_sections", "package_versions", "versions_section"]

RELABELLED = " The draws exchange labels and were relabelled first, unlike those of the table."
PACKAGES = ("pymc", "pytensor", "arviz", "numpy", "scipy", "xarray")
HEAD_OF_ERROR = {"exact": "error (rounding)", "quadrature": "error (bound)", "estimated": "error (Monte Carlo)"}
NO_DATA = "The model has no observed variable: its answer is the prior."
IGNORED = (
    "They know nothing of the Potentials ({}): what these say of the parameters is in the posterior, but what they say "
    "of data, of censored values perhaps, is in no replicated value, and a difference may be due to that."
)
# Of models of some kinds: what there is to see, and its picture.
PICTURES = ((class_plane, class_picture), (state_series, state_picture), (latent_projection, projection_picture))
CAPTIONS = {"free": "Priors", "deterministic": "Deterministics", "observed": "Likelihood", "potential": "Potentials"}
ERRORS = {
    "exact": "It is exact; the error given is that of rounding.",
    "quadrature": "It comes from quadrature; the error given is a bound.",
    "estimated": "It is estimated; the error given is a Monte Carlo standard error.",
}


@on_its_data
def build_sections(
    post: Posterior,
    *,
    validation: Validation | None = None,
    comparison: Comparison | None = None,
    about: Sequence[str] = (),
) -> tuple[Section, ...]:
    """Everything a report says about one posterior, in the order of the page; the options are those of ``report``."""
    variables = describe_variables(post.model)
    with styled():
        return (
            _question(post, variables, about),
            _graph(post, variables),
            _priors(variables),
            _plan(post),
            _posterior(post, validation),
            *((_predictive(post, variables),) if _names(variables, "observed") else ()),
            _evidence(post),
            *((_validation(validation),) if validation is not None else ()),
            *((comparison_section(comparison),) if comparison is not None else ()),
            versions_section(post),
        )


def _question(post: Posterior, variables: Sequence[VariableText], about: Sequence[str]) -> Section:
    shapes = [
        f"{name} ({' × '.join(f'{d}: {n}' for d, n in values.sizes.items()) or 'one value'})"
        for name, values in observed_data(post.tree).data_vars.items()
    ]
    unknown = _list([str(rv.name) for rv in post.model.free_RVs])
    how = post.account or f"The posterior was found by the method “{post.method}”."
    evidence = post.log_evidence
    missing = math.isnan(evidence.value)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("method", post.method),
        ("log evidence", "not available" if missing else evidence.value),
        ("label", evidence.label),
        (HEAD_OF_ERROR[evidence.label], None if missing else float(f"{evidence.error:.2g}")),
        ("certificate (nats)", None if math.isnan(post.certificate) else post.certificate),
    )
    found = post.diagnostics
    problems = () if found is None else tuple(f"Warning: {problem}." for problem in found.problems)
    rows += () if found is None else (("chains", str(found).splitlines()[0]),)
    asked = f"What do the data {_list(shapes)} say about {unknown}?" if unknown else f"How probable is {_list(shapes)}?"
    if not shapes:
        potentials = _names(variables, "potential")
        asked = f"What do the Potentials ({_list(potentials)}) say about {unknown}?" if potentials else NO_DATA
    paragraphs = (*about, asked, how, *problems)
    return Section("question", "What was asked", paragraphs, tables=(Table(("", ""), rows, digits=10),))


def _graph(post: Posterior, variables: Sequence[VariableText]) -> Section:
    structure = read_structure(post.model, variables)
    words = ", ".join(f"{n.name} ({n.role})" for n in structure.nodes)
    legend = "Ellipses are random variables, shaded where observed; boxes are data and Deterministics."
    legend += " Dims are given with their lengths."
    hidden = (f"{structure.hidden} more variables are not shown.",) if structure.hidden else ()
    picture = draw_structure(structure, alt=f"Graph of the model: {words}.")
    return Section("graph", "The model", (legend, *hidden), pictures=(picture,))


def _priors(variables: Sequence[VariableText]) -> Section:
    tables = []
    for role, caption in CAPTIONS.items():
        rows = [(v.name, v.text, v.dims or "scalar") for v in variables if v.role == role]
        what = "distribution" if role in {"free", "observed"} else "formula"
        tables += [cut_table(("variable", what, "dims"), rows, caption)] if rows else []
    return Section("priors", "Priors and likelihood", tables=tuple(tables))


def _plan(post: Posterior) -> Section:
    plan = post.plan
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


def _posterior(post: Posterior, validation: Validation | None) -> Section:
    caption = "Mean, standard deviation and equal-tailed interval of every scalar"
    summary = _in_model_order(post.summary(), post)
    table = frame_table(summary, "variable", caption)
    panels, intervals, hidden = split_variables(post)
    marginals = marginal_picture(post, panels, validation)
    pictures = () if isinstance(post.model, WrittenModel) else _pictures_of_model(post)
    pictures += (*((marginals,) if marginals else ()), *interval_pictures(post, intervals))
    labels = "Rows labelled exact come from the closed form and those labelled quadrature from numerical integration, "
    data = "those labelled observed are data; " if "observed" in set(summary["label"]) else ""
    paragraphs = [f"{labels}without Monte Carlo error; {data}the others come from draws."]
    if hidden:
        paragraphs.append(f"Not drawn, because there are many: {_list(hidden[:8])}{' …' if len(hidden) > 8 else ''}.")
    return Section("posterior", "The posterior", tuple(paragraphs), tables=(table,), pictures=pictures)


def _pictures_of_model(post: Posterior) -> tuple[Picture, ...]:
    found: list[tuple[Any, Any]] = [(draw, find(post)) for find, draw in PICTURES]
    return (*(draw(data) for draw, data in found if data is not None), *_state_pictures(post))


def _state_pictures(post: Posterior) -> tuple[Picture, ...]:
    """Pictures of mixtures and hidden Markov models."""
    states = latent_states(post)
    pictures: tuple[Picture, ...] = ()
    if states is not None and (components := gaussian_components(post, states)) is not None:
        pictures = (component_picture(components),)
    elif states is not None:
        pictures = tuple(map(decoding_picture, decoded_series(post, states)))
    if states is not None and pictures:
        return tuple(replace(p, caption=p.caption + RELABELLED) for p in pictures) if states.relabelled else pictures
    pairs = same_component(post)
    return (allocation_picture(*pairs),) if pairs is not None else ()


def _predictive(post: Posterior, variables: Sequence[VariableText]) -> Section:
    title, potentials = "Posterior predictive check", _list(_names(variables, "potential"))
    written = isinstance(post.model, WrittenModel)
    if written and "posterior_predictive" not in post.tree.children:
        absent = "There are no replicated data: the posterior was loaded without its model, which would draw them."
        return Section("predictive", title, (absent,))
    try:
        pictures = check_pictures(post, f"The replicated data know nothing of {potentials}." if potentials else "")
    except ModelError as error:
        return Section("predictive", title, (f"There are no replicated data: {error}.",))
    if not written and (curve := fitted_curve(post)) is not None:
        pictures = (curve_picture(curve), *pictures)
    asked = "Would the fitted model produce data like these?"
    how = "Replicated data are drawn from the posterior predictive distribution."
    paragraphs = (f"{asked} {how}", *((IGNORED.format(potentials),) if potentials else ()))
    return Section("predictive", title, paragraphs, pictures=pictures)


def _evidence(post: Posterior) -> Section:
    evidence, title = post.log_evidence, "Evidence and certificate"
    if math.isnan(evidence.value):
        return Section("evidence", title, (f"Log evidence: {evidence}.",))
    rows = ((evidence.value, evidence.error, evidence.label),)
    table = Table(("log evidence (nats)", "error", "label"), rows, digits=10)
    meaning = "The log evidence is the log probability of the data under the model, parameters integrated out."
    paragraphs = [f"{meaning} {ERRORS[evidence.label]}"]
    if evidence.convention:
        paragraphs.append(f"It is {evidence.convention}.")
    if not math.isnan(post.certificate):
        paragraphs.append(
            "The certificate: by Bayes' rule log p(y, θ) − log p(θ | y) is the same number, the log evidence, at every "
            "θ. Over posterior and prior draws, with PyMC's own log density, it varied by at most "
            f"{post.certificate:.1e} nats."
        )
    return Section("evidence", title, tuple(paragraphs), tables=(table,))


def _validation(validation: Validation) -> Section:
    verdict = "agree" if validation.passed else "do NOT agree"
    facts = [f"{validation.comparisons} tests at family-wise level {validation.alpha:g}"]
    if validation.divergences is not None:
        facts.append(f"{validation.divergences} divergences")
    paragraphs = [f"Draws by {validation.method} {verdict} with the closed form ({'; '.join(facts)})."]
    paragraphs += [f"Failed: {failure}" for failure in validation.failures[:20]]
    table = validation.table
    if len(table) > MAX_ROWS:
        table = table.iloc[(table["verdict"] == "agrees").to_numpy().argsort(kind="stable")]
    caption = "z-scores of mean and standard deviation in Monte Carlo standard errors, and the ECDF test"
    tables = (frame_table(table, "variable", caption),)
    return Section("validation", "A sampler against the closed form", (*paragraphs, *validation.notes), tables=tables)


def versions_section(post: Posterior) -> Section:
    """The seed, and the versions of what the posterior was made with."""
    seed = "none was given" if post.random_seed is None else str(post.random_seed)
    table = Table(("package", "version"), tuple(package_versions(post).items()))
    return Section("versions", "To reproduce this", (f"Random seed: {seed}.",), tables=(table,))


def package_versions(post: Posterior) -> dict[str, str]:
    """What the posterior was made with: of one from a file, what it says."""
    # Ours also from a checkout that is not installed.
    own = {"python": platform.python_version(), "bayeskit": str(import_module("bayeskit").__version__)}
    known = own | {package: str(import_module(package).__version__) for package in PACKAGES}
    return {package: post.tree.attrs.get(f"{package}_version", text) for package, text in known.items()}


def _names(variables: Sequence[VariableText], role: str) -> list[str]:
    return [v.name for v in variables if v.role == role]


def _in_model_order(summary: pd.DataFrame, post: Posterior) -> pd.DataFrame:
    """Rows in the order of the model: free variables first, but those that would fill the table after all others."""
    order = {name: i for i, name in enumerate(variable_order(post))}
    names = [str(label).split("[")[0] for label in summary.index]
    rows = Counter(names)
    position = [(rows[n] >= MAX_ROWS, order.get(n, len(order))) for n in names]
    return summary.iloc[sorted(range(len(names)), key=position.__getitem__)]


def _list(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)
