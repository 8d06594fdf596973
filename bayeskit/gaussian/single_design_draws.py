r"""The conditional distribution of a Gaussian block whose data are one matrix, U = g M diag(h), by singular values.

With V diag(σ) Wᵀ for the columns of M that have one h, and C = VᵀM_b diag(h_b) g for the k others, in the notation of
:mod:`bayeskit.gaussian.single_design` and :mod:`bayeskit.gaussian.observation_space`,

.. math:: A = I + UU^\top = V (D + CC^\top) V^\top, \qquad D = I + \operatorname{diag}(s)^2, \qquad s = g h σ.

With B = D^{-½} C and the triangular factor R of (B; I), the other columns have the precision RᵀR a posteriori, and Wᵀz
given them 1 + s²: draws and moments take O(N k² + N D), where a factorisation of A takes O(N³) for each φ. Sums are of
what is positive, so that a posterior variance keeps its digits however vague the prior is; but for what of z is in no
row of the data, where there are more columns than rows.

Draws are prior draws moved onto the data (Matheron; Hoffman and Ribak 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskit.gaussian.observation_space import DataSide
from bayeskit.gaussian.observation_space_draws import LEFT, stacks
from bayeskit.gaussian.single_design import SingleDesign
from bayeskit.graphs.batched_linalg import solve_triangular
from bayeskit.types import Graph

__all__ = ["SingleDesignConditional"]


@dataclass(frozen=True, eq=False)
class _Given:
    """What depends on φ, first axis its values."""

    one: np.ndarray  # 1/ρ of the columns inside
    spread: np.ndarray  # 1/ρ of all
    centre: np.ndarray  # −r/ρ
    values: np.ndarray  # s
    root: np.ndarray  # √D
    border: np.ndarray  # B
    orthogonal: np.ndarray  # the upper part of the orthogonal factor of (B; I)
    inverse: np.ndarray  # R⁻¹
    log_determinant: np.ndarray  # ½ log |A|
    residual: np.ndarray  # Vᵀc

    def towards(self, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """−UᵀA⁻¹ times a residual in the columns of V: along W, and in the other columns."""
        half = residual / self.root
        others = np.einsum("kij,knj,kn->ki", self.inverse, self.orthogonal, half)
        left = half - np.einsum("kni,ki->kn", self.border, others)
        return -self.values / self.root * left, -others

    def times(self, along: np.ndarray, others: np.ndarray) -> np.ndarray:
        """VᵀU z of Wᵀz and the other columns."""
        result = self.root * np.einsum("kni,ki->kn", self.border, others)
        result[:, : along.shape[1]] += self.values[:, : along.shape[1]] * along
        return result


@dataclass(frozen=True, eq=False)
class SingleDesignConditional:
    """θ given φ, where the data are one matrix with few columns outside its largest class."""

    side: DataSide

    @property
    def single(self) -> SingleDesign:
        """g, M and h."""
        assert self.side.single is not None
        return self.side.single

    @property
    def graphs(self) -> list[Graph]:
        side, single = self.side, self.single
        graphs = [single.factor, single.spread, side.spread, side.residual]
        return graphs if side.centre is None else [*graphs, side.centre]

    @property
    def entries(self) -> int:
        return self.side.size + self.side.rows * (3 + len(self.single.border))

    @cached_property
    def _map(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T⁻¹ of the columns inside times W, the squares of its rows, and those of what is in no row of the data."""
        inside = self.side.inverse[:, self.single.inside]
        right = self.single.singular[2]
        product = np.asarray(inside @ right.T)
        squares = np.einsum("ij,ij->i", product, product)
        before = np.asarray(inside.power(2).sum(axis=1)).ravel()
        apart = np.maximum(before - squares, 0.0) if right.shape[0] < right.shape[1] else 0.0 * before
        return product, squares, apart

    def _given(self, arrays: Sequence[np.ndarray]) -> _Given:
        side, single = self.side, self.single
        factor, scale, of_class, residual, *rest = arrays
        spread = of_class[:, side.classes]
        left, values, _ = single.singular
        values = (factor * scale[:, single.classes[single.inside[0]]])[:, None] * values
        root = np.hypot(1.0, values)
        border = factor[:, None, None] * single.beside * scale[:, None, single.classes[single.border]] / root[..., None]
        count = border.shape[2]
        eye = np.broadcast_to(np.eye(count), (len(border), count, count))
        orthogonal, upper = np.linalg.qr(np.concatenate([border, eye], axis=1))
        pivots = np.abs(np.diagonal(upper, axis1=1, axis2=2))
        return _Given(
            one=spread[:, single.inside[0]],
            spread=spread,
            centre=rest[0] if rest else np.zeros_like(spread),
            values=values,
            root=root,
            border=border,
            orthogonal=orthogonal[:, : side.rows],
            inverse=solve_triangular(upper, eye, lower=False, vectors=False),
            log_determinant=np.log(root).sum(axis=1) + np.log(pivots).sum(axis=1),
            residual=residual @ left,
        )

    def _joined(self, inside: np.ndarray, others: np.ndarray) -> np.ndarray:
        """z from its columns inside and the others."""
        result = np.empty((len(inside), self.side.size))
        result[:, self.single.inside], result[:, self.single.border] = inside, others
        return result

    def _back(self, z: np.ndarray, given: _Given) -> np.ndarray:
        """θ from z."""
        return self.side.origin + np.asarray((self.side.inverse @ (z * given.spread + given.centre).T).T)

    def draw(self, arrays: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        result = np.empty((len(arrays[0]), self.side.size))
        right, single = self.single.singular[2], self.single
        for rows, some in stacks(arrays, self.entries):
            given = self._given(some)
            z = rng.standard_normal((len(given.one), self.side.size))
            inside, others = z[:, single.inside], z[:, single.border]
            noise = rng.standard_normal(given.residual.shape)
            along, more = given.towards(given.times(inside @ right.T, others) + given.residual + noise)
            moved = inside + along[:, : len(right)] @ right
            result[rows] = self._back(self._joined(moved, others + more), given)
        return result

    def moments(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        mean, sd = (np.empty((len(arrays[0]), self.side.size)) for _ in range(2))
        right, border = self.single.singular[2], self.single.border
        product, squares, apart = self._map
        square = product**2
        outside = self.side.inverse[:, border].toarray()
        for rows, some in stacks(arrays, self.side.size * (1 + len(border)) + self.entries):
            given = self._given(some)
            along, others = given.towards(given.residual)
            mean[rows] = self._back(self._joined(along[:, : len(right)] @ right, others), given)
            count = len(right)
            moved = (given.values / given.root)[:, :count, None] * (given.border[:, :count] @ given.inverse)
            scaled = given.spread[:, border][:, :, None] * given.inverse
            shared = outside @ scaled - given.one[:, None, None] * (product @ moved)
            own = given.one[:, None] ** 2
            variance = own * (given.root[:, :count] ** -2 @ square.T + apart) + np.sum(shared**2, axis=2)
            lost = (apart > 0) & (variance < LEFT * np.finfo(float).eps * own * (apart + squares))
            sd[rows] = np.sqrt(np.where(lost, np.nan, variance))
        return mean, sd

    def log_density(self, arrays: Sequence[np.ndarray], theta: np.ndarray) -> float:
        side, single, given = self.side, self.single, self._given([a[:1] for a in arrays])
        right = single.singular[2]
        along, others = given.towards(given.residual)
        z = (side.root @ (theta - side.origin) - given.centre[0]) / given.spread[0]
        deviation = z - self._joined(along[:, : len(right)] @ right, others)[0]
        seen = given.times((deviation[single.inside] @ right.T)[None], deviation[single.border][None])
        log_determinant = given.log_determinant[0] + side.log_root - np.sum(np.log(np.abs(given.spread[0])))
        square = np.sum(deviation**2) + np.sum(seen**2)
        return float(log_determinant - 0.5 * square - 0.5 * side.size * np.log(2 * np.pi))
