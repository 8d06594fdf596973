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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.chunks.pieces import Piece, kept_pieces
from bayeskit.chunks.pieces_on_workers import computed_piece
from bayeskit.errors import DataError, OptionError
from bayeskit.graphs.rewriting import substitute
from bayeskit.jobs.clients import current_client, is_lazy, require_client
from bayeskit.point_estimates.chunk_steps import Build, ChunkExpectation, ChunkStep
from bayeskit.point_estimates.em_on_workers import PiecesOnWorkers
from bayeskit.point_estimates.em_problem import Expectation, Iteration, Problem
from bayeskit.point_estimates.em_reading import Gathered, Opening, SampledRows, read_chunk
from bayeskit.point_estimates.m_step import MStep
from bayeskit.point_estimates.moment_sums import MomentSums, compensated
from bayeskit.point_estimates.q_function import Expected, log_prior_of
from bayeskit.point_estimates.saved_expectations import SavedExpectations
from bayeskit.terminal import counted_aloud
from bayeskit.types import Graph, Point

__all__ = ["ChunkedProblem", "chunked_problem"]

HELD = 400_000_000  # bytes of columns that stay in memory; chunks beyond are read again in every iteration


@dataclass(frozen=True, eq=False)
class _Part:
    """A piece of the data: the E steps of its chunks, or itself where it is read again."""

    piece: Piece | None  # none of what is held
    steps: tuple[ChunkStep, ...]
    mark: str = ""  # of a file that is read again


class PiecesHere:
    """Reads pieces one after another, and keeps as many E steps as there is room for."""

    def __init__(self, opening: Opening, pieces: Iterator[Piece], marked: bool, bar: bool) -> None:
        self.opening, self.facts, self.sample, self.held = opening, Gathered(), SampledRows(), 0
        self.marked = marked
        self.marks: list[str] = []
        with counted_aloud("reading chunks", lambda: self.facts.rows, "rows", bar):
            self.parts = [self._part(piece, number) for number, piece in enumerate(pieces)]

    def _part(self, piece: Piece, number: int) -> _Part:
        steps, size, read = [], 0, computed_piece(piece) if self.marked else piece
        if self.marked:
            self.marks.append(read.mark)
        for place, (rows, identity) in enumerate(() if read.has_no_rows else read.chunks()):
            if self.opening.rows is None:
                self.opening, self.sample = self.opening.begun(rows), SampledRows.of(rows)
            step, facts = read_chunk(self.opening, rows, identity, number + place)
            self.facts.add(facts)
            self.sample = self.sample.with_rows(rows)
            size += step.size
            if self.held + size <= HELD:
                steps.append(step)
            del step, facts  # graphs are in cycles, and hold the data of the chunk: what lives is not looked at again
            gc.collect(1)
        if self.held + size <= HELD:
            self.held += size
            return _Part(None, tuple(steps))
        return _Part(piece, (), piece.mark if piece.is_file else "")

    def expectations(self, point: Point) -> Iterator[ChunkExpectation]:
        """The E steps of all chunks in their order."""
        for part in self.parts:
            for step in part.steps:
                yield step.run(point)
            if part.piece is None:
                continue
            if part.mark and part.piece.mark != part.mark:
                raise DataError(f"{part.piece.name} was changed while it was read")
            for rows, _ in part.piece.chunks():
                found = self.opening.built(rows).step.run(point)
                gc.collect(1)
                yield found


class ChunkedProblem(Iteration):
    """A model of rows that come in chunks; the ``sample`` of all rows is where starts come from."""

    has_rows = False

    def __init__(self, read: PiecesHere | PiecesOnWorkers, saved: SavedExpectations | None = None) -> None:
        assert read.sample.rows is not None
        self.saved = saved
        self.read, self.kinds, self.some = read, read.facts.kinds, read.facts.some
        self.sample = Problem(read.opening.build(read.sample.rows.data), read.opening.objective)
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

    def going_on(self) -> AbstractContextManager[None]:
        return nullcontext() if self.saved is None else self.saved.opened()

    def expectation(self, point: Point) -> Expectation:
        return self._expectation(point) if self.saved is None else self.saved.at(point, self._expectation)

    def _expectation(self, point: Point) -> Expectation:
        found = []
        for each in self.read.expectations(point):
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
    build: Build,
    chunks: Any,
    *,
    dim: str | None,
    objective: str,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    progressbar: bool = False,
) -> ChunkedProblem:
    """Read all chunks once; DataError or NotAdditive, which name the chunk, where they do not add up.

    They are read, and stay, on the workers of a ``client``; data of Dask on those of the current one.
    """
    if isinstance(build, pm.Model) or not callable(build):
        raise OptionError("with chunks=, give the function that builds the model of one: em(build, chunks=...)")
    opening, pieces = Opening(build, objective), kept_pieces(chunks, dim)
    client = require_client(client) or (current_client() if is_lazy(chunks) else None)
    read: PiecesHere | PiecesOnWorkers
    if client is None:
        read = PiecesHere(opening, pieces, checkpoint is not None, progressbar)
    else:
        read = PiecesOnWorkers(client, opening, list(pieces), HELD, checkpoint is not None, progressbar)
    if read.sample.rows is None:
        raise DataError("there are no chunks")
    if checkpoint is None:
        return ChunkedProblem(read)
    return ChunkedProblem(read, SavedExpectations.from_file(Path(checkpoint), build, objective, read.marks))
