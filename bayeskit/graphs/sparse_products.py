"""Products with a constant sparse matrix, X b, as picked entries of b, their multiples and sums of them.

    (X b)_i = Σ_k x_k b[c_k]  over the entries x_k of row i, which stand in the columns c_k

PyTensor has operations of its own for sparse matrices, of which no analysis knows anything, and neither do the
compilers of densities. Written so, a product is made of what all of them know, and the matrix is never a dense one:
10⁶ rows of one entry each are ``b[c]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.errors import ModelError
from bayeskit.types import Graph

__all__ = ["sparse_product"]

WRITTEN_OUT = 100_000  # entries up to which a matrix is multiplied as a dense one
FULL = 0.25  # share of entries that are not zero from which on it is


def sparse_product(matrix: Any, right: Any, *, always: bool = False) -> Graph:
    """X b of a constant SciPy matrix and a vector or matrix, as a graph of dense tensors.

    With a dense matrix where it is small or full, and without multiples where all are one; but not where it is
    ``always`` to be of one form, whatever the numbers are.
    """
    entries = sparse.csr_array(matrix, dtype="float64", copy=True)
    entries.sum_duplicates()
    (rows, columns), filled = entries.shape, entries.nnz
    if right.type.shape[0] not in (None, columns):
        raise ModelError(
            f"a sparse matrix of {columns:,} columns is multiplied by what has {right.type.shape[0]:,} rows"
        )
    if not always and (rows * columns <= WRITTEN_OUT or filled >= FULL * rows * columns):
        return pt.dot(entries.toarray(), right)
    if right.type.ndim == 2 and right.type.shape[1] == 1:
        return _picked(entries, pt.specify_shape(right, (columns, 1))[:, 0], always)[:, None]
    return _picked(entries, pt.specify_shape(right, (columns, *[None] * (right.type.ndim - 1))), always)


def _picked(entries: sparse.csr_array, right: Any, always: bool) -> Any:
    counts, rows = np.diff(entries.indptr), entries.shape[0]
    each = int(counts[0]) if np.all(counts == counts[0]) else 0
    shape = (rows, each) if each > 1 else (entries.nnz,)
    picked, multiple = right[pt.constant(entries.indices.reshape(shape))], entries.data.reshape(shape)
    if right.type.ndim == 2:
        multiple = multiple[..., None]
    terms = picked if np.all(entries.data == 1) and not always else picked * multiple
    if each == 1:
        return terms
    if each:
        return pt.sum(terms, axis=1)
    of_row = np.repeat(np.arange(rows), counts)
    nothing = pt.zeros((rows, *[right.shape[k] for k in range(1, right.type.ndim)]))
    return pt.inc_subtensor(nothing[pt.constant(of_row)], terms)
