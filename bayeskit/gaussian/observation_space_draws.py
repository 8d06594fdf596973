"""The conditional distribution of a Gaussian block with more variables than data, on the side of the data.

In the notation of :mod:`bayeskit.gaussian.observation_space`, z = Rδ + r is standard Normal a priori, and the data say
that Uz + c is standard Normal too, so that with A = I + UUᵀ

    z | φ, y ~ Normal(−UᵀA⁻¹c, I − UᵀA⁻¹U),   |(I − UᵀA⁻¹U)⁻¹| = |A|.

Draws are prior draws moved onto the data (Matheron; Hoffman and Ribak 1991): z₀ − UᵀA⁻¹(Uz₀ + c + e) with standard
Normal z₀ and e. Uᵀ is B U'ᵀ with few columns (:mod:`bayeskit.gaussian.short_basis`), and only U' is factorised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskit.gaussian.observation_space import DataSide
from bayeskit.gaussian.short_basis import ShortBasis, short_basis
from bayeskit.graphs.batched_linalg import solve_triangular
from bayeskit.types import Graph

__all__ = ["DataSideConditional", "Whitened", "stacks"]

BATCH = 4_000_000  # numbers in a stack of matrices
LEFT = 1e5  # multiples of the rounding error of a variance that it must exceed


def stacks(arrays: Sequence[np.ndarray], entries: int) -> Iterator[tuple[slice, list[np.ndarray]]]:
    """The arrays for a few values of φ at a time, where each takes a matrix of so many entries."""
    step = max(1, BATCH // max(entries, 1))
    for start in range(0, len(arrays[0]), step):
        yield slice(start, start + step), [a[start : start + step] for a in arrays]


@dataclass(frozen=True, eq=False)
class Whitened:
    """z given the data, first axis the values of φ."""

    side: DataSide
    basis: ShortBasis
    spread: np.ndarray  # 1/ρ
    centre: np.ndarray  # −r/ρ
    matrix: np.ndarray  # U'
    residual: np.ndarray  # c
    upper: np.ndarray  # Lᵀ
    share: np.ndarray  # U'ᵀL⁻ᵀ

    def towards(self, residual: np.ndarray) -> np.ndarray:
        """−UᵀA⁻¹ times a residual."""
        half = solve_triangular(np.swapaxes(self.upper, 1, 2), residual[..., None], lower=True, vectors=False)
        return self.basis.lifted(-(self.share @ half)[..., 0])

    def times(self, z: np.ndarray) -> np.ndarray:
        """Uz."""
        return np.einsum("knd,kd->kn", self.matrix, self.basis.along(z))

    def back(self, z: np.ndarray) -> np.ndarray:
        """θ − θ₀ from z."""
        return np.asarray((self.side.inverse @ (z * self.spread + self.centre).T).T)

    def roots(self, short: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Of θ, from those of z/ρ in B by rows, a stack of rows for each value of φ."""
        lifted = self.basis.lifted(short.reshape(-1, short.shape[-1])).reshape(*short.shape[:-1], -1)
        lifted = lifted * spread[:, None, :]
        inverse = self.side.inverse
        if inverse.nnz > self.side.size:
            return np.asarray((inverse @ lifted.reshape(-1, self.side.size).T).T).reshape(lifted.shape)
        return np.asarray(lifted * inverse.diagonal())

    def direct_variances(self, some: np.ndarray) -> np.ndarray:
        """The variances where the data leave next to nothing of some prior variance: not as a difference.

        Cov z = B (I + U'ᵀU')⁻¹ Bᵀ + I − BBᵀ, and for the second, which is a difference, nothing but the part of z where
        B has other columns than U; not a number where of a variable nothing would be left but rounding of that.
        """
        spread, eye = self.spread[some], np.eye(self.matrix.shape[2])
        below = np.broadcast_to(eye, (len(some), *eye.shape))
        upper = np.linalg.qr(np.concatenate([self.matrix[some], below], axis=1), mode="r")
        root = solve_triangular(np.swapaxes(upper, 1, 2), below, lower=True, vectors=False)
        inside = np.sum(self.roots(root, spread) ** 2, axis=1)
        apart = spread.copy()
        apart[:, self.basis.inside] = 0.0
        if not apart.any():
            return inside
        before = np.asarray((self.side.inverse.power(2) @ (apart**2).T).T)
        outside = np.maximum(before - np.sum(self.roots(below, apart) ** 2, axis=1), 0.0)
        lost = inside + outside < LEFT * np.finfo(float).eps * before
        return np.where(lost, np.nan, inside + outside)


