"""How a precision matrix is solved: dense, as a band, or as a band with a border; and where its entries stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

__all__ = ["BANDED_FROM", "Layout", "Lookup", "layout"]

BANDED_FROM = 64  # size of θ from which a band is worth its bookkeeping
SHARED = (*range(1, 9), 12, 16, 24, 32, 40)  # how many variables may be set aside as shared by all
MOST_SHARED = 300  # as many where twice as many others touch the last of them as the next
MANY = 8  # entries of a row of Λ from which its variable may count as shared


class Lookup:
    """Where an entry of a symmetric matrix stands in a list of its lower triangle, by row and then by column."""

    def __init__(self, size: int, rows: np.ndarray, columns: np.ndarray) -> None:
        self.size = size
        # SciPy's sparse indices are of 32 bits: from 46,341 rows on, their products overflow.
        self.keys = np.asarray(rows, dtype=np.int64) * size + columns
        self.nothing = len(self.keys)  # where entries that are not listed stand: after the last

    def __call__(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        key = np.maximum(i, j).astype(np.int64) * self.size + np.minimum(i, j)
        if not self.nothing:
            return np.zeros(key.shape, dtype=int)
        place = np.minimum(np.searchsorted(self.keys, key), self.nothing - 1)
        return np.where(self.keys[place] == key, place, self.nothing)


@dataclass(frozen=True, eq=False)
class Layout:
    """How Λ is solved: which entries of θ are in the band, in which order, and which are set aside."""

    inner: np.ndarray  # entries of θ in the band, in its order; empty where Λ is dense
    width: int  # diagonals of the band
    shared: np.ndarray  # entries of θ outside the band; all of them where Λ is dense
    cost: float = 0.0  # of a factorisation, about

    @cached_property
    def order(self) -> np.ndarray:
        """The entries of θ in the order in which Λ is factorised."""
        return np.concatenate([self.inner, self.shared])

    def places(self, lookup: Lookup) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the entries of Λ's lower band (width, inner), its border and its corner (shared, shared) are listed."""
        inner, shared = self.inner, self.shared
        ahead = np.arange(self.width)[:, None] + np.arange(len(inner))
        inside = ahead < len(inner)
        band = lookup(inner[np.where(inside, ahead, 0)], np.broadcast_to(inner, ahead.shape))
        return (
            np.where(inside, band, lookup.nothing),
            lookup(*np.meshgrid(inner, shared, indexing="ij")),
            lookup(*np.meshgrid(shared, shared, indexing="ij")),
        )


def layout(size: int, rows: np.ndarray, columns: np.ndarray) -> Layout:
    """Choose between dense, banded and bordered, by the cost of a factorisation.

    ``rows`` and ``columns`` are of the entries of Λ that can differ from zero, at least those of its lower triangle.
    Others, such as those of a border at position ``size``, are passed over.
    """
    dense = Layout(np.zeros(0, dtype=int), 0, np.arange(size))
    if size < BANDED_FROM:
        return dense
    # A band costs more an operation than a dense factorisation, which runs in BLAS.
    costs = [
        (8.0 * len(b.inner) * (b.width + len(b.shared)) ** 2 + len(b.shared) ** 3, b)
        for b in _banded(size, rows, columns)
    ]
    cost, best = min(costs, key=lambda one: one[0])
    whole = float(size) ** 3 / 3
    return replace(best, cost=cost) if cost < whole else replace(dense, cost=whole)


def _banded(size: int, rows: np.ndarray, columns: np.ndarray) -> Iterator[Layout]:
    """A band without a border, and with the entries that most others touch set aside."""
    within = (rows < size) & (columns < size)
    matrix = sparse.coo_array((np.ones(int(within.sum())), (rows[within], columns[within])), shape=(size, size))
    pattern = sparse.csr_array(matrix + matrix.T)
    degree = np.diff(pattern.indptr)
    by_degree = np.argsort(-degree, kind="stable")
    # Entries that equally many others touch are set aside together: a mean and two slopes, not one of the three.
    degrees = degree[by_degree]
    drops = np.flatnonzero((degrees[:-1] > degrees[1:]) & (degrees[:-1] >= MANY)) + 1
    wide = drops[degrees[drops - 1] > 2 * degrees[drops]]
    for count in (0, *np.union1d(np.intersect1d(drops, SHARED), wide[wide <= MOST_SHARED])):
        shared = np.sort(by_degree[:count])
        inner = np.setdiff1d(np.arange(size), shared)
        part = sparse.csr_array(pattern[inner][:, inner])
        order = np.asarray(reverse_cuthill_mckee(part, symmetric_mode=True))
        rank = np.empty(len(inner), dtype=int)
        rank[order] = np.arange(len(inner))
        entries = sparse.coo_array(part)
        reach = int(np.max(np.abs(rank[entries.coords[0]] - rank[entries.coords[1]]), initial=0))
        yield Layout(inner[order] if reach else inner, reach + 1, shared)
