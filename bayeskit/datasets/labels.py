"""Labels of categories: which entries of a column can be one, and their whole-number codes."""

from __future__ import annotations

import re
from numbers import Integral

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.errors import DataError, OptionError

__all__ = ["LEVELS", "check_labels", "column_name", "declared_codes", "is_whole_number"]

MOST = np.iinfo(np.int64).max
LEVELS = "levels"  # attribute of a variable: all the labels that it may have, where its table declared them


def check_labels(values: np.ndarray, column: str) -> np.ndarray:
    """The labels of a column: int64 where all are whole numbers (also as floats), else text without outer blanks."""
    if values.dtype.kind in "cmMV":
        raise DataError(f"column {column!r} holds {values.dtype} values; a label is text or a whole number")
    if values.dtype.kind in "iu" and (values <= MOST).all():
        return values.astype(np.int64)
    labels = [_label(value, f"column {column!r}, row {row}") for row, value in enumerate(values.tolist(), start=1)]
    if all(isinstance(label, int) and abs(label) <= MOST for label in labels):
        return np.array(labels, dtype=np.int64)
    return np.array([str(label) for label in labels])


def column_name(array: xr.DataArray) -> str:
    """The column of the user's table that a variable was read from; its own name where it was not."""
    return str(array.attrs.get("column", array.name))


def declared_codes(
    array: xr.DataArray, option: str, declared: str | None, *, at_least: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """The labels that a column may have, in the order of their codes, and the code of each row's label.

    They are those that ``option`` declares, separated by commas; else the levels of a pandas ``Categorical``; else
    those found, sorted. A label without a row is then known from the prior.
    """
    labels, column = array.to_numpy(), column_name(array)
    names = array.attrs.get(LEVELS, np.unique(labels)) if declared is None else declared.split(",")
    text = [str(name) if declared is None else name.strip() for name in names]
    if len(set(text)) < len(text) or "" in text:
        raise OptionError(f"option {option} is {declared!r}; write each label once, separated by commas")
    if len(text) < at_least:
        advice = f"the model needs at least {at_least}: declare those without rows too, {option}={text[0]},another"
        raise DataError(f"column {column!r} has one label only, {text[0]!r}; {advice}")
    codes = pd.Index(text).get_indexer(labels.astype(str))
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        what = f"{str(labels[row])!r} is none of the declared labels {', '.join(text)}"
        raise DataError(f"column {column!r}, row {row + 1}: {what}; correct it, or declare it in {option}")
    whole = labels.dtype.kind in "iu" and all(map(is_whole_number, text))
    return np.array([int(name) for name in text] if whole else text), codes


def is_whole_number(text: str) -> bool:
    """Whether a text is how a whole number is written: "7", and not "07", "+7" or "7.0", which are other labels."""
    return re.fullmatch(r"0|-?[1-9][0-9]*", text) is not None


def _label(value: object, where: str) -> str | int:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Integral) or (isinstance(value, float) and value.is_integer() and abs(value) < 2**53):
        return int(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, str) or pd.isna(value):
        raise DataError(f"{where}: the label is missing; fill it in or drop the row")
    raise DataError(f"{where}: {value!r} is not a label; give text or a whole number")
