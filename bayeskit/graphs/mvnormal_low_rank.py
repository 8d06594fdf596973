"""Quadratic form and log determinant of a covariance, and their derivatives, by whichever factor has fewer numbers.

A covariance A = K + δI of observations of a smooth process has far fewer directions than rows: for a thousand inputs
over ten length scales K has rank forty to working precision. A Cholesky factorisation of K with pivoting finds F with
K = FFᵀ + E, one column of A after the other, and stops where E is rounding. With B = δI + FᵀF (r × r)

    log |A| = (n − r) log δ + log |B|,   A⁻¹ = (I − F B⁻¹ Fᵀ) / δ,   bᵀA⁻¹b = |b − Fx|² / δ + |x|²,  x = B⁻¹Fᵀb,

in O(n r²) where the factor of A takes O(n³). The last is a minimum over x, so that an error in x enters squared.

What is left out is measured. To first order log |A| changes by tr(A⁻¹E), and bᵀA⁻¹b by less than ‖E‖ / δ of itself.
For z of random signs zᵀA⁻¹Ez has that trace as its mean and a standard deviation below √2 ‖E‖ / δ, and |Ez|² the mean
‖E‖² (Hutchinson 1990). That holds for any K and any δ > 0, also where K is no covariance at all; where the change may
exceed a hundred-millionth, A itself is factorised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from bayeskit.types import Array

__all__ = ["LowRank", "NormalTerms", "low_rank", "normal_terms"]

MOST = 4  # rows of A for each column of F, at least
LOOK = 32  # columns after which the trace has to have fallen
FALLEN = 1e-3  # to this share
ROUNDING = 8.0  # units in the last place of the largest entry below which a pivot is rounding
TOLERANCE = 1e-8  # nats that leaving out E may change
SAFETY = 4.0  # standard deviations of what is measured by one z, and more


@dataclass(frozen=True)
class LowRank:
    """A = FFᵀ + δI to working precision."""

    rows: np.ndarray  # Fᵀ, (r, n)
    floor: float  # δ
    factor: np.ndarray  # the triangular factor L of B = LLᵀ, (r, r)
    half: np.ndarray  # L⁻¹Fᵀ, (r, n)

    @classmethod
    def of(cls, rows: np.ndarray, floor: float) -> LowRank:
        """From Fᵀ and δ."""
        if not len(rows):
            return cls(rows, floor, np.empty((0, 0)), rows)
        inner = blas.dsyrk(1.0, rows.T, trans=1, lower=1)
        inner[np.diag_indices(len(rows))] += floor
        factor, _ = lapack.dpotrf(inner, lower=1)
        half, _ = lapack.dtrtrs(factor, rows, lower=1)
        return cls(rows, floor, factor, half)


@dataclass(frozen=True)
class NormalTerms:
    """The terms of a multivariate Normal and what their derivatives are made of.

    The last is the derivative of Σ v·bᵀA⁻¹b + w·½ log |A| in what a factorisation reads, the lower triangle.
    """

    quadratic: np.ndarray  # bᵀA⁻¹b for every row b
    half_log_determinant: float  # infinite where A is not positive definite: the density is zero
    solved: np.ndarray  # A⁻¹b for every row b
    to_matrix: np.ndarray | None


def low_rank(matrix: np.ndarray, floor: float) -> LowRank | None:
    """A factor with few columns of A − δI, where every diagonal entry contains a noise δ; None where there is none."""
    size = len(matrix)
    if not floor > 0 or not np.isfinite(floor):
        return None
    left = np.diagonal(matrix) - floor
    largest = float(np.max(np.diagonal(matrix)))
    start = float(np.sum(left))
    rounding = ROUNDING * np.finfo(float).eps * largest
    if not np.isfinite(start) or SAFETY * size * rounding / floor > TOLERANCE:
        return None
    least = max(rounding, 0.1 * TOLERANCE * floor / size)
    rows = np.empty((size // MOST, size))
    for k in range(size // MOST):
        at = int(np.argmax(left))
        pivot = left[at]
        if pivot <= least:
            found = LowRank.of(rows[:k], float(floor))
            return found if _is_close(matrix, found) else None
        if k == LOOK and np.sum(left) > FALLEN * start:
            return None
        row = matrix[at] - _combined(rows[:k], rows[:k, at])
        row[at] -= floor
        row /= np.sqrt(pivot)
        rows[k] = row
        left = left - row**2
    return None


def _is_close(matrix: np.ndarray, found: LowRank) -> bool:
    """Whether ½ log |A| is that of the factor but for a hundred-millionth."""
    rng = np.random.default_rng(len(matrix))
    # Normal numbers besides signs: signs that are equal see nothing of a difference between two rows.
    for z in (rng.choice([-1.0, 1.0], len(matrix)), rng.normal(size=len(matrix))):
        left = _combined(matrix, z) - found.floor * z - _combined(found.rows, _along(found.rows, z))
        solved = _of_low_rank(found, left[None], None).solved[0]
        change = 0.5 * abs(z @ solved) + SAFETY * float(np.linalg.norm(left)) / found.floor
        if not change <= TOLERANCE:
            return False
    return True


def _along(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    result: np.ndarray = blas.dgemv(1.0, rows.T, vector, trans=1) if len(rows) else np.empty(0)
    return result


def _combined(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ w r over rows: by SciPy's BLAS, as all else here. NumPy has another, whose idle threads get in its way."""
    result: np.ndarray = blas.dgemv(1.0, rows.T, weights) if len(rows) else np.zeros(rows.shape[1])
    return result


