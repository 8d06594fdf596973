"""Labels of categories: which entries of a column can be one, and their whole-number codes."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from bayeskit.errors import DataError

__all__ = ["category_codes", "check_labels"]


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


def _label(value: object) -> str | int | None:
    """Text or a whole number; None for anything else."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value.strip() if isinstance(value, str) else None
