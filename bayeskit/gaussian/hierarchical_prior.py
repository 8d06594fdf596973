"""The prior of a hierarchy as a root R = diag(ρ) T, with T constant in φ and triangular: parents before children.

The density is exp(−½|Rδ + r|²); ρ depends on φ, and where it is the same for many rows, they are of one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.separable_forms import Form, Term, joint_classes
from bayeskit.gaussian.separated import factor_by_row, materialised, root_weight, stacked_matrix
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph

__all__ = ["HierarchicalPrior", "Weighted", "hierarchical_prior", "triangular_order"]

LEVELS = 8  # levels of a hierarchy up to which the root of its prior is inverted

Weighted = tuple[Form, Form]  # a node u that is affine in θ, and the weight of u² in the log density, of the same shape


@dataclass(frozen=True, eq=False)
class HierarchicalPrior:
    """R = diag(ρ) T and r, the rows in the order in which T is triangular."""

    root: sparse.csr_array  # T
    inverse: sparse.csr_array  # T⁻¹
    log_root: float  # log |T|
    spread: Graph  # 1/ρ, one number a class
    centre: Graph | None  # −r/ρ, of length D; None where it is zero
    classes: np.ndarray  # the class of each row of T: where equal, so is ρ
    origin: np.ndarray  # θ₀, stacked: the prior mean, where that does not depend on φ; then r = 0

    @property
    def log_volume(self) -> Graph:
        """−log |R|."""
        total: Graph = pt.sum(pt.log(pt.abs(self.spread)) * np.bincount(self.classes)) - self.log_root
        return total


def hierarchical_prior(prior: Sequence[Weighted], theta: VectorLayout) -> HierarchicalPrior | None:
    """The prior of a block from its squares; None where it has more levels, or more scales a row, than R can hold."""
    if sum(form.size for form, _ in prior) != theta.size:
        return None
    matrices, offsets, scales, shifts, labels = [], [], [], [], []
    fixed = True  # whether the prior mean is the same for all φ
    known: dict[Any, int] = {}  # a number for each class
    for form, weight in prior:
        moving = [t for t in form.terms if not t.pure]
        if len(moving) != 1:
            return None
        (term,) = moving
        first, label, keys = _classes(term, weight)
        fresh = first[[k not in known for k in keys]]
        known.update({k: len(known) + i for i, k in enumerate(k for k in keys if k not in known)})
        labels.append(np.array([known[k] for k in keys])[label])
        constant, scale = _constant_part(weight, fresh)
        scales.append(scale * factor_by_row(term.rows(fresh, fresh.shape)))
        factor = factor_by_row(term)
        matrices.append(sparse.diags_array(constant) @ stacked_matrix(term.jacobian, theta)[:, : theta.size])
        offsets.append(constant * term.offset)
        shift: Any = pt.zeros(form.size)
        for pure in form.terms:
            if pure is not term:
                shift = shift - factor_by_row(pure) * (constant * pure.offset) / factor
                fixed = False
        shifts.append(shift)
    stacked = sparse.csr_array(sparse.vstack(matrices))
    ordered = triangular_order(stacked, LEVELS)
    if ordered is None:
        return None
    order, _ = ordered
    root = sparse.csr_array(stacked[order])
    inverse = _inverse(root)
    return HierarchicalPrior(
        root=root,
        inverse=inverse,
        log_root=float(np.sum(np.log(np.abs(root.diagonal())))),
        spread=1.0 / pt.concatenate(scales),
        centre=None if fixed else pt.concatenate(shifts)[order],
        classes=np.concatenate(labels)[order],
        origin=-inverse @ np.concatenate(offsets)[order],
    )


def _single(weight: Form) -> tuple[Term, ...]:
    """The term of a form that has only one."""
    return weight.terms if len(weight.terms) == 1 else ()


def _classes(term: Term, weight: Form) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Rows of one ρ, up to a constant: the first row of each class, the class of each row, and what names a class."""
    parts = [term, *_single(weight)]
    columns = [np.zeros(weight.size, dtype=int) if t.index is None else t.index for t in parts]
    if not _single(weight):
        columns.append(np.arange(weight.size))
        parts.append(replace(term, factor=materialised(weight)))
    first, label = joint_classes(columns)
    return first, label, [tuple((t.factor, int(c[row])) for t, c in zip(parts, columns, strict=True)) for row in first]


def _constant_part(weight: Form, first: np.ndarray) -> tuple[np.ndarray, Graph]:
    """√(−2w) as a constant for each row times a graph for each class, of which ``first`` are the first rows."""
    if term := next(iter(_single(weight)), None):
        # The sign is in the offset or in the factor; together they are negative.
        scale: Any = pt.sqrt(pt.abs(factor_by_row(term.rows(first, first.shape))))
        return np.sqrt(2.0 * np.abs(term.offset)), scale
    return np.ones(weight.size), root_weight(weight)[first]


def _inverse(root: sparse.csr_array) -> sparse.csr_array:
    """T⁻¹ of T = D (I − K) with Kᵏ = 0 for some small k."""
    size = root.shape[0]
    pivots = root.diagonal()
    power = sparse.csr_array(sparse.diags_array(-1.0 / pivots) @ (root - sparse.diags_array(pivots)))
    power.eliminate_zeros()
    solved, step = sparse.csr_array(sparse.eye_array(size) + power), power
    while step.nnz:
        step = sparse.csr_array(step @ power)
        solved = sparse.csr_array(solved + step)
    return sparse.csr_array(solved @ sparse.diags_array(1.0 / pivots))


def triangular_order(matrix: sparse.csr_array, deepest: int) -> tuple[np.ndarray, int] | None:
    """For each column the row such that a square matrix is triangular in some order, and the depth of that order.

    The depth is the length of the longest chain of columns each of which needs the one before: 1 where the matrix is
    diagonal. None where there is no such order, or a deeper one than ``deepest``.
    """
    size = matrix.shape[0]
    present = matrix.copy()
    present.data = (present.data != 0).astype(float)
    left, row_of = np.ones(size), np.full(size, -1)
    for depth in range(1, deepest + 1):
        rows = np.flatnonzero(present @ left == 1)
        columns = np.rint((present @ (left * np.arange(size)))[rows]).astype(int)
        if not len(rows) or len(np.unique(columns)) < len(columns):
            return None
        row_of[columns] = rows
        left[columns] = 0.0
        if not np.any(left):
            return row_of, depth
    return None
