"""Are these data that the model can explain? Every refusal says what, where, and what to do.

Nothing is refused that a proper prior answers: a single row, a constant column and collinear columns all pass, and so
do missing entries, rows and columns in a variable that allows them (``Variable.missing``).
Rows are counted from 1, the first row after the header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.arguments import checked
from bayeskit.datasets.labels import check_labels, column_name
from bayeskit.datasets.schema import Variable
from bayeskit.errors import DataError

__all__ = ["check_data", "check_values", "numeric_column"]

type Given = xr.Dataset

DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")

# What a number of each kind cannot be, and what to do about it; up to 2**53 a float is the whole number it stands for.
REFUSED: dict[str, tuple[tuple[Callable[[np.ndarray], np.ndarray], str, str], ...]] = {
    "real": (),
    "positive": ((lambda v: v <= 0, "is not above zero", "correct it or drop the row"),),
    "binary": (
        (lambda v: ~np.isin(v, (0, 1)), "is not 0 or 1", "this model explains zeros and ones: recode the column"),
    ),
    "count": (
        (lambda v: v < 0, "is negative", "a count is a whole number from 0"),
        (lambda v: v != np.floor(v), "is not a whole number", "this model explains counts"),
        (lambda v: v > 2**53, "is too large", "a count can be at most 2**53"),
    ),
}


@checked
def check_data(data: Given, variables: Mapping[str, Variable]) -> xr.Dataset:
    """Check a data set against the variables that a model declares.

    Returns
    -------
    xarray.Dataset
        The model's variables only, with counts as int64, labels as int64 or text, and the rest as float64.

    Raises
    ------
    DataError
        If a variable is missing or has other dims, or if a value is not one the model can explain.
    """
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
        if variable.at_most is not None and variable.at_most not in variables:
            raise DataError(f"{name!r} is at most {variable.at_most!r}, which the model does not declare")
        if variable.at_most in arrays and name in arrays:
            _check_at_most(arrays[name], arrays[variable.at_most])
    return xr.Dataset(arrays, attrs=data.attrs)


def check_values(values: np.ndarray, kind: str, column: str, *, missing: bool = False) -> np.ndarray:
    """The numbers or labels of one column, held to a kind of :class:`~bayeskit.datasets.schema.Variable`.

    Counts, zeros and ones without missing entries come as int64, labels as int64 or text, all else as float64.
    """
    if kind == "category":
        return check_labels(values, column)
    numbers = values.astype(np.float64, copy=False)
    absent = np.isnan(numbers)
    if not missing:
        _refuse(absent, values, column, "is missing", "this model cannot impute it: fill it in or drop the row")
    _refuse(np.isinf(numbers), values, column, "is infinite", "correct it or drop the row")
    if values.dtype.kind in "iu" and kind in ("real", "positive"):
        rounded = np.abs(numbers) >= 2**53
        rounded[rounded] = [int(n) != v for n, v in zip(numbers[rounded], values[rounded], strict=True)]
        _refuse(rounded, values, column, "has more digits than a real number", "subtract a constant from the column")
    for wrong, what, advice in REFUSED[kind]:
        _refuse(wrong(numbers) & ~absent, values, column, what, advice)
    return numbers if kind in ("real", "positive") or absent.any() else numbers.astype(np.int64)


def numeric_column(column: pd.Series, name: str) -> np.ndarray:
    """A column of a table as numbers; missing entries are NaN, and what is no number is refused."""
    if column.dtype.kind in "cmM" or isinstance(column.dtype, pd.PeriodDtype | pd.IntervalDtype):
        raise DataError(f"column {name!r} holds {column.dtype} values; the model needs real numbers")
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    numbers = pd.to_numeric(column, errors="coerce")
    text = (numbers.isna() & column.notna()).to_numpy()
    if text.any():
        row = int(np.argmax(text))
        entry = f"column {name!r}, row {row + 1}: {str(column.iloc[row])!r}"
        comma = DECIMAL_COMMA.fullmatch(str(column.iloc[row]).strip())
        remedy = "write decimals with a point" if comma else "correct it, or name another column"
        raise DataError(f"{entry} is not a number; {remedy}")
    if isinstance(numbers.dtype, np.dtype) and numbers.dtype.kind in "iub":
        return numbers.to_numpy()
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
        values = check_values(array.to_numpy(), variable.kind, column_name(array), missing=variable.missing)
        return array.copy(data=values)
    dim = variable.dims[1]
    if array.sizes[dim] < variable.min_columns:
        has = f"{name!r} has {array.sizes[dim]} column{'' if array.sizes[dim] == 1 else 's'}"
        raise DataError(f"{has}; the model needs at least {variable.min_columns}, one for each {dim}")
    if dim not in array.coords:
        array = array.assign_coords({dim: np.arange(array.sizes[dim])})
    values = array.to_numpy()
    if variable.kind == "real" and values.dtype.kind == "f" and np.isfinite(values).all():
        return array.copy(data=values.astype(np.float64, copy=False))  # wide tables: one pass, no copy
    columns = zip(values.T, map(str, array[dim].to_numpy()), strict=True)
    checked = [check_values(column, variable.kind, label, missing=variable.missing) for column, label in columns]
    return array.copy(data=np.column_stack(checked))


def _check_at_most(array: xr.DataArray, limit: xr.DataArray) -> None:
    value, most = array.to_numpy(), limit.to_numpy()
    if np.any(value > most):
        row = int(np.argmax(value > most))
        entry = f"column {column_name(array)!r}, row {row + 1}: {value[row]} {array.name}"
        other = f"the {most[row]} {limit.name} in column {column_name(limit)!r}"
        raise DataError(f"{entry} are more than {other}; correct the row, or swap the columns")


def _refuse(bad: np.ndarray, values: np.ndarray, column: str, what: str, advice: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        shown = "the value" if np.isnan(float(values[row])) else f"{values[row]:g}"
        raise DataError(f"column {column!r}, row {row + 1}: {shown} {what}; {advice}")
