"""Products of matrices, of data with latent variables or of these among themselves, as terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import basic as ps

from bayeskit.graphs.fingerprint import fingerprint
from bayeskit.graphs.nodes import applies
from bayeskit.graphs.operations import Kind, kind_of
from bayeskit.row_sums.moves import shuffled, taken_at
from bayeskit.row_sums.terms import WIDEST, DataTerm, Linear, NotAdditive, TermSum, multiplied_terms

__all__ = ["matrix_product", "narrow_matrices", "rows_times"]


def narrow_matrices(graph: Any, data: Sequence[Any]) -> tuple[dict[Any, TermSum], list[Any]]:
    """The data that are matrices of single precision, widened for nothing but to be multiplied; and what is to be made.

    They are left as they are, and widened block by block where sums are made of them: at once, that takes as long as
    the sums.
    """
    arrays = {v: v.owner.inputs[0].data for v in data if _is_widened(v)}
    found = {v: TermSum((DataTerm(array),), array.shape) for v, array in arrays.items()}
    for node in toposort([graph]) if found else ():
        if kind_of(node) is not Kind.BILINEAR:
            for var in node.inputs:
                found.pop(var, None)
    return found, [v for v in data if not isinstance(v, Constant) and v not in found]


def _is_widened(var: Any) -> bool:
    if var.owner is None or not applies(var.owner, ps.Cast) or var.type.dtype != "float64":
        return False
    (source,) = var.owner.inputs
    return isinstance(source, Constant) and source.type.dtype == "float32" and source.type.ndim == 2


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
