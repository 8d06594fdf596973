"""Factorisations and solves of many small matrices at once, entry by entry over all of them.

PyTensor calls LAPACK once a matrix, a few microseconds each: with a point a matrix and a matrix a row of the data, that
is most of what the density of a multivariate Normal costs. Here each of the few steps of an elimination is one NumPy
operation on all matrices. As there, a matrix that cannot be factorised or solved gives an answer that is not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular

__all__ = ["LARGEST", "MANY", "cholesky", "of_many", "solve_triangular"]

LARGEST = 8  # rows of a matrix
MANY = 8  # matrices

_Function = Callable[..., np.ndarray]


def of_many(node: Apply) -> _Function | None:
    """What does for many small matrices the same as a node of PyTensor; None where nothing here does."""
    if not isinstance(node.op, Blockwise) or any(i.type.dtype != "float64" for i in node.inputs):
        return None
    op: Any = node.op.core_op
    if isinstance(op, Cholesky):
        return cholesky if op.lower else None
    if isinstance(op, SolveTriangular) and not op.unit_diagonal:
        return lambda a, b: solve_triangular(a, b, lower=op.lower, vectors=op.b_ndim == 1)
    return None


def cholesky(matrices: np.ndarray) -> np.ndarray:
    """L with A = L Lᵀ, for A of shape (..., m, m) of which the lower triangle is read."""
    size = matrices.shape[-1]
    factor = np.zeros(matrices.shape)
    with np.errstate(all="ignore"):
        for j in range(size):
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
    with np.errstate(all="ignore"):
        for i in range(size) if lower else reversed(range(size)):
            value = right[..., i, :]
            for j in range(i) if lower else range(i + 1, size):
                value = value - matrices[..., i, j, None] * result[..., j, :]
            result[..., i, :] = value / matrices[..., i, i, None]
        singular = np.any(np.diagonal(matrices, axis1=-2, axis2=-1) == 0, axis=-1)
    if np.any(singular):
        result[np.broadcast_to(singular, batch)] = np.nan
    return result
