"""The sums of all chunks: one after another, or in pieces side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymc as pm

from bayeskit.chunks.pieces import kept_pieces, pieces_of
from bayeskit.chunks.sources import chunks_of
from bayeskit.chunks.sums import ChunkSum
from bayeskit.chunks.sums_of_pieces import sum_of_pieces
from bayeskit.errors import DataError
from bayeskit.jobs.clients import current_client, is_lazy, require_client
from bayeskit.terminal import counted_aloud

__all__ = ["sum_of_chunks"]


def sum_of_chunks(
    build: Callable[[Any], pm.Model],
    chunks: Any,
    *,
    dim: str | None = None,
    client: Any = None,
    checkpoint: Path | None = None,
    progressbar: bool = True,
) -> ChunkSum:
    """The sums of all chunks; see :func:`bayeskit.chunks.sources.chunks_of` for what these may be.

    Data of Dask are added up on the current client where there is one, others on the ``client`` that is given.
    """
    client = require_client(client) or (current_client() if is_lazy(chunks) else None)
    if client is not None or checkpoint is not None:
        pieces = pieces_of(chunks, dim) if client is None else kept_pieces(chunks, dim)
        return sum_of_pieces(build, pieces, client=client, checkpoint=checkpoint, progressbar=progressbar)
    found = ChunkSum(build)
    with counted_aloud("adding up chunks", lambda: found.rows, "rows", progressbar):
        for rows, identity in chunks_of(chunks, dim):
            found = found.with_chunk(rows, identity)
    if not found.chunks:
        raise DataError("there are no chunks")
    return found
