"""log p(y | η) of a model as a function of the numbers η that its priors are written with, without a fit from scratch.

Where the posterior is exact, the model is analysed once with these numbers as data, and asked again with others:
between two numbers at which that was compared with a whole answer its proof is left out. By quadrature the evidence is
a sum over nodes (:mod:`bayeskit.comparison.evidence_on_nodes`). Where the engine needs a number for its proof, or what
it finds does not fit the answer that is there, the model is written anew with each value.

Draws of a sampler are weighted by the ratio of the priors, as far as the weights have a variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from scipy import special

from bayeskit.comparison.density_of_priors import DensityOfPriors
from bayeskit.comparison.evidence_on_nodes import PROOF, EvidenceOnNodes, agree
from bayeskit.comparison.prior_at_draws import PriorAtDraws
from bayeskit.elimination.analysis import Analysis
from bayeskit.errors import BayeskitError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.exact import solved
from bayeskit.inference.ladder import answer
from bayeskit.marginal_likelihood.conventions import Audit, audit, stated
from bayeskit.model.data_slots import with_constants
from bayeskit.model.prior_constants import PriorConstant, prior_constant, with_containers, with_values
from bayeskit.model.snapshot import restored
from bayeskit.results.log_evidence import LogEvidence, sum_of
from bayeskit.results.records import Posterior

__all__ = ["Effort", "EvidenceOfPriors", "effort", "evidence_of_priors", "in_closed_form"]

type EvidenceOfPriors = Callable[[PriorConstant, np.ndarray], LogEvidence]

ACCEPTABLE = 1e-6  # nats that a closed form without its proof may be off
HEAVY = 0.5  # Pareto k from which weights have no variance
CLOSED = ("exact", "quadrature")
ROUGH = 3e-5  # nats that an evidence by quadrature over up to three numbers, and entries one by one, is never off
UNREAD = (BayeskitError, NotImplementedError, TypeError, ValueError)  # where a proof has to know a number


class Effort(Enum):
    """What an evidence with another number takes."""

    LITTLE = "weights or a closed form"
    SHARED = "integrals, whose nodes serve other values"
    APART = "an answer of its own, whatever other values were looked at"


def in_closed_form(post: Posterior) -> bool:
    """Whether evidences of other priors are found as that of a posterior was, rather than by weights of its draws.

    Over four numbers quadrature knows one to 1e-4: of a difference of two over a small step that leaves no digit.
    """
    return post.method in CLOSED and not ROUGH < post.log_evidence.error < math.inf


def evidence_of_priors(
    post: Posterior, constants: Sequence[PriorConstant], *, nearby: bool = False
) -> EvidenceOfPriors:
    """A function of a number and its value, the others as they are. The model has the posterior's data now.

    ``nearby`` where only values close to those as written are asked for.
    """
    if not in_closed_form(post):
        return _Weighted(post.log_evidence, PriorAtDraws.of(post))
    if post.blocks:
        return _Blocks.of(post.blocks, constants, nearby)
    model = with_constants(post.model)
    return _Ways(post, model, len(constants), nearby, _way(post, model, constants, nearby))


def effort(evidence: EvidenceOfPriors, constant: PriorConstant) -> Effort:
    """What it takes; what one number takes does not depend on whether others were looked at."""
    if isinstance(evidence, _Ways):
        return effort(evidence.of(constant), constant)
    if isinstance(evidence, _Blocks):
        each = zip(evidence.ways, evidence.constants, strict=True)
        found = {effort(way, own[constant.name]) for way, own in each if constant.name in own}
        return found.pop() if len(found) == 1 else Effort.SHARED if found else Effort.LITTLE
    if isinstance(evidence, EvidenceOnNodes):
        return Effort.SHARED
    return Effort.APART if isinstance(evidence, _Anew) else Effort.LITTLE


@dataclass(frozen=True, eq=False)
class _Ways:
    """One way for all numbers, or for each its own."""

    post: Posterior
    model: pm.Model
    number: int  # of numbers
    nearby: bool
    together: EvidenceOfPriors | None
    _own: dict[str, EvidenceOfPriors] = field(default_factory=dict)

    def of(self, constant: PriorConstant) -> EvidenceOfPriors:
        name = constant.name
        if name not in self._own:
            alone = None if self.together or self.number == 1 else self._alone(constant)
            anew = _Anew(_Moved(self.post, self.model, ()), self.post.method)
            self._own[name] = self.together or alone or anew
        return self._own[name]

    def _alone(self, constant: PriorConstant) -> EvidenceOfPriors | None:
        return _way(self.post, self.model, [constant], self.nearby)

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        return self.of(constant)(constant, value)


def _way(post: Posterior, model: pm.Model, constants: Sequence[PriorConstant], nearby: bool) -> EvidenceOfPriors | None:
    """One way for some numbers; None where there is none that is quick."""
    moved = _Moved(post, model, tuple(c.name for c in constants))
    if post.method == "quadrature":
        density = DensityOfPriors.of(post, constants)
        return None if density is None else EvidenceOnNodes(post, density, moved, nearby)
    if moved.slotted is None:
        return None
    try:
        way = _Quick(moved.slotted, audit(moved.slotted))
        return way if agree(way.now(), post.log_evidence) else None
    except UNREAD:
        return None


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The sum over independent blocks, of which those change that are written with a number."""

    posts: Sequence[Posterior]
    constants: Sequence[Mapping[str, PriorConstant]]  # as each block has them, by their names in the whole model
    ways: Sequence[EvidenceOfPriors]

    @classmethod
    def of(cls, posts: Sequence[Posterior], constants: Sequence[PriorConstant], nearby: bool) -> _Blocks:
        own = [{c.name: there for c in constants if (there := _within(post.model, c))} for post in posts]
        ways = [evidence_of_priors(p, list(of.values()), nearby=nearby) for p, of in zip(posts, own, strict=True)]
        return cls(posts, own, ways)

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        each = zip(self.posts, self.constants, self.ways, strict=True)
        name = constant.name
        return sum_of([way(own[name], value) if name in own else post.log_evidence for post, own, way in each])


