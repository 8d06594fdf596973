"""The log evidence of models over values of a number that priors are written with.

Closed forms and weights of draws take milliseconds a value, and are found here. Where values are integrated, a job is a
value if each is a model of its own, else all values of a model, for their integrals share nodes: cut into pieces, a
curve would cost more of them, and its digits would depend on where it was cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bayeskit.comparison.evidence_of_priors import Effort, EvidenceOfPriors, effort, evidence_of_priors
from bayeskit.comparison.prior_at_draws import PriorAtDraws
from bayeskit.errors import BayeskitError, OptionError
from bayeskit.graphs.environment import silently
from bayeskit.graphs.fingerprint import digest
from bayeskit.jobs.work import Work
from bayeskit.marginal_likelihood.relabelling import over_all_labellings
from bayeskit.model.prior_constants import PriorConstant, prior_constant
from bayeskit.model.snapshot import restored
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior

__all__ = ["evidence_curves"]

ENTRY = re.compile(r"(.+)\[([\d, ]+)\]$")

type _Values = tuple[str, np.ndarray]  # of a model


def evidence_curves(
    posteriors: Mapping[str, Posterior], parameter: str, values: np.ndarray, work: Work
) -> dict[str, tuple[float, list[LogEvidence]]]:
    """Of each model that has the parameter, the value that it was written with, and its evidence with each of some.

    Raises
    ------
    OptionError
        If the parameter is an array of different numbers, or may not have one of the values.
    """
    curves = {n: curve for n, post in posteriors.items() if (curve := _Curve.of(post, parameter)) is not None}
    efforts = {name: curve.effort(values) for name, curve in curves.items()}
    jobs: dict[str, _Values] = {}
    for name, takes in efforts.items():
        if takes is not Effort.LITTLE:
            pieces = np.split(values, len(values)) if takes is Effort.APART else [values]
            jobs |= {f"{name} {digest(piece)}": (name, piece) for piece in pieces}
    long = {name: posteriors[name] for name, takes in efforts.items() if takes is not Effort.LITTLE}
    done = work.results(_over_values, (long, parameter), jobs, "values", lambda job: curves[job[0]].over(job[1]))
    found: dict[str, list[LogEvidence]] = {name: [] for name in curves}
    for (name, _), piece in zip(jobs.values(), done, strict=True):
        found[name] += piece
    return {n: (curve.chosen, found[n] if n in long else curve.over(values)) for n, curve in curves.items()}


def _over_values(given: tuple[Mapping[str, Posterior], str]) -> Callable[[_Values], list[LogEvidence]]:
    posteriors, parameter = given
    known: dict[str, _Curve] = {}

    def over(job: _Values) -> list[LogEvidence]:
        name, values = job
        if name not in known:
            curve = _Curve.of(posteriors[name], parameter)
            assert curve is not None  # or there was no job
            known[name] = curve
        return known[name].over(values)

    return over


@dataclass(frozen=True, eq=False)
class _Curve:
    """log p(y) of one model as a function of a number of its priors."""

    post: Posterior
    parameter: str
    constant: PriorConstant
    entry: tuple[int, ...] | None
    chosen: float
    prior: PriorAtDraws
    evidence: EvidenceOfPriors

    @classmethod
    def of(cls, given: Posterior, parameter: str) -> _Curve | None:
        """None where the model has no such number."""
        with restored(given.snapshot):
            constant, entry = prior_constant(given.model, parameter), None
            if constant is None and (match := ENTRY.match(parameter)):
                constant, entry = prior_constant(given.model, match[1]), tuple(int(k) for k in match[2].split(","))
            if constant is None:
                return None
            observed = given.model.rvs_to_values.values()
            if constant.container and any(value is given.model[constant.name] for value in observed):
                raise OptionError(f"{parameter} holds the data that the model is to explain: with other values, others")
            chosen = _chosen(constant, parameter, entry)
            post = over_all_labellings(given)
            prior, evidence = PriorAtDraws.of(post), evidence_of_priors(post, [constant])
            return cls(post, parameter, constant, entry, chosen, prior, evidence)

    def effort(self, values: np.ndarray) -> Effort:
        """What the values take, each of which the parameter has to be allowed."""
        with restored(self.post.snapshot):
            for value in values:
                if why := self.prior.why_not(self.constant.name, self._moved(value)):
                    raise OptionError(f"{self.parameter} cannot be {value:g}: {why}")
            return effort(self.evidence, self.constant)

    def over(self, values: np.ndarray) -> list[LogEvidence]:
        """The evidence with each value, in an order in which what was found for some serves most others."""
        with restored(self.post.snapshot):
            found = {k: self._at(values[k]) for k in _halving(np.argsort(values))}
        return [found[k] for k in range(len(values))]

    def _at(self, value: float) -> LogEvidence:
        known = self.post.log_evidence
        if value == self.chosen:
            return known
        try:
            with silently():  # at 1e300 there may be no number, which is said
                return self.evidence(self.constant, self._moved(value))
        except BayeskitError as error:
            label = "estimated" if known.label == "estimated" else "quadrature"  # no closed form there
            return LogEvidence(math.nan, math.inf, label, str(error))

    def _moved(self, value: float) -> np.ndarray:
        if self.entry is None:
            return np.full(self.constant.value.shape, value)
        (array := self.constant.value.astype(float))[self.entry] = value
        return array


def _halving(order: np.ndarray) -> list[int]:
    """The ends first: what lies between two values that were looked at whole needs less of a look; then the middles.

    A value that the nodes of others do not reach is integrated, and its nodes reach as far to one side as to the other.
    """
    places, gaps = [0, len(order) - 1], [(0, len(order) - 1)]
    for low, high in gaps:
        if high - low > 1:
            middle = (low + high) // 2
            places.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [int(order[k]) for k in dict.fromkeys(places)]


def _chosen(constant: PriorConstant, parameter: str, entry: tuple[int, ...] | None) -> float:
    value = constant.value
    if entry is not None:
        if len(entry) != value.ndim or any(k >= n for k, n in zip(entry, value.shape, strict=True)):
            raise OptionError(f"{parameter}: {constant.name} has the shape {value.shape}, and no such entry")
        return float(value[entry])
    if np.any(value != value.flat[0]):
        first = ", ".join("0" * value.ndim)
        raise OptionError(
            f"{parameter} is {value.size} different numbers: name one of them, as in '{parameter}[{first}]'"
        )
    return float(value.flat[0])
