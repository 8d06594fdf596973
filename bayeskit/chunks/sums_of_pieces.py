"""Pieces added up side by side, or with a checkpoint, so that no digit depends on who finished first.

The first piece tells what the model is. Each of the others gives a sum of its own, from nothing but itself and what the
first one told; eight of these after each other in their order make one, eight of such the next, up to the last. Where
a worker ends, what it had is made again from the same pieces, and is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import cloudpickle
import pymc as pm

from bayeskit.chunks.pieces import Piece
from bayeskit.chunks.pieces_on_workers import computed_piece, require_told, sent_piece, told_of_builder
from bayeskit.chunks.saved_sums import SavedSums, first_saved, saved
from bayeskit.chunks.sums import ChunkSum
from bayeskit.errors import BayeskitError, DataError
from bayeskit.jobs.on_cluster import alone_in_process, finished_futures, result_of, sent
from bayeskit.terminal import counted_aloud

__all__ = ["sum_of_pieces"]

TOGETHER = 8  # sums that are added one after another


def sum_of_pieces(
    build: Callable[[Any], pm.Model],
    pieces: Iterable[Piece],
    *,
    client: Any = None,
    checkpoint: Path | None = None,
    progressbar: bool = True,
) -> ChunkSum:
    """The sums of all pieces, on the workers of a Dask ``client`` or here; the digits are the same.

    Raises
    ------
    bayeskit.errors.DataError, bayeskit.errors.ModelError
        As :meth:`ChunkSum.with_chunk`, which names the piece.
    bayeskit.errors.OptionError
        If the ``checkpoint`` is of other data or of another model.
    bayeskit.errors.InferenceError
        If the cluster is lost, or a piece ends each worker that takes it.
    """
    saved = SavedSums.from_file(checkpoint, build)
    done: list[str] = []
    with counted_aloud("adding up pieces", lambda: len(done), "pieces", progressbar):
        if client is not None:
            return _on_workers(client, build, list(pieces), saved, done)
        return _in_a_tree(_here(build, pieces, saved, done), _together)


def _here(
    build: Callable[[Any], pm.Model], pieces: Iterable[Piece], saved: SavedSums, done: list[str]
) -> Iterator[ChunkSum]:
    """The sum of each piece, one after another."""
    start = ChunkSum(build)
    with saved.file() as file:
        for number, piece in enumerate(pieces):
            found, mark = _sum_and_mark(start, computed_piece(piece), number, saved.held)
            start = found if start.template is None and found.chunks else start
            saved.write(file, piece.name, mark, found)
            done.append(piece.name)
            yield _whole(found, start)


def _in_a_tree[Item](items: Iterable[Item], together: Callable[[list[Item]], Item]) -> Item:
    """All items together, eight at a time as they come: sums, or futures of sums. The digits depend on this order."""
    levels: list[list[Item]] = [[]]

    def add(item: Item, level: int) -> None:
        if level == len(levels):
            levels.append([])
        levels[level].append(item)
        if len(levels[level]) == TOGETHER:
            full, levels[level] = levels[level], []
            add(together(full), level + 1)

    for item in items:
        add(item, 0)
    rest: list[Item] = []
    for level in levels:
        rest = [together([*level, *rest])] if level or rest else []
    if not rest:
        raise DataError("there are no chunks")
    return rest[0]


def _on_workers(
    client: Any, build: Callable[[Any], pm.Model], pieces: list[Piece], saved: SavedSums, done: list[str]
) -> ChunkSum:
    token, number = uuid4().hex[:12], 0
    held = None if saved.held is None else sent(client, saved.held, f"bayeskit-saved-{token}")
    start = sent(client, _Leaf(ChunkSum(build)), f"bayeskit-start-{token}")
    work = _Submitted(client, token, held, told_of_builder(build))
    with saved.file() as file:

        def finished(leaves: dict[Any, Piece]) -> int:
            """The chunks in these; errors are raised, and sums written down, as they come."""
            chunks = 0
            # What an answer is asked of, not the sum, comes here: of a hundred workers, sums are added where they are.
            said = {client.submit(_said_of, leaf, key=f"{leaf.key}-said"): leaf for leaf in leaves}
            for future in finished_futures(client, {f: leaves[leaf].name for f, leaf in said.items()}):
                error, mark, of_piece = result_of(client, future)
                if error is not None:
                    raise error
                leaf = said[future]
                if file is not None and saved.lacks(mark):
                    saved.write(file, leaves[leaf].name, mark, result_of(client, leaf).found)
                done.append(leaves[leaf].name)
                chunks += of_piece
            return chunks

        begun = start
        for number, piece in enumerate(pieces):  # the first that has rows tells what the model is
            begun = work.leaf(start, piece, number, "first")
            if finished({begun: piece}):
                break
        others = {work.leaf(begun, p, k): p for k, p in enumerate(pieces[number + 1 :], number + 1)}
        root = work.tree(begun, [begun, *others])
        finished(others)
    found = result_of(client, root)
    if found.error is not None:
        raise found.error
    if not found.found.chunks:
        raise DataError("there are no chunks")
    return replace(found.found, build=build)


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A sum, and what its piece is known by; or the error of a piece: no fault of the worker, which would try again."""

    found: ChunkSum
    mark: str = ""
    error: BayeskitError | None = None


