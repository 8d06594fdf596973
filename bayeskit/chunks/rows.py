"""The rows of a chunk, whatever holds them: a table, a Dataset, a mapping of arrays, an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.errors import DataError
from bayeskit.jobs.clients import is_lazy

__all__ = ["ChunkRows", "column_kinds", "row_dim"]

KINDS = {"i": "numbers", "u": "numbers", "f": "numbers", "b": "truth values", "M": "dates", "m": "durations"}


@dataclass(frozen=True, eq=False)
class ChunkRows:
    """Rows of data, and what an error calls them.

    ``data`` is what a builder is given: a DataFrame, a Dataset whose rows lie along ``dim``, a mapping of arrays whose
    rows lie along their first axes, or an array.
    """

    data: Any
    name: str = "the data"
    dim: str | None = None
    _length: int = field(default=-1, repr=False)

    @classmethod
    def of(cls, data: Any, name: str, dim: str | None = None) -> ChunkRows:
        """Rows whose number is known; a DataError where nothing says what a row is, or where there is none."""
        if isinstance(data, xr.DataArray):
            data = data.to_dataset(name=data.name or "values")
        elif isinstance(data, pd.Series) and data.name is not None:
            data = data.to_frame()
        if isinstance(data, xr.Dataset):
            dim = row_dim(data, name, dim)
            found = cls(data, name, dim, data.sizes[dim])
        elif isinstance(data, pd.DataFrame):
            found = cls(data, name, None, len(data))
        elif isinstance(data, Mapping) and any(map(is_lazy, data.values())):
            raise DataError(f"{name} is a mapping of arrays of Dask: give a Dataset of them, xr.Dataset(...)")
        elif isinstance(data, Mapping):
            arrays = {k: _as_array(v, f"{k!r} of {name}") for k, v in data.items()}
            found = cls(arrays, name, None, _length(arrays, name))
        elif isinstance(data, np.ndarray) and data.ndim:
            found = cls(_as_array(data, name), name, None, len(data))
        else:
            kinds = "a pandas DataFrame, an xarray Dataset, a mapping of arrays or an array"
            what = "a Series without a name" if isinstance(data, pd.Series) else _article(type(data).__name__)
            raise DataError(f"{name} is {what}: give {kinds}")
        if not len(found):
            raise DataError(f"{name} is empty: it has no rows; leave it out")
        return found

    def __len__(self) -> int:
        return self._length

    def take(self, places: Sequence[int] | np.ndarray) -> ChunkRows:
        """Some of the rows, in the order given."""
        where = np.asarray(places, dtype=int)
        data = self.data
        if isinstance(data, xr.Dataset):
            taken: Any = data.isel({self.dim: where})
        elif isinstance(data, pd.DataFrame):
            taken = data.iloc[where]
        elif isinstance(data, Mapping):
            taken = {k: v[where] if _has_rows(v) else v for k, v in data.items()}
        else:
            taken = data[where]
        name = self.name if len(where) >= len(self) else f"{len(where)} rows of {self.name}"
        return ChunkRows(taken, name, self.dim, len(where))

    def followed_by(self, other: ChunkRows) -> ChunkRows:
        """These rows and then others of the same kind."""
        data: Any = self.data
        if isinstance(data, xr.Dataset):
            # What has no rows, a matrix of distances say, is the same in all chunks.
            joined: Any = xr.concat(
                [data, other.data],
                dim=str(self.dim),
                data_vars="minimal",
                coords="minimal",
                compat="override",
                join="override",
            )
        elif isinstance(data, pd.DataFrame):
            joined = _concatenated(data, other.data[list(data.columns)])
        elif isinstance(data, Mapping):
            joined = {k: np.concatenate([v, other.data[k]]) if _has_rows(v) else v for k, v in data.items()}
        else:
            joined = np.concatenate([data, other.data])
        return ChunkRows(joined, other.name, self.dim, len(self) + len(other))

    def columns(self) -> dict[str, np.ndarray]:
        """What has one value a row, by name; of matrices nothing."""
        data = self.data
        if isinstance(data, xr.Dataset):
            return {str(k): v.to_numpy() for k, v in data.variables.items() if v.dims == (self.dim,)}
        if isinstance(data, pd.DataFrame):
            return {str(k): data[k].to_numpy() for k in data.columns}
        if isinstance(data, Mapping):
            return {str(k): v for k, v in data.items() if np.ndim(v) == 1}
        return {}

    def discrete(self) -> dict[str, np.ndarray]:
        """The columns that may say which group, level or class a row is of."""
        return {k: v for k, v in self.columns().items() if v.dtype.kind not in "fc"}

    def value(self, name: str) -> Any:
        """What a column has in the first row."""
        return self.arrays()[name][0]

    def key(self, name: str) -> Any:
        """What the holder of the rows calls a column, which may be a number."""
        return next((k for k in self.data if str(k) == name), name) if hasattr(self.data, "keys") else name

    def with_column(self, name: Any, value: Any) -> ChunkRows:
        """With one more column, which has one value in all rows."""
        values = np.broadcast_to(np.asarray(value), (len(self), *np.shape(value))).copy()
        data = self.data
        if isinstance(data, xr.Dataset):
            more: Any = data.assign({name: ((self.dim, *[f"{name}_{k}" for k in range(1, values.ndim)]), values)})
        elif isinstance(data, pd.DataFrame):
            more = data.copy(deep=False)
            more[name] = values
        elif isinstance(data, Mapping):
            more = {**data, name: values}
        else:
            raise DataError(f"{self.name} is an array, which has no column {name!r}")
        return replace(self, data=more)

    def faults(self) -> str:
        """Which columns have values that are missing or infinite, and in which row first; empty where none has."""
        said = []
        for name, values in self.arrays().items():
            infinite = np.isinf(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
            for what, wrong in (("a missing", np.asarray(pd.isna(values))), ("an infinite", infinite)):
                rows = wrong.reshape(len(self), -1).any(axis=1)
                if rows.any():
                    said.append(f"column {name!r} has {what} value in row {int(np.flatnonzero(rows)[0])}")
        return "; ".join(said[:3])

    def arrays(self) -> dict[str, np.ndarray]:
        """What has rows, by name; these along the first axis."""
        data = self.data
        if isinstance(data, xr.Dataset):
            return {
                str(k): v.transpose(self.dim, ...).to_numpy() for k, v in data.variables.items() if self.dim in v.dims
            }
        if isinstance(data, pd.DataFrame):
            return self.columns()
        if isinstance(data, Mapping):
            return {str(k): v for k, v in data.items() if _has_rows(v)}
        return {"values": data}

    def require_same_constants(self, other: ChunkRows) -> None:
        """A DataError where something that has no rows is another in another chunk."""
        one, two = self._without_rows(), other._without_rows()
        for name in one.keys() | two.keys():
            if name not in one or name not in two or not _same_values(one[name], two[name]):
                raise DataError(
                    f"{name!r} of {other.name}, which has no rows, is not that of the chunks before it: give all the "
                    "same, or a value for each row"
                )

    def require_held_like(self, other: ChunkRows) -> None:
        """A DataError where rows are held by something else than others: a builder reads the one or the other."""
        kinds = [
            "Dataset" if isinstance(d, xr.Dataset) else "mapping" if isinstance(d, dict) else type(d).__name__
            for d in (self.data, other.data)
        ]
        if kinds[0] != kinds[1]:
            raise DataError(
                f"{self.name} is {_article(kinds[0])}, and the chunks before it {_article(kinds[1])}: give all the same"
            )

    def own_copy(self) -> Any:
        """The data in a holder of its own, to which a builder may add columns."""
        if isinstance(self.data, xr.Dataset | pd.DataFrame):
            return self.data.copy(deep=False)
        return dict(self.data) if isinstance(self.data, Mapping) else self.data

    def _without_rows(self) -> dict[str, Any]:
        if isinstance(self.data, xr.Dataset):
            return {str(k): v.to_numpy() for k, v in self.data.variables.items() if self.dim not in v.dims}
        return {k: v for k, v in self.data.items() if not _has_rows(v)} if isinstance(self.data, Mapping) else {}

    def require_like(self, kinds: Mapping[str, str]) -> None:
        """A DataError where there are other columns, or other kinds of values, than in the chunks before."""
        own = column_kinds(self)
        if kinds and (more := [name for name in own if name not in kinds]):
            raise DataError(
                f"{self.name} has the column {more[0]!r}, which the chunks before it do not have; they have "
                f"{', '.join(kinds)}: leave it out, or begin with rows that have it"
            )
        for name, kind in kinds.items():
            if name not in own:
                has = ", ".join(own) or "none"
                raise DataError(f"{self.name} has no column {name!r}, which the chunks before it have; it has {has}")
            if kind != own[name]:
                raise DataError(
                    f"column {name!r} of {self.name} has {own[name]}, and that of the chunks before it {kind}"
                )


def _concatenated(one: pd.DataFrame, two: pd.DataFrame) -> pd.DataFrame:
    """One table after another; columns of categories stay such, with those of both."""
    both = {
        c: pd.api.types.union_categoricals([one[c], two[c]])
        for c in one.columns
        if isinstance(one[c].dtype, pd.CategoricalDtype) and isinstance(two[c].dtype, pd.CategoricalDtype)
    }
    return pd.concat([one, two]).assign(**both)


def column_kinds(rows: ChunkRows) -> dict[str, str]:
    """What kind of values each column has, as far as chunks have to agree on it."""
    found = {}
    for name, values in rows.arrays().items():
        kind = KINDS.get(values.dtype.kind, "text")
        if values.dtype == object:
            # A row may hold a list or an array, and pd.NA is equal to nothing, nor different from anything.
            known = [v for v in values.reshape(-1)[:100].tolist() if not (pd.api.types.is_scalar(v) and pd.isna(v))]
            text = not known or any(isinstance(v, str) for v in known)
            kind = "text" if text else "truth values" if all(isinstance(v, bool) for v in known) else "objects"
        width = f" in {' × '.join(map(str, values.shape[1:]))} columns" if values.ndim > 1 else ""
        found[name] = kind + width
    return found


def _same_values(one: Any, two: Any) -> bool:
    a, b = np.asarray(one), np.asarray(two)
    return a.shape == b.shape and bool(np.all((a == b) | (pd.isna(a) & pd.isna(b))))


def row_dim(data: xr.Dataset, name: str, dim: str | None) -> str:
    """The dim along which the rows of a Dataset lie: ``dim``, or the one that all arrays share."""
    if dim is not None:
        if dim not in data.dims:
            raise DataError(f"{name} has no dim {dim!r}; it has {', '.join(map(str, data.dims)) or 'none'}")
        return dim
    arrays = [v for v in data.data_vars.values() if v.dims] or list(data.coords.values())
    shared = [str(d) for d in data.dims if arrays and all(d in v.dims for v in arrays)]
    first = [d for d in shared if all(v.dims[0] == d for v in arrays)]
    if len(shared) == 1 or len(first) == 1:
        return (first or shared)[0]
    raise DataError(
        f"{name} is a Dataset with the dims {', '.join(map(str, data.dims))}: say along which its rows lie, dim=..."
    )


def _length(data: Mapping[str, Any], name: str) -> int:
    lengths = {str(k): len(v) for k, v in data.items() if _has_rows(v)}
    if not lengths:
        raise DataError(f"{name} is a mapping without arrays: it has no rows")
    first, length = next(iter(lengths.items()))
    for other, found in lengths.items():
        if found != length:
            raise DataError(
                f"{other!r} of {name} has {found} rows, and {first!r} {length}: give all arrays one row each"
            )
    return length


def _as_array(value: Any, name: str) -> Any:
    """What is no scalar as an array; a DataError where a mask would be lost, and what it hides be counted."""
    if np.isscalar(value) or value is None:
        return value
    parts = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, np.ma.MaskedArray) and np.ma.is_masked(one) for one in parts):
        raise DataError(f"{name} has masked values, which are missing: leave such rows out")
    return np.asarray(value)


def _has_rows(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
