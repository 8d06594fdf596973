"""Are these data that the model can explain? Every refusal says what, where, and what to do.

Nothing is refused that a proper prior answers: a single row, a constant column and collinear columns all pass, and so
do missing entries, rows and columns in a variable that allows them (``Variable.missing``).
Rows are counted from 1, the first row after the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskit.datasets.labels import check_labels
from bayeskit.datasets.schema import Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["check_data", "check_values", "numeric_column"]

LARGEST_COUNT = 2**53


def check_data(data: xr.Dataset, variables: Mapping[str, Variable]) -> xr.Dataset:
    """Check a data set against the variables a model declares.

    Parameters
    ----------
    data : xarray.Dataset
    variables : mapping of str to Variable

    Returns
    -------
    xarray.Dataset
        The model's variables only, with counts as int64, labels as int64 or text, and the rest as float64.

    Raises
    ------
    DataError
        If a variable is missing or has other dims, or if a value is not one the model can explain.
    """
    import xarray as xr

    if not isinstance(data, xr.Dataset):
        raise DataError(
            f"the data are a {type(data).__name__}, not an xarray.Dataset; "
            "make one with bayeskit.datasets.prepare(table, VARIABLES, columns)"
        )
    arrays = {}
    for name, variable in variables.items():
        if name in data.data_vars:
            arrays[name] = _checked(data[name], name, variable)
        elif variable.required:
            has = ", ".join(map(str, data.data_vars)) or "no variables"
            raise DataError(f"the model needs {name!r} with dims {variable.dims}; the data set has {has}")
    for name, variable in variables.items():
        if variable.at_most in arrays and name in arrays:
            _check_at_most(arrays[name], arrays[variable.at_most])
    return xr.Dataset(arrays, attrs=data.attrs)


def check_values(values: np.ndarray, kind: str, column: str, *, missing: bool = False) -> np.ndarray:
    """Check the numbers or labels of one column.

    Parameters
    ----------
    values : ndarray of shape (rows,)
    kind : {"real", "positive", "count", "binary", "category"}
        See :class:`~bayeskit.datasets.schema.Variable`.
    column : str
        Its name, for the message.
    missing : bool
        Whether entries may be NaN.

    Returns
    -------
    ndarray
        int64 for counts and zeros and ones without missing entries, int64 or text for labels, else float64.

    Raises
    ------
    DataError
    """
    if kind == "category":
        return check_labels(values, column)
    if kind == "count" and values.dtype.kind in "iu" and (values.size == 0 or values.max() <= LARGEST_COUNT):
        _refuse(values < 0, values, column, "is negative", "a count is a whole number from 0")
        return values.astype(np.int64, copy=False)
    numbers = values.astype(np.float64, copy=False)
    absent = np.isnan(numbers)
    if not missing:
        _refuse(absent, values, column, "is missing", "this model cannot impute it: fill it in or drop the row")
    _refuse(np.isinf(numbers), values, column, "is infinite", "correct it or drop the row")
    if kind == "positive":
        _refuse(numbers <= 0, values, column, "is not above zero", "correct it or drop the row")
    if kind == "binary":
        other = ~absent & (numbers != 0) & (numbers != 1)
        _refuse(other, values, column, "is not 0 or 1", "this model explains zeros and ones: recode the column")
        return numbers if absent.any() else numbers.astype(np.int64)
    if kind != "count":
        return numbers
    _refuse(numbers < 0, values, column, "is negative", "a count is a whole number from 0")
    fraction = ~absent & (numbers != np.floor(numbers))
    _refuse(fraction, values, column, "is not a whole number", "this model explains counts")
    _refuse(numbers > LARGEST_COUNT, values, column, "is too large", "a count can be at most 2**53")
    return numbers if absent.any() else numbers.astype(np.int64)


def numeric_column(column: pd.Series, name: str) -> np.ndarray:
    """A column of a table as numbers.

    Parameters
    ----------
    column : pandas.Series
    name : str
        Its name, for the message.

    Returns
    -------
    ndarray of shape (rows,)
        Missing entries are NaN.

    Raises
    ------
    DataError
        If an entry is not a number.
    """
    import pandas as pd

    if column.dtype.kind in "cmM" or isinstance(column.dtype, pd.PeriodDtype | pd.IntervalDtype):
        raise DataError(f"column {name!r} holds {column.dtype} values; the model needs real numbers")
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    numbers = pd.to_numeric(column, errors="coerce")
    text = (numbers.isna() & column.notna()).to_numpy()
    if text.any():
        row = int(np.flatnonzero(text)[0])
        entry = column.iloc[row]
        raise DataError(
            f"column {name!r}, row {row + 1}: {str(entry)!r} is not a number; correct it, or name another column"
        )
    if numbers.dtype.kind in "iub" and isinstance(numbers.dtype, np.dtype):
        return numbers.to_numpy().astype(np.int64) if numbers.dtype.kind == "b" else numbers.to_numpy()
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _checked(array: xr.DataArray, name: str, variable: Variable) -> xr.DataArray:
    if array.dims != variable.dims:
        raise DataError(f"{name!r} has dims {array.dims}; the model needs {variable.dims}: rename or transpose it")
    if array.dtype.kind not in "iufb" and variable.kind != "category":
        raise DataError(f"{name!r} holds {array.dtype} values; the model needs numbers")
    if array.sizes[variable.dims[0]] == 0:
        raise DataError(f"{name!r} has no rows; the model needs at least one")
    if variable.missing and array.size and bool(array.isnull().all()):
        raise DataError(f"every entry of {name!r} is missing; the model needs at least one")
    if array.ndim == 1:
        values = check_values(array.to_numpy(), variable.kind, _column(array), missing=variable.missing)
        return array.copy(data=values)
    dim = variable.dims[1]
    if array.sizes[dim] < variable.min_columns:
        raise DataError(
            f"{name!r} has {array.sizes[dim]} column{'' if array.sizes[dim] == 1 else 's'}; "
            f"the model needs at least {variable.min_columns}, one for each {dim}"
        )
    if dim not in array.coords:
        array = array.assign_coords({dim: np.arange(array.sizes[dim])})
    values = array.to_numpy()
    if variable.kind == "real" and values.dtype.kind == "f" and np.isfinite(values).all():
        return array.copy(data=values.astype(np.float64, copy=False))  # wide tables: one pass, no copy
    checked = [
        check_values(values[:, k], variable.kind, str(label), missing=variable.missing)
        for k, label in enumerate(array[dim].to_numpy())
    ]
    return array.copy(data=np.column_stack(checked))


def _check_at_most(array: xr.DataArray, limit: xr.DataArray) -> None:
    above = array.to_numpy() > limit.to_numpy()
    if above.any():
        row = int(np.flatnonzero(above)[0])
        raise DataError(
            f"column {_column(array)!r}, row {row + 1}: {array.to_numpy()[row]} {array.name} are more than the "
            f"{limit.to_numpy()[row]} {limit.name} in column {_column(limit)!r}; correct the row, or swap the columns"
        )


def _column(array: xr.DataArray) -> str:
    """The column of the user's table that a variable was read from; its own name where it was not."""
    return str(array.attrs.get("column", array.name))


def _refuse(bad: np.ndarray, values: np.ndarray, column: str, what: str, advice: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value: Any = values[row]
        shown = "the value" if np.isnan(float(value)) else f"{value:g}"
        raise DataError(f"column {column!r}, row {row + 1}: {shown} {what}; {advice}")
