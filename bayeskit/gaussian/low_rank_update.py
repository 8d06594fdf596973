r"""A precision of more variables than data: a sparse one, and few rows of data.

.. math:: \Lambda = \Lambda_0 + B^\top B, \qquad \Lambda_0 = L_0 L_0^\top, \quad B \in \mathbb{R}^{N \times D}

With N much smaller than D, :math:`V = L_0^{-1} B^\top` and :math:`V^\top V = E \, \mathrm{diag}(\lambda) \, E^\top`,

.. math:: \Lambda = L L^\top, \qquad L = L_0 \, (I + V K V^\top), \qquad
   K = E \, \mathrm{diag}\Bigl(\frac{1}{1 + \sqrt{1 + \lambda}}\Bigr) E^\top,

which takes O(D N²) where a factor of Λ itself takes O(D³): a hundred rows and 10⁵ weights are 10⁷ numbers, not 10¹⁰.
L is no triangle, and solves like one. (Woodbury, 1950, is the same for the inverse, without its square root.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskit.gaussian.sparse_factor import SparseTriangular
from bayeskit.gaussian.triangular_factors import Triangular

__all__ = ["LowRankUpdate"]

COLUMNS = 256  # that are solved for at a time


@dataclass(frozen=True, eq=False)
class LowRankUpdate:
    """L = L₀ (I + V K Vᵀ)."""

    base: Triangular | SparseTriangular  # L₀
    rows: np.ndarray  # V, of shape (D, N)
    directions: np.ndarray  # E
    roots: np.ndarray  # √(1 + λ)

    @classmethod
    def of(cls, base: Triangular | SparseTriangular, rows: np.ndarray) -> LowRankUpdate:
        """From V."""
        values, directions = np.linalg.eigh(rows.T @ rows)
        return cls(base, rows, directions, np.sqrt(1.0 + np.maximum(values, 0.0)))

    @property
    def pivots(self) -> np.ndarray:
        """Those of L₀, and √(1 + λ): their product is the determinant of L."""
        return np.concatenate([self.base.pivots, self.roots])

    @property
    def entries(self) -> int:
        """How many numbers L holds."""
        return self.base.entries + self.rows.size

    def forward(self, right: np.ndarray) -> np.ndarray:
        """L⁻¹ b."""
        return self._without(self.base.forward(right))

    def backward(self, right: np.ndarray) -> np.ndarray:
        """L⁻ᵀ b."""
        return self.base.backward(self._without(right))

    def times(self, vector: np.ndarray) -> np.ndarray:
        """Lᵀ v, for one vector."""
        half = self.base.times(vector)
        inside = self.directions.T @ (half @ self.rows) / (1.0 + self.roots)
        return np.asarray(half + self.rows @ (self.directions @ inside))

    def _without(self, right: np.ndarray) -> np.ndarray:
        """(I + V K Vᵀ)⁻¹ b."""
        shrunk = self.directions / (self.roots * (1.0 + self.roots)) @ self.directions.T
        # Many draws lie one after the other in memory: products are laid out as they are.
        return np.asarray(right - ((right.T @ self.rows) @ shrunk @ self.rows.T).T)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of Λ⁻¹ = L₀⁻ᵀ (I − V E diag(1 / (1 + λ)) Eᵀ Vᵀ) L₀⁻¹."""
        inner = self.directions / self.roots
        result = self.base.inverse_diagonal()
        for start in range(0, inner.shape[1], COLUMNS):
            part = self.base.backward(self.rows @ inner[:, start : start + COLUMNS])
            result = result - np.einsum("ij,ij->i", part, part)
        return result
