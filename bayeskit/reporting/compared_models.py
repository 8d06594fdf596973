"""What a page says of models that are compared: their evidences, what these rest on, and how each was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import ModelError
from bayeskit.reporting.formulas import describe_variables
from bayeskit.reporting.records import Cell, Picture, Section, Table, cut_table, figure_of, frame_table, to_picture
from bayeskit.reporting.subject import data_in_words, listed

__all__ = ["collection_picture", "comparison_section", "comparison_sections"]

OF_LOO = ("elpd_loo", "elpd_loo_error", "se_loo", "high_pareto_k")
PRIORS = "The evidence depends on the priors for good, so they are shown beside it."
READING = (
    "The evidence is the probability of the data under a model, averaged over its prior; a log Bayes factor is a "
    "difference of two log evidences, here against the best model. Errors are standard errors where a number is "
    "estimated, bounds where it is by quadrature, and rounding where it is exact."
)
ALTS = {
    "evidence": "Log evidence of each model with its error.",
    "probability": "Posterior and prior probability of each model.",
    "bayes_factors": "Matrix of the log Bayes factors of each model against each other.",
}


def comparison_section(comparison: Comparison) -> Section:
    """The models of a comparison as one section of another page."""
    paragraphs = (PRIORS, *comparison.notes)
    tables = (*_evidence_tables(comparison), *_prior_tables(comparison))
    return Section("comparison", "Models compared", paragraphs, tables=tables, pictures=_pictures(comparison))


def comparison_sections(comparison: Comparison, about: Sequence[str] = ()) -> tuple[Section, ...]:
    """A page of its own."""
    return (
        _question(comparison, about),
        Section("evidence", "Evidence", (READING,), "", _evidence_tables(comparison), _pictures(comparison)),
        *_inclusion(comparison),
        Section("priors", "Priors", (PRIORS,), tables=_prior_tables(comparison)),
        _audit(comparison),
    )


def collection_picture(collection: Any, alt: str, caption: str = "") -> Picture:
    """A picture that arviz-plots drew by Matplotlib."""
    return to_picture(figure_of(collection), alt=alt, caption=caption)


def _question(comparison: Comparison, about: Sequence[str]) -> Section:
    table, posteriors = comparison.table, comparison.posteriors
    names = list(map(str, table.index))
    data = listed(data_in_words(posteriors[names[0]])) if names[0] in posteriors else ""
    # A name of several words would run into the sentence, and one with a comma into the next name.
    of = {name: name if name.replace("_", "").isalnum() else f"“{name}”" for name in names}
    asked = f"For which of the models {listed(of.values())} do the data{f' {data}' if data else ''} speak?"
    best, second = table.iloc[0], table.iloc[1] if len(table) > 1 else None
    answer = f"The evidence is largest for {of[names[0]]}: its posterior probability is {_of_prior(best)}."
    if second is not None:
        apart, error = -second["log_bayes_factor"], second["log_bayes_factor_error"]
        answer += f" It is {apart:.2f} nats (error {error:.1e}) ahead of {of[names[1]]}."
    likely = table["posterior_probability"].idxmax()
    if table.loc[likely, "posterior_probability"] > best["posterior_probability"]:
        it = _of_prior(table.loc[likely])
        answer += f" The prior odds make {of[likely]} the most probable model: its posterior probability is {it}."
    return Section("verdict", "In short", (f"{asked} {answer}", *about))


def _of_prior(row: pd.Series) -> str:
    """A model's posterior probability beside the prior one that it rests on."""
    return f"{row['posterior_probability']:.3g}, where its prior probability is {row['prior_probability']:.3g}"


def _evidence_tables(comparison: Comparison) -> tuple[Table, ...]:
    """The evidences, and LOO beside them, which is another question."""
    table = comparison.table
    known = [name for name in OF_LOO if name in table and not table[name].isna().all()]
    evidences = frame_table(
        table.drop(columns=[n for n in OF_LOO if n in table]), "model", "Models of the same data, the best first"
    )
    loo = frame_table(table[known], "model", "Leave-one-out cross-validation") if known else None
    return (evidences, loo) if loo else (evidences,)


def _prior_tables(comparison: Comparison) -> tuple[Table, ...]:
    """Each model's priors with their numbers and dims."""
    tables = []
    for name in map(str, comparison.table.index):
        dims = {}
        if name in comparison.posteriors:
            dims = {v.name: v.dims for v in describe_variables(comparison.posteriors[name].model)}
        rows: list[tuple[Cell, ...]] = []
        for prior in comparison.priors.get(name, ()):
            variable, sign, text = prior.partition(" ~ ") if " ~ " in prior else prior.partition(": ")
            size = dims.get(variable, "")
            for repeated in (f", dims {size}", f", shape ({size.replace(' × ', ', ')})", f", shape ({size},)"):
                text = text.replace(repeated, "", 1)  # it is in the next column
            rows.append((variable, text if sign else prior, size or "scalar"))
        tables += [cut_table(("variable", "prior", "dims"), rows, f"Priors of {name}")] if rows else []
    return tuple(tables)


def _pictures(comparison: Comparison) -> tuple[Picture, ...]:
    return tuple(
        collection_picture(comparison.plot(kind, backend="matplotlib"), alt)  # type: ignore[arg-type]
        for kind, alt in ALTS.items()
    )


def _inclusion(comparison: Comparison) -> tuple[Section, ...]:
    """Which variables belong into the model, where the models differ in them."""
    try:
        table = comparison.inclusion()
    except ModelError:
        return ()
    said = "Sums over the models that have a variable, of their prior and of their posterior probabilities."
    return (
        Section("inclusion", "Variables that some models have", (said,), tables=(frame_table(table, "variable", ""),)),
    )


def _audit(comparison: Comparison) -> Section:
    """How each evidence was found, and what must be known of it."""
    rows: list[tuple[Cell, ...]] = []
    for name in map(str, comparison.table.index):
        if name in comparison.posteriors:
            post = comparison.posteriors[name]
            remaining = ", ".join(post.plan.remaining) or "nothing"
            certificate = None if math.isnan(post.certificate) else post.certificate
            convention = post.log_evidence.convention or "as written"
            rows.append((name, post.method, remaining, certificate, convention, str(post.random_seed)))
    heads = ("model", "method", "without a closed form", "certificate (nats)", "evidence is", "seed")
    tables = (cut_table(heads, rows, "How each evidence was found"),) if rows else ()
    said = comparison.notes or ("Nothing was found that speaks against any of these numbers.",)
    return Section("audit", "What the numbers rest on", tuple(said), tables=tables)
