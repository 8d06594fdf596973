"""A Gaussian block with more variables than data: its integral on the side of the data.

With the block's own prior exp(−½|Rδ + r|²) and the data exp(−½|Bδ + b|²), b of length N < D, in z = Rδ + r

    log ∫ exp(−½|Rδ + r|² − ½|Bδ + b|²) dδ = ½ D log 2π − log |R| − ½ log |A| − ½ cᵀA⁻¹c,

    A = I + UUᵀ,   U = BR⁻¹,   c = b − Ur,

N × N where Λ = RᵀR + BᵀB is D × D. As the noise vanishes, Λ goes to a matrix of rank N to working precision, while A is
as well conditioned as the design. A is never formed: its triangular factor is that of the rows (Uᵀ, I), the condition
of which is the square root.

Two things are constant in φ. Where each row of the prior is (Tδ)_i times a factor, R = diag(ρ) T with a constant T, and
with the rows of the data in terms of the same kind, B = Σ_f diag(g_f) M_f,

    U = Σ_f diag(g_f) (M_f T⁻¹) diag(1/ρ).

And where ρ is the same for more columns than there are rows, only the triangular factor of these columns counts,
(M T⁻¹)_k = L_k Q_k with orthonormal rows Q_k: an evaluation then costs the same for a hundred and for 10⁵ coefficients.
With one g for all rows, as in a regression, the singular values of one class of columns are all of it that counts: an
evaluation takes O(N) for one class, and O(N k²) with k columns of other classes, such as that of an intercept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from scipy import sparse

from bayeskit.gaussian.banded_layout import BANDED_FROM, layout
from bayeskit.gaussian.separable_forms import Form, Term, constant, joint_classes
from bayeskit.gaussian.separated import materialised, recentred, stacked_matrix
from bayeskit.types import Graph

__all__ = ["DataSide", "data_side", "side_integral"]

ENTRIES = 20_000_000  # constants kept
LEVELS = 8  # levels of a hierarchy up to which the root of its prior is inverted
FEW = 8  # columns made orthogonal one by one
CANCELLED = 1e10  # ratio of a column to its pivot beyond which the pivot counts as unknown

Weighted = tuple[Form, Form]  # a node u that is affine in θ, and the weight of u² in the log density, of the same shape


@dataclass(frozen=True, eq=False)
class DataSide:
    """R, r, B and b of one block, for N rows of data.

    Attributes
    ----------
    designs : tuple of numpy.ndarray
        M_f T⁻¹, of shape (N, D).
    factors : tensor
        g_f, of shape (number of designs, N).
    spread : tensor
        1/ρ, one number a class.
    centre : tensor or None
        −r/ρ, of length D; None where it is zero.
    offset : tensor
        b, of length N.
    root, inverse : scipy.sparse.csr_array
        T and T⁻¹.
    log_root : float
        log |T|.
    classes : numpy.ndarray
        The class of each column of T⁻¹: where equal, so is ρ.
    even : bool
        Whether there is one design, and g is the same in all its rows.
    origin : numpy.ndarray
        θ₀, stacked: the prior mean, where that does not depend on φ; then r = 0, and nothing cancels in c.
    """

    designs: tuple[np.ndarray, ...]
    factors: Graph
    spread: Graph
    centre: Graph | None
    offset: Graph
    root: sparse.csr_array
    inverse: sparse.csr_array
    log_root: float
    classes: np.ndarray
    even: bool
    origin: np.ndarray

    @property
    def rows(self) -> int:
        """N."""
        return int(self.designs[0].shape[0])

    @property
    def size(self) -> int:
        """D."""
        return len(self.origin)

    @property
    def border(self) -> np.ndarray:
        """The columns outside the largest class."""
        return _border(self.classes)

    @property
    def diagonal(self) -> bool:
        """Whether the singular values of the largest class are worth it."""
        return self.even and len(self.border) <= FEW

    @property
    def weight(self) -> int:
        """About how many numbers the evaluation of the integral holds."""
        if self.diagonal:
            return 3 * self.rows * (1 + len(self.border))
        count = len(self.designs) * self.rows
        columns = sum(min(int(n), count) for n in np.bincount(self.classes))
        return self.rows * (self.rows + columns)


def _border(classes: np.ndarray) -> np.ndarray:
    return np.flatnonzero(classes != np.argmax(np.bincount(classes)))


@dataclass(frozen=True, eq=False)
class _Prior:
    """R = diag(ρ) T and r, the rows in the order in which T is triangular."""

    root: sparse.csr_array
    inverse: sparse.csr_array
    log_root: float
    spread: Graph  # one number a class
    centre: Graph | None
    classes: np.ndarray
    origin: np.ndarray


def data_side(prior: Sequence[Weighted], data: Sequence[Weighted], slices: Mapping[str, slice]) -> DataSide | None:
    """A block on the side of its data, where it has that form and is best solved there.

    Parameters
    ----------
    prior, data : sequence of (Form, Form)
        The squares of which the log density is the sum, each with its weight: those of the block's own prior, and all
        others. No weight is positive.
    slices : mapping of str to slice
        Where each variable of the block lies in θ.

    Returns
    -------
    DataSide or None
        None where the data have as many rows as θ has entries, or the prior is not that of a hierarchy of few levels
        with one scale a row, or where Λ is a band.
    """
    size = sum(s.stop - s.start for s in slices.values())
    rows = sum(form.size for form, _ in data)
    data = [_absorbed(form, weight) for form, weight in data]
    moving = [[t for t in form.terms if not t.pure] for form, _ in data]
    count = max((len(terms) for terms in moving), default=0)
    if not 0 < rows < size or count * rows * size > ENTRIES:
        return None
    root = _prior(prior, slices, size)
    if root is None:
        return None
    matrices: list[Any] = []
    factors: list[Any] = []
    for slot in range(count):
        parts, vectors = [], []
        for (form, weight), terms in zip(data, moving, strict=True):
            empty = slot >= len(terms)
            parts.append(
                sparse.csr_array((form.size, size))
                if empty
                else stacked_matrix(terms[slot].jacobian, slices, size)[:, :size]
            )
            vectors.append(pt.ones(form.size) if empty else _scale(weight) * _factor(terms[slot]))
        matrices.append(sparse.csr_array(sparse.vstack(parts)))
        factors.append(_joined(vectors))
    even = count == 1 and len(data) == 1 and _is_even(data[0][1]) and moving[0][0].index is None
    if not _worthwhile(sum(abs(m) for m in matrices), root.root, even and len(_border(root.classes)) <= FEW):
        return None
    origin = {n: root.origin[s] for n, s in slices.items()}
    offsets = []
    for form, weight in data:
        total: Any = pt.zeros(form.size)
        for term in recentred(form, origin).terms:
            total = total + _factor(term) * term.offset
        offsets.append(_scale(weight) * total)
    return DataSide(
        designs=tuple(np.asarray((m @ root.inverse).toarray()) for m in matrices),
        factors=pt.stack(factors),
        spread=root.spread,
        centre=root.centre,
        offset=_joined(offsets),
        root=root.root,
        inverse=root.inverse,
        log_root=root.log_root,
        classes=root.classes,
        even=even,
        origin=root.origin,
    )


def _absorbed(form: Form, weight: Form) -> Weighted:
    """The same square with the constant part of its weight in the node: known standard errors leave no weights."""
    if len(weight.terms) != 1 or weight.terms[0].index is not None:
        return form, weight
    (term,) = weight.terms
    offset = term.offset
    if np.ptp(offset) == 0 or not (np.all(offset < 0) or np.all(offset > 0)):
        return form, weight
    even = replace(term, jacobian=constant(0.5 * np.sign(offset)).terms[0].jacobian)
    return form.times(np.sqrt(2.0 * np.abs(offset))), Form(weight.shape, (even,)).reshaped(weight.shape)


def _is_even(weight: Form) -> bool:
    """Whether a weight is the same in every row, whatever φ."""
    return all(t.index is None and np.ptp(t.offset) == 0 for t in weight.terms)


def _joined(vectors: Sequence[Graph]) -> Graph:
    return pt.concatenate(vectors) if len(vectors) > 1 else vectors[0]


def _factor(term: Term) -> Graph:
    """b[index], one number a row."""
    if term.factor is None:
        return pt.ones(term.jacobian.size)
    return pt.ones(term.jacobian.size) * term.factor if term.index is None else term.factor[term.index]


def _scale(weight: Form) -> Graph:
    """√(−2w): exp(w u²) = exp(−½ (√(−2w) u)²)."""
    return pt.sqrt(-2.0 * materialised(weight))


def _prior(prior: Sequence[Weighted], slices: Mapping[str, slice], size: int) -> _Prior | None:
    if sum(form.size for form, _ in prior) != size:
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
        scales.append(scale * _factor(term.rows(fresh, fresh.shape)))
        factor = _factor(term)
        matrices.append(sparse.diags_array(constant) @ stacked_matrix(term.jacobian, slices, size)[:, :size])
        offsets.append(constant * term.offset)
        shift: Any = pt.zeros(form.size)
        for pure in form.terms:
            if pure is not term:
                shift = shift - _factor(pure) * (constant * pure.offset) / factor
                fixed = False
        shifts.append(shift)
    stacked = sparse.csr_array(sparse.vstack(matrices))
    order = _triangular(stacked)
    if order is None:
        return None
    root = sparse.csr_array(stacked[order])
    inverse = _inverse(root)
    return _Prior(
        root=root,
        inverse=inverse,
        log_root=float(np.sum(np.log(np.abs(root.diagonal())))),
        spread=1.0 / _joined(scales),
        centre=None if fixed else _joined(shifts)[order],
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
        scale: Any = pt.sqrt(pt.abs(_factor(term.rows(first, first.shape))))
        return np.sqrt(2.0 * np.abs(term.offset)), scale
    return np.ones(weight.size), _scale(weight)[first]


def _triangular(matrix: sparse.csr_array) -> np.ndarray | None:
    """For each column the row such that the matrix is triangular in some order, where it has few levels."""
    size = matrix.shape[0]
    present = matrix.copy()
    present.data = (present.data != 0).astype(float)
    left, row_of = np.ones(size), np.full(size, -1)
    for _ in range(LEVELS):
        rows = np.flatnonzero(present @ left == 1)
        columns = np.rint((present @ (left * np.arange(size)))[rows]).astype(int)
        if len(np.unique(columns)) < len(columns):
            return None
        row_of[columns] = rows
        left[columns] = 0.0
        if not np.any(left):
            return row_of
    return None


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


def _worthwhile(design: Any, root: sparse.csr_array, diagonal: bool) -> bool:
    """Whether Λ is dense, or small and made diagonal here: else a band or a hierarchy solve it as it stands."""
    rows, size = design.shape
    if size < BANDED_FROM:
        return bool(diagonal or 2 * design.nnz >= rows * size)
    if np.sum(np.diff(design.indptr).astype(float) ** 2) > ENTRIES:
        return True
    precision = sparse.coo_array(design.T @ design + abs(root).T @ abs(root))
    return not len(layout(size, *precision.coords).inner)


# -- the integral ----------------------------------------------------------------------------------------------------
def side_integral(side: DataSide) -> Graph:
    """The log integral over θ of a block's density, without its ``rest``."""
    spread: Any = side.spread
    residual: Any = side.offset
    for k, design in enumerate(side.designs):
        if side.centre is not None:
            residual = residual + side.factors[k] * pt.dot(pt.constant(design), side.centre)
    residual = pt.specify_shape(residual, (side.rows,))
    constant = 0.5 * side.size * np.log(2 * np.pi) - side.log_root
    value = _diagonal(side, residual) if side.diagonal else _normal(_short_matrix(side), residual)
    return constant + pt.sum(pt.log(pt.abs(spread)) * np.bincount(side.classes)) + value


