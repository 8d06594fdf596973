"""Derivatives of log evidences in every number that priors are written with, a row a number or entry of an array.

Closed forms and means over draws take milliseconds a number, and are found here; the integrals of one number are a job,
which depends on no other number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

from bayeskit.comparison.evidence_of_priors import (
    HEAVY,
    Effort,
    EvidenceOfPriors,
    effort,
    evidence_of_priors,
    in_closed_form,
)
from bayeskit.comparison.extrapolated_differences import derivative
from bayeskit.comparison.prior_at_draws import PriorAtDraws
from bayeskit.comparison.sensitivity_notes import said_before, said_once
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.jobs.work import Work
from bayeskit.marginal_likelihood.relabelling import over_all_labellings
from bayeskit.model.prior_constants import PriorConstant, prior_constants
from bayeskit.model.snapshot import restored
from bayeskit.results.log_evidence import LABELS, LogEvidence
from bayeskit.results.records import Posterior

__all__ = ["Slopes", "slopes_of_evidence"]

MOST = 50  # entries of an array above which they are moved together
STEP = 0.4  # of a number, or of its logarithm where it is a scale
NEAR = 1e-2  # step at draws

type Slopes = tuple[dict[str, tuple[Any, ...]], list[str]]  # rows by name, and what is to be said
type _Rows = tuple[dict[str, tuple[Any, ...]], list[tuple[str, str]]]  # and why some are missing
type _Number = tuple[str, str]  # of a model


def slopes_of_evidence(posteriors: Mapping[str, Posterior], work: Work) -> dict[str, Slopes]:
    """Of each posterior a row for every number of its priors, and what is to be said."""
    models = {name: _Constants.of(post) for name, post in posteriors.items()}
    jobs = {f"{name} {n}": (name, n) for name, of in models.items() for n in of.constants if of.takes_long(n)}
    done = work.results(_rows_of, dict(posteriors), jobs, "numbers", lambda job: models[job[0]].rows(job[1]))
    found = dict(zip(jobs.values(), done, strict=True))
    slopes: dict[str, Slopes] = {}
    for name, of in models.items():
        parts = [found[name, n] if (name, n) in found else of.rows(n) for n in of.constants]
        refusals = said_once(refusal for _, refused in parts for refusal in refused)
        slopes[name] = {k: row for rows, _ in parts for k, row in rows.items()}, [*of.notes, *refusals]
    return slopes


def _rows_of(posteriors: Mapping[str, Posterior]) -> Callable[[_Number], _Rows]:
    known: dict[str, _Constants] = {}

    def rows(job: _Number) -> _Rows:
        name, constant = job
        if name not in known:
            known[name] = _Constants.of(posteriors[name])
        return known[name].rows(constant)

    return rows


@dataclass(frozen=True, eq=False)
class _Constants:
    """The numbers that the priors of one posterior are written with, and how its evidence changes with them."""

    post: Posterior
    constants: Mapping[str, PriorConstant]
    notes: list[str]
    prior: PriorAtDraws
    evidence: EvidenceOfPriors | None  # None where there are draws only

    @classmethod
    def of(cls, given: Posterior) -> _Constants:
        with restored(given.snapshot):
            constants = prior_constants(given.model)
            each = list(constants.values())
            notes = list(said_before(given, each, MOST))
            post = over_all_labellings(given)
            prior = PriorAtDraws.of(post)
            closed = in_closed_form(post) and math.isfinite(post.log_evidence.value)
            evidence = evidence_of_priors(post, each, nearby=True) if closed else None
            return cls(post, constants, notes, prior, evidence)

    def takes_long(self, name: str) -> bool:
        """Whether there are integrals to be taken with other values of a number."""
        if self.evidence is None:
            return False
        with restored(self.post.snapshot):
            return effort(self.evidence, self.constants[name]) is not Effort.LITTLE

    def rows(self, name: str) -> _Rows:
        """Of a number, or of each entry of an array."""
        with restored(self.post.snapshot):
            return self._rows(self.constants[name])

    def _rows(self, constant: PriorConstant) -> _Rows:
        rows: dict[str, tuple[Any, ...]] = {}
        refusals: list[tuple[str, str]] = []
        scale = self.prior.is_scale(constant.name, constant.value)
        for name, mask in _entries(constant):
            value = constant.value[mask]
            one = float(value.flat[0]) if np.all(value == value.flat[0]) else math.nan
            path = _Path(constant, mask, scale, 1.0 if scale else max(float(np.abs(value).max()), 1.0))
            label = "estimated" if self.evidence is None else "quadrature"  # where there is no closed form
            try:
                if self.evidence is not None:
                    slope, error, label = _exact(path, self.prior, self.evidence, self.post.log_evidence)
                else:
                    slope, error = _over_draws(path, self.prior)
            except BayeskitError as refused:
                slope, error = math.nan, math.inf
                refusals.append((name, str(refused)))
            unit = one if scale else path.unit
            rows[name] = (one, slope / unit, error / abs(unit), label, slope * math.log(2) if scale else math.nan)
        return rows, refusals


def _entries(constant: PriorConstant) -> Iterator[tuple[str, np.ndarray]]:
    """The entries that move by themselves, each as a mask, or all."""
    shape = constant.value.shape
    if constant.value.size == 1 or constant.value.size > MOST:
        yield constant.name, np.ones(shape, dtype=bool)
        return
    for index in np.ndindex(shape):
        (mask := np.zeros(shape, dtype=bool))[index] = True
        yield f"{constant.name}[{', '.join(map(str, index))}]", mask


@dataclass(frozen=True)
class _Path:
    """A number on its way: η eᵗ where it is a scale, else η + t · unit."""

    constant: PriorConstant
    mask: np.ndarray
    scale: bool
    unit: float

    def at(self, t: float) -> np.ndarray:
        value = self.constant.value
        return np.where(self.mask, value * math.exp(t) if self.scale else value + t * self.unit, value)


def _exact(
    path: _Path, prior: PriorAtDraws, evidence: EvidenceOfPriors, known: LogEvidence
) -> tuple[float, float, str]:
    """The derivative in t at zero, by differences of evidences, its error and label."""
    labels = {known.label}

    def function(t: float) -> LogEvidence:
        if t and (why := prior.why_not(path.constant.name, path.at(t))):
            raise ModelError(f"it does not move by itself: {why}")
        found = known if t == 0 else evidence(path.constant, path.at(t))
        if not math.isfinite(found.value):
            raise ModelError(found.reason or "there is no evidence beside it")
        labels.add(found.label)
        return found

    slope, error = derivative(function, STEP, path.constant.is_an_end)
    return slope, error, max(labels, key=LABELS.index)


def _over_draws(path: _Path, prior: PriorAtDraws) -> tuple[float, float]:
    """The derivative in t at zero, as the mean over draws of that of the log prior density."""
    if path.constant.is_an_end:
        raise ModelError("it is the end of a support: draws say nothing of what lies beyond; use a fit by quadrature")
    if why := next((why for t in (-2, 2) if (why := prior.why_not(path.constant.name, path.at(t * NEAR)))), ""):
        raise ModelError(f"it does not move by itself: {why}")
    one, two = (
        prior.log_density(path.constant.name, path.at(h)) - prior.log_density(path.constant.name, path.at(-h))
        for h in (NEAR, 2 * NEAR)
    )
    score = ((8 * one - two) / (12 * NEAR)).reshape(prior.shape)
    if not np.all(np.isfinite(score)):
        raise ModelError("the log density of the prior has no derivative at some draw")
    if (k := _pareto(score)) > HEAVY:
        remedy = "multiply what is scaled by its scale (non-centred), or use a fit by quadrature"
        raise ModelError(f"few draws decide on its mean, which has no standard error (Pareto k {k:.2f}): {remedy}")
    error = float(array_stats.mcse(score, method="mean")) if np.ptp(score) > 0 else 0.0
    return float(score.mean()), error


def _pareto(score: np.ndarray) -> float:
    """Of the heavier tail; −∞ where its largest values are one and the same."""
    try:
        return float(array_stats.pareto_khat(score))
    except ValueError:
        return -math.inf