@dataclass(frozen=True, eq=False)
class DataSideConditional:
    """θ given φ, where there are more variables than data."""

    side: DataSide

    @cached_property
    def basis(self) -> ShortBasis:
        """U' and B."""
        return short_basis(self.side)

    @property
    def graphs(self) -> list[Graph]:
        graphs = [self.side.factors, self.side.spread, self.side.offset]
        return graphs if self.side.centre is None else [*graphs, self.side.centre]

    @property
    def entries(self) -> int:
        return self.side.size * self.side.rows

    def whitened(self, arrays: Sequence[np.ndarray]) -> Whitened:
        """z at each of the values of φ for which ``arrays`` are those of ``graphs``."""
        side = self.side
        factors, of_class, offset, *rest = arrays
        spread = of_class[:, side.classes]
        centre = rest[0] if rest else np.zeros_like(spread)
        basis = self.basis
        matrix = np.zeros((len(spread), side.rows, len(basis.classes)))
        residual = np.array(offset)
        for k, design in enumerate(side.designs):
            matrix += factors[:, k, :, None] * basis.designs[k]
            residual += factors[:, k] * (centre @ design.T) if rest else 0.0
        matrix *= of_class[:, None, basis.classes]
        eye = np.broadcast_to(np.eye(side.rows), (len(spread), side.rows, side.rows))
        # The orthogonal factor, and not U and the triangular one: where a prior is vague, UᵀL⁻ᵀ loses as many digits
        # again.
        orthogonal, upper = np.linalg.qr(np.concatenate([np.swapaxes(matrix, 1, 2), eye], axis=1))
        return Whitened(side, basis, spread, centre, matrix, residual, upper, orthogonal[:, : len(basis.classes)])

    def _stacks(self, arrays: Sequence[np.ndarray], entries: int) -> Iterator[tuple[slice, Whitened]]:
        for rows, some in stacks(arrays, max(entries, self.side.rows * (self.side.rows + len(self.basis.classes)))):
            yield rows, self.whitened(some)

    def draw(self, arrays: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        result = np.empty((len(arrays[0]), self.side.size))
        for rows, given in self._stacks(arrays, self.side.size):
            z = rng.standard_normal(given.spread.shape)
            noise = rng.standard_normal(given.residual.shape)
            result[rows] = given.back(z + given.towards(given.times(z) + given.residual + noise))
        return self.side.origin + result

    def moments(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        side = self.side
        mean, sd = (np.empty((len(arrays[0]), side.size)) for _ in range(2))
        squares = side.inverse.power(2)
        for rows, given in self._stacks(arrays, side.rows * side.size):
            mean[rows] = given.back(given.towards(given.residual))
            before = np.asarray((squares @ (given.spread**2).T).T)
            short = np.swapaxes(given.share, 1, 2)
            half = given.roots(short, given.spread)
            variance = before - np.einsum("knd,knd->kd", half, half)
            pivots = np.abs(np.diagonal(given.upper, axis1=1, axis2=2))
            error = np.finfo(float).eps * pivots.max(axis=1) / pivots.min(axis=1)
            few = np.flatnonzero(np.any(variance < LEFT * error[:, None] * before, axis=1))
            for _, (some,) in stacks([few], len(given.basis.classes) * side.size):
                variance[some] = given.direct_variances(some)
            sd[rows] = np.sqrt(variance)
        return side.origin + mean, sd

    def log_density(self, arrays: Sequence[np.ndarray], theta: np.ndarray) -> float:
        side, given = self.side, self.whitened(arrays)
        z = (side.root @ (theta - side.origin) - given.centre[0]) / given.spread[0]
        deviation = z - given.towards(given.residual)[0]
        log_determinant = np.sum(np.log(np.abs(np.diagonal(given.upper[0]))))
        log_determinant += side.log_root - np.sum(np.log(np.abs(given.spread[0])))
        square = np.sum(deviation**2) + np.sum((given.matrix[0] @ given.basis.along(deviation[None])[0]) ** 2)
        return float(log_determinant - 0.5 * square - 0.5 * side.size * np.log(2 * np.pi))
