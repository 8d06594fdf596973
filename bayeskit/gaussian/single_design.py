"""The data of a Gaussian block by one matrix: U = g M diag(h), in the notation of the observation space.

That is a design whose rows have one g, such as the noise of a regression, and each of whose columns is in one M_f only,
whose factor goes to the column: the increments of a random walk, each of sd 1 and multiplied by a scale, and where it
starts. The singular values of M are then all of it that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse
from scipy.linalg import lapack

from bayeskit.gaussian.hierarchical_prior import HierarchicalPrior, Weighted
from bayeskit.gaussian.separable_forms import Form, Term
from bayeskit.gaussian.separated import is_even, recentred, root_weight
from bayeskit.types import Graph, Point

__all__ = ["SingleDesign", "dense", "single_design"]

TALL = 3  # times as many rows as columns
BY_ROWS_AND_COLUMNS = 2  # LAPACK's 'F': accurate whatever their scales; the default is not


@dataclass(frozen=True, eq=False)
class SingleDesign:
    """U = g M diag(h), with one number g."""

    matrix: Any  # M, of shape (N, D), an array where a block is solved by it
    factor: Graph  # g
    spread: Graph  # h, one number a class
    classes: np.ndarray  # of the columns
    offset: tuple[Graph, np.ndarray] | None  # b/g as a number times a constant, where it is

    @property
    def border(self) -> np.ndarray:
        """The columns outside the largest class."""
        return np.flatnonzero(self.classes != np.argmax(np.bincount(self.classes)))

    @property
    def inside(self) -> np.ndarray:
        """The columns of the largest class, which have one h."""
        return np.flatnonzero(self.classes == np.argmax(np.bincount(self.classes)))

    @cached_property
    def singular(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """V, σ and Wᵀ of the largest class, V diag(σ) Wᵀ: V is square, and σ has a zero for each column too many."""
        part = self.matrix[:, self.inside]
        if part.shape[0] < part.shape[1]:
            right, values, left = _accurate_svd(part.T, square=False)
            return left, values, right.T
        left, found, right = _accurate_svd(part, square=True)
        values = np.zeros(len(left))
        values[: len(found)] = found
        return left, values, right.T

    @cached_property
    def beside(self) -> np.ndarray:
        """VᵀM of the other columns."""
        return self.singular[0].T @ self.matrix[:, self.border]


def single_design(
    data: Sequence[Weighted], designs: Sequence[Any], prior: HierarchicalPrior, origin: Point
) -> SingleDesign | None:
    """The designs, of the terms of the data in their order, as one; None where rows or columns have several factors."""
    ((form, weight), *others) = data
    moving = [t for t in form.terms if not t.pure]
    if others or not is_even(weight) or any(t.index is not None for t in moving):
        return None
    occupied = np.array([dense(abs(m).sum(axis=0)) != 0 for m in designs])
    if np.any(occupied.sum(axis=0) > 1):
        return None
    kinds, classes = np.unique([prior.classes, np.argmax(occupied, axis=0)], axis=1, return_inverse=True)
    stretch: Any = pt.stack([_number(t) for t in moving])
    return SingleDesign(
        matrix=designs[0] if len(designs) == 1 else sum(designs),
        factor=root_weight(weight)[0],
        spread=prior.spread[kinds[0]] * stretch[kinds[1]],
        classes=np.ravel(classes),
        offset=_at_origin(recentred(form, origin)),
    )


def _at_origin(form: Form) -> tuple[Graph, np.ndarray] | None:
    """A number, and what it is times, of a node at δ = 0; None where its terms have several."""
    present = [t for t in form.terms if np.any(t.offset)]
    if not present:
        return pt.constant(0.0), np.zeros(form.size)
    if len({t.factor for t in present}) == 1 and all(t.index is None for t in present):
        return _number(present[0]), np.sum([t.offset for t in present], axis=0)
    return None


def _accurate_svd(matrix: np.ndarray, *, square: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, σ and V of a matrix with no fewer rows than columns; U may be ``square``.

    By Jacobi's method (Drmač and Veselić 2008), which has small singular values to as many digits as large ones where
    columns or rows have different scales: by the usual one, year⁴ beside standardised columns left these no digits.
    """
    if not np.all(np.isfinite(matrix)):
        raise np.linalg.LinAlgError("a design has entries that are not finite")  # LAPACK would print so
    if matrix.shape[0] > TALL * matrix.shape[1] and not square:  # as accurate by columns, in a fraction of the time
        basis, triangle = np.linalg.qr(matrix)
        left, values, right = _accurate_svd(triangle, square=False)
        return basis @ left, values, right
    values, left, right, work, _, info = lapack.dgejsv(matrix, joba=BY_ROWS_AND_COLUMNS, jobu=int(square))
    if info:
        left, values, right = np.linalg.svd(matrix, full_matrices=square)
        return left, values, right.T
    return left, values * (work[0] / work[1]), right


def _number(term: Term) -> Any:
    """The factor of a term that is the same in all rows."""
    return pt.constant(1.0) if term.factor is None else term.factor[0]


def dense(matrix: Any) -> np.ndarray:
    """As an array."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)
