"""Sets of submodels, all or some of them: what each needs of a quadratic form, and sums of derivatives over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg

from bayeskit.comparison.subsets.linear_model import Quadratic
from bayeskit.comparison.subsets.sweep import NotDefinite, add_terms, sweep, sweep_moments

__all__ = ["AllSubsets", "ListedSubsets", "Population"]

BATCH = 4_000_000  # numbers held at once


class Population(Protocol):
    """Submodels of a vector of coefficients."""

    @property
    def size(self) -> int:
        """How many coefficients there are."""

    @property
    def sizes(self) -> np.ndarray:
        """How many coefficients each has."""

    def parts(self, quadratic: Quadratic) -> tuple[np.ndarray, np.ndarray, float]:
        """½ log |P_SS| − ½ log |Λ_SS| and η_Sᵀ Λ_SS⁻¹ η_S of each, and the least pivot of Λ."""

    def moments(self, quadratic: Quadratic, of_gain: np.ndarray, of_log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂/∂Λ and ∂/∂η of Σ_S (u_S η_Sᵀ Λ_SS⁻¹ η_S + v_S log |Λ_SS|)."""

    def with_terms(self, values: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """The value of each, with a term of each of its coefficients added."""

    def inclusion(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each coefficient, the sums of the weights of the submodels that have it, and of those that do not."""

    def members(self, which: int) -> tuple[int, ...]:
        """The coefficients of a submodel by its place."""


@dataclass(frozen=True)
class AllSubsets:
    """All of them, in the order of :mod:`bayeskit.comparison.subsets.sweep`.

    With ``taken``, those in which the first coefficients are in or out as it says.
    """

    size: int
    taken: tuple[bool, ...] = ()

    @property
    def left(self) -> int:
        """How many coefficients may be in or out."""
        return self.size - len(self.taken)

    def branches(self, left: int) -> list[AllSubsets]:
        """Those of each way to decide on the first coefficients, in the order in which a sweep has them."""
        first = range(self.size - left)
        return [AllSubsets(self.size, tuple(bool(k >> j & 1) for j in first)) for k in range(1 << len(first))]

    @cached_property
    def sizes(self) -> np.ndarray:
        found = np.full(1 << self.left, sum(self.taken), dtype=np.int8)
        for j in range(self.left):
            found.reshape(-1, 2, 1 << j)[:, 1] += 1
        return found

    def parts(self, quadratic: Quadratic) -> tuple[np.ndarray, np.ndarray, float]:
        swept = sweep(quadratic.precision, quadratic.linear, self.taken)
        prior = quadratic.prior
        if np.array_equal(prior, np.diag(np.diag(prior))):
            logs = self.with_terms(np.zeros(1 << self.left), np.log(np.diag(prior)))
        else:
            logs = sweep(prior, np.zeros(self.size), self.taken).log_determinant
        logs -= swept.log_determinant
        logs *= 0.5
        return logs, swept.gain, swept.pivot

    def moments(self, quadratic: Quadratic, of_gain: np.ndarray, of_log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return sweep_moments(quadratic.precision, quadratic.linear, of_gain, of_log, self.taken)

    def with_terms(self, values: np.ndarray, terms: np.ndarray) -> np.ndarray:
        found = np.array(values)
        add_terms(found, terms, self.taken)
        return found

    def inclusion(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        halves = [weights.reshape(-1, 2, 1 << j).sum(axis=(0, 2)) for j in range(self.left)]
        decided = [weights.sum() * np.array([not inside, inside]) for inside in self.taken]
        both = np.array([*decided, *halves])
        return both[:, 1], both[:, 0]

    def members(self, which: int) -> tuple[int, ...]:
        first = len(self.taken)
        inside = (j for j, taken in enumerate(self.taken) if taken)
        return (*inside, *(first + j for j in range(self.left) if which >> j & 1))


@dataclass(frozen=True, eq=False)
class ListedSubsets:
    """Those of which the coefficients are marked, one row a submodel."""

    marks: np.ndarray

    @property
    def size(self) -> int:
        return int(self.marks.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray(self.marks.sum(axis=1))

    def _roots(self, matrix: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Cholesky factors of the rows and columns that are in, unit ones elsewhere, of a matrix of unit diagonal."""
        scale = np.sqrt(np.diag(matrix))
        marks = self.marks[rows].astype(float)
        padded = (matrix / np.outer(scale, scale)) * marks[:, :, None] * marks[:, None, :]
        padded += np.eye(self.size) * (1 - marks)[:, None, :]
        try:
            return np.linalg.cholesky(padded), scale
        except np.linalg.LinAlgError:
            raise NotDefinite(self.size) from None

    def _batches(self) -> list[slice]:
        step = max(1, BATCH // self.size**2)
        return [slice(start, start + step) for start in range(0, len(self.marks), step)]

    def parts(self, quadratic: Quadratic) -> tuple[np.ndarray, np.ndarray, float]:
        logs, gain, least = np.empty(len(self.marks)), np.empty(len(self.marks)), np.inf
        for rows in self._batches():
            marks = self.marks[rows].astype(float)
            root, scale = self._roots(quadratic.precision, rows)
            prior, prior_scale = self._roots(quadratic.prior, rows)
            pivots = np.diagonal(root, axis1=1, axis2=2)
            logs[rows] = np.sum(np.log(np.diagonal(prior, axis1=1, axis2=2)) - np.log(pivots), axis=1)
            logs[rows] += marks @ np.log(prior_scale / scale)
            solved = linalg.solve_triangular(root, (marks * (quadratic.linear / scale))[..., None], lower=True)
            gain[rows] = np.sum(solved[..., 0] ** 2, axis=1)
            least = min(least, float(np.min(pivots)) ** 2)
        return logs, gain, least

    def moments(self, quadratic: Quadratic, of_gain: np.ndarray, of_log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        of_matrix, of_vector = np.zeros((self.size, self.size)), np.zeros(self.size)
        for rows in self._batches():
            marks = self.marks[rows].astype(float)
            root, scale = self._roots(quadratic.precision, rows)
            inverse = np.linalg.inv(root)
            inverse = np.swapaxes(inverse, 1, 2) @ inverse * marks[:, :, None] * marks[:, None, :]
            inverse /= np.outer(scale, scale)
            mean = inverse @ quadratic.linear
            of_matrix += np.einsum("s,sij->ij", of_log[rows], inverse) - (mean.T * of_gain[rows]) @ mean
            of_vector += 2 * of_gain[rows] @ mean
        return of_matrix, of_vector

    def with_terms(self, values: np.ndarray, terms: np.ndarray) -> np.ndarray:
        return np.asarray(values + self.marks @ terms)

    def inclusion(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return weights @ self.marks, weights @ ~self.marks

    def members(self, which: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.marks[which]).tolist())
