r"""The E step of one chunk of rows, and what the M step needs of it: moments, and a part of the log density.

What of Q is no function of moments, and would need each row in the M step, is refused, and so is what is no sum over
rows: of some rows kept, those of a chunk, and those kept again, the log density has to be the sum of that of each, at
random points. Chains that run along the rows, columns standardised by the chunk, and indicators that several rows share
do not stand that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import graph_inputs

from bayeskit.chunks.labels import latent_labels
from bayeskit.chunks.reading import Reading, read_rows
from bayeskit.chunks.rows import ChunkRows
from bayeskit.chunks.template import of_rows_only
from bayeskit.chunks.tried_rows import tried_rows
from bayeskit.errors import BayeskitError, DataError, InferenceError, ModelError
from bayeskit.graphs.environment import on_one_thread
from bayeskit.graphs.fingerprint import fingerprint
from bayeskit.model.derivation import Derivations
from bayeskit.model.transforms import Natural
from bayeskit.point_estimates.em_problem import Problem, other_weights, state_counts
from bayeskit.point_estimates.moment_sums import MomentSums
from bayeskit.row_sums.terms import NotAdditive
from bayeskit.types import Graph, Point

__all__ = ["Build", "Built", "ChunkExpectation", "ChunkStep", "ReducedQ", "RowTrial", "built_of"]

CLOSE = 1e-10  # difference of log densities that is rounding, relative to their sizes
POINTS, TRIES = 2, 8  # at which they are compared

type Build = Callable[[Any], pm.Model]


@dataclass(frozen=True, eq=False)
class ReducedQ:
    """Q of a chunk as a function of φ and of its statistics; two of one ``sign`` are the same function."""

    sign: str
    total: Graph
    values: Mapping[str, Any]
    inputs: tuple[Graph, ...]  # of each moments the centre and the groups, then the weights that it depends on


@dataclass(frozen=True, eq=False)
class ChunkExpectation:
    """What the E step of a chunk gives: its moments, and sums of weights that Q depends on as they are."""

    sign: str
    log_likelihood: float
    log_prior: float
    moments: tuple[MomentSums, ...] = ()
    weights: tuple[np.ndarray, ...] = ()
    counts: tuple[np.ndarray | None, ...] = ()


@dataclass(frozen=True, eq=False)
class ChunkStep:
    """The E step of a chunk, whose rows count ``factor`` times each.

    Q is known by its ``sign``; ``used`` are the weights that it depends on as they are.
    """

    problem: Problem
    sign: str
    used: tuple[int, ...]
    factor: float

    @property
    def size(self) -> int:
        """Bytes of its columns."""
        return sum({id(m.columns): m.columns.nbytes for m in self.problem.expected.moments}.values())

    def density(self, point: Point) -> float:
        """log p(y | φ)."""
        return self.factor * self.problem.e_step(point)[0]

    def run(self, point: Point) -> ChunkExpectation:
        """The E step at a point; its digits are the same on any machine."""
        with on_one_thread():  # two threads add up a product of two vectors in two parts
            likelihood, prior, weights, inner = self.problem.e_step(point)
            if not np.isfinite(likelihood):
                return ChunkExpectation(self.sign, likelihood, prior)
            return ChunkExpectation(
                self.sign,
                self.factor * likelihood,
                prior,
                *self._sums(weights, inner),
                tuple(None if c is None else self.factor * c for c in state_counts(self.problem.data, weights)),
            )

    def at_some_weights(self, point: Point, seed: int) -> ChunkExpectation:
        """The sums with other weights, by which the forms of Q are found."""
        with on_one_thread():
            _, _, weights, inner = self.problem.e_step(point)
            return ChunkExpectation(self.sign, 0.0, 0.0, *self._sums(*other_weights(weights, inner, seed)))

    def _sums(self, weights: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> tuple[Any, Any]:
        moments = tuple(m.sums(weights, inner).scaled(self.factor) for m in self.problem.expected.moments)
        return moments, tuple(self.factor * weights[k] for k in self.used)


@dataclass(frozen=True, eq=False)
class Built:
    """A chunk with all that was read of it."""

    step: ChunkStep
    reading: Reading
    q: ReducedQ

    @property
    def problem(self) -> Problem:
        return self.step.problem

    @property
    def finite(self) -> tuple[str, ...]:
        """The variables that are summed out."""
        return tuple(s.name for s in self.problem.data.finite)


def built_of(build: Build, rows: ChunkRows, objective: str, known: Derivations) -> Built:
    """The E step of the model of some rows; an error names them. ``known`` is what was derived of other rows."""
    reading = read_rows(build, rows, known)
    if reading.model.potentials:
        name = reading.model.potentials[0].name
        raise NotAdditive(
            f"the Potential {name!r} is not known to be a sum over rows: write it as an observed variable"
        )
    try:
        problem = Problem(reading.model, objective, apart=True)
        if problem.data.absorbed:
            names = ", ".join(map(repr, problem.data.absorbed))
            raise NotAdditive(f"the density of {names} depends on a finite variable, and is no sum over rows")
        q, used = _reduced(problem)
    except BayeskitError as error:
        if isinstance(error, NotAdditive):
            raise
        faults = rows.faults()
        kind = DataError if faults else ModelError
        raise kind(f"{rows.name}: {error}{faults and f'; {faults}'}") from error
    return Built(ChunkStep(problem, q.sign, used, reading.weight), reading, q)


def _reduced(problem: Problem) -> tuple[ReducedQ, tuple[int, ...]]:
    """Q without the inputs that it does not depend on, and which weights it depends on as they are."""
    expected, data = problem.expected, problem.data
    weights = [w for s in data.sums for w in s.weights]
    count = len(expected.inputs) - len(weights) - len(expected.inner)
    inner = expected.inputs[count + len(weights) :]
    read = set(graph_inputs([expected.total]))
    # What has no statistics is of the rows all the same, and would count once for all chunks of one sign.
    addends = [set(graph_inputs([g])) for g in (expected.total.owner.inputs if expected.total.owner else ())]
    whole = [a for a in addends if a & set(data.values.values()) and not a & set(expected.inputs)]
    if whole or read & set(inner):
        raise NotAdditive(_by_row(", ".join(repr(s.name) for s in data.finite)))
    used = tuple(k for k, w in enumerate(weights) if w in read)
    inputs = (*expected.inputs[:count], *[weights[k] for k in used])
    names_of = {v: f"φ {n}" for n, v in data.values.items()} | {v: f"input {k}" for k, v in enumerate(inputs)}
    asked = [(len(m.columns), m.source and str(m.source), m.groups, m.second) for m in expected.moments]
    sign = f"{fingerprint(expected.total, names_of)} {asked} {used}"
    return ReducedQ(sign, expected.total, data.values, inputs), used


def _by_row(names: str) -> str:
    return (
        f"the expected log density given {names} is no function of sums over rows, so that each M step would need "
        "every row: give the model its rows at once, bk.em(build(data))"
    )


class RowTrial:
    """Some rows, beside which those of every chunk are tried."""

    def __init__(self, build: Build, rows: ChunkRows, objective: str, known: Derivations) -> None:
        self.build, self.objective = build, objective
        self.rows, self.known = rows, known
        self.kept = self._built(rows)
        values = list(self.kept.problem.values)
        natural, rng = Natural(self.kept.reading.model, values), np.random.default_rng(0)
        drawn = [natural.at(natural.start + rng.normal(scale=0.5, size=natural.size)) for _ in range(TRIES)]
        self.points = [p for p in drawn if np.isfinite(self.kept.step.density(p))][:POINTS]
        if not self.points:
            said = self.rows.faults() or "give its variables an initval"
            raise InferenceError(f"the density cannot be evaluated near the initial point of the model: {said}")

    def _built(self, rows: ChunkRows) -> Built:
        return built_of(self.build, rows, self.objective, self.known)

    def require_additive(self, built: Built, number: int) -> Point:
        """A point where the chunk has a density; NotAdditive where it, the ``number``-th, is no part of a sum."""
        rows, kept = built.reading.rows, self.kept
        self.rows.require_same_constants(rows)
        self._require_same_variables(built)
        places = tried_rows(rows, number)
        tried = (
            built if len(places) == len(rows) else built_of(self.build, rows.take(places), self.objective, self.known)
        )
        whole = self.rows.followed_by(tried.reading.rows).followed_by(self.rows)
        both = self._built(whole)
        self._require_uncut(both, rows.name)
        of_rows_only(kept.reading, built.reading, built.finite)
        of_rows_only(kept.reading, both.reading, built.finite)
        self._require_sums_of_weights(tried, both)
        return self._same_density(tried, both, rows)

    def _require_same_variables(self, built: Built) -> None:
        kept, name = self.kept, built.reading.rows.name
        if built.finite != kept.finite:
            had = ", ".join(kept.finite)
            raise NotAdditive(f"{name} has the finite variables {', '.join(built.finite)}, and chunks before it {had}")
        own, before = (latent_labels(b.reading.model, b.finite) for b in (built, kept))
        for dim in own.keys() | before.keys():
            one, two = own.get(dim), before.get(dim)
            if one is None or two is None or not one.equals(two):
                raise NotAdditive(
                    f"the dim {dim!r} has other labels in {name} than in the chunks before it, or others with fewer "
                    "rows: give it the labels of all chunks, the same in each"
                )

    def _require_uncut(self, both: Built, name: str) -> None:
        for few, more in zip(self.kept.problem.data.finite, both.problem.data.finite, strict=True):
            if more.kind == "chain" and few.shape[-1:] != more.shape[-1:]:
                raise NotAdditive(
                    f"the chain {more.name!r} runs along the rows of {name}, and a chain cannot be cut: let each row "
                    "be a sequence, or give the model its rows at once, bk.em(build(data))"
                )

    def _require_sums_of_weights(self, few: Built, more: Built) -> None:
        """That weights which Q depends on as they are, are sums over rows and have none of their own."""
        shapes = [[w.type.shape for s in x.problem.data.sums for w in s.weights] for x in (few, more)]
        names = [s.summed.name for s in few.problem.data.sums for _ in s.weights]
        for k in few.step.used:
            if shapes[0][k] != shapes[1][k]:
                raise NotAdditive(_by_row(repr(names[k])))

    def _same_density(self, tried: Built, both: Built, rows: ChunkRows) -> Point:
        """A point of those at which the log density of the rows together is the sum of that of each."""
        compared = []
        for point in self.points:
            once, own, found = self.kept.step.density(point), tried.step.density(point), both.step.density(point)
            if not np.isfinite(own):
                continue
            compared.append(point)
            if not abs(found - 2 * once - own) <= CLOSE * (1 + 2 * abs(once) + abs(own)):
                names = ", ".join(repr(str(rv.name)) for rv in tried.reading.model.observed_RVs)
                raise NotAdditive(
                    f"the log density of {names} does not add up over rows: what it has of {rows.name} depends on "
                    "which rows come with them; let each row have its own finite variables, number groups by labels "
                    "that stay, standardise by numbers that stay, or give the model its rows at once, "
                    "bk.em(build(data))"
                )
        if not compared:
            why = "some of its values are none that their distribution can have near the initial point, or no numbers"
            raise DataError(f"{rows.name} has no density: {rows.faults() or why}")
        return compared[0]