def normal_terms(matrix: Array, rows: Array, floor: float, weights: tuple[Array, float] | None = None) -> NormalTerms:
    """The terms of a multivariate Normal, for A of which the lower triangle counts, rows b, and a noise δ ≥ 0.

    Without weights, which are v and w, there are no derivatives in A.
    """
    found = low_rank(matrix, floor)
    return _dense(matrix, rows, weights) if found is None else _of_low_rank(found, rows, weights)


def _of_low_rank(found: LowRank, rows: np.ndarray, weights: tuple[np.ndarray, float] | None) -> NormalTerms:
    rank, size = found.rows.shape
    if not rank:
        return _dense(np.eye(size) * found.floor, rows, weights)
    x, _ = lapack.dtrtrs(found.factor, blas.dgemm(1.0, found.half, rows.T), lower=1, trans=1)
    left = rows - blas.dgemm(1.0, x.T, found.rows)
    quadratic = np.sum(left**2, axis=1) / found.floor + np.sum(x**2, axis=0)
    log_determinant = 0.5 * (size - rank) * np.log(found.floor) + np.sum(np.log(np.diagonal(found.factor)))
    solved = left / found.floor
    if weights is None:
        return NormalTerms(quadratic, float(log_determinant), solved, None)
    of_rows, of_determinant = weights
    # Fortran's upper triangle is the lower one here; half.T is as Fortran has it.
    inverse = blas.dsyrk(-of_determinant / found.floor, found.half.T, trans=0, lower=0)
    inverse[np.diag_indices(size)] += of_determinant / found.floor
    return NormalTerms(quadratic, float(log_determinant), solved, _weighed(inverse, solved, of_rows))


def _dense(matrix: np.ndarray, rows: np.ndarray, weights: tuple[np.ndarray, float] | None) -> NormalTerms:
    # The transpose of a row-major matrix is a column-major one, its lower triangle the upper: LAPACK copies it as is.
    factor, failed = lapack.dpotrf(np.asarray(matrix, dtype=np.float64, order="C").T, lower=0, clean=1)
    if failed:
        whole = None if weights is None else np.full(matrix.shape, np.nan)
        return NormalTerms(np.zeros(len(rows)), np.inf, np.full(rows.shape, np.nan), whole)
    if len(rows):
        half = lapack.dtrtrs(factor, rows.T, lower=0, trans=1)[0]
        solved = lapack.dtrtrs(factor, half, lower=0)[0].T
    else:
        half, solved = rows.T, rows
    log_determinant = float(np.sum(np.log(np.diagonal(factor))))
    quadratic = np.sum(half**2, axis=0)
    if weights is None:
        return NormalTerms(quadratic, log_determinant, solved, None)
    of_rows, of_determinant = weights
    inverse, failed = lapack.dpotri(factor, lower=0, overwrite_c=1)
    inverse *= of_determinant if not failed else np.nan
    return NormalTerms(quadratic, log_determinant, solved, _weighed(inverse, solved, of_rows))


def _weighed(inverse: Any, solved: np.ndarray, of_rows: np.ndarray) -> np.ndarray:
    """w A⁻¹ − 2 Σ v (A⁻¹b)(A⁻¹b)ᵀ with half of the diagonal, from w A⁻¹ in Fortran's upper triangle."""
    for weight, row in zip(np.broadcast_to(of_rows, len(solved)), solved, strict=True):
        inverse = blas.dsyr(-2.0 * weight, row, lower=0, a=inverse, overwrite_a=1)
    result: np.ndarray = inverse.T
    np.einsum("ii->i", result)[:] *= 0.5
    return result