@dataclass(frozen=True, eq=False)
class _Submitted:
    """Tasks of one run."""

    client: Any
    token: str
    held: Any
    told: str

    def leaf(self, start: Any, piece: Piece, number: int, kind: str = "chunk") -> Any:
        """A task that reads a piece; data of Dask are computed first, by tasks of theirs, where they lie.

        Tasks of one kind that do not wait for each other stay with the scheduler until a worker is free. Were they
        given to workers at once, Dask would blame each of them for the end of the worker that it lay with.
        """
        own, values = sent_piece(self.client, piece)
        key = f"bayeskit-{kind}-{self.token}-{number}"
        return self.client.submit(_leaf, start, own, number, values, self.held, self.told, key=key)

    def tree(self, start: Any, leaves: list[Any]) -> Any:
        """The task that has the sum of all."""
        numbers = count()

        def together(group: list[Any]) -> Any:
            key = f"bayeskit-sum-{self.token}-{next(numbers)}"
            return self.client.submit(_leaves_together, start, *group, key=key)

        return _in_a_tree(leaves, together)


def _said_of(leaf: _Leaf) -> tuple[BayeskitError | None, str, int]:
    return leaf.error, leaf.mark, leaf.found.chunks


def _leaf(start: _Leaf, held_piece: bytes, number: int, values: Any, held: Any, told: str) -> _Leaf:
    if start.error is not None:
        return start
    with alone_in_process():
        try:
            require_told(start.found.build, told)
            piece = computed_piece(cloudpickle.loads(held_piece), values)
            return _Leaf(*_sum_and_mark(start.found, piece, number, held))
        except BayeskitError as error:
            return _Leaf(start.found, error=error)


def _leaves_together(start: _Leaf, *leaves: _Leaf) -> _Leaf:
    for leaf in (start, *leaves):
        if leaf.error is not None:
            return leaf
    with alone_in_process():
        try:
            return _Leaf(_together([_whole(leaf.found, start.found) for leaf in leaves]))
        except BayeskitError as error:
            return _Leaf(start.found, error=error)


def _sum_and_mark(start: ChunkSum, piece: Piece, number: int, held: Mapping[str, bytes] | None) -> tuple[ChunkSum, str]:
    """The sum of a piece, from nothing but itself and what the first one told; that which is saved as it is."""
    mark = "" if held is None else piece.mark
    if piece.has_no_rows:
        return replace(start.emptied(0), build=None, template=None), mark  # type: ignore[arg-type]
    if start.template is None:
        return (held and first_saved(held, mark, start.build)) or _sum_of(start, piece), mark
    return (held and saved(held, mark, start.build)) or _next_sum(start, piece, number), mark


def _sum_of(start: ChunkSum, piece: Piece) -> ChunkSum:
    for rows, identity in piece.chunks():
        start = start.with_chunk(rows, identity)
    if not start.chunks:
        raise DataError(f"{piece.name} is empty: it has no rows; leave it out")
    return start


def _next_sum(start: ChunkSum, piece: Piece, number: int) -> ChunkSum:
    """The sum of a piece; what it has in common with the first one is left out."""
    assert start.template is not None
    found = _sum_of(start.emptied(number), piece)
    same = found.template is not None and found.template.mark == start.template.mark
    return replace(found, build=None, template=None) if same else found  # type: ignore[arg-type]


def _whole(found: ChunkSum, start: ChunkSum) -> ChunkSum:
    return replace(found, build=start.build, template=found.template or start.template, before=0)


def _together(sums: list[ChunkSum]) -> ChunkSum:
    first, *others = sums
    for other in others:
        first = first.with_sum(other) if first.chunks and other.chunks else first if first.chunks else other
    return first
