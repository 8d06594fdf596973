"""Data of Dask, which are computed chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import xarray as xr

from bayeskit.chunks.rows import row_dim
from bayeskit.errors import DataError

__all__ = ["lazy_parts"]


def lazy_parts(data: Any, dim: str | None, name: str) -> Iterator[Any]:
    """Data of Dask, chunk by chunk along their rows, each still to be computed."""
    from dask.delayed import Delayed

    if isinstance(data, Delayed):  # has every attribute, all of them delayed
        yield data
        return
    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name or "values")
    if isinstance(data, xr.Dataset):
        along = row_dim(data, name, dim)
        start = 0
        for size in data.chunks.get(along, (data.sizes[along],)):
            yield data.isel({along: slice(start, start + size)})
            start += size
    elif hasattr(data, "blocks"):  # an array, of which a block has whole rows
        rows = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        yield from (rows.blocks[k] for k in range(rows.numblocks[0]))
    elif hasattr(data, "partitions"):  # a table
        yield from (data.partitions[k] for k in range(data.npartitions))
    else:
        raise DataError(f"{name} is {type(data).__name__}: give a table, an array, a Dataset or delayed values of Dask")
