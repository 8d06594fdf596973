"""log p(y | η) of a model as a function of the numbers η that its priors are written with, without a fit from scratch.

Where the posterior is exact or by quadrature, the model is analysed once with these numbers as data, and asked again
with others. By quadrature the integrals for nearby numbers share their nodes; between two numbers at which that was
compared with an integral of its own it is believed, beyond them it is compared anew. Where the engine needs a number
for its proof, or what it finds does not fit the answer that is there, the model is written anew with each value.

Draws of a sampler are weighted by the ratio of the priors, as far as the weights have a variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from scipy import special

from bayeskit.comparison.prior_at_draws import PriorAtDraws
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.errors import BayeskitError
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.inference.exact import solved
from bayeskit.inference.ladder import answer
from bayeskit.inference.quadrature import collapsed_integral
from bayeskit.marginal_likelihood.conventions import Audit, audit, stated
from bayeskit.model.data_slots import with_constants
from bayeskit.model.prior_constants import PriorConstant, with_containers, with_values, with_variables
from bayeskit.model.snapshot import restored
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.counted_density import NotIntegrable
from bayeskit.quadrature.shared_nodes import SharedNodes
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior

__all__ = ["EvidenceOfPriors", "evidence_of_priors"]

type EvidenceOfPriors = Callable[[PriorConstant, np.ndarray], LogEvidence]

ACCEPTABLE = 1e-6  # nats that an integral over shared nodes may be off
AGREE = 1e-8  # relative, by which two ways to one number may differ beside their errors
SETS = 12  # of nodes, at most
HEAVY = 0.5  # Pareto k from which weights have no variance
CLOSED = ("exact", "quadrature")


def evidence_of_priors(post: Posterior, constants: Sequence[PriorConstant]) -> EvidenceOfPriors:
    """A function of a number and its value, the others as they are. The model has the posterior's data now."""
    if post.method not in CLOSED:
        return _Weighted(post.log_evidence, PriorAtDraws.of(post))
    model, ways = with_constants(post.model), {}
    together = _slotted(post, model, [c.name for c in constants])

    def at(constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        name = constant.name
        if name not in ways:
            alone = None if together or len(constants) == 1 else _slotted(post, model, [name])
            ways[name] = together or alone or _anew(post, model)
        return ways[name](constant, value)

    return at


def _anew(post: Posterior, model: pm.Model) -> EvidenceOfPriors:
    """Each value is a model of its own."""

    def at(constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        with lightly():
            analysis = post.analysis.analyse(with_values(model, {constant.name: value}))
        return answer(analysis, post.method).log_evidence

    return at


def _slotted(post: Posterior, model: pm.Model, names: list[str]) -> EvidenceOfPriors | None:
    """One analysis for all values; None where it is another than the posterior's, or gives another evidence."""
    try:
        with lightly():
            analysis = post.analysis.analyse(with_containers(model, names)).with_data({})
        plan, own = analysis.plan, post.analysis.plan
        if (plan.eliminated, plan.remaining) != (own.eliminated, own.remaining):
            return None
        quick = _closed_form if post.method == "exact" else partial(_over_shared_nodes, post, model, names)
        slots = _Quick(analysis, post.method, audit(analysis), quick)
        found = slots.now()
    except (BayeskitError, NotImplementedError, TypeError, ValueError):  # a number that a proof has to know
        return None
    return slots if _agree(found, post.log_evidence) else None


def _agree(a: LogEvidence, b: LogEvidence) -> bool:
    return abs(a.value - b.value) <= a.error + b.error + AGREE * (1 + abs(b.value))


type _Evidence = Callable[[Analysis], LogEvidence]


@dataclass(frozen=True, eq=False)
class _Quick:
    """What an answer takes but its proof, between values for which it agreed with a whole answer."""

    analysis: Analysis
    method: str
    audited: Audit  # the model as written
    make: Callable[[Analysis], _Evidence | None]  # a quick way for all data that one proof holds for
    ways: dict[int, _Evidence | None] = field(default_factory=dict)  # by the model that the proof is of
    # The least and the largest value of a number that were agreed on, by that model and the name of the number.
    seen: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    errors: list[float] = field(default_factory=list)  # of the whole answers
    refused: set[str] = field(default_factory=set)

    def now(self) -> LogEvidence:
        """With the numbers that the model is written with."""
        quick = self._quick(self.analysis)
        return self._whole(self.analysis) if quick is None else quick

    def _whole(self, analysis: Analysis) -> LogEvidence:
        found = answer(analysis, self.method).log_evidence
        self.errors.append(found.error)
        return found

    def _quick(self, analysis: Analysis) -> LogEvidence | None:
        if analysis.snapshot is None:
            return None
        proof = id(analysis.snapshot.model)
        if proof not in self.ways:
            self.ways[proof] = self.make(analysis)
        way = self.ways[proof]
        if way is None:
            return None
        with lightly(), restored(analysis.snapshot):
            # What a prior integrates to may change with the numbers.
            found = stated(way(analysis), (), audit(analysis) if self.audited.masses else self.audited)
        return found if found.error <= ACCEPTABLE else None

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        name, value = constant.name, np.asarray(value, dtype=float)
        moved = self.analysis.with_data({name: value})
        quick = None if name in self.refused else self._quick(moved)
        if quick is None or moved.snapshot is None:
            return self._whole(moved)
        place = id(moved.snapshot.model), name
        least, most = self.seen.get(place, (np.inf, -np.inf))
        if np.all((least <= value) & (value <= most)):
            return replace(quick, error=max(quick.error, *self.errors))
        whole = self._whole(moved)
        if _agree(quick, whole):
            self.seen[place] = np.minimum(least, value), np.maximum(most, value)
        else:
            self.refused.add(name)
        return whole


def _closed_form(first: Analysis) -> _Evidence:
    def evidence(analysis: Analysis) -> LogEvidence:
        with lightly(), on_one_thread(), restored(analysis.snapshot):
            _, components = solved(analysis)
        return LogEvidence(float(special.logsumexp([float(c.log_evidence) for c in components])), 0.0, "exact")

    return evidence


def _over_shared_nodes(post: Posterior, model: pm.Model, names: list[str], first: Analysis) -> _Evidence | None:
    """The nodes are those of the first, and of others as they are needed; the density is one of the numbers, too.

    In it they are variables. None where the numbers as variables make another plan.
    """
    with lightly(), on_one_thread():
        with restored(first.snapshot):
            made, result = collapsed_integral(first)
        analysis = post.analysis.analyse(with_variables(model, names))
        remaining, own = set(analysis.plan.remaining), set(post.analysis.plan.remaining)
        if remaining - {*names} != own:
            return None
        collapsed = collapsed_density(analysis)
        space = Unconstrained(collapsed_model(collapsed, open_circles=True), collapsed.weight)
    sets = [SharedNodes.of(result)]
    slots = [v for v in first.snapshot.values if v.name in remaining - own] if first.snapshot is not None else []

    def evidence(moved: Analysis) -> LogEvidence:
        assert moved.snapshot is not None
        numbers = {str(slot.name): np.ravel(moved.snapshot.values[slot]) for slot in slots}

        def density(points: np.ndarray) -> np.ndarray:
            whole = np.empty((len(points), space.size))
            for name, place in space.slices.items():
                whole[:, place] = numbers[name] if name in numbers else points[:, made.space.slices[name]]
            return space.log_density(whole)

        with on_one_thread(), silently():
            value, error = min((nodes.log_integral(density) for nodes in sets), key=lambda found: found[1])
        if error > ACCEPTABLE and len(sets) < SETS:
            with suppress(NotIntegrable), lightly(), on_one_thread(), restored(moved.snapshot):
                _, own_integral = collapsed_integral(moved)
                sets.append(SharedNodes.of(own_integral))
                value, error = own_integral.log_integral, own_integral.error
        return LogEvidence(value, error + post.certificate, "quadrature")

    return evidence


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Draws of the posterior, weighted by the ratio of the priors."""

    known: LogEvidence
    prior: PriorAtDraws

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        """NaN with the reason where the weights have no variance."""
        if constant.is_an_end:
            return _refused("it moves the end of a support, beyond which there are no draws")
        now = self.prior.log_density(constant.name, constant.value)
        ratio = (self.prior.log_density(constant.name, value) - now).reshape(self.prior.shape)
        if np.any(np.isnan(ratio)) or np.all(ratio == -np.inf):
            return _refused("the ratio of the priors is not a number at some draw")
        if np.ptp(ratio) == 0:
            return LogEvidence(
                self.known.value + float(ratio.flat[0]), self.known.error, "estimated", self.known.reason
            )
        shape = float(array_stats.psislw(np.maximum(ratio.ravel(), -1e300))[1])
        if not shape <= HEAVY:
            why = f"few draws carry the weight there (Pareto k above {HEAVY})"
            return _refused(f"{why}: infer the model with a value nearer to it")
        weights = np.exp(ratio - ratio.max())
        relative = float(array_stats.mcse(weights, method="mean")) / float(weights.mean())
        value_there = self.known.value + float(special.logsumexp(ratio)) - math.log(ratio.size)
        return LogEvidence(value_there, math.hypot(self.known.error, relative), "estimated", self.known.reason)


def _refused(reason: str) -> LogEvidence:
    return LogEvidence(math.nan, math.inf, "estimated", reason)
