"""Data of Dask, which are computed chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.chunks.rows import row_dim
from bayeskit.errors import DataError
from bayeskit.terminal import let_alarms_through

__all__ = ["computed", "is_empty", "lazy_parts"]


def computed(part: Any, name: str) -> Any:
    """The values of a part, computed here; a DataError names it where that fails."""
    try:
        return part.compute()
    except Exception as error:
        let_alarms_through(error)
        text = str(error).splitlines()[0] if str(error) else ""
        raise DataError(f"{name} cannot be computed: {type(error).__name__}: {text}") from error


def is_empty(values: Any) -> bool:
    """Whether a part has no rows, as what a filter leaves of a partition may have none."""
    return isinstance(values, pd.DataFrame | pd.Series | np.ndarray) and np.ndim(values) > 0 and not len(values)


def lazy_parts(data: Any, dim: str | None, name: str) -> Iterator[Any]:
    """Data of Dask, chunk by chunk along their rows, each still to be computed."""
    from dask.delayed import Delayed

    if isinstance(data, Delayed):  # has every attribute, all of them delayed
        yield data
        return
    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name or "values")
    if isinstance(data, xr.Dataset):
        data = data.unify_chunks()
        along = row_dim(data, name, dim)
        start = 0
        for size in data.chunks.get(along, (data.sizes[along],)):
            yield data.isel({along: slice(start, start + size)})
            start += size
    elif getattr(data, "ndim", 1) == 0:
        raise DataError(f"{name} is one number of Dask, which has no rows")
    elif hasattr(data, "blocks"):  # an array, of which a block has whole rows
        rows = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        yield from (rows.blocks[k] for k in range(rows.numblocks[0]))
    elif hasattr(data, "partitions"):  # a table
        table = data.to_frame() if hasattr(data, "to_frame") and getattr(data, "ndim", 2) == 1 else data
        yield from (table.partitions[k] for k in range(table.npartitions))
    else:
        raise DataError(f"{name} is {type(data).__name__}: give a table, an array, a Dataset or delayed values of Dask")
