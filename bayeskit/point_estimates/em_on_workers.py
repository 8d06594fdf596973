"""The E steps of expectation–maximisation where the data lie: on the workers of a Dask cluster.

Each piece is read by a task, whose result stays on its worker: the columns, and the function of the E step. In each
iteration the parameters go there, and moments come back; they are added in the order of the chunks, so that no digit
depends on who was where. What Dask moves to another worker, writes to a disk where memory is short, or has made anew
because a worker ended, is the piece: its E steps are made of it again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any
from uuid import uuid4

import cloudpickle

from bayeskit.chunks.pieces import Piece
from bayeskit.chunks.pieces_on_workers import computed_piece, require_told, sent_piece, told_of_builder
from bayeskit.chunks.rows import ChunkRows
from bayeskit.errors import BayeskitError, DataError
from bayeskit.graphs.environment import lightly
from bayeskit.jobs.on_cluster import alone_in_process, finished_futures, pickled, result_of, sent
from bayeskit.point_estimates.chunk_steps import ChunkExpectation, ChunkStep
from bayeskit.point_estimates.em_reading import ChunkFacts, Gathered, Opening, SampledRows, read_chunk
from bayeskit.terminal import counted_aloud
from bayeskit.types import Point

__all__ = ["PiecesOnWorkers"]


@dataclass(frozen=True, eq=False)
class _Sent:
    """What is maximised, unpacked by the first task in each process that needs it."""

    held: bytes
    told: str

    @cached_property
    def opening(self) -> Opening:
        found: Opening = cloudpickle.loads(self.held)
        require_told(found.build, self.told)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Sent, (self.held, self.told)


@dataclass(frozen=True, eq=False)
class _Read:
    """A piece that was read, and its E steps if there is ``room`` for them; what is moved is the piece alone."""

    opening: Opening
    piece: Piece
    room: int
    facts: tuple[ChunkFacts, ...] = ()
    mark: str = ""  # of a file, or of any piece where there is a checkpoint
    steps: list[ChunkStep] = field(default_factory=list)

    def expectations(self, point: Point) -> list[ChunkExpectation]:
        """The E steps of its chunks; a DataError if it is a file that is another one now."""
        if self.steps or not self.facts:
            return [step.run(point) for step in self.steps]
        self.require_unchanged()
        found, steps, size = [], [], 0
        for rows, _ in self.piece.chunks():
            step = self.opening.built(rows).step
            found.append(step.run(point))
            size += step.size
            if size <= self.room:
                steps.append(step)
            del step
            gc.collect(1)
        self.steps.extend(steps if size <= self.room else ())
        return found

    def rows(self, places: Sequence[Any]) -> list[ChunkRows | None]:
        """Some rows of each chunk."""
        self.require_unchanged()
        chunks = zip(self.piece.chunks(), places, strict=True)
        return [rows.take(where) if len(where) else None for (rows, _), where in chunks]

    def require_unchanged(self) -> None:
        """A DataError if it is a file that is another one since it was read."""
        if self.piece.is_file and self.piece.mark != self.mark:
            raise _changed(self.piece.name)

    def __sizeof__(self) -> int:
        # By which Dask knows what a worker holds, and that it is not to be moved lightly.
        return sum(step.size for step in self.steps) + (0 if self.piece.is_file else _bytes_of(self.piece.source))

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.opening, self.piece, self.room, self.facts, self.mark)
        return _unpacked, (cloudpickle.dumps(parts),)


def _unpacked(held: bytes) -> _Read:
    return _Read(*cloudpickle.loads(held))


def _bytes_of(source: Any) -> int:
    from dask.sizeof import sizeof

    return int(sizeof(source))


def _changed(name: str) -> DataError:
    return DataError(f"{name} was changed while it was read")


class PiecesOnWorkers:
    """Reads pieces on the workers of a client, each by a task, and has their E steps made there.

    All of them keep ``room`` bytes of columns for each worker that there is; larger pieces are read again in every
    iteration.
    """

    def __init__(self, client: Any, opening: Opening, pieces: list[Piece], room: int, marked: bool, bar: bool) -> None:
        self.client, self.opening, self.pieces = client, opening, pieces
        self.facts, self.sample = Gathered(), SampledRows()
        self.token, self.numbers = uuid4().hex[:12], count()
        self.room = room * max(len(client.nthreads()), 1) // max(len(pieces), 1)
        self.marked = marked
        self.told = told_of_builder(opening.build)
        self.held: list[Any] = []  # futures of pieces that were read
        self.chunks: list[tuple[str, ...]] = []  # the signs of the chunks of each
        self.marks: list[str] = []
        with counted_aloud("reading chunks", lambda: self.facts.rows, "rows", bar):
            self._read()

    def expectations(self, point: Point) -> Iterator[ChunkExpectation]:
        """The E steps of all chunks in their order."""
        held = pickled(point)
        number = next(self.numbers)
        tasks = {
            self.client.submit(
                _expectations, self.held[k], self.marks[k], held, key=f"bayeskit-em-{self.token}-{number}-{k}"
            ): k
            for k, signs in enumerate(self.chunks)
            if signs
        }
        found = self._answers(tasks)
        for k, signs in enumerate(self.chunks):
            own = found.get(k, [])
            # Values that Dask computed anew are none of a file, which has a mark.
            if tuple(each.sign for each in own) != signs:
                raise _changed(self.pieces[k].name)
            yield from own

    def _read(self) -> None:
        """The first piece that has rows says what the model is; all others are read side by side."""
        said: dict[int, Any] = {}
        source = self._sent()
        while len(self.held) < len(self.pieces) and self.opening.rows is None:
            number = len(self.held)
            said |= self._said([self._reading(source, number)], number)
            rows, kinds = said[number][0]
            self.opening = replace(self.opening, rows=rows, kinds=kinds)
        source = self._sent()
        begun = len(self.held)
        said |= self._said([self._reading(source, k) for k in range(begun, len(self.pieces))], begun)
        for k in range(len(self.pieces)):
            _, facts, mark = said[k]
            for each in facts:
                self.facts.add(each)
            self.chunks.append(tuple(each.q.sign for each in facts))
            self.marks.append(mark)
        if self.opening.rows is not None:
            self._take_sample([[each.rows for each in said[k][1]] for k in range(len(self.pieces))])

    def _sent(self) -> Any:
        return sent(self.client, _Sent(pickled(self.opening), self.told), f"bayeskit-em-start-{uuid4().hex[:12]}")

    def _reading(self, source: Any, number: int) -> Any:
        own, values = sent_piece(self.client, self.pieces[number])
        key = f"bayeskit-em-chunk-{self.token}-{number}"
        future = self.client.submit(_read, source, own, number, values, self.room, self.marked, key=key)
        self.held.append(future)
        return future

    def _said(self, held: Sequence[Any], first: int) -> dict[int, Any]:
        tasks = {self.client.submit(_said_of, f, key=f"{f.key}-said"): k for k, f in enumerate(held, first)}
        return self._answers(tasks)

    def _take_sample(self, lengths: list[list[int]]) -> None:
        """The rows that would be taken were all chunks read one after another."""
        assert self.opening.rows is not None
        blank = sample = SampledRows.of(self.opening.rows)
        wanted: list[list[Any]] = []
        for own in lengths:
            wanted.append([])
            for length in own:
                wanted[-1].append(blank.chosen(length))
                blank = blank.with_chosen(None, length)
        tasks = {
            self.client.submit(_rows, self.held[k], places, key=f"bayeskit-em-sample-{self.token}-{k}"): k
            for k, places in enumerate(wanted)
            if any(map(len, places))
        }
        found = self._answers(tasks)
        for k, own in enumerate(lengths):
            for taken, length in zip(found.get(k, [None] * len(own)), own, strict=True):
                sample = sample.with_chosen(taken, length)
        self.sample = sample

    def _answers(self, tasks: Mapping[Any, int]) -> dict[int, Any]:
        """What tasks answer, by the number of their piece; an error names the piece."""
        found = {}
        for future in finished_futures(self.client, {f: self.pieces[k].name for f, k in tasks.items()}):
            answer = cloudpickle.loads(result_of(self.client, future, self.pieces[tasks[future]].name))
            if isinstance(answer, BayeskitError):
                raise answer
            found[tasks[future]] = answer
        return found


def _read(sent: _Sent, held: bytes, number: int, values: Any, room: int, marked: bool) -> _Read | BayeskitError:
    with alone_in_process(), lightly():
        try:
            opening, piece = sent.opening, computed_piece(cloudpickle.loads(held), values)
            mark = piece.mark if piece.is_file or marked else ""
            steps, facts, size = [], [], 0
            for place, (rows, identity) in enumerate(() if piece.has_no_rows else piece.chunks()):
                opening = opening.begun(rows)
                step, said = read_chunk(opening, rows, identity, number + place)
                facts.append(said)
                size += step.size
                if size <= room:
                    steps.append(step)
                del step
                gc.collect(1)
            found = _Read(opening, piece, room, tuple(facts), mark, steps if size <= room else [])
            found.require_unchanged()
            return found
        except BayeskitError as error:  # no fault of the worker, which would try again
            return error


def _said_of(read: _Read | BayeskitError) -> bytes:
    if isinstance(read, BayeskitError):
        return cloudpickle.dumps(read)
    return cloudpickle.dumps(((read.opening.rows, read.opening.kinds), read.facts, read.mark))


def _expectations(read: _Read | BayeskitError, mark: str, point: bytes) -> bytes:
    """As bytes: arrays that come over a connection by themselves are not aligned, and would be added otherwise."""
    if isinstance(read, BayeskitError):
        return cloudpickle.dumps(read)
    with alone_in_process(), lightly():
        try:
            if read.mark != mark:
                raise _changed(read.piece.name)
            return cloudpickle.dumps(read.expectations(cloudpickle.loads(point)))
        except BayeskitError as error:
            return cloudpickle.dumps(error)


def _rows(read: _Read | BayeskitError, places: Sequence[Any]) -> bytes:
    if isinstance(read, BayeskitError):
        return cloudpickle.dumps(read)
    with alone_in_process():
        try:
            return cloudpickle.dumps(read.rows(places))
        except BayeskitError as error:
            return cloudpickle.dumps(error)
