"""A sparse triangular factor of a sparse positive definite matrix, in an order in which little fills in.

A = L Lᵀ by SciPy's SuperLU with pivots on the diagonal, in the order of minimum degree. What fills in is counted before
a number is computed, along the elimination tree (Liu 1990): designs of crossed factors may fill in wholly, and are then
better dense. The diagonal of the inverse comes from the entries of A⁻¹ where L has some (Takahashi, Fagan and Chin
1973).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, spilu, splu

from bayeskit.graphs.numba_functions import as_written

__all__ = ["MOST_ENTRIES", "Elimination", "SparseTriangular", "elimination"]

MOST_ENTRIES = 40_000_000  # of L, which then takes half a gigabyte, and twice as much while it is made
PIVOTS: Any = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}  # on the diagonal


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order in which the variables are eliminated, and what that costs."""

    order: np.ndarray
    entries: int  # of L
    cost: float  # Σ c², with c the entries of a column


@as_written()
def _counts(pointers: np.ndarray, indices: np.ndarray, most: int) -> np.ndarray:
    """Entries of each column of L, from the rows of A's lower triangle; −1 in the first where they are more than that.

    Row i of L has an entry in each column on the ways up the elimination tree from the entries of row i of A to i.
    """
    size = len(pointers) - 1
    parent, seen = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    counts, total = np.ones(size, np.int64), size
    for i in range(size):
        seen[i] = i
        for place in range(pointers[i], pointers[i + 1]):
            j = np.int64(indices[place])
            while j < i and seen[j] != i:
                if parent[j] < 0:
                    parent[j] = i
                counts[j] += 1
                total += 1
                seen[j] = i
                j = parent[j]
        if total > most:
            counts[0] = -1
            return counts
    return counts


def elimination(pattern: sparse.csr_array, most: int = MOST_ENTRIES) -> Elimination | None:
    """The order of minimum degree for a symmetric pattern; None where L would have more than ``most`` entries."""
    size = pattern.shape[0]
    like = sparse.csc_array(pattern, copy=True)
    like.data = np.ones(like.nnz)
    like = sparse.csc_array(like + sparse.eye_array(size) * float(size))
    # Of an incomplete factor that drops all it can only the order is used: SciPy does not give it alone.
    found = spilu(like, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A", **PIVOTS)
    order = np.argsort(found.perm_c)
    lower = sparse.csr_array(sparse.tril(sparse.csr_array(like)[order][:, order], format="csr"))
    counts = _counts(lower.indptr.astype(np.int64), lower.indices.astype(np.int64), most)
    if size and counts[0] < 0:
        return None
    return Elimination(order, int(counts.sum()), float(np.sum(counts.astype(float) ** 2)))


@as_written()
def _inverse_diagonal(pointers: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The diagonal of (L Lᵀ)⁻¹, by way of its entries where L has some, the last column first.

    With Z the inverse, Z L = L⁻ᵀ: column j of Z below the diagonal is −Z[r, r] L[r, j] / L[j, j] for the rows r of
    column j of L, and L fills in so that Z[r, r] are entries where L has some, too.
    """
    size = len(pointers) - 1
    inverse, place = np.zeros(len(values)), np.full(size, -1, np.int64)
    for j in range(size - 1, -1, -1):
        first, last = pointers[j], pointers[j + 1]
        for k in range(first + 1, last):
            place[rows[k]] = k
        for k in range(first + 1, last):
            # Z[rows[k], r] for r below rows[k], and by symmetry above.
            column = rows[k]
            start, multiple, own = pointers[column], values[k], 0.0
            own = inverse[start] * multiple
            for at in range(start + 1, pointers[column + 1]):
                target = place[rows[at]]
                if target >= 0:
                    inverse[target] -= inverse[at] * multiple
                    own += inverse[at] * values[target]
            inverse[k] -= own
        total = 1.0 / values[first]
        for k in range(first + 1, last):
            inverse[k] /= values[first]
            total -= values[k] * inverse[k]
            place[rows[k]] = -1
        inverse[first] = total / values[first]
    return inverse[pointers[:-1]]


@dataclass(frozen=True, eq=False)
class SparseTriangular:
    """L by its columns."""

    lower: sparse.csc_array

    @classmethod
    def of(cls, matrix: Any) -> tuple[SparseTriangular, np.ndarray]:
        """The factor of a symmetric matrix, and the order of the variables in it; LinAlgError where it has none."""
        try:
            found = splu(sparse.csc_array(matrix), permc_spec="NATURAL", **PIVOTS)
        except RuntimeError as error:  # a pivot that is zero
            raise np.linalg.LinAlgError(str(error)) from error
        # The natural order is sorted along the elimination tree, in which no more fills in.
        pivots = found.U.diagonal()
        if not np.array_equal(found.perm_r, found.perm_c) or not np.all(np.isfinite(pivots) & (pivots > 0)):
            raise np.linalg.LinAlgError("a pivot is not positive")
        lower = sparse.csc_array(found.L @ sparse.diags_array(np.sqrt(pivots)))
        lower.sort_indices()
        return cls(lower), np.argsort(found.perm_c)

    @property
    def pivots(self) -> np.ndarray:
        """The diagonal of L."""
        return np.asarray(self.lower.diagonal())

    @property
    def entries(self) -> int:
        """How many numbers L holds."""
        return int(self.lower.nnz)

    @cached_property
    def _solver(self) -> SuperLU:
        # L is its own factor; SciPy's spsolve_triangular would make it anew for each right-hand side.
        return splu(self.lower, permc_spec="NATURAL", **PIVOTS)

    def forward(self, right: np.ndarray) -> np.ndarray:
        """L⁻¹ b."""
        return np.asarray(self._solver.solve(np.asarray(right, dtype=float)))

    def backward(self, right: np.ndarray) -> np.ndarray:
        """L⁻ᵀ b."""
        return np.asarray(self._solver.solve(np.asarray(right, dtype=float), trans="T"))

    def times(self, vector: np.ndarray) -> np.ndarray:
        """Lᵀ v, for one vector."""
        return np.asarray(self.lower.T @ vector)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of A⁻¹."""
        pointers, rows = self.lower.indptr.astype(np.int64), self.lower.indices.astype(np.int64)
        return np.asarray(_inverse_diagonal(pointers, rows, self.lower.data))
