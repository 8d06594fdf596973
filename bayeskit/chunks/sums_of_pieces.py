"""Pieces added up side by side, or with a checkpoint, so that no digit depends on who finished first.

The first piece tells what the model is. Each of the others gives a sum of its own, from nothing but itself and what the
first one told; eight of these after each other in their order make one, eight of such the next, up to the last. Where
a worker ends, what it had is made again from the same pieces, and is the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymc as pm

from bayeskit.chunks.pieces import Piece
from bayeskit.chunks.saved_sums import SavedSums
from bayeskit.chunks.sums import ChunkSum
from bayeskit.errors import BayeskitError, DataError
from bayeskit.jobs.clients import is_lazy
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
    saved = SavedSums.of(checkpoint)
    done: list[str] = []
    with counted_aloud("adding up pieces", lambda: len(done), "pieces", progressbar):
        if client is not None:
            return _on_workers(client, build, list(pieces), saved, done)
        return _in_a_tree(_here(build, pieces, saved, done))


def _here(
    build: Callable[[Any], pm.Model], pieces: Iterable[Piece], saved: SavedSums, done: list[str]
) -> Iterator[ChunkSum]:
    """The sum of each piece, one after another."""
    start = None
    with saved.file() as file:
        for number, piece in enumerate(pieces):
            mark = saved.mark(piece)
            if start is None:
                found = start = saved.start(build, mark) or _sum_of(ChunkSum(build), piece)
            else:
                found = saved.sum_of(mark) or _next_sum(start, piece, number)
            if mark not in saved.held:
                saved.write(file, piece, mark, found)
            done.append(piece.name)
            yield _whole(found, start)


def _in_a_tree(sums: Iterable[ChunkSum]) -> ChunkSum:
    """The sum of sums, eight at a time, as :func:`_on_workers` has it."""
    levels: list[list[ChunkSum]] = []

    def add(found: ChunkSum, level: int) -> None:
        if level == len(levels):
            levels.append([])
        levels[level].append(found)
        if len(levels[level]) == TOGETHER:
            full, levels[level] = levels[level], []
            add(_together(full), level + 1)

    for found in sums:
        add(found, 0)
    if not levels:
        raise DataError("there are no chunks")
    level = 0
    while level < len(levels) - 1:
        if levels[level]:
            levels[level + 1].append(_together(levels[level]))
        level += 1
    return _together(levels[-1])


def _on_workers(
    client: Any, build: Callable[[Any], pm.Model], pieces: list[Piece], saved: SavedSums, done: list[str]
) -> ChunkSum:
    if not pieces:
        raise DataError("there are no chunks")
    token = uuid4().hex[:12]
    marks = [saved.mark(piece) for piece in pieces]
    known = saved.start(build, marks[0])
    given = ChunkSum(build) if known is None else known
    start = sent(client, given, f"bayeskit-start-{token}")
    if known is None:
        start = _submitted(client, f"bayeskit-chunk-{token}-0", _first_sum, start, pieces[0], 0)
    leaves = [start]
    for number, (piece, mark) in enumerate(zip(pieces[1:], marks[1:], strict=True), 1):
        key = f"bayeskit-chunk-{token}-{number}"
        held = saved.sum_of(mark)
        leaves.append(
            _submitted(client, key, _next_sum_or_error, start, piece, number)
            if held is None
            else sent(client, held, key)
        )
    root = _tree(client, token, start, leaves)
    # What an answer is asked of, not the sums, comes here: of a hundred workers, the sums are added where they are.
    errors = [client.submit(_error_of, leaf, key=f"bayeskit-error-{token}-{k}") for k, leaf in enumerate(leaves)]
    places = {error.key: k for k, error in enumerate(errors)}
    with saved.file() as file:
        for which in ([errors[0]], errors[1:]):  # of the first one all lines of a checkpoint speak
            for future in finished_futures(client, {e: pieces[places[e.key]].name for e in which}):
                k = places[future.key]
                if (error := result_of(client, future)) is not None:
                    raise error
                if file is not None and marks[k] not in saved.held:
                    saved.write(file, pieces[k], marks[k], result_of(client, leaves[k]))
                done.append(pieces[k].name)
    found = result_of(client, root)
    if isinstance(found, _Refused):
        raise found.error
    return replace(found, build=build)


def _tree(client: Any, token: str, start: Any, futures: list[Any]) -> Any:
    level = 0
    while len(futures) > 1 or not level:
        futures = [
            client.submit(
                _together_or_error, start, *futures[k : k + TOGETHER], key=f"bayeskit-sum-{token}-{level}-{k}"
            )
            for k in range(0, len(futures), TOGETHER)
        ]
        level += 1
    return futures[0]


def _submitted(client: Any, key: str, function: Callable[..., Any], start: Any, piece: Piece, number: int) -> Any:
    """A task that reads a piece; data of Dask are computed first, by tasks of theirs, where they lie."""
    values = client.compute(piece.source) if is_lazy(piece.source) else None
    own = piece if values is None else replace(piece, source=None)
    return client.submit(function, start, own, number, values, key=key)


@dataclass(frozen=True)
class _Refused:
    """The error of a piece, as a value: it is no fault of the worker, which would try again."""

    error: BayeskitError


def _error_of(found: ChunkSum | _Refused) -> BayeskitError | None:
    return found.error if isinstance(found, _Refused) else None


def _first_sum(start: ChunkSum, piece: Piece, _: int, values: Any) -> ChunkSum | _Refused:
    with alone_in_process():
        return _or_error(lambda: _sum_of(start, _with_values(piece, values)))


def _next_sum_or_error(start: ChunkSum | _Refused, piece: Piece, number: int, values: Any) -> ChunkSum | _Refused:
    if isinstance(start, _Refused):
        return start
    with alone_in_process():
        return _or_error(lambda: _next_sum(start, _with_values(piece, values), number))


def _together_or_error(start: ChunkSum | _Refused, *parts: ChunkSum | _Refused) -> ChunkSum | _Refused:
    sums = []
    for part in parts:
        if isinstance(part, _Refused) or isinstance(start, _Refused):
            return start if isinstance(start, _Refused) else part
        sums.append(_whole(part, start))
    with alone_in_process():
        return _or_error(lambda: _together(sums))


def _or_error(function: Callable[[], ChunkSum]) -> ChunkSum | _Refused:
    try:
        return function()
    except BayeskitError as error:
        return _Refused(error)


def _with_values(piece: Piece, values: Any) -> Piece:
    source = piece.source if values is None else values
    # What came over a connection lies anywhere in what was received, and PyTensor takes no array that is not aligned.
    return piece if isinstance(source, Path) else replace(piece, source=copy.deepcopy(source))


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
        first = first.with_sum(other)
    return first
