"""How a precision matrix is solved: dense, as a band, or as a band with a border."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

__all__ = ["BANDED_FROM", "Layout", "layout"]

BANDED_FROM = 64  # size of θ from which a band is worth its bookkeeping
SHARED = 40  # variables that may be set aside as shared by all


@dataclass(frozen=True, eq=False)
class Layout:
    """How Λ is solved: which entries of θ are in the band, in which order, and which are set aside.

    Attributes
    ----------
    inner : numpy.ndarray
        Entries of θ in the band, in its order; empty where Λ is dense.
    width : int
        Diagonals of the band.
    shared : numpy.ndarray
        Entries of θ outside the band; all of them where Λ is dense.
    """

    inner: np.ndarray
    width: int
    shared: np.ndarray


def layout(size: int, rows: np.ndarray, columns: np.ndarray) -> Layout:
    """Choose between dense, banded and bordered, by the cost of a factorisation.

    Parameters
    ----------
    size : int
        Of θ.
    rows, columns : numpy.ndarray
        The entries of Λ that can differ from zero, at least those of its lower triangle. Others, such as those of a
        border at position ``size``, are passed over.
    """
    dense = Layout(np.zeros(0, dtype=int), 0, np.arange(size))
    if size < BANDED_FROM:
        return dense
    inside = (rows < size) & (columns < size)
    rows, columns = rows[inside], columns[inside]
    matrix = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    pattern = sparse.csr_array(matrix + matrix.T)
    degree = np.diff(pattern.indptr)
    best, least = dense, float(size) ** 3 / 3
    by_degree = np.argsort(-degree, kind="stable")
    for count in sorted({0, *range(1, 9), 12, 16, 24, 32, SHARED}):
        if count >= size or (count and degree[by_degree[count - 1]] < 8):
            break
        shared = np.sort(by_degree[:count])
        kept = np.setdiff1d(np.arange(size), shared)
        part = sparse.csr_array(pattern[kept][:, kept])
        order = np.asarray(reverse_cuthill_mckee(sparse.csr_matrix(part), symmetric_mode=True))
        rank = np.empty(len(kept), dtype=int)
        rank[order] = np.arange(len(kept))
        entries = sparse.coo_array(part)
        reach = int(np.max(np.abs(rank[entries.coords[0]] - rank[entries.coords[1]]), initial=0))
        # A band costs more an operation than a dense factorisation, which runs in BLAS.
        cost = 8.0 * len(kept) * (reach + 1 + count) ** 2 + count**3
        if cost < least:
            best, least = Layout(kept[order], reach + 1, shared), cost
    return best
