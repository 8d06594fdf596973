"""What reading the chunks of expectation–maximisation tells: of each its E step and its facts, of all a sample of rows.

The first rows say what the model is. Each chunk is read from nothing but itself and those, so that it does not matter
where: what all of them have to have in common is looked at when their facts come together, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import cloudpickle
import numpy as np

from bayeskit.chunks.rows import ChunkRows, column_kinds
from bayeskit.chunks.tried_rows import first_rows
from bayeskit.errors import DataError
from bayeskit.model.derivation import Derivations
from bayeskit.point_estimates.chunk_steps import Build, Built, ChunkExpectation, ChunkStep, ReducedQ, RowTrial, built_of
from bayeskit.row_sums.terms import NotAdditive

__all__ = ["ChunkFacts", "Gathered", "Opening", "SampledRows", "read_chunk"]

KINDS = 16  # functions of moments
SAMPLE = 10_000  # rows that starts are found from
NUMBERS = 2_000_000  # in these


@dataclass(frozen=True, eq=False)
class Opening:
    """What is maximised, and the first rows as soon as there are any: those of every chunk are tried beside them."""

    build: Build
    objective: str
    rows: ChunkRows | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    known: Derivations = field(default_factory=Derivations)  # of this process

    def begun(self, rows: ChunkRows) -> Opening:
        """With the first of some rows, unless it has others."""
        if self.rows is not None:
            return self
        return replace(self, rows=rows.take(first_rows(rows)), kinds=column_kinds(rows))

    @cached_property
    def trial(self) -> RowTrial:
        """Made once in each process."""
        assert self.rows is not None
        return RowTrial(self.build, self.rows, self.objective, self.known)

    def built(self, rows: ChunkRows) -> Built:
        """The E step of the model of some rows."""
        return built_of(self.build, rows, self.objective, self.known)

    def __reduce__(self) -> tuple[Any, ...]:
        # As bytes: arrays that come over a connection by themselves are not aligned.
        return _opened, (cloudpickle.dumps((self.build, self.objective, self.rows, self.kinds)),)


def _opened(held: bytes) -> Opening:
    return Opening(*cloudpickle.loads(held))


@dataclass(frozen=True, eq=False)
class ChunkFacts:
    """What all chunks together are told of one; ``some`` are its sums with weights that are no two alike."""

    name: str
    identity: Any
    rows: int
    q: ReducedQ
    some: ChunkExpectation


def read_chunk(opening: Opening, rows: ChunkRows, identity: Any, number: int) -> tuple[ChunkStep, ChunkFacts]:
    """The E step of a chunk that adds up with the first rows; DataError or NotAdditive, which name it, if it does not.

    ``number`` says how much of it is tried.
    """
    rows.require_like(opening.kinds)
    built = opening.built(rows)
    point = opening.trial.require_additive(built, number)
    return built.step, ChunkFacts(rows.name, identity, len(rows), built.q, built.step.at_some_weights(point, number))


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Every ``stride``-th of all rows; without ``rows`` only which these are."""

    most: int = SAMPLE
    rows: ChunkRows | None = None
    places: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    stride: int = 1
    seen: int = 0

    @classmethod
    def of(cls, rows: ChunkRows) -> SampledRows:
        """None yet, of rows of this kind: as many as there is room for."""
        numbers = sum(np.size(v) for v in rows.arrays().values()) / len(rows)
        return cls(max(min(SAMPLE, int(NUMBERS / max(numbers, 1))), 2))

    def chosen(self, length: int) -> np.ndarray:
        """Which of the next rows, so many, are taken."""
        return np.flatnonzero(np.arange(self.seen, self.seen + length) % self.stride == 0)

    def with_rows(self, rows: ChunkRows) -> SampledRows:
        """With those of a chunk that are chosen."""
        chosen = self.chosen(len(rows))
        return self.with_chosen(rows.take(chosen) if len(chosen) else None, len(rows))

    def with_chosen(self, taken: ChunkRows | None, length: int) -> SampledRows:
        """With the rows that were chosen of a chunk of a ``length``."""
        found, places = self.rows, np.concatenate([self.places, self.seen + self.chosen(length)])
        if taken is not None:
            found = taken if found is None else found.followed_by(taken)
        stride = self.stride
        while len(places) > self.most:
            stride *= 2
            left = np.flatnonzero(places % stride == 0)
            found, places = None if found is None else found.take(left), places[left]
        return SampledRows(self.most, found, places, stride, self.seen + length)


class Gathered:
    """The facts of all chunks, as they are added in their order."""

    def __init__(self) -> None:
        self.kinds: dict[str, ReducedQ] = {}
        self.some: list[ChunkExpectation] = []
        self.seen: set[Any] = set()
        self.rows = 0

    def add(self, facts: ChunkFacts) -> None:
        """One more chunk; a DataError if it was there before, NotAdditive if Q has too many forms."""
        if facts.identity is not None and facts.identity in self.seen:
            raise DataError(f"the chunk {facts.identity!r} was added before; it is not counted twice")
        self.seen.add(facts.identity)
        self.kinds.setdefault(facts.q.sign, facts.q)
        if len(self.kinds) > KINDS:
            raise NotAdditive(
                f"what Q is as a function of sums over rows differs between chunks, up to {facts.name} in {KINDS + 1} "
                "ways: columns that are constant in a chunk are not told from numbers of the model, and data that are "
                "no columns are not summed up; give larger chunks, or rows in another order"
            )
        self.some.append(facts.some)
        self.rows += facts.rows
