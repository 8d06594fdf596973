"""The pieces in which data are added up side by side: each can be read by itself, and is known again by its mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.chunks.lazy_data import lazy_parts
from bayeskit.chunks.rows import ChunkRows
from bayeskit.chunks.sources import chunks_of, keyed, paths_of
from bayeskit.graphs.identity import digest_of
from bayeskit.jobs.clients import is_lazy

__all__ = ["Piece", "pieces_of"]

LAST = 65_536  # bytes


@dataclass(frozen=True, eq=False)
class Piece:
    """A file, a table, or data of Dask that are computed where the piece is read."""

    source: Any
    name: str
    dim: str | None
    key: str | None = None  # of a groupby
    lazy: bool = False  # whether its source was computed by Dask

    def chunks(self) -> Iterator[tuple[ChunkRows, Any]]:
        """Its rows, each chunk with what it is known by."""
        for rows, identity in chunks_of(self.source, self.dim, self.name):
            yield rows, identity if self.key is None else self.key

    @property
    def mark(self) -> str:
        """Of a file its path, size, time and last bytes, where Parquet has its statistics; of others a digest."""
        if not isinstance(self.source, Path):
            return digest_of([self.source, self.dim])
        files = sorted(self.source.rglob("*")) if self.source.is_dir() else [self.source]
        return digest_of([self.dim, *map(_told_of, files)])


def _told_of(file: Path) -> tuple[Any, ...]:
    if file.is_dir():
        return (str(file),)
    told = file.stat()
    with file.open("rb") as opened:
        opened.seek(max(told.st_size - LAST, 0))
        return str(file.resolve()), told.st_size, told.st_mtime_ns, opened.read()


def pieces_of(chunks: Any, dim: str | None = None, name: str = "the data") -> Iterator[Piece]:
    """The pieces of all that :func:`bayeskit.chunks.sources.chunks_of` reads, none of which is read here.

    Data of Dask come apart in their chunks or partitions, folders in their files, what is given one after another in
    what is given.
    """
    if isinstance(chunks, str | PathLike):
        yield from (Piece(path, str(path), dim) for path in paths_of(fspath(chunks)))
    elif is_lazy(chunks):
        parts = list(lazy_parts(chunks, dim, name))
        for number, part in enumerate(parts, 1):
            yield Piece(part, name if len(parts) == 1 else f"part {number} of {name}", dim)
    elif isinstance(chunks, Iterable) and not isinstance(
        chunks, pd.DataFrame | xr.Dataset | xr.DataArray | Mapping | np.ndarray
    ):
        for number, item in enumerate(chunks, 1):
            key, own = keyed(item)
            found = pieces_of(own, dim, f"chunk {number}" if key is None else key)
            yield from (replace(piece, key=key) for piece in found)
    else:
        yield Piece(chunks, name, dim)
