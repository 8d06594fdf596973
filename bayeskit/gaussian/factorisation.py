"""Factorised precision matrices, each by the factor that its structure makes cheapest.

Λ = S⁻¹ Pᵀ L Lᵀ P S⁻¹ with S diagonal, P a permutation and L lower triangular. Λ is scaled to unit diagonal before it is
factorised, so that variances of 1e-12 and 1e12 may stand side by side. Draws of covariance Λ⁻¹ are S Pᵀ L⁻ᵀ z with z
standard normal.

What differs is L, chosen by cost (:mod:`bayeskit.gaussian.banded_layout`): dense (D³/3); a band, for chains and plates
in the order of reverse Cuthill–McKee (D · width²); a band with a border, once k variables shared by all are set aside,
such as the mean of 25,000 groups (D · (width + k)² + k³); or sparse in the order of minimum degree, where a
large Λ has another pattern (Σ of the squares of the entries in a column of L).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bayeskit.errors import InferenceError
from bayeskit.gaussian.banded_layout import Layout, Lookup, layout
from bayeskit.gaussian.low_rank_update import LowRankUpdate
from bayeskit.gaussian.sparse_factor import MOST_ENTRIES, SparseTriangular, elimination
from bayeskit.gaussian.triangular_factors import Banded, Bordered, Dense, Triangular
from bayeskit.graphs.batched_linalg import LARGEST, MANY, cholesky
from bayeskit.types import Array

__all__ = [
    "NotPositiveDefinite",
    "Precision",
    "factorise",
    "factorise_each",
    "factorise_entries",
    "factorise_root",
    "updated",
]

LARGEST_DENSE = 20_000  # variables in a dense precision matrix, which then takes 3.2 GB
LARGE = 1e9  # cost of a factorisation from which it is worth looking for a sparse one
SPARSE_COST = 10.0  # of a sparse operation in that of a dense one, which runs in BLAS
DRAWN = 50_000  # numbers drawn at a time, if not as many as L has: they stay in the cache until they are done


class NotPositiveDefinite(Exception):
    """The matrix is not a precision: the density does not have a Gaussian normaliser."""


@dataclass(frozen=True, eq=False)
class Precision:
    """Λ = S⁻¹ Pᵀ L Lᵀ P S⁻¹."""

    inverse_scale: np.ndarray  # the diagonal of S, 1/√Λ_kk
    factor: Triangular | SparseTriangular | LowRankUpdate  # L
    order: np.ndarray  # the permutation: entry i of the factorised matrix is entry ``order[i]`` of Λ

    @property
    def size(self) -> int:
        """D."""
        return len(self.inverse_scale)

    @property
    def condition(self) -> float:
        """A lower bound of the condition number of the scaled matrix, from the diagonal of its factor."""
        pivots = self.factor.pivots
        return float((np.max(pivots) / np.min(pivots)) ** 2) if np.size(pivots) else 1.0

    @cached_property
    def log_determinant(self) -> float:
        """log |Λ|."""
        return float(2 * np.sum(np.log(self.factor.pivots)) - 2 * np.sum(np.log(self.inverse_scale)))

    def _unscaled(self, inner: np.ndarray) -> np.ndarray:
        """S Pᵀ x."""
        result = np.empty_like(inner)
        result[self.order] = inner
        return (self.inverse_scale if inner.ndim == 1 else self.inverse_scale[:, None]) * result

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """Λ⁻¹ b for b of shape (size,) or (size, k)."""
        scale = self.inverse_scale if vector.ndim == 1 else self.inverse_scale[:, None]
        return self._unscaled(self.factor.backward(self.factor.forward((scale * vector)[self.order])))

    def colour(self, noise: np.ndarray) -> np.ndarray:
        """Λ^(−½) z for z of shape (size,)."""
        return self._unscaled(self.factor.backward(noise))

    def whiten(self, deviation: np.ndarray) -> np.ndarray:
        """Λ^(½)ᵀ δ for δ of shape (size,): its squared length is δᵀΛδ."""
        return self.factor.times((deviation / self.inverse_scale)[self.order])

    def log_density(self, deviation: np.ndarray) -> float:
        """Of a Normal with this precision, at its mean plus δ."""
        square = np.sum(self.whiten(deviation) ** 2)
        return float(0.5 * (self.log_determinant - square - self.size * np.log(2 * np.pi)))

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Independent draws with mean zero and covariance Λ⁻¹, of shape (number, size)."""
        result = np.empty((number, self.size))
        step = max(DRAWN, self.factor.entries) // max(self.size, 1)
        for start in range(0, number, step):
            rows = result[start : start + step]
            rows[:, self.order] = self.factor.backward(rng.standard_normal(rows.shape).T).T
            rows *= self.inverse_scale
        return result

    @cached_property
    def variances(self) -> np.ndarray:
        """The diagonal of Λ⁻¹."""
        return self._unscaled(self.factor.inverse_diagonal()) * self.inverse_scale

    def covariance(self) -> np.ndarray:
        """Λ⁻¹, dense."""
        return self.solve(np.eye(self.size))


