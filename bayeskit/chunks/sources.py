"""Where chunks come from: files, folders, stores, and whatever gives them one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from numbers import Number
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.chunks.files import DataFile, files_of, is_parquet
from bayeskit.chunks.lazy_data import computed, is_empty, lazy_parts
from bayeskit.chunks.rows import ChunkRows, row_dim
from bayeskit.errors import DataError, OptionError
from bayeskit.jobs.clients import is_lazy
from bayeskit.terminal import let_alarms_through

__all__ = ["TABLES", "chunks_of", "keyed"]

TABLES = pd.DataFrame | pd.Series | xr.Dataset | xr.DataArray | Mapping | np.ndarray

BATCH = 2_000_000  # rows of a file that are read at a time; fewer of many columns
NUMBERS = 34_000_000  # in such a batch
KINDS = "tables, Datasets, mappings of arrays, arrays, or paths of Parquet or Zarr"


def chunks_of(chunks: Any, dim: str | None = None, name: str = "the data") -> Iterator[tuple[ChunkRows, Any]]:
    """Chunks, each with what it is known by: its file and the place in it, or None.

    ``chunks`` is a table, a Dataset (in the pieces that its Dask arrays have), a mapping of arrays or an array; the
    path of a Parquet file, of a Zarr store or of a folder of Parquet files (see
    :func:`bayeskit.chunks.files.files_of`), or a pattern such as ``"day-*.parquet"``;
    or anything that gives these one after another. ``name`` is what an error calls it.
    """
    if isinstance(chunks, str | PathLike):
        for file in files_of(fspath(chunks)):
            yield from _of_file(file, dim)
    elif isinstance(chunks, DataFile):
        yield from _of_file(chunks, dim)
    elif isinstance(chunks, xr.Dataset) and chunks.chunks:
        yield from _of_pieces(chunks, dim, name)
    elif is_lazy(chunks):
        parts = list(lazy_parts(chunks, dim, name))
        for number, part in enumerate(parts, 1):
            own = name if len(parts) == 1 else f"part {number} of {name}"
            if not is_empty(values := computed(part, own)):
                yield from chunks_of(values, dim, own)
    elif isinstance(chunks, TABLES):
        yield ChunkRows.of(chunks, name, dim), None
    elif isinstance(chunks, Iterable):
        for number, item in enumerate(chunks, 1):
            if isinstance(item, Number):
                raise OptionError(f"{name} is a {type(chunks).__name__} of numbers: give {KINDS}")
            key, own = keyed(item)
            if key is not None:
                yield from ((rows, key) for rows, _ in chunks_of(own, dim, key))
            else:
                yield from chunks_of(own, dim, f"chunk {number}")
    else:
        raise OptionError(f"{name} is {'None' if chunks is None else type(chunks).__name__}: give {KINDS}")


def keyed(item: Any) -> tuple[str | None, Any]:
    """What a ``groupby`` calls a group, and its rows; of anything else None, and itself."""
    if (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[1], pd.DataFrame | pd.Series | xr.Dataset | Mapping)
    ):
        return str(item[0]), item[1]
    return None, item


def _of_file(file: DataFile, dim: str | None) -> Iterator[tuple[ChunkRows, Any]]:
    path = file.path
    if is_parquet(path):
        for rows, identity in _of_parquet(path):
            yield _with_columns(rows, file), identity
    elif path.is_dir():
        try:
            data = xr.open_zarr(path, chunks=None, consolidated=False)
        except Exception as error:
            let_alarms_through(error)
            raise _unreadable(path, error) from error
        yield from _of_pieces(data, dim, str(path), str(path))
    else:
        raise DataError(
            f"{path} is no Parquet file and no Zarr store; read it in pieces, and give these: "
            "chunks=pd.read_csv(..., chunksize=...), for example"
        )


def _with_columns(rows: ChunkRows, file: DataFile) -> ChunkRows:
    """With what the folders of a file say of its rows, which it may say itself, too."""
    for name, value in file.columns.items():
        if name not in rows.data.columns:
            rows = rows.with_column(name, value)
        elif not (rows.data[name].astype(str) == str(value)).all():
            raise DataError(f"column {name!r} of {rows.name} is not {value}, as its folder says")
    return rows


def _of_parquet(path: Path) -> Iterator[tuple[ChunkRows, Any]]:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        size = max(min(BATCH, NUMBERS // max(file.metadata.num_columns, 1)), 1)
        if not file.metadata.num_rows:
            raise DataError(f"{path} is empty: it has no rows; leave it out")
        for number, table in enumerate(_ahead(file.iter_batches(batch_size=size)), 1):
            part = "" if size >= file.metadata.num_rows else f"part {number} of "
            yield ChunkRows.of(table, f"{part}{path}"), f"{part}{path.resolve()}"
    except (OSError, ValueError) as error:
        if isinstance(error, DataError) or (
            not type(error).__module__.startswith("pyarrow") and not isinstance(error, OSError)
        ):
            raise
        raise _unreadable(path, error) from error


def _ahead(batches: Iterator[Any]) -> Iterator[pd.DataFrame]:
    """Tables of batches, of which the next is read while one is used."""

    def table() -> pd.DataFrame | None:
        batch = next(batches, None)
        if batch is None:
            return None
        # Column by column, each let go of as it is taken over: memory is that of one table, not of two.
        return pa.Table.from_batches([batch]).to_pandas(split_blocks=True, self_destruct=True)

    import pyarrow as pa

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(table)
        while (found := coming.result()) is not None:
            coming = reader.submit(table)
            yield found
            del found


def _of_pieces(
    data: xr.Dataset, dim: str | None, name: str, path: str | None = None
) -> Iterator[tuple[ChunkRows, Any]]:
    """A Dataset in the pieces in which it is held, or of as many rows as may be read at a time."""
    whole = ChunkRows.of(data.isel({d: slice(0, 1) for d in data.dims}), name, dim) if dim is None else None
    along = row_dim(data, name, dim) if whole is None else str(whole.dim)
    length = data.sizes[along]
    pieces = (data.chunks or {}).get(along)
    if not pieces:
        wide = sum(int(np.prod([n for d, n in v.sizes.items() if d != along])) for v in data.data_vars.values())
        size = max(min(BATCH, NUMBERS // max(wide, 1)), 1)
        pieces = (size,) * (length // size) + ((length % size,) if length % size else ())
    start = 0
    for number, size in enumerate(pieces, 1):
        part = name if len(pieces) == 1 else f"part {number} of {name}"
        try:
            held = data.isel({along: slice(start, start + size)}).load()
        except Exception as error:
            let_alarms_through(error)
            raise _unreadable(part, error) from error
        start += size
        yield ChunkRows.of(held, part, along), None if path is None else part.replace(name, str(Path(path).resolve()))


def _unreadable(path: Any, error: BaseException) -> DataError:
    return DataError(f"{path} cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
