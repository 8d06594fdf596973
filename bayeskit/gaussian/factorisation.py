"""Factorised precision matrices: dense, or banded where the graph leaves it sparse.

Λ is scaled to unit diagonal before it is factorised, so that variances of 1e-12 and 1e12 may stand side by side. A
sparse Λ (plates, chains) is reordered by reverse Cuthill–McKee and factorised as a band: T steps of a random walk
cost O(T).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from bayeskit.errors import InferenceError

__all__ = ["NotPositiveDefinite", "Precision", "factorise", "factorise_root"]

LARGEST_DENSE = 20_000  # variables in a dense precision matrix, which then takes 3.2 GB


class NotPositiveDefinite(Exception):
    """The matrix is not a precision: the density does not have a Gaussian normaliser."""


@dataclass(frozen=True, eq=False)
class Precision:
    """Λ = S⁻¹ Pᵀ L Lᵀ P S⁻¹ with S diagonal, P a permutation and L lower triangular, dense or banded.

    Attributes
    ----------
    inverse_scale : numpy.ndarray
        The diagonal of S, 1/√Λ_kk.
    factor : numpy.ndarray
        L as a square matrix, or its lower band, one diagonal a row, where ``banded``.
    order : numpy.ndarray
        The permutation; entry i of the factorised matrix is entry ``order[i]`` of Λ.
    banded : bool
    """

    inverse_scale: np.ndarray
    factor: np.ndarray
    order: np.ndarray
    banded: bool

    @property
    def size(self) -> int:
        return len(self.inverse_scale)

    @property
    def condition(self) -> float:
        """A lower bound of the condition number of the scaled matrix, from the diagonal of its factor."""
        diagonal = self.factor[0] if self.banded else np.diag(self.factor)
        return float((np.max(diagonal) / np.min(diagonal)) ** 2)

    @cached_property
    def log_determinant(self) -> float:
        """log |Λ|."""
        diagonal = self.factor[0] if self.banded else np.diag(self.factor)
        return float(2 * np.sum(np.log(diagonal)) - 2 * np.sum(np.log(self.inverse_scale)))

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """Λ⁻¹ b for b of shape (size,) or (size, k)."""
        scale = self.inverse_scale if vector.ndim == 1 else self.inverse_scale[:, None]
        right = (scale * vector)[self.order]
        if self.banded:
            inner = linalg.cho_solve_banded((self.factor, True), right)
        else:
            inner = linalg.cho_solve((self.factor, True), right)
        result = np.empty_like(inner)
        result[self.order] = inner
        return scale * result

    def draw(self, noise: np.ndarray) -> np.ndarray:
        """Λ^(−1/2) z: draws with covariance Λ⁻¹ from standard normal ``noise`` of shape (n, size)."""
        if self.banded:
            upper = _transpose_band(self.factor)
            inner = linalg.solve_banded((0, len(self.factor) - 1), upper, noise.T)
        else:
            inner = linalg.solve_triangular(self.factor, noise.T, lower=True, trans="T")
        result = np.empty_like(inner)
        result[self.order] = inner
        return (self.inverse_scale[:, None] * result).T

    def whiten(self, deviation: np.ndarray) -> np.ndarray:
        """Λ^(½)ᵀ δ for δ of shape (size,): its squared length is δᵀΛδ."""
        right = (deviation / self.inverse_scale)[self.order]
        if not self.banded:
            return self.factor.T @ right
        result = self.factor[0] * right
        for k in range(1, len(self.factor)):
            result[:-k] += self.factor[k, :-k] * right[k:]
        return result

    @cached_property
    def variances(self) -> np.ndarray:
        """The diagonal of Λ⁻¹."""
        if self.banded:
            inner = _diagonal_of_inverse(self.factor)
        else:
            half = linalg.solve_triangular(self.factor, np.eye(self.size), lower=True)
            inner = np.einsum("ij,ij->j", half, half)
        result = np.empty_like(inner)
        result[self.order] = inner
        return result * self.inverse_scale**2

    def covariance(self) -> np.ndarray:
        """Λ⁻¹, dense."""
        return self.solve(np.eye(self.size))


def _transpose_band(lower: np.ndarray) -> np.ndarray:
    """The band of Lᵀ (upper form of ``scipy.linalg.solve_banded``) from the lower band of L."""
    upper = np.zeros_like(lower)
    width = len(lower)
    for k in range(width):
        upper[width - 1 - k, k:] = lower[k, : lower.shape[1] - k]
    return upper


def _diagonal_of_inverse(lower: np.ndarray) -> np.ndarray:
    """The diagonal of (L Lᵀ)⁻¹ from the band of L, in O(size · width²) (Takahashi, Fagan and Chin 1973).

    SciPy has no selected inversion, and the whole inverse of a band is dense.
    """
    width, size = lower.shape
    band = width - 1
    if band == 0:
        return 1.0 / lower[0] ** 2
    result = np.zeros(size)
    window = np.zeros((band, band))  # the inverse over the entries i+1 … i+band
    for i in range(size - 1, -1, -1):
        reach = min(band, size - 1 - i)
        column = lower[1 : reach + 1, i] / lower[0, i]
        block = window[:reach, :reach]
        cross = -block @ column
        result[i] = 1.0 / lower[0, i] ** 2 - column @ cross
        shifted = np.zeros_like(window)
        shifted[0, 0] = result[i]
        keep = min(reach, band - 1)
        shifted[0, 1 : keep + 1] = shifted[1 : keep + 1, 0] = cross[:keep]
        shifted[1 : keep + 1, 1 : keep + 1] = block[:keep, :keep]
        window = shifted
    return result


def factorise(matrix: Any) -> Precision:
    """Factorise a symmetric positive definite matrix, dense or sparse.

    Raises
    ------
    NotPositiveDefinite
        If it is not positive definite to working precision.
    InferenceError
        If it is too large to be dense, and not banded.
    """
    diagonal = matrix.diagonal()
    if not np.all(np.isfinite(diagonal)) or np.any(diagonal <= 0):
        raise NotPositiveDefinite
    scale = 1.0 / np.sqrt(diagonal)
    size = len(scale)
    if sparse.issparse(matrix):
        order = np.asarray(reverse_cuthill_mckee(sparse.csr_matrix(matrix), symmetric_mode=True))
        rank = np.empty(size, dtype=int)
        rank[order] = np.arange(size)
        entries = sparse.coo_array(matrix)
        rows, columns = rank[entries.coords[0]], rank[entries.coords[1]]
        width = int(np.max(np.abs(rows - columns), initial=0))
        if width < 64 or width < size // 8:
            lower = rows >= columns
            band = np.zeros((width + 1, size))
            values = entries.data * scale[entries.coords[0]] * scale[entries.coords[1]]
            np.add.at(band, (rows[lower] - columns[lower], columns[lower]), values[lower])
            try:
                return Precision(scale, linalg.cholesky_banded(band, lower=True), order, True)
            except np.linalg.LinAlgError as error:
                raise NotPositiveDefinite from error
        if size > LARGEST_DENSE:
            raise InferenceError(
                f"the precision matrix of {size:,} Normal variables is not banded, for some of them are shared by all "
                f"others, and dense it would take {8e-9 * size**2:.0f} GB; give the shared variables known values, or "
                "sample the model with PyMC"
            )
        matrix = matrix.toarray()
    try:
        factor = linalg.cholesky(matrix * scale[:, None] * scale, lower=True)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise NotPositiveDefinite from error
    return Precision(scale, factor, np.arange(size), False)


def factorise_root(root: np.ndarray) -> Precision:
    """Λ = AᵀA from A, by orthogonal triangularisation: the condition that counts is that of A, the root of that of Λ.

    Raises
    ------
    NotPositiveDefinite
        If A has not full column rank to working precision.
    """
    size = root.shape[1]
    norms = np.sqrt(np.sum(root**2, axis=0))
    if root.shape[0] < size or not np.all(np.isfinite(norms)) or np.any(norms == 0):
        raise NotPositiveDefinite
    upper = linalg.qr(root / norms, mode="r")[0][:size]
    diagonal = np.diag(upper)
    if np.min(np.abs(diagonal)) < size * np.finfo(float).eps:
        raise NotPositiveDefinite
    return Precision(1 / norms, (upper * np.sign(diagonal)[:, None]).T, np.arange(size), False)