def factorise(matrix: Any) -> Precision:
    """Factorise a matrix, dense or sparse; NotPositiveDefinite where it is not, to working precision."""
    size = matrix.shape[0]
    if not sparse.issparse(matrix):
        return _dense(matrix)
    entries = sparse.coo_array(sparse.tril(sparse.csr_array(matrix), format="csr"))
    entries.sum_duplicates()
    rows, columns = entries.coords
    plan = layout(size, rows, columns)
    if plan.cost > LARGE and (sparsely := _sparse(sparse.csr_array(matrix), plan.cost)) is not None:
        return sparsely
    if len(plan.inner) and len(plan.inner) * (plan.width + len(plan.shared)) <= LARGEST_DENSE**2:
        order = np.lexsort((columns, rows))
        places = plan.places(Lookup(size, rows[order], columns[order]))
        return factorise_entries(entries.data[order], plan, places)
    if size > LARGEST_DENSE:
        raise InferenceError(
            f"the precision matrix of {size:,} Normal variables is not banded, for many of them are shared by all "
            f"others, nor does it stay sparse, and dense it would take {8e-9 * size**2:.0f} GB; give the shared "
            "variables known values, or sample the model with PyMC"
        )
    return _dense(matrix.toarray())


def _sparse(matrix: sparse.csr_array, cost: float) -> Precision | None:
    """By a sparse factor, where that is cheaper than at some cost."""
    filled = matrix.nnz / 2
    if filled > MOST_ENTRIES or SPARSE_COST * filled**2 / matrix.shape[0] > cost:  # L has no fewer entries
        return None
    matrix = sparse.csr_array(0.5 * (matrix + matrix.T))
    plan = elimination(matrix)
    if plan is None or SPARSE_COST * plan.cost > cost:
        return None
    scale = _inverse_root(matrix.diagonal())
    scaled = sparse.csr_array(sparse.diags_array(scale) @ matrix @ sparse.diags_array(scale))
    try:
        factor, order = SparseTriangular.of(scaled[plan.order][:, plan.order])
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefinite from error
    return Precision(scale, factor, plan.order[order])