def _diagonal(side: DataSide, residual: Graph) -> Graph:
    """−½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c with one g for all rows, by the singular values of the largest class."""
    (design,), border = side.designs, side.border
    inside = np.setdiff1d(np.arange(side.size), border)
    part = design[:, inside]
    if len(inside) > side.rows:
        part = np.linalg.qr(part.T, mode="r").T
    vectors, found, _ = np.linalg.svd(part)
    values = np.zeros(side.rows)
    values[: len(found)] = found
    factor: Any = side.factors[0, 0]
    spread: Any = side.spread
    variance = 1.0 + (factor * spread[side.classes[inside[0]]] * values) ** 2
    shrunk = pt.specify_shape(pt.dot(pt.constant(vectors.T), residual) / pt.sqrt(variance), (side.rows,))
    value = -0.5 * pt.sum(pt.log(variance))
    if not len(border):
        return value - 0.5 * pt.sum(shrunk**2)
    others = (factor / pt.sqrt(variance))[:, None] * (vectors.T @ design[:, border]) * spread[side.classes[border]]
    return value + _bordered(pt.specify_shape(others, (side.rows, len(border))), shrunk)


def _short_matrix(side: DataSide) -> Graph:
    """A matrix with the UUᵀ of U, and no more columns than that takes."""
    short, columns = _shortened(side)
    matrix: Any = sum(side.factors[k][:, None] * design for k, design in enumerate(short))
    return pt.specify_shape(matrix * side.spread[columns], (side.rows, len(columns)))


