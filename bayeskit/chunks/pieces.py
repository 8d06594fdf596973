"""The pieces in which data are added up side by side: each can be read by itself, and is known again by its mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Number
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeskit.chunks.files import DataFile, files_of
from bayeskit.chunks.lazy_data import computed, is_empty, lazy_parts
from bayeskit.chunks.rows import ChunkRows
from bayeskit.chunks.sources import TABLES, chunks_of, keyed
from bayeskit.errors import DataError, OptionError
from bayeskit.graphs.identity import digest_of
from bayeskit.jobs.clients import is_lazy

__all__ = ["Piece", "kept_pieces", "pieces_of"]

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
    def is_file(self) -> bool:
        """Whether it can be read again, and may be another one by then."""
        return isinstance(self.source, DataFile)

    @property
    def has_no_rows(self) -> bool:
        """Whether it is a partition of which a filter left nothing; of others, having no rows is an error."""
        return self.lazy and is_empty(self.source)

    @property
    def mark(self) -> str:
        """Of a file its path, size, time and last bytes, where Parquet has its statistics; of others a digest.

        Its key is part of it: a sum says which groups it has.
        """
        return digest_of([self.dim, self.key, _told_of(self.source, self.name)])


def _told_of(source: Any, name: str) -> Any:
    """What would be another of other rows: of paths, also those that delayed values are, what lies there now."""
    if isinstance(source, str | PathLike):
        return [_told_of(file, name) for file in files_of(fspath(source))]
    if isinstance(source, DataFile):
        return [source.columns, _told_of_path(source.path)]
    if is_lazy(source):  # delayed values that are data of Dask
        return _told_of(computed(source, name), name)
    if isinstance(source, list | tuple):
        return [(key, _told_of(own, name)) for key, own in map(keyed, source)]
    if isinstance(source, Mapping | np.ma.MaskedArray):
        return ChunkRows.of(source, name).data  # whose masks were held against it: a digest has none
    if isinstance(source, pd.DataFrame):
        nested = np.array([isinstance(kind, np.dtype) and kind.hasobject for kind in source.dtypes], dtype=bool)
        # Lists and arrays are told one by one.
        return [source.columns, source.loc[:, ~nested], source.loc[:, nested].to_numpy()]
    if not isinstance(source, TABLES | Number | None):
        raise OptionError(
            f"{name} is {type(source).__name__}, which nothing tells from another one: give a table, a Dataset, a "
            "mapping of arrays, an array or a path, or leave checkpoint out"
        )
    return source


def _told_of_path(path: Path) -> list[Any]:
    try:
        return [_told_of_file(file) for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _told_of_file(file: Path) -> tuple[Any, ...]:
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
        yield from (Piece(file, str(file.path), dim) for file in files_of(fspath(chunks)))
    elif is_lazy(chunks):
        parts = list(lazy_parts(chunks, dim, name))
        for number, part in enumerate(parts, 1):
            yield Piece(part, name if len(parts) == 1 else f"part {number} of {name}", dim)
    elif isinstance(chunks, Iterable) and not isinstance(chunks, TABLES):
        for number, item in enumerate(chunks, 1):
            key, own = keyed(item)
            found = pieces_of(own, dim, f"chunk {number}" if key is None else key)
            yield from (replace(piece, key=key) for piece in found)
    else:
        yield Piece(chunks, name, dim)


def kept_pieces(chunks: Any, dim: str | None = None) -> Iterator[Piece]:
    """Pieces that stay when the next is there: a generator may fill one table over and over, and is copied from."""
    for piece in pieces_of(chunks, dim):
        plain = isinstance(chunks, Iterator) and not (piece.is_file or is_lazy(piece.source))
        yield replace(piece, source=deepcopy(piece.source)) if plain else piece
