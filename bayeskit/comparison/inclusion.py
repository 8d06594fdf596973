r"""How probable is it that a term belongs into the model: sums over the models that have it.

.. math::
    p(t \mid y) = \sum_{k : t \in M_k} p(M_k \mid y), \qquad
    \log B_t = \log \frac{p(t \mid y)}{1 - p(t \mid y)} - \log \frac{p(t)}{1 - p(t)}.

Over matched models, only those with the term count that have a counterpart without it and alike in all else, and these
counterparts; a model with an interaction then says nothing of its main effects.

Sources: Hinne, Gronau, van den Bergh, Wagenmakers (2020), "A conceptual introduction to Bayesian model averaging",
Advances in Methods and Practices in Psychological Science 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import special

from bayeskit.errors import ModelError
from bayeskit.results.log_evidence import LABELS, error_of_sum

if TYPE_CHECKING:
    from bayeskit.comparison.comparison import Comparison

__all__ = ["inclusion_table"]

HEADS = (
    "models",
    "prior_probability",
    "posterior_probability",
    "posterior_probability_error",
    "log_bayes_factor",
    "log_bayes_factor_error",
    "label",
)


def inclusion_table(
    comparison: Comparison, terms: Mapping[str, Sequence[str]] | None, *, matched: bool
) -> pd.DataFrame:
    """One row a term; see :meth:`bayeskit.Comparison.inclusion`."""
    names = [str(name) for name in comparison.table.index]
    having = _free_variables(comparison, names) if terms is None else _named_models(terms, names)
    contents = {name: frozenset(term for term, models in having.items() if name in models) for name in names}
    rows = {}
    for term, models in having.items():
        inside = [name for name in names if name in models]
        outside = [name for name in names if name not in models]
        if matched:
            pairs = [(a, b) for a in inside for b in outside if contents[a] - {term} == contents[b]]
            inside, outside = ([name for name in names if name in side] for side in _sides(pairs))
            if not inside:
                why = "no two models differ in it alone"
                raise ModelError(f"{term}: {why}; compare more models, or leave matched=True out")
        rows[term] = _row(comparison.table, inside, outside)
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(HEADS))


def _sides(pairs: Sequence[tuple[str, str]]) -> tuple[set[str], set[str]]:
    return {a for a, _ in pairs}, {b for _, b in pairs}


def _free_variables(comparison: Comparison, names: Sequence[str]) -> dict[str, set[str]]:
    """The models that have each free variable, of those that some have and some have not."""
    free = {name: [str(rv.name) for rv in comparison.posteriors[name].model.free_RVs] for name in names}
    having = {term: {name for name in names if term in free[name]} for of in free.values() for term in of}
    found = {term: models for term, models in having.items() if len(models) < len(names)}
    if not found:
        advice = "say which have what: inclusion({'slope': ['line', 'quadratic']})"
        raise ModelError(f"every model has the same free variables, so that none is included in some; {advice}")
    return found


def _named_models(terms: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, set[str]]:
    if not terms:
        raise ModelError("terms is empty: name a term and the models that have it, {'slope': ['line', 'quadratic']}")
    for term, models in terms.items():
        if unknown := [name for name in models if name not in names]:
            raise ModelError(f"{term}: no model {unknown[0]!r} in this comparison; it has {', '.join(names)}")
        if not models or len({*models}) == len(names):
            which = "every model has it" if models else "no model has it"
            raise ModelError(f"{term}: {which}, so that the data say nothing of it; name some of {', '.join(names)}")
    return {str(term): set(models) for term, models in terms.items()}


def _row(table: pd.DataFrame, inside: Sequence[str], outside: Sequence[str]) -> tuple[float | str, ...]:
    both = table.loc[[*inside, *outside]]
    among = np.arange(len(both)) < len(inside)
    prior, log_evidence = (both[column].to_numpy(dtype=float) for column in ("prior_probability", "log_evidence"))
    joint = np.log(prior) + log_evidence
    log_odds = special.logsumexp(joint[among]) - special.logsumexp(joint[~among])
    log_prior_odds = np.log(prior[among].sum()) - np.log(prior[~among].sum())
    probability = float(special.expit(log_odds))
    # ∂ log odds / ∂ log p(y | M_k): the share of k among those with the term, less its share among those without.
    slopes = np.concatenate([special.softmax(joint[among]), -special.softmax(joint[~among])])
    sampled = (both["label"] == "estimated").to_numpy()
    error = error_of_sum(both["error"].to_numpy(dtype=float), sampled, slopes)
    label = max(both["label"], key=LABELS.index)
    of_prior = float(special.expit(log_prior_odds))
    spread = probability * float(special.expit(-log_odds)) * error
    return len(inside), of_prior, probability, spread, float(log_odds - log_prior_odds), error, label