def _shortened(side: DataSide) -> tuple[np.ndarray, np.ndarray]:
    """Designs with the same UUᵀ and fewer columns where one ρ has many, and the class of each column."""
    parts, columns = [], []
    stacked = np.concatenate(side.designs)
    order = np.argsort(side.classes, kind="stable")
    for number, members in enumerate(np.split(order, np.cumsum(np.bincount(side.classes))[:-1])):
        part = stacked[:, members]
        if len(members) > len(part):
            part = np.linalg.qr(part.T, mode="r").T
        parts.append(part)
        columns.append(np.full(part.shape[1], number))
    short = np.concatenate(parts, axis=1).reshape(len(side.designs), side.rows, -1)
    return short, np.concatenate(columns)


def _bordered(matrix: Any, residual: Graph) -> Graph:
    """−½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c for a U of few columns, by least squares: the square is min |z|² + |Uz + c|².

    The rows (U, I) are made orthogonal column by column (Björck 1967: for least squares as good as reflections), which
    for one column is a handful of products, all draws at once.
    """
    count = matrix.type.shape[1]
    # Upper and lower part apart: to join them is a call a draw.
    columns: list[Any] = [(matrix[:, k], np.eye(count)[k]) for k in range(count)]
    left: Any = residual, np.zeros(count)
    value: Any = 0.0
    for k, column in enumerate(columns):
        pivot = pt.sqrt(_product(column, column))
        lost = pt.sqrt(1.0 + pt.sum(matrix[:, k] ** 2)) > CANCELLED * pivot
        value = value - pt.switch(lost, np.nan, pt.log(pivot))
        direction = tuple(part / pivot for part in column)
        columns[k + 1 :] = [_without(other, direction) for other in columns[k + 1 :]]
        left = _without(left, direction)
    return value - 0.5 * _product(left, left)