def factorise_entries(entries: Array, plan: Layout, places: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Precision:
    """Factorise a matrix by a layout, given a list of its entries and from :meth:`Layout.places` where each stands."""
    (found,) = factorise_each(entries[None], plan, places)
    if found is None:
        raise NotPositiveDefinite
    return found


def factorise_each(
    entries: Array, plan: Layout, places: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> list[Precision | None]:
    """Factorise matrices of one layout, a row of entries each; None where one is not positive definite."""
    padded = np.concatenate([entries, np.zeros((len(entries), 1))], axis=1)
    band, border, corner = (padded[:, place] for place in places)
    number, order = len(plan.inner), plan.order
    diagonal = np.concatenate([band[:, :1].reshape(len(band), -1), np.diagonal(corner, 0, 1, 2)], axis=1)
    usable = np.all(np.isfinite(diagonal) & (diagonal > 0), axis=1)
    scale = 1.0 / np.sqrt(np.where(usable[:, None], diagonal, 1.0))
    inner, shared = scale[:, :number], scale[:, number:]
    for k in range(band.shape[1]):
        band[:, k, : number - k] *= inner[:, k:] * inner[:, : number - k]
    border *= inner[:, :, None] * shared[:, None]
    corner *= shared[:, :, None] * shared[:, None]
    inverse_scale = np.empty_like(scale)
    inverse_scale[:, order] = scale
    if not number and len(entries) >= MANY and len(order) <= LARGEST:
        return _dense_each(inverse_scale, corner, usable, order)
    return [
        _precision(inverse_scale[k], band[k], border[k], corner[k], order) if usable[k] else None
        for k in range(len(entries))
    ]


def _dense_each(
    inverse_scale: np.ndarray, matrices: np.ndarray, usable: np.ndarray, order: np.ndarray
) -> list[Precision | None]:
    """Of many small matrices, by one call for all."""
    lower = cholesky(np.where(usable[:, None, None], matrices, np.eye(len(order))))
    usable = usable & np.all(np.isfinite(lower), axis=(1, 2))
    return [Precision(inverse_scale[k], Dense(lower[k]), order) if usable[k] else None for k in range(len(usable))]


def _precision(
    inverse_scale: np.ndarray, band: np.ndarray, border: np.ndarray, corner: np.ndarray, order: np.ndarray
) -> Precision | None:
    try:
        return Precision(inverse_scale, _factor(band, border, corner), order)
    except (np.linalg.LinAlgError, ValueError):
        return None


def _factor(band: np.ndarray, border: np.ndarray, corner: np.ndarray) -> Triangular:
    if not len(border):
        return Dense.of(corner)
    upper = Banded.of(band)
    if not len(corner):
        return upper
    half = upper.forward(border)
    return Bordered(upper, half, Dense.of(corner - half.T @ half))


def _dense(matrix: np.ndarray) -> Precision:
    scale = _inverse_root(np.diag(matrix))
    try:
        factor = Dense.of(matrix * scale[:, None] * scale)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise NotPositiveDefinite from error
    return Precision(scale, factor, np.arange(len(matrix)))


def _inverse_root(diagonal: np.ndarray) -> np.ndarray:
    if not np.all(np.isfinite(diagonal)) or np.any(diagonal <= 0):
        raise NotPositiveDefinite
    return 1.0 / np.sqrt(diagonal)


def factorise_root(root: np.ndarray) -> Precision:
    """Λ = AᵀA from A by orthogonal triangularisation: the condition that counts is that of A, the root of that of Λ."""
    size = root.shape[1]
    norms = np.sqrt(np.sum(root**2, axis=0))
    if root.shape[0] < size or not np.all(np.isfinite(norms)) or np.any(norms == 0):
        raise NotPositiveDefinite
    upper = linalg.qr(root / norms, mode="r")[0][:size]
    diagonal = np.diag(upper)
    if np.min(np.abs(diagonal)) < size * np.finfo(float).eps:
        raise NotPositiveDefinite
    return Precision(1 / norms, Dense((upper * np.sign(diagonal)[:, None]).T), np.arange(size))


def updated(base: Precision, rows: np.ndarray) -> Precision:
    """Λ₀ + BᵀB, factorised; NotPositiveDefinite where numbers are none."""
    scaled = np.ascontiguousarray((rows * base.inverse_scale).T[base.order])
    if not np.all(np.isfinite(scaled)):
        raise NotPositiveDefinite
    assert not isinstance(base.factor, LowRankUpdate)
    return replace(base, factor=LowRankUpdate.of(base.factor, base.factor.forward(scaled)))
