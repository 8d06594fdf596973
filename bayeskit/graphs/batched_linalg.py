"""Factorisations and solves of many matrices at once.

PyTensor calls LAPACK once a matrix, a few microseconds each: most of what many densities of a small multivariate Normal
cost. NumPy's functions of many matrices give up if one cannot be factorised, and for triangular systems it has none:
there each step of an elimination is one NumPy operation on all matrices while these are small, and LAPACK is called
where they are not. As in PyTensor, a matrix that cannot be factorised or solved gives what is not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.qr import QR
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from scipy.linalg.lapack import dpotrf, dtrtrs

__all__ = ["LARGEST", "MANY", "cholesky", "of_many", "solve", "solve_triangular", "triangle"]

LARGEST = 32  # rows of a matrix up to which one call for all takes less time than LAPACK for each
MANY = 8  # matrices

_Function = Callable[..., np.ndarray]


def of_many(node: Apply) -> _Function | None:
    """What does for many matrices the same as a node of PyTensor; None where nothing here does."""
    if not isinstance(node.op, Blockwise) or any(i.type.dtype != "float64" for i in node.inputs):
        return None
    op: Any = node.op.core_op
    if isinstance(op, Cholesky):
        return cholesky if op.lower else None
    if isinstance(op, SolveTriangular) and not op.unit_diagonal:
        return lambda a, b: solve_triangular(a, b, lower=op.lower, vectors=op.b_ndim == 1)
    if isinstance(op, Solve) and op.assume_a == "gen":
        return lambda a, b: solve(a, b, vectors=op.b_ndim == 1)
    if isinstance(op, QR) and op.mode == "r" and not op.pivoting:
        return triangle
    return None


def triangle(matrices: np.ndarray) -> np.ndarray:
    """R with A = QR, for A of shape (..., m, n): m rows, of which those below the n-th are zero."""
    result = np.zeros(matrices.shape)
    upper = np.linalg.qr(matrices, mode="r")
    result[..., : upper.shape[-2], :] = upper
    return result


def cholesky(matrices: np.ndarray) -> np.ndarray:
    """L with A = L Lᵀ, for A of shape (..., m, m) of which the lower triangle is read."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:  # one of them has no factor
        return _factors_where_there_are(matrices)


def _factors_where_there_are(matrices: np.ndarray) -> np.ndarray:
    size = matrices.shape[-1]
    factor = np.zeros(matrices.shape)
    for k in np.ndindex(matrices.shape[:-2]) if size > LARGEST else ():
        found, failed = dpotrf(matrices[k], lower=1, clean=1)
        factor[k] = np.nan if failed else found
    with np.errstate(all="ignore"):
        for j in range(size) if size <= LARGEST else ():
            below = matrices[..., j:, j] - np.einsum("...ik,...k->...i", factor[..., j:, :j], factor[..., j, :j])
            factor[..., j:, j] = below / np.sqrt(below[..., :1])
            factor[..., j, j] = np.sqrt(below[..., 0])
    definite = np.all(np.diagonal(factor, axis1=-2, axis2=-1) > 0, axis=-1)
    factor[~definite] = np.nan
    return factor


def solve_triangular(matrices: np.ndarray, right: np.ndarray, *, lower: bool, vectors: bool) -> np.ndarray:
    """A⁻¹b for triangular A of shape (..., m, m), and b of shape (..., m) or (..., m, n)."""
    size = matrices.shape[-1]
    if vectors:
        return solve_triangular(matrices, right[..., None], lower=lower, vectors=False)[..., 0]
    batch = np.broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
    result = np.empty((*batch, *right.shape[-2:]))
    if size > LARGEST:
        matrices, right = (np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (matrices, right))
        for k in np.ndindex(batch):
            solved, failed = dtrtrs(matrices[k].T, right[k], lower=not lower, trans=1)
            result[k] = np.nan if failed else solved
        return result
    with np.errstate(all="ignore"):
        for i in range(size) if lower else reversed(range(size)):
            known = slice(0, i) if lower else slice(i + 1, size)
            value = right[..., i, :]
            if known.start < known.stop:
                value = value - np.matmul(matrices[..., i, None, known], result[..., known, :])[..., 0, :]
            result[..., i, :] = value / matrices[..., i, i, None]
        singular = np.any(np.diagonal(matrices, axis1=-2, axis2=-1) == 0, axis=-1)
    if np.any(singular):
        result[np.broadcast_to(singular, batch)] = np.nan
    return result


def solve(matrices: np.ndarray, right: np.ndarray, *, vectors: bool) -> np.ndarray:
    """A⁻¹b for A of shape (..., m, m), and b of shape (..., m) or (..., m, n)."""
    if vectors:
        return solve(matrices, right[..., None], vectors=False)[..., 0]
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:  # one of them is singular
        batch = np.broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
        # The sign is that of the factors on the diagonal of U, none of which is zero: what solving asks for as well.
        singular = np.linalg.slogdet(matrices)[0] == 0
        regular = np.where(singular[..., None, None], np.eye(matrices.shape[-1]), matrices)
        result = np.linalg.solve(regular, right)
        result[np.broadcast_to(singular, batch)] = np.nan
        return result
