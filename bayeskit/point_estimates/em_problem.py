"""A model compiled for expectation–maximisation: its starts and its iterations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pymc.logprob.utils import ParameterValueError

from bayeskit.arguments import numeric
from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.model.forward_sampling import prior_points
from bayeskit.model.transforms import Natural
from bayeskit.point_estimates.complete_data import CompleteData, complete_data
from bayeskit.point_estimates.em_starts import start_weights
from bayeskit.point_estimates.m_step import Degenerate, MStep
from bayeskit.point_estimates.q_function import expected_log_density
from bayeskit.types import Point

__all__ = ["Expectation", "Iteration", "Problem", "Run", "other_weights", "state_counts"]

ROUNDING = 1e-10  # relative fall of the objective that is rounding
SETTLE = 2  # M steps with the probabilities of a start: the blocks depend on each other
EMPTY = 1e-3  # expected entries in a state, below which it is empty


@dataclass(frozen=True, eq=False)
class Expectation:
    """What an E step gives; no statistics where the density is not finite.

    ``counts`` are the expected numbers of entries in each state of each outer finite variable, None of those whose
    entries are coupled.
    """

    log_likelihood: float
    log_prior: float
    statistics: Sequence[np.ndarray] = ()
    counts: Sequence[np.ndarray | None] = ()


@dataclass(frozen=True, eq=False)
class Run:
    """Where the iterations of one start are."""

    point: Point
    trace: np.ndarray
    converged: bool
    last: Expectation

    @property
    def value(self) -> float:
        """The objective."""
        return float(self.trace[-1])


class Iteration(ABC):
    """E and M steps from one start, wherever the rows are."""

    with_prior: bool
    data: CompleteData
    has_rows = True  # whether ``data`` are all of them

    @property
    @abstractmethod
    def m_step(self) -> MStep:
        """The maximisation of Q."""

    @abstractmethod
    def expectation(self, point: Point) -> Expectation:
        """The E step at a point."""

    @abstractmethod
    def completed(self, start: Mapping[str, Any]) -> Point:
        """A start given by the user, with the initial point for what it leaves out."""

    @abstractmethod
    def started(self, number: int, rng: np.random.Generator) -> Point:
        """The point of a start: the M step of clusters of the data, or a draw from the prior."""

    def going_on(self) -> AbstractContextManager[None]:
        """What is to be open during the iterations."""
        return nullcontext()

    def climb(self, point: Point, max_iterations: int, tolerance: float) -> Run:
        """Iterations from one start; raises Degenerate."""
        trace: list[float] = []
        run: Run | None = None
        reference: Point | None = None
        while True:
            found = self.expectation(point)
            value = found.log_likelihood + found.log_prior if self.with_prior else found.log_likelihood
            if not np.isfinite(value):
                raise Degenerate("the objective, which is not finite")
            if run is not None and value < trace[-1]:
                if value < trace[-1] - ROUNDING * (1 + abs(value)):
                    fell = f"fell from {trace[-1]:.10g} to {value:.10g} in iteration {len(trace)}"
                    raise InferenceError(f"the objective {fell}: an M step was not one; please report the model")
                return replace(run, converged=True)
            trace.append(value)
            run = Run(point, np.array(trace), _settled(trace, tolerance), found)
            if run.converged or len(trace) > max_iterations:
                return run
            point = self.m_step.update(point, found.statistics)
            if not self.with_prior:
                reference = point if reference is None else reference
                self.m_step.require_spread(point, reference)

    def require_states(self, run: Run) -> None:
        """That every state has an entry in it, where only the likelihood is maximised; else raises Degenerate."""
        if self.with_prior:
            return
        for s, counts in zip(self.data.sums, run.last.counts, strict=True):
            step = s.summed
            if counts is None or round(float(np.sum(counts))) < 2 * len(step.values):
                continue
            if np.any(counts < EMPTY):
                raise Degenerate(f"state {step.values[int(np.argmin(counts))]} of {step.name}, which is empty")


class Problem(Iteration):
    """A model compiled for expectation–maximisation; of a chunk, one of many, the priors stand ``apart`` from Q."""

    def __init__(self, model: pm.Model, objective: str, *, apart: bool = False) -> None:
        self.model, self.with_prior = model, objective == "posterior"
        self.data = complete_data(model)
        if not self.with_prior:
            _require_likelihood(self.data)
        self.expected = expected_log_density(self.data, with_prior=self.with_prior and not apart)
        self.values = self.data.values

    @cached_property
    def _e_step(self) -> Any:
        weights = [g for s in self.data.sums for g in s.posterior]
        outputs = [self.data.log_likelihood, self.data.log_prior, *weights, *self.expected.inner]
        return compile_small(list(self.values.values()), outputs)

    def e_step(self, point: Point) -> tuple[float, float, list[np.ndarray], list[np.ndarray]]:
        """log p(y | φ), log p(φ), the weights and the inner weights."""
        try:
            with silently():
                likelihood, prior, *rest = self._e_step(*[point[n] for n in self.values])
        except (ParameterValueError, np.linalg.LinAlgError):
            return -np.inf, -np.inf, [], []
        number = sum(len(s.weights) for s in self.data.sums)
        return float(likelihood), float(prior), rest[:number], rest[number:]

    def expectation(self, point: Point) -> Expectation:
        likelihood, prior, weights, inner = self.e_step(point)
        if not np.isfinite(likelihood):
            return Expectation(likelihood, prior)
        return Expectation(
            likelihood, prior, self.expected.statistics(weights, inner), state_counts(self.data, weights)
        )

    @cached_property
    def initial(self) -> Point:
        """PyMC's initial point, on the supports."""
        natural = Natural(self.model, list(self.values))
        return natural.at(natural.start)

    @cached_property
    def m_step(self) -> MStep:
        _, _, weights, inner = self.e_step(self.initial)
        if not weights:
            raise InferenceError("the density cannot be evaluated at the model's initial point; give an initval")
        return MStep(self.expected, self.model, self.expected.statistics(*other_weights(weights, inner)))

    def completed(self, start: Mapping[str, Any]) -> Point:
        """A start given by the user, with the initial point for what it leaves out."""
        unknown = [n for n in start if n not in self.values]
        if unknown:
            raise OptionError(f"start has {unknown[0]!r}, which is none of {', '.join(self.values)}")
        point = dict(self.initial)
        for name, value in start.items():
            held = numeric(f"the values of start[{name!r}]", value).astype(float)
            if held.shape != np.shape(point[name]):
                raise OptionError(f"start[{name!r}] has shape {held.shape} instead of {np.shape(point[name])}")
            point[name] = held
        return point

    def started(self, number: int, rng: np.random.Generator) -> Point:
        """The point of a start: the M step of clusters of the data, or a draw from the prior."""
        weights = start_weights(self.data, number, rng)
        inner = self.e_step(self.initial)[3]
        # Clusters say nothing of a variable inside the sum over another one, and at the model's initial point its
        # components may all be alike: a saddle, which no iteration leaves.
        if weights is None or inner:
            try:
                drawn = next(iter(prior_points(self.model, 1, int(rng.integers(2**31)))))
                return {n: np.asarray(drawn[n], dtype=float) for n in self.values}
            except NotImplementedError:
                natural = self.m_step.natural
                return natural.at(natural.start + rng.normal(scale=0.5, size=natural.size))
        point = self.initial
        statistics = self.expected.statistics(weights, inner)
        for _ in range(SETTLE):
            point = self.m_step.update(point, statistics)
        return point


