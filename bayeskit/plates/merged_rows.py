r"""Exponentials of an entry with one slope, which are one exponential: all counts of a group are a row.

.. math:: \sum_r w_r e^{a_r + s b} = e^{a + s b}, \qquad a = \log \sum_r w_r e^{a_r}
"""

from __future__ import annotations

import numpy as np

__all__ = ["EntryFunctionRows", "with_exponentials_merged"]

ROUNDED = 1e-12  # of a slope, by which it is not told from another: it is a difference over a million
#: a (N, R), s and w (N, R) or (1, R), which are exponentials, and to which entry each belongs, in that order.
EntryFunctionRows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def with_exponentials_merged(rows: EntryFunctionRows) -> EntryFunctionRows:
    """The rows with one for the exponentials of an entry that have one slope, or as they are."""
    offsets, slopes, weights, grows, entries = rows
    which = np.flatnonzero(grows)
    if len(which) < 2 or not len(offsets):
        return rows
    order = which[np.lexsort((slopes[0, which], entries[which]))]
    own, slope = entries[order], slopes[:, order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (own[1:] != own[:-1]) | ~_close(slope[0, 1:], slope[0, :-1])
    starts, merged = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    if len(starts) == len(order) or not np.all(_close(slope, slope[:, starts[merged]])):
        return rows
    with np.errstate(all="ignore"):
        size = offsets[:, order] + np.log(weights[:, order])
        largest = np.maximum.reduceat(size, starts, axis=1)
        largest[np.isneginf(largest)] = 0.0
        total = np.add.reduceat(np.exp(size - largest[:, merged]), starts, axis=1)
        offset = np.where(total == 0.0, 0.0, largest + np.log(total))
    weight = np.where(total == 0.0, 0.0, 1.0)
    if np.all(weight[:1] == weight) and len(weights) == 1:
        weight = weight[:1]
    others = ~grows
    front = np.broadcast_to(weights, (len(weight), weights.shape[1]))
    kinds, of = np.concatenate([grows[others], grows[order[starts]]]), np.concatenate([entries[others], own[starts]])
    again = np.argsort(of, kind="stable")
    return (
        np.concatenate([offsets[:, others], offset], axis=1)[:, again],
        np.concatenate([slopes[:, others], slope[:, starts]], axis=1)[:, again],
        np.concatenate([front[:, others], weight], axis=1)[:, again],
        kinds[again],
        of[again],
    )


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    close: np.ndarray = np.abs(a - b) <= ROUNDED * np.abs(b)
    return close
