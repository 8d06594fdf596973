r"""What a log evidence owes to every number that its priors are written with.

.. math::
    \frac{\partial \log p(y \mid \eta)}{\partial \eta} =
    E\!\left[\frac{\partial \log p(\theta \mid \eta)}{\partial \eta} \;\middle|\; y, \eta\right]

for each η, the others held. Of a number that may be any above zero, the elasticity η log 2 · ∂ log p(y)/∂η says by how
many nats the evidence changes, to first order, when it doubles. The log Bayes factor of two models has the derivative
of the one where only that one has the number, and the difference of both where both have it.

The expectation is taken over draws where the posterior is of draws, with its Monte Carlo standard error. Where the
evidence is exact or by quadrature, so is its derivative: central differences of it, extrapolated to no step at all,
with what the extrapolation and the errors of the evidences may be off.

Source: Gustafson (2000), "Local robustness in Bayesian analysis"; Kallioinen, Paananen, Bürkner and Vehtari (2024),
"Detecting and diagnosing prior and likelihood sensitivity with power-scaling", Statistics and Computing 34.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pymc as pm
from arviz_stats.base import array_stats

from bayeskit.arguments import RandomSeed, checked, whole_seed
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.evidence_of_priors import HEAVY, EvidenceOfPriors, evidence_of_priors, in_closed_form
from bayeskit.comparison.extrapolated_differences import derivative
from bayeskit.comparison.given_models import posterior_of
from bayeskit.comparison.prior_at_draws import PriorAtDraws
from bayeskit.comparison.sensitivity_notes import said_before, said_of_constants, said_once
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.marginal_likelihood.relabelling import over_all_labellings
from bayeskit.model.prior_constants import PriorConstant, prior_constants
from bayeskit.model.snapshot import on_its_data
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import LABELS, LogEvidence, error_of_sum
from bayeskit.results.records import Posterior

__all__ = ["Sensitivity", "sensitivity"]

MOST = 50  # entries of an array above which they are moved together
STEP = 0.4  # of a number, or of its logarithm where it is a scale
NEAR = 1e-2  # step at draws
COLUMNS = ["value", "derivative", "error", "label", "elasticity"]
FORMATS = {"value": "{:.6g}", "derivative": "{:.5g}", "error": "{:.1e}", "elasticity": "{:.4g}"}


@dataclass(frozen=True, repr=False)
class Sensitivity(DrawnResult):
    """What a log evidence, or a log Bayes factor, changes by with each number of the priors.

    Attributes
    ----------
    of : str
        What is changed, in words.
    table : pandas.DataFrame
        Indexed by ``variable.parameter`` (by model and that, of a Bayes factor; ``both`` where a number of that name
        and value is in both): ``value``, ``derivative``, ``error``, ``label``, and ``elasticity``: the change, to first
        order, when the number doubles; NaN of one that may be below zero. The largest first.
    notes : tuple of str
        Why a derivative is missing, which numbers are one and the same, and what is not normalised.
    """

    PICTURE: ClassVar[str] = "comparison.pictures.draw_sensitivity"
    FORMATS: ClassVar[Mapping[str, str]] = FORMATS

    of: str
    table: pd.DataFrame
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        text = self.table.to_string(na_rep="–", formatters={n: f.format for n, f in FORMATS.items()})
        return "\n".join(
            [f"change of {self.of} with each number of the priors", text, *(f"note: {n}" for n in self.notes)]
        )


@checked
def sensitivity(
    source: pm.Model | Posterior | Comparison,
    *,
    between: Sequence[str] | None = None,
    random_seed: RandomSeed = None,
) -> Sensitivity:
    """The derivative of a log evidence, or of a log Bayes factor, in every number that the priors are written with.

    Parameters
    ----------
    source : pymc.Model, Posterior or Comparison
        p(y) of a model; or the Bayes factor of two models of a comparison.
    between : sequence of str, optional
        The two models of a comparison, a and b, for log B_ab; by default the two with most evidence.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of a model that is not inferred yet.

    Returns
    -------
    Sensitivity

    Raises
    ------
    ModelError
        If the posterior has no draws, was loaded without its model, or a name is not among the compared models.

    Notes
    -----
    A number is a bare parameter, one within its arithmetic, or a ``pm.Data`` container; an array has a row an entry
    (above 50, one row for all of them moved alike), a number written once for several entries or variables one row.
    Exponents, whole 0 and ±1 in arithmetic, entries of matrices and what counts something are no such numbers.

    Exact: eight evidences a number, milliseconds each. By quadrature: one analysis with the numbers as variables, then
    four to fourteen sums a number over nodes that are there, one to three fits in all. A number with which a closed
    form is lost, as the ends of a Uniform(0, 1), takes as many integrals; where the slope is another on each side of an
    end, its row is NaN. Draws: the prior's density at each, a few times; the row of the end of a support is NaN,
    and of an expectation without a variance, as of the mean of effects whose sd may be zero.

    Examples
    --------
    >>> bk.sensitivity(post).table  # doctest: +SKIP
    """
    if not isinstance(source, Comparison):
        if between is not None:
            raise ModelError("between names two models of a comparison; a posterior is of one")
        rows, notes = _of_posterior(post := posterior_of(source, whole_seed(random_seed)))
        return Sensitivity("log p(y)", _ordered(rows), (*said_of_constants(post), *notes))
    return _of_bayes_factor(source, list(between or source.table.index[:2]))


def _of_bayes_factor(comparison: Comparison, names: list[str]) -> Sensitivity:
    if len(names) != 2 or names[0] == names[1]:
        raise ModelError(f"between is {names}: name two models")
    for name in names:
        comparison.log_bayes_factor(name, name)  # refuses one that is not there
    (a, (of_a, notes_a)), (b, (of_b, notes_b)) = ((n, _of_posterior(comparison.posteriors[n])) for n in names)
    rows: dict[Any, tuple[Any, ...]] = {}
    for name, row in of_a.items():
        other = of_b.get(name)
        if other is not None and other[0] == row[0]:
            sampled = np.array([row[3] == "estimated", other[3] == "estimated"])
            error = error_of_sum(np.array([row[2], other[2]]), sampled, np.ones(2))
            label = max(row[3], other[3], key=LABELS.index)
            rows["both", name] = (row[0], row[1] - other[1], error, label, row[4] - other[4])
    rows |= {(a, name): row for name, row in of_a.items() if ("both", name) not in rows}
    opposite = {(b, n): (r[0], -r[1], *r[2:4], -r[4]) for n, r in of_b.items() if ("both", n) not in rows}
    table = _ordered(rows | opposite)
    table.index = pd.MultiIndex.from_tuples(table.index, names=["model", "parameter"])
    notes = said_once((name, note) for name, of in ((a, notes_a), (b, notes_b)) for note in of)
    return Sensitivity(f"log B({a}, {b})", table, tuple(notes))


def _ordered(rows: dict[Any, tuple[Any, ...]]) -> pd.DataFrame:
    """Scales by their elasticity, other numbers by their derivative, what is missing last."""

    def rank(key: Any) -> tuple[bool, float]:
        _, slope, _, _, elasticity = rows[key]
        size = abs(elasticity) if math.isfinite(elasticity) else abs(slope)
        return (not math.isfinite(size), -size if math.isfinite(size) else 0.0)

    order = sorted(rows, key=rank)
    frame = pd.DataFrame([rows[key] for key in order], columns=COLUMNS)
    frame.index = pd.Index(order, name="parameter", tupleize_cols=False)
    return frame


@on_its_data
def _of_posterior(post: Posterior) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
    """A row for every number of the priors, and what is to be said."""
    constants = list(prior_constants(post.model).values())
    notes = list(said_before(post, constants, MOST))
    post = over_all_labellings(post)
    prior = PriorAtDraws.of(post)
    closed = in_closed_form(post) and math.isfinite(post.log_evidence.value)
    evidence = evidence_of_priors(post, constants, nearby=True) if closed else None
    rows: dict[str, tuple[Any, ...]] = {}
    refusals: list[tuple[str, str]] = []
    for constant in constants:
        scale = prior.is_scale(constant.name, constant.value)
        for name, mask in _entries(constant):
            value = constant.value[mask]
            one = float(value.flat[0]) if np.all(value == value.flat[0]) else math.nan
            path = _Path(constant, mask, scale, 1.0 if scale else max(float(np.abs(value).max()), 1.0))
            label = "quadrature" if closed else "estimated"  # where there is no closed form
            try:
                if evidence:
                    slope, error, label = _exact(path, prior, evidence, post.log_evidence)
                else:
                    slope, error = _over_draws(path, prior)
            except BayeskitError as refused:
                slope, error = math.nan, math.inf
                refusals.append((name, str(refused)))
            unit = one if scale else path.unit
            rows[name] = (one, slope / unit, error / abs(unit), label, slope * math.log(2) if scale else math.nan)
    return rows, [*notes, *said_once(refusals)]


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