def other_weights(
    weights: Sequence[np.ndarray], inner: Sequence[np.ndarray], seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights, and inner weights, all positive and no two alike: a form of Q that holds for these holds for any."""
    rng = np.random.default_rng(seed)
    more, less = ([0.5 * w + rng.uniform(0.2, 0.8, size=w.shape) for w in each] for each in (weights, inner))
    return more, less


def state_counts(data: CompleteData, weights: Sequence[np.ndarray]) -> list[np.ndarray | None]:
    """The expected number of entries in each state of each outer finite variable; None where these are coupled."""
    found: list[np.ndarray | None] = []
    first = 0
    for s in data.sums:
        each = weights[first]
        first += len(s.weights)
        states = 0 if s.summed.kind == "independent" else each.ndim - 1
        axes = tuple(i for i in range(each.ndim) if i != states)
        found.append(None if s.summed.kind == "joint" else np.sum(each, axis=axes))
    return found


def _settled(trace: list[float], tolerance: float) -> bool:
    """Whether what is left to be gained is below the tolerance, if gains go on as the last two."""
    if len(trace) < 3:
        return False
    before, last = trace[-2] - trace[-3], trace[-1] - trace[-2]
    if last <= 0:
        return True
    left = last * last / (before - last) if before > last else np.inf
    return bool(max(left, last) <= tolerance * (1 + abs(trace[-1])))


def _require_likelihood(data: CompleteData) -> None:
    if data.absorbed:
        why = "it is no parameter with a likelihood of its own; use objective='posterior'"
        raise ModelError(f"the density of {', '.join(data.absorbed)} depends on a finite variable: {why}")
    seen = set().union(*[s for f, s in data.joint.scopes.items() if f not in data.values])
    unseen = [n for n in data.values if n not in seen]
    if unseen:
        why = "so that it has no likelihood; fix it, or use objective='posterior'"
        raise ModelError(f"{', '.join(unseen)} is in the prior of other variables only, {why}")
