"""Labels of categories: which entries of a column can be one, and their whole-number codes."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from bayeskit.errors import DataError, OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LEVELS", "category_codes", "check_labels", "declared_codes"]

LEVELS = "levels"  # attribute of a variable: all the labels that it may have, where its table declared them


def check_labels(values: np.ndarray, column: str) -> np.ndarray:
    """Check the labels of one column.

    Parameters
    ----------
    values : ndarray of shape (rows,)
        Whole numbers (also as floats, as a table with gaps holds them), truth values, or text; a column that mixes
        whole numbers and text is text.
    column : str
        Its name, for the message.

    Returns
    -------
    ndarray of shape (rows,)
        int64 where all are whole numbers, else text without leading and trailing blanks.

    Raises
    ------
    DataError
        If a label is missing, or is neither text nor a whole number.
    """
    import pandas as pd

    if values.dtype.kind in "cmMV":
        raise DataError(f"column {column!r} holds {values.dtype} values; a label is text or a whole number")
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    labels = [_label(value) for value in values.tolist()]
    for row, (label, value) in enumerate(zip(labels, values.tolist(), strict=True), start=1):
        if pd.isna(value) or label == "":
            raise DataError(f"column {column!r}, row {row}: the label is missing; fill it in or drop the row")
        if label is None:
            raise DataError(f"column {column!r}, row {row}: {value!r} is not a label; give text or a whole number")
    if all(isinstance(label, int) for label in labels):
        return np.array(labels, dtype=np.int64)
    return np.array([str(label) for label in labels])


def category_codes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different labels, sorted, and the position of each row's label among them.

    Parameters
    ----------
    labels : ndarray of shape (rows,)
        From :func:`check_labels`.

    Returns
    -------
    categories : ndarray of shape (categories,)
        The coordinates of the dim that the categories have.
    codes : ndarray of int64, shape (rows,)
        ``categories[codes]`` are the labels.
    """
    categories, codes = np.unique(labels, return_inverse=True)
    return categories, codes.astype(np.int64)


def declared_codes(
    array: xr.DataArray, option: str, declared: str | None, *, at_least: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """The labels that a column may have, declared or found, and the position of each row's label among them.

    Parameters
    ----------
    array : xarray.DataArray of shape (rows,)
        Checked labels. The levels of a pandas ``Categorical`` are declared ones.
    option : str
        Name of the option that declares labels, for the messages.
    declared : str or None
        Its value: all labels, separated by commas, in the order in which they are to be numbered. A label without a
        row is then known from the prior. Where it is not given, the labels found, sorted.
    at_least : int
        How many labels there must be.

    Returns
    -------
    categories : ndarray of shape (categories,)
    codes : ndarray of int64, shape (rows,)

    Raises
    ------
    DataError
        If a row's label is not among the declared ones, or there are too few.
    OptionError
        If a label is declared twice.
    """
    labels, column = array.to_numpy(), str(array.attrs.get("column", array.name))
    if declared is not None:
        names: list[object] = [name.strip() for name in declared.split(",")]
    else:
        names = list(array.attrs.get(LEVELS, np.unique(labels)))
    text = [str(name) for name in names]
    if len(set(text)) < len(text) or "" in text:
        raise OptionError(f"option {option} is {declared!r}; write each label once, separated by commas")
    if len(text) < at_least:
        raise DataError(
            f"column {column!r} has one label only, {text[0]!r}; the model needs at least {at_least}: "
            f"declare those without rows too, {option}={text[0]},another"
        )
    place = {name: code for code, name in enumerate(text)}
    for row, label in enumerate(labels, start=1):
        if str(label) not in place:
            raise DataError(
                f"column {column!r}, row {row}: {str(label)!r} is none of the declared labels {', '.join(text)}; "
                f"correct it, or declare it in {option}"
            )
    codes = np.array([place[str(label)] for label in labels], dtype=np.int64)
    whole = labels.dtype.kind in "iu" and all(name.lstrip("-").isdigit() for name in text)
    return np.array([int(name) for name in text] if whole else text), codes


def _label(value: object) -> str | int | None:
    """Text or a whole number; None for anything else."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value.strip() if isinstance(value, str) else None