def _product(one: tuple[Any, ...], two: tuple[Any, ...]) -> Any:
    return pt.add(*[pt.sum(a * b) for a, b in zip(one, two, strict=True)])


def _without(vector: tuple[Any, ...], direction: tuple[Any, ...]) -> tuple[Any, ...]:
    """What of a vector is orthogonal to a direction of length one."""
    reach = _product(vector, direction)
    return tuple(part - reach * along for part, along in zip(vector, direction, strict=True))


def _normal(matrix: Graph, residual: Graph) -> Graph:
    """−½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c; not a number where rounding has left nothing of a pivot."""
    u, c = matrix.type(), residual.type()
    factor, half = _solved(u, c)
    pivots = pt.abs(pt.diagonal(factor))
    value = -pt.sum(pt.log(pivots)) - 0.5 * pt.sum(half**2)
    lost = pt.any(pt.sqrt(1.0 + pt.sum(u**2, axis=1)) > CANCELLED * pivots)

    def pullback(inputs: list[Graph], outputs: list[Graph], cotangents: list[Graph]) -> list[Graph]:
        cotangent: Any = cotangents[0]
        at = inputs[0]
        root, white = _solved(*inputs)
        inverse = pt.linalg.solve_triangular(root, pt.eye(root.type.shape[0]), lower=True)
        alpha = pt.dot(inverse.T, white)
        to_matrix = pt.outer(alpha, pt.dot(alpha, at)) - pt.dot(inverse.T, pt.dot(inverse, at))
        return [cotangent * to_matrix, -cotangent * alpha]

    # Inlined when compiled, so that value and gradient share the factorisation.
    outer = OpFromGraph([u, c], [pt.switch(lost, np.nan, value)], pullback=pullback, inline=True)
    result: Graph = outer(matrix, residual)
    return result


def _solved(u: Any, c: Any) -> tuple[Any, Any]:
    """L with LLᵀ = I + UUᵀ, up to the signs of its columns, and L⁻¹c."""
    rows = u.type.shape[0]
    stack = pt.concatenate([u.T, pt.eye(rows)], axis=0)
    factor = pt.specify_shape(pt.linalg.qr(stack, mode="r")[:rows], (rows, rows)).T
    half = pt.linalg.solve_triangular(factor, c[:, None], lower=True)[:, 0]
    return factor, half