def _within(model: pm.Model, constant: PriorConstant) -> PriorConstant | None:
    """A number of the whole model as a part of it has it: by its first place there, or as the data of a likelihood."""
    names = [constant.name] if constant.container else constant.places
    return next((there for name in names if (there := prior_constant(model, name))), None)


@dataclass(frozen=True, eq=False)
class _Moved:
    """The analysis of a posterior's model with other numbers: as data, where the proof does not need to know them."""

    post: Posterior
    model: pm.Model
    names: tuple[str, ...]

    @cached_property
    def slotted(self) -> Analysis | None:
        """One analysis for all values; None where it is another than the posterior's."""
        try:
            with lightly():
                analysis = self.post.analysis.analyse(with_containers(self.model, self.names)).with_data({})
        except UNREAD:
            return None
        plan, own = analysis.plan, self.post.analysis.plan
        return analysis if (plan.eliminated, plan.remaining) == (own.eliminated, own.remaining) else None

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> Analysis:
        if constant.name in self.names and self.slotted is not None:
            return self.slotted.with_data({constant.name: value})
        with lightly():
            anew: Analysis = self.post.analysis.analyse(with_values(self.model, {constant.name: value}))
        return anew


@dataclass(frozen=True)
class _Anew:
    """Each value is a model of its own, which need not have a closed form where the one as written has."""

    moved: _Moved
    method: str

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        analysis = self.moved(constant, value)
        method = "quadrature" if analysis.plan.remaining else self.method
        return answer(analysis, method, random_seed=PROOF).log_evidence


@dataclass(frozen=True, eq=False)
class _Quick:
    """What an exact answer takes but its proof, between values for which it agreed with a whole answer."""

    analysis: Analysis
    audited: Audit  # the model as written
    # The least and the largest value of a number that were agreed on, by the model of a proof and the number's name.
    seen: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)  # the largest of the whole answers with other values
    refused: set[str] = field(default_factory=set)

    def now(self) -> LogEvidence:
        """With the numbers that the model is written with."""
        quick = self._quick(self.analysis)
        return answer(self.analysis, "exact", random_seed=PROOF).log_evidence if quick is None else quick

    def _whole(self, analysis: Analysis, name: str) -> LogEvidence:
        found = answer(analysis, "exact", random_seed=PROOF).log_evidence
        self.errors[name] = max(self.errors.get(name, 0.0), found.error)
        return found

    def _quick(self, analysis: Analysis) -> LogEvidence | None:
        if analysis.snapshot is None:
            return None
        with lightly(), on_one_thread(), restored(analysis.snapshot):
            _, components = solved(analysis)
            value = float(special.logsumexp([float(c.log_evidence) for c in components]))
            # What a prior integrates to may change with the numbers.
            audited = audit(analysis) if self.audited.masses else self.audited
            found = stated(LogEvidence(value, 0.0, "exact"), (), audited)
        return found if found.error <= ACCEPTABLE else None

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        name, value = constant.name, np.asarray(value, dtype=float)
        moved = self.analysis.with_data({name: value})
        quick = None if name in self.refused else self._quick(moved)
        if quick is None or moved.snapshot is None:
            return self._whole(moved, name)
        place = id(moved.snapshot.model), name
        least, most = self.seen.get(place, (np.inf, -np.inf))
        if np.all((least <= value) & (value <= most)):
            return replace(quick, error=max(quick.error, self.errors[name]))
        whole = self._whole(moved, name)
        if agree(quick, whole):
            self.seen[place] = np.minimum(least, value), np.maximum(most, value)
        else:
            self.refused.add(name)
        return whole


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
