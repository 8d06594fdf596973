"""Posteriors of models that may be compared by evidence: of the same data, and all priors proper, or shared by all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pymc as pm

from bayeskit.comparison.given_models import inferred_models
from bayeskit.comparison.own_densities import require_normalised
from bayeskit.comparison.same_data import require_same_data
from bayeskit.comparison.shared_priors import (
    declared_shared,
    inferred_shared,
    require_evidence,
    require_same_place,
    shared_analyses,
)
from bayeskit.elimination.analysis import Analysis
from bayeskit.errors import ModelError
from bayeskit.jobs.work import HERE, Work
from bayeskit.results.records import Posterior

__all__ = ["carried_shared", "comparable_posteriors"]


def carried_shared(models: Mapping[str, pm.Model | Posterior]) -> tuple[str, ...]:
    """The shared priors with which all of some posteriors were inferred; none where one of them was inferred without.

    Posteriors of ``bayeskit.compare(models, shared=...)`` have them.
    """
    first, *others = map(inferred_shared, models.values())
    return first if all({*first} == {*other} for other in others) else ()


def _is_of_data(given: pm.Model | Posterior) -> bool:
    model = given.model if isinstance(given, Posterior) else given
    return isinstance(model, pm.Model) and bool(model.observed_RVs)


def comparable_posteriors(
    models: Mapping[str, pm.Model | Posterior], shared: Sequence[str], random_seed: int, work: Work = HERE
) -> tuple[dict[str, Posterior], list[str]]:
    """The posteriors of models that are of the same data and have an evidence, and what a reader must know of it."""
    variables = declared_shared(models, shared)
    try:
        for name, model in models.items():
            require_evidence(name, model, variables)
    except ModelError:
        if all(_is_of_data(model) for model in models.values()):
            require_same_data(models)  # first: of other data, no declaration makes them comparable
        raise
    notes = require_same_data(models)
    given: Mapping[str, pm.Model | Analysis | Posterior] = models
    if variables:
        given = analyses = shared_analyses(models, variables)
        notes += require_same_place(analyses, variables)
    posteriors = inferred_models(given, random_seed, work)
    for name, posterior in posteriors.items():
        if not math.isfinite(posterior.log_evidence.value):
            raise ModelError(f"{name}: it cannot be compared, for its log evidence is {posterior.log_evidence}")
        notes += require_normalised(posterior, name)
    return posteriors, notes
