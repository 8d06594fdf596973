"""The same operation with each of many factorised precisions, as a Newton step of a latent vector asks for.

LAPACK is called from Python for each matrix, 30 microseconds a solve however small: where all factors are dense and of
few rows, each step of an elimination is one NumPy operation on all of them (:mod:`bayeskit.graphs.batched_linalg`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayeskit.gaussian.factorisation import Precision
from bayeskit.gaussian.triangular_factors import Dense
from bayeskit.graphs.batched_linalg import LARGEST, MANY, solve_triangular

__all__ = ["colour_each", "log_determinants", "solve_each"]


class _Stack(NamedTuple):
    """Dense factors of one size and one order."""

    rows: np.ndarray  # which of the precisions have one
    lower: np.ndarray  # (N, D, D)
    inverse_scale: np.ndarray  # (N, D)
    order: np.ndarray

    def unscaled(self, inner: np.ndarray) -> np.ndarray:
        """S Pᵀ x, for x of shape (N, D, K)."""
        result = np.empty_like(inner)
        result[:, self.order] = inner
        return self.inverse_scale[:, :, None] * result

    def backward(self, right: np.ndarray) -> np.ndarray:
        """L⁻ᵀ b."""
        return solve_triangular(np.swapaxes(self.lower, -1, -2), right, lower=False, vectors=False)


def _stacked(precisions: Sequence[Precision | None]) -> _Stack | None:
    """None where one by one is better."""
    rows = [k for k, p in enumerate(precisions) if p is not None]
    found = [p for p in precisions if p is not None]
    if len(found) < MANY or not 0 < found[0].size <= LARGEST:
        return None
    first = found[0].order
    if any(not isinstance(p.factor, Dense) or p.order is not first for p in found):
        return None
    lower = np.stack([p.factor.lower for p in found if isinstance(p.factor, Dense)])
    return _Stack(np.array(rows), lower, np.stack([p.inverse_scale for p in found]), first)


def solve_each(precisions: Sequence[Precision | None], vectors: np.ndarray) -> np.ndarray:
    """Λ⁻¹ b of each row b of ``vectors``, (N, D); not a number where there is no precision or b is none."""
    result = np.full_like(vectors, np.nan)
    usable = np.all(np.isfinite(vectors), axis=1)
    if (stack := _stacked(precisions)) is None:
        for k in np.flatnonzero(usable).tolist():
            if (precision := precisions[k]) is not None:
                result[k] = precision.solve(vectors[k])
        return result
    right = (stack.inverse_scale * vectors[stack.rows])[:, stack.order, None]
    half = solve_triangular(stack.lower, right, lower=True, vectors=False)
    result[stack.rows] = stack.unscaled(stack.backward(half))[:, :, 0]
    result[~usable] = np.nan
    return result


def colour_each(precisions: Sequence[Precision | None], noise: np.ndarray) -> np.ndarray:
    """Λ^(−½) z of each row z of ``noise``, (N, K, D); not a number where there is no precision."""
    result = np.full_like(noise, np.nan)
    if (stack := _stacked(precisions)) is None:
        for k, precision in enumerate(precisions):
            if precision is not None:
                result[k] = precision.colour(noise[k].T).T
        return result
    coloured = stack.unscaled(stack.backward(np.swapaxes(noise[stack.rows], -1, -2)))
    result[stack.rows] = np.swapaxes(coloured, -1, -2)
    return result


def log_determinants(precisions: Sequence[Precision | None]) -> np.ndarray:
    """log |Λ| of each; not a number where there is none."""
    result = np.full(len(precisions), np.nan)
    if (stack := _stacked(precisions)) is None:
        for k, precision in enumerate(precisions):
            if precision is not None:
                result[k] = precision.log_determinant
        return result
    pivots = np.diagonal(stack.lower, axis1=1, axis2=2)
    result[stack.rows] = 2 * np.sum(np.log(pivots), axis=1) - 2 * np.sum(np.log(stack.inverse_scale), axis=1)
    return result
