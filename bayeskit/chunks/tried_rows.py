"""Which rows of a chunk are kept, and which are tried beside those that are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeskit.chunks.rows import ChunkRows

__all__ = ["first_rows", "is_tried_apart", "tried_rows"]

FIRST = 8  # rows that are kept whatever their labels
WHOLE = 20_000  # rows of a chunk that are all tried together with those kept
MANY = 100_000  # of the first two chunks
SAMPLE = 100  # of a large one


def first_rows(rows: ChunkRows) -> np.ndarray:
    """The rows of a first chunk that are kept: fewer than there are, so that others can be tried beside them."""
    return np.arange(max(1, min(FIRST, len(rows) // 2)))


def is_tried_apart(number: int) -> bool:
    """Whether a chunk of this number is tried in more than one way: the first ones are, and then ever fewer."""
    return number < FIRST or number & (number - 1) == 0


def tried_rows(rows: ChunkRows, number: int) -> np.ndarray:
    """All rows of a chunk, many of the first ones, or some of a large one.

    These are its first and last rows, of each column those with the smallest and the largest value and some that have
    none, and as many values of columns that may be of groups as there is room for.
    """
    if len(rows) <= WHOLE:
        return np.arange(len(rows))
    if number < 2:
        return np.arange(min(len(rows), MANY))
    chosen = [np.arange(FIRST), np.arange(len(rows) - SAMPLE // 2, len(rows))]
    discrete = rows.discrete()
    each = max(SAMPLE // (2 * max(len(discrete), 1)), 1)
    chosen += [np.flatnonzero(~pd.Series(v).duplicated())[:each] for v in discrete.values()]
    for values in rows.columns().values():
        if values.dtype.kind in "fiu":
            least = np.argmin(values)  # which is one that has none, if there is any
            chosen.append(np.array([least, np.argmax(values)]))
            chosen.append(np.flatnonzero(np.isnan(values))[:2] if np.isnan(values[least]) else np.arange(0))
    return np.unique(np.concatenate(chosen))
