r"""Expectation–maximisation over chunks of rows: the E step is a map over chunks, the M step one of their sums.

.. math:: Q(\phi) = \log p(\phi) + \sum_p b_p(\phi) \sum_{\text{chunks}} \sum_{n \in c} r_n y_{np}

Finite variables are those of a row: an indicator, or a chain along the other axis, as one along the rows cannot be cut.
Each chunk gives the weighted moments of its rows about their own mean, and its part of the log density; moved to one
centre and added in the order of the chunks, they are those of all rows (:mod:`bayeskit.point_estimates.moment_sums`).
The function b may differ between chunks, where a column is constant in some: Q is the sum of one for each kind.
Starts are found from every k-th row, 10,000 at most and all where there are fewer; each is climbed on all rows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.chunks.pieces import Piece, pieces_of
from bayeskit.chunks.rows import ChunkRows, column_kinds
from bayeskit.chunks.terms import NotAdditive
from bayeskit.errors import DataError, OptionError
from bayeskit.graphs.rewriting import substitute
from bayeskit.point_estimates.chunk_steps import Build, ChunkExpectation, ChunkStep, ReducedQ, RowTrial, built_of
from bayeskit.point_estimates.em_problem import Expectation, Iteration, Problem
from bayeskit.point_estimates.m_step import MStep
from bayeskit.point_estimates.moment_sums import MomentSums, compensated
from bayeskit.point_estimates.q_function import Expected, log_prior_of
from bayeskit.terminal import counted_aloud
from bayeskit.types import Graph, Point

__all__ = ["ChunkedProblem", "chunked_problem"]

HELD = 400_000_000  # bytes of columns that stay in memory; chunks beyond are read again in every iteration
KINDS = 16  # functions of moments
SAMPLE = 10_000  # rows that starts are found from
NUMBERS = 2_000_000  # in these


@dataclass(frozen=True, eq=False)
class _Part:
    """A piece of the data: the E steps of its chunks, or itself where it is read again."""

    piece: Piece | None  # none of what is held
    steps: tuple[ChunkStep, ...]
    mark: str = ""  # of a file that is read again


@dataclass(frozen=True, eq=False)
class _Sample:
    """Every ``stride``-th of all rows."""

    most: int
    rows: ChunkRows | None = None
    places: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    stride: int = 1
    seen: int = 0

    def with_rows(self, rows: ChunkRows) -> _Sample:
        own = np.arange(self.seen, self.seen + len(rows))
        chosen = own[own % self.stride == 0]
        found, places = self.rows, np.concatenate([self.places, chosen])
        if len(chosen):
            taken = rows.take(chosen - self.seen)
            found = taken if found is None else found.followed_by(taken)
        stride = self.stride
        while len(places) > self.most:
            stride *= 2
            left = np.flatnonzero(places % stride == 0)
            assert found is not None
            found, places = found.take(left), places[left]
        return _Sample(self.most, found, places, stride, self.seen + len(rows))


class _Reader:
    """Reads pieces in their order, tries whether they add up, and keeps as many E steps as there is room for."""

    def __init__(self, build: Build, objective: str) -> None:
        self.build, self.objective = build, objective
        self.trial: RowTrial | None = None
        self.sample = _Sample(SAMPLE)
        self.kinds: dict[str, ReducedQ] = {}
        self.some: list[ChunkExpectation] = []
        self.columns: dict[str, str] = {}
        self.seen: set[Any] = set()
        self.held = 0

    def part(self, piece: Piece) -> _Part:
        """A piece of the data."""
        steps, size = [], 0
        for rows, identity in piece.chunks():
            if identity is not None and identity in self.seen:
                raise DataError(f"the chunk {identity!r} was added before; it is not counted twice")
            self.seen.add(identity)
            step = self._step(rows)
            size += step.size
            if self.held + size <= HELD:
                steps.append(step)
            del step  # graphs are in cycles, and hold the data of the chunk: what lives now is not looked at again
            gc.collect(1)
        if self.held + size <= HELD:
            self.held += size
            return _Part(None, tuple(steps))
        return _Part(piece, (), piece.mark if piece.is_file else "")

    def _step(self, rows: ChunkRows) -> ChunkStep:
        """The E step of a chunk, once it is known to add up with those before it."""
        rows.require_like(self.columns)
        self.columns = self.columns or column_kinds(rows)
        if self.trial is None:
            self.trial = RowTrial(self.build, rows, self.objective)
            self.sample = _Sample(_most(rows))
        built = built_of(self.build, rows, self.objective)
        number = len(self.some)
        point = self.trial.require_additive(built, number)
        self.kinds.setdefault(built.step.sign, built.q)
        if len(self.kinds) > KINDS:
            raise NotAdditive(
                f"what Q is as a function of sums over rows differs between chunks, up to {rows.name} in {KINDS + 1} "
                "ways: columns that are constant in a chunk are not told from numbers of the model, and data that are "
                "no columns are not summed up; give larger chunks, or rows in another order"
            )
        self.some.append(built.step.at_some_weights(point, number))
        self.sample = self.sample.with_rows(rows)
        return built.step


class ChunkedProblem(Iteration):
    """A model of rows that come in chunks; the ``sample`` of all rows is where starts come from."""

    has_rows = False

    def __init__(self, reader: _Reader, parts: Sequence[_Part]) -> None:
        assert reader.sample.rows is not None
        self.build, self.objective, self.kinds = reader.build, reader.objective, reader.kinds
        self.parts, self.some = tuple(parts), reader.some
        self.sample = Problem(self.build(reader.sample.rows.data), self.objective)
        self.data, self.with_prior = self.sample.data, self.sample.with_prior

    @cached_property
    def m_step(self) -> MStep:
        data = self.data
        terms = [log_prior_of(data)] if self.with_prior else []
        inputs: list[Graph] = []
        for q in self.kinds.values():
            terms += substitute([q.total], {v: data.values[n] for n, v in q.values.items()})
            inputs += q.inputs
        expected = Expected(data, pt.add(*terms, pt.constant(0.0)), inputs, (), ())
        return MStep(expected, self.sample.model, self._statistics(self.some))

    def expectation(self, point: Point) -> Expectation:
        found = []
        for each in self._expectations(point):
            found.append(each)
            if not np.isfinite(found[-1].log_likelihood):
                return Expectation(found[-1].log_likelihood, found[-1].log_prior)
        likelihood = float(compensated([np.array(f.log_likelihood) for f in found]))
        counts = [None if c[0] is None else compensated(c) for c in zip(*[f.counts for f in found], strict=True)]
        return Expectation(likelihood, found[0].log_prior, self._statistics(found), counts)

    def completed(self, start: Mapping[str, Any]) -> Point:
        return self.sample.completed(start)

    def started(self, number: int, rng: np.random.Generator) -> Point:
        return self.sample.started(number, rng)

    def _expectations(self, point: Point) -> Iterator[ChunkExpectation]:
        """The E steps of all chunks in their order."""
        for part in self.parts:
            for step in part.steps:
                yield step.run(point)
            if part.piece is None:
                continue
            if part.mark and part.piece.mark != part.mark:
                raise DataError(f"{part.piece.name} was changed while it was read")
            for rows, _ in part.piece.chunks():
                found = built_of(self.build, rows, self.objective).step.run(point)
                gc.collect(1)
                yield found

    def _statistics(self, found: Sequence[ChunkExpectation]) -> list[np.ndarray]:
        """The values of the inputs of Q, of all chunks together."""
        result: list[np.ndarray] = []
        for sign in self.kinds:
            own = [f for f in found if f.sign == sign]
            for parts in zip(*[f.moments for f in own], strict=True):
                together = MomentSums.added(parts)
                result += [together.centre, *together.groups]
            result += [compensated(each) for each in zip(*[f.weights for f in own], strict=True)]
        return result


def chunked_problem(
    build: Build, chunks: Any, *, dim: str | None, objective: str, progressbar: bool = False
) -> ChunkedProblem:
    """Read all chunks once; DataError or NotAdditive, which name the chunk, where they do not add up."""
    if isinstance(build, pm.Model) or not callable(build):
        raise OptionError("with chunks=, give the function that builds the model of one: em(build, chunks=...)")
    reader = _Reader(build, objective)
    with counted_aloud("reading chunks", lambda: reader.sample.seen, "rows", progressbar):
        parts = [reader.part(piece) for piece in pieces_of(chunks, dim)]
    if reader.trial is None:
        raise DataError("there are no chunks")
    return ChunkedProblem(reader, parts)


def _most(rows: ChunkRows) -> int:
    """How many rows of this kind the sample has."""
    numbers = sum(np.size(v) for v in rows.arrays().values()) / len(rows)
    return max(min(SAMPLE, int(NUMBERS / max(numbers, 1))), 2)
