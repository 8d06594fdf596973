"""Products of matrices, of data with latent variables or of these among themselves, as terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors

from bayeskit.chunks.moves import shuffled, taken_at
from bayeskit.chunks.terms import WIDEST, DataTerm, Linear, NotAdditive, TermSum, multiplied_terms
from bayeskit.graphs.fingerprint import fingerprint

__all__ = ["matrix_product", "rows_times"]


def rows_times(rows: np.ndarray, matrix: Any, ndim: int, names: Mapping[Any, str]) -> TermSum:
    """Data of shape (N, K) times a vector of latent variables, or a matrix that has few columns."""
    own = frozenset(names[v] for v in ancestors([matrix]) if v in names)
    vectors = [matrix] if matrix.type.ndim == 1 else [matrix[:, j] for j in range(matrix.type.shape[1] or 0)]
    if len(vectors) > WIDEST:
        raise NotAdditive(f"its log density has a product of data with a matrix of {len(vectors)} columns")
    terms = []
    for j, vector in enumerate(vectors):
        sign = f"{fingerprint(matrix, dict(names))}[{j}]"
        if matrix.type.ndim == 1:
            terms.append(DataTerm(linear=Linear(rows if ndim else rows[0], vector, sign, own)))
            continue
        shaped = rows[:, None] if ndim == 2 else rows[0][None]
        only = np.ones(()) if len(vectors) == 1 else np.eye(len(vectors))[j]
        terms.append(DataTerm(only, linear=Linear(shaped, vector, sign, own)))
    length = (len(rows),) if ndim - (matrix.type.ndim - 1) else ()
    return TermSum(tuple(terms), (*length, *((len(vectors),) if matrix.type.ndim == 2 else ())))


def matrix_product(left: TermSum, right: TermSum) -> TermSum:
    """Of two matrices that latent variables give, entry by entry: groups of one may be others in another chunk."""
    order = (0, "x") if len(right.shape) == 2 else (0,)
    terms: list[DataTerm] = []
    for k in range(right.shape[0]):
        row, column = taken_at(right, 0, k), shuffled(taken_at(left, 1, k), order)
        terms += [multiplied_terms(a, b) for a in column.terms for b in row.terms]
    return TermSum(tuple(terms), (left.shape[0], *right.shape[1:]))
