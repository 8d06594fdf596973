"""From the user's table to the data a model asks for: which column is which, and with which dims."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.arguments import checked
from bayeskit.datasets.checking import check_data, numeric_column
from bayeskit.datasets.labels import LEVELS
from bayeskit.datasets.schema import Variable
from bayeskit.errors import DataError

__all__ = ["parse_columns", "prepare", "refuse_twice"]

ROW = "row"
RENAME = "a column whose own name has , or + is to be renamed in the table, for these are what separates columns here"
type Source = pd.DataFrame | xr.Dataset


@checked
def parse_columns(text: str) -> dict[str, str | tuple[str, ...]]:
    """Read which column is which, as the command line writes it.

    Parameters
    ----------
    text : str
        ``"y=strength,x=density+age"``. A column whose name holds ``,`` or ``+`` can only be named from Python.

    Returns
    -------
    dict
        ``{"y": "strength", "x": ("density", "age")}``.
    """
    columns: dict[str, str | tuple[str, ...]] = {}
    for part in text.split(","):
        variable, sign, names = (piece.strip() for piece in part.partition("="))
        several = tuple(name.strip() for name in names.split("+"))
        if not (variable and sign and all(several)):
            advice = f"write y=strength,x=density+age; {RENAME}"
            raise DataError(f"columns {part.strip()!r} is not variable=column; {advice}")
        if variable in columns:
            raise DataError(f"columns {text!r} names {variable} twice; join its columns with +")
        columns[variable] = several[0] if len(several) == 1 else several
    return columns


@checked
def prepare(
    table: Source,
    variables: Mapping[str, Variable],
    columns: Mapping[str, str | Sequence[str]] | None = None,
) -> xr.Dataset:
    """Give a table the variables and dims that a model asks for, and check its values.

    Parameters
    ----------
    table : pandas.DataFrame or xarray.Dataset
        The variables of a Dataset are its columns; one with two dims serves as several.
    variables : mapping of str to Variable
        The model's ``VARIABLES``.
    columns : mapping of str to str or sequence of str, optional
        The column, or columns, of each variable. The key ``row`` names a column of row labels. A variable that is not
        mentioned is taken from the column of the same name.

    Returns
    -------
    xarray.Dataset
        The columns of a two-dimensional variable are the coordinates of its second dim. Rows have coordinates only if
        ``columns`` names their labels.

    Raises
    ------
    DataError
        If a variable or a column is missing or unknown, or if a value is not one that the model can explain.
    """
    source = _columns_of(table)
    asked = dict(columns or {})
    labels = asked.pop(ROW, None)
    for name in asked:
        if name not in variables:
            raise DataError(f"the model has no variable {name!r}; its variables are {', '.join(variables)}")
    arrays = {}
    for name, variable in variables.items():
        if name in asked or name in source:
            arrays[name] = _variable(source, name, variable, asked.get(name, name))
        elif variable.required:
            raise DataError(f"the model needs {name!r}: say which column that is, {name}=column; {_has(source)}")
    coords = {} if labels is None else {ROW: _labels(source, labels)}
    _same_length(arrays | coords, "the variables have different numbers of rows", "read them from columns of one dim")
    return check_data(xr.Dataset(arrays, coords=coords, attrs=dict(table.attrs)), variables)


def refuse_twice(names: Sequence[str], table: str) -> None:
    """Refuse a table that has two columns of one name."""
    index = pd.Index(names)
    twice = sorted(set(index[index.duplicated()]))
    if twice:
        raise DataError(f"{table} has more than one column named {', '.join(map(repr, twice))}; rename them")


def _columns_of(table: pd.DataFrame | xr.Dataset) -> dict[str, pd.Series | xr.DataArray]:
    """The columns of a table by name; the arrays of a Dataset that have a second dim keep it."""
    if isinstance(table, pd.DataFrame):
        columns = [str(name) for name in table.columns]
        refuse_twice(columns, "the table")
        if len(table) == 0:
            raise DataError("the table has no rows; the model needs at least one")
        return {name: table.iloc[:, k] for k, name in enumerate(columns)}
    if isinstance(table, xr.Dataset):
        found = {str(name): table[name] for name in table.variables if table[name].ndim}
        return {name: v.to_series() if v.ndim == 1 else v for name, v in found.items()}
    raise DataError(f"the table is a {type(table).__name__}; give a pandas.DataFrame or an xarray.Dataset")


def _variable(
    source: Mapping[str, pd.Series | xr.DataArray], name: str, variable: Variable, columns: str | Sequence[str]
) -> xr.DataArray:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    parts = [_column(source, name, column) for column in names]
    if len(variable.dims) == 1:
        if len(names) != 1:
            raise DataError(f"{name!r} is one column, not {len(names)} ({', '.join(names)}); name one")
        if isinstance(parts[0], xr.DataArray):
            dims = ", ".join(map(repr, parts[0].dims))
            advice = f"make them one, as in table.stack(row=({dims})).reset_index('row')"
            raise DataError(
                f"{name!r} has one dim, and {names[0]!r} of the table has {parts[0].ndim} ({dims}); {advice}"
            )
        (part,) = parts
        if variable.kind != "category":
            return xr.DataArray(_numbers(part, names[0]), dims=variable.dims, attrs={"column": names[0]})
        found = xr.DataArray(np.asarray(part), dims=variable.dims, attrs={"column": names[0]})
        if isinstance(part.dtype, pd.CategoricalDtype):  # it declares labels, with or without rows
            found.attrs[LEVELS] = [str(level) for level in part.dtype.categories]
        return found
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise DataError(f"{name!r} names column {twice[0]!r} twice; name it once")
    if isinstance(parts[0], xr.DataArray) and parts[0].ndim > 2:
        dims = ", ".join(map(repr, parts[0].dims))
        raise DataError(
            f"{name!r} has two dims, and {names[0]!r} of the table has {parts[0].ndim} ({dims}); choose two"
        )
    if len(names) == 1 and parts[0].ndim == 2:
        return _matrix(parts[0], variable, names[0])
    values = {column: _numbers(part, column) for part, column in zip(parts, names, strict=True)}
    _same_length(values, f"the columns of {name!r} have different lengths", "use columns of one dim")
    coords = {variable.dims[1]: list(names)}
    return xr.DataArray(np.column_stack(list(values.values())), dims=variable.dims, coords=coords)


def _column(source: Mapping[str, pd.Series | xr.DataArray], name: str, column: str) -> pd.Series | xr.DataArray:
    if column not in source:
        split = [known for known in source if column in re.split(r"\s*[,+]\s*", known)]
        advice = f"; if {split[0]!r} was meant: {RENAME}" if split else ""
        raise DataError(f"there is no column {column!r}, which {name!r} is to be read from; {_has(source)}{advice}")
    return source[column]


def _matrix(array: xr.DataArray, variable: Variable, column: str) -> xr.DataArray:
    """A variable of a Dataset that has both dims already, under other names."""
    labels = array[array.dims[1]].to_numpy()
    columns = zip(array.to_numpy().T, labels, strict=True)
    values = [numeric_column(pd.Series(v), f"{column}[{label}]") for v, label in columns]
    matrix = np.column_stack(values) if values else np.empty(array.shape)
    return xr.DataArray(matrix, dims=variable.dims, coords={variable.dims[1]: labels}, attrs={"column": column})


def _numbers(column: pd.Series | xr.DataArray, name: str) -> np.ndarray:
    if isinstance(column, xr.DataArray):
        raise DataError(f"column {name!r} has the dims {column.dims}; name it alone, or name columns of one dim")
    return numeric_column(column, name)


def _labels(source: Mapping[str, pd.Series | xr.DataArray], column: str | Sequence[str]) -> np.ndarray:
    if not isinstance(column, str):
        raise DataError(f"row labels come from one column, not {len(column)}; name one")
    labels = np.asarray(_column(source, ROW, column))
    labels = labels if labels.dtype.kind in "iuM" else np.array([str(label) for label in labels])
    twice = pd.Index(labels).duplicated()
    if twice.any():
        row = int(np.argmax(twice))
        advice = "row labels differ from row to row: name another column, or none"
        raise DataError(f"column {column!r}, row {row + 1}: the label {str(labels[row])!r} is there twice; {advice}")
    return labels


def _same_length(columns: Mapping[str, Any], what: str, advice: str) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise DataError(f"{what} ({', '.join(f'{n} {len(column)}' for n, column in columns.items())}); {advice}")


def _has(source: Mapping[str, object]) -> str:
    return f"the table's columns are {', '.join(source)}" if source else "the table has no columns"
