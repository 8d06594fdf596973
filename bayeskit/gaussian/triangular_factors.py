"""Triangular factors L of positive definite matrices A = L Lᵀ: dense, banded, and a band with a dense border.

They share their operations; vectors, or several as columns, have the size of L as first axis. LAPACK is called without
SciPy's checks of each argument, which take ten times as long as the work on a matrix of thirty rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from bayeskit.gaussian.banded_solve import band_of_inverse

__all__ = ["Banded", "Bordered", "Dense", "Triangular"]


@dataclass(frozen=True, eq=False)
class Dense:
    """L as a square matrix."""

    lower: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Dense:
        """The factor of a symmetric matrix, of which the lower triangle is read; LinAlgError where it has none."""
        if not len(matrix):
            return cls(np.zeros((0, 0)))
        lower, failed = lapack.dpotrf(matrix, lower=1, clean=1)
        if failed or not np.isfinite(np.diag(lower)).all():  # OpenBLAS finds nothing wrong with what is no number
            raise np.linalg.LinAlgError(f"the leading minor of order {failed} is not positive definite")
        return cls(lower)

    @property
    def pivots(self) -> np.ndarray:
        """The diagonal of L."""
        return np.diag(self.lower)

    @property
    def entries(self) -> int:
        """How many numbers L holds."""
        return self.lower.size

    def forward(self, right: np.ndarray) -> np.ndarray:
        """L⁻¹ b."""
        return self._solve(right, 0)

    def backward(self, right: np.ndarray) -> np.ndarray:
        """L⁻ᵀ b."""
        return self._solve(right, 1)

    def _solve(self, right: np.ndarray, transposed: int) -> np.ndarray:
        if not right.size:
            return np.zeros(right.shape)
        if not np.isfinite(right).all():
            raise ValueError("a vector to be solved for has no number in it somewhere")
        solved, _ = lapack.dtrtrs(self.lower, right.reshape(len(right), -1), lower=1, trans=transposed)
        return np.asarray(solved.reshape(right.shape))

    def times(self, vector: np.ndarray) -> np.ndarray:
        """Lᵀ v, for one vector."""
        return np.asarray(self.lower.T @ vector)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of A⁻¹."""
        half = self.forward(np.eye(len(self.lower)))
        return np.einsum("ij,ij->j", half, half)


@dataclass(frozen=True, eq=False)
class Banded:
    """L as its lower band, one diagonal a row."""

    lower: np.ndarray

    @classmethod
    def of(cls, band: np.ndarray) -> Banded:
        """The factor of a symmetric band, given as its lower one; LinAlgError where it has none."""
        lower, failed = lapack.dpbtrf(band, lower=1)
        if failed or not np.isfinite(lower[0]).all():
            raise np.linalg.LinAlgError(f"the leading minor of order {failed} is not positive definite")
        return cls(lower)

    @property
    def pivots(self) -> np.ndarray:
        return np.asarray(self.lower[0])

    @property
    def entries(self) -> int:
        return self.lower.size

    def forward(self, right: np.ndarray) -> np.ndarray:
        return self._solve(right, b"N")

    def backward(self, right: np.ndarray) -> np.ndarray:
        return self._solve(right, b"T")

    def _solve(self, right: np.ndarray, transposed: bytes) -> np.ndarray:
        columns = right.reshape(len(right), -1)
        if len(self.lower) == 1:
            solved = columns / self.lower[0][:, None]
        else:
            solved, _ = lapack.dtbtrs(self.lower, columns, uplo=b"L", trans=transposed)
        return np.asarray(solved.reshape(right.shape))

    def times(self, vector: np.ndarray) -> np.ndarray:
        result = self.lower[0] * vector
        for k in range(1, len(self.lower)):
            result[:-k] += self.lower[k, :-k] * vector[k:]
        return np.asarray(result)

    def inverse_diagonal(self) -> np.ndarray:
        # SciPy has no selected inversion, and the whole inverse of a band is dense.
        if len(self.lower) == 1:
            return np.asarray(1.0 / self.lower[0] ** 2)
        return np.asarray(band_of_inverse(np.ascontiguousarray(self.lower))[0])


@dataclass(frozen=True, eq=False)
class Bordered:
    """L = ((B, 0), (Wᵀ, C)) with a band B and a dense C."""

    band: Banded
    border: np.ndarray  # W
    corner: Dense

    @property
    def pivots(self) -> np.ndarray:
        return np.concatenate([self.band.pivots, self.corner.pivots])

    @property
    def entries(self) -> int:
        return self.band.entries + self.border.size + self.corner.entries

    def _parts(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return vector[: len(self.border)], vector[len(self.border) :]

    def forward(self, right: np.ndarray) -> np.ndarray:
        top, bottom = self._parts(right)
        top = self.band.forward(top)
        return np.concatenate([top, self.corner.forward(bottom - self.border.T @ top)])

    def backward(self, right: np.ndarray) -> np.ndarray:
        top, bottom = self._parts(right)
        bottom = self.corner.backward(bottom)
        # Many draws lie one after the other in memory: a product laid out the other way would be ten times slower here.
        return np.concatenate([self.band.backward(top - (bottom.T @ self.border.T).T), bottom])

    def times(self, vector: np.ndarray) -> np.ndarray:
        top, bottom = self._parts(vector)
        return np.concatenate([self.band.times(top) + self.border @ bottom, self.corner.times(bottom)])

    def inverse_diagonal(self) -> np.ndarray:
        # The block of A⁻¹ within the band is B⁻ᵀ (I + W C⁻ᵀC⁻¹ Wᵀ) B⁻¹.
        half = self.corner.forward(self.band.backward(self.border).T)
        top = self.band.inverse_diagonal() + np.einsum("ij,ij->j", half, half)
        return np.concatenate([top, self.corner.inverse_diagonal()])


Triangular = Dense | Banded | Bordered
