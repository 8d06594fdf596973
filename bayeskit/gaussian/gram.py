"""Λ as a sum of weighted products of Jacobians, Λ = −Σ (J₁ᵀ diag(w) J₂ + J₂ᵀ diag(w) J₁), over the products w·u₁·u₂.

The Jacobian of a node is its separable form where nothing but θ varies: one term, whose factor is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from scipy import sparse
from scipy.linalg import blas

from bayeskit.gaussian.banded_layout import BANDED_FROM
from bayeskit.gaussian.jacobians import Jacobian, JacobianBlock, added, dot_rows
from bayeskit.gaussian.separable_forms import Form, NotSeparable
from bayeskit.gaussian.separator import MIXED, Separator, Targets
from bayeskit.graphs.nodes import core_op
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Array

__all__ = [
    "Product",
    "WeightedPair",
    "expanded",
    "jacobians",
    "precision_of",
    "products_of",
    "sides_of",
    "square_root",
    "symmetric_product",
    "weighted_product",
]

WeightedPair = tuple[Jacobian, Jacobian, np.ndarray]  # J₁, J₂ and weight of w·u₁·u₂, one row a scalar product
ROOT_LIMIT = 4_000_000  # entries of the square root, which is dense
FEW_ROWS = 3  # so many times as many variables as rows of data are worth another factorisation
LARGEST_ROWS = 50_000_000  # numbers in such rows
SPARSE = 0.25  # share of the entries of Λ up to which it is worth looking for a band
FEWEST_COLUMNS, TALL = 8, 10  # and times as many rows as columns at least: others are no faster by BLAS's routine
LARGE = 1_000_000  # numbers in a matrix from which on the product with itself is worth a routine of its own
CHUNK = 65_536  # rows multiplied at a time where the weights differ by row: bounds the scratch memory


@dataclass(frozen=True)
class Product:
    """A node that is the product of two affine nodes, and its weight in the log density."""

    node: Apply
    left: Variable
    right: Variable

    @property
    def is_dot(self) -> bool:
        """Whether it is a matrix product; else it is one entry by entry."""
        return isinstance(core_op(self.node), Dot)

    @property
    def is_square(self) -> bool:
        """Whether it is the square of a node, entry by entry."""
        power = isinstance(getattr(core_op(self.node), "scalar_op", None), ps.Sqr | ps.Pow)
        return power and self.left is self.right

    @property
    def others(self) -> list[Variable]:
        """Further factors, which do not depend on θ."""
        if not isinstance(getattr(core_op(self.node), "scalar_op", None), ps.Mul):
            return []
        return [v for v in self.node.inputs if v is not self.left and v is not self.right]


def products_of(outputs: Sequence[Variable], degree: Mapping[Variable, float]) -> list[Product]:
    """The nodes at which a quadratic is made out of affine nodes."""
    found = []
    for node in toposort(list(outputs)):
        if degree.get(node.outputs[0], 0) != 2 or any(degree.get(i, 0) > 1 for i in node.inputs):
            continue
        if not isinstance(core_op(node), Dot | Elemwise):
            raise NotImplementedError(f"no product rule for {node.op}")
        affine = [i for i in node.inputs if degree.get(i, 0) == 1]
        found.append(Product(node, affine[0], affine[-1]))
    return found


def sides_of(products: Iterable[Product]) -> list[Variable]:
    """The affine nodes of products, each once."""
    return list(dict.fromkeys([side for p in products for side in (p.left, p.right)]))


class _Jacobians(Separator):
    """Forms of one term at most: everything but θ is a number, and offsets are left out."""

    def __init__(self, targets: Targets, degree: Mapping[Variable, float], value_of: Callable[[Variable], Any]) -> None:
        super().__init__(targets, (), value_of, np.shape)
        self.degree = degree

    def as_form(self, value: Any) -> Form:
        return value if isinstance(value, Form) else Form(np.shape(value), ())

    def opaque(self, var: Variable) -> Any:
        return MIXED

    def constant(self, var: Variable) -> Any:
        try:
            return super().constant(var)
        except KeyError:
            return MIXED

    def transfer(self, out: Variable, values: list[Any]) -> Any:
        # The shape of θ may enter what is constant in θ: zeros_like(θ), θ⁰.
        return super().transfer(out, values) if self.degree.get(out, 0) else self.constant(out)


def jacobians(
    outputs: list[Variable], targets: Targets, degree: Mapping[Variable, float], value_of: Callable[[Variable], Any]
) -> dict[Variable, Jacobian]:
    """Jacobians of affine nodes in ``targets``, given the ``degree`` of every node in them.

    ``value_of`` gives the value of a node of degree zero, or a KeyError for one that no affine node has as its input.
    An operation without a rule above some node is a NotImplementedError.
    """
    walk = _Jacobians(targets, degree, value_of)
    walk.walk(outputs)
    result = {}
    for out in outputs:
        try:
            form = walk.form(out)
        except NotSeparable as why:
            raise NotImplementedError(f"no Jacobian rule for {out.owner.op}, or for what it is computed from") from why
        result[out] = form.terms[0].jacobian if form.terms else Jacobian(form.shape, {})
    return result


def square_root(terms: list[WeightedPair], theta: VectorLayout) -> np.ndarray | None:
    """A with AᵀA = Λ, one row a term, where every term is a square with a negative weight and A is of moderate size."""
    rows = sum(left.size for left, _, _ in terms)
    if rows * theta.size > ROOT_LIMIT or any(a is not b or np.any(w > 0) for a, b, w in terms):
        return None
    return _stacked(terms, theta)


def _stacked(terms: list[WeightedPair], theta: VectorLayout) -> np.ndarray:
    parts = []
    for left, _, weight in terms:
        part = np.zeros((left.size, theta.size))
        for name, block in left.blocks.items():
            part[:, theta.slices[name]] = block.dense()
        part *= np.broadcast_to(np.sqrt(-2 * weight), (left.size,))[:, None]
        parts.append(part)
    return np.concatenate(parts)


def without_few_rows(terms: list[WeightedPair], theta: VectorLayout) -> tuple[list[WeightedPair], np.ndarray] | None:
    """The terms but for the squares of dense rows, and these rows as B of BᵀB; None where they are not few."""
    few = [t for t in terms if t[0] is t[1] and not np.any(t[2] > 0) and _is_dense(t[0])]
    rows = sum(left.size for left, _, _ in few)
    if not 0 < rows * FEW_ROWS <= theta.size or rows * theta.size > LARGEST_ROWS:
        return None
    chosen = {id(t) for t in few}
    return [t for t in terms if id(t) not in chosen], _stacked(few, theta)


def _is_dense(jacobian: Jacobian) -> bool:
    """Whether its blocks are not those of a lookup or of a prior, which a sparse Λ holds."""
    return any(not sparse.issparse(b.matrix) and b.matrix.shape[1] > 1 for b in jacobian.blocks.values())


def expanded(product: Product, jacobian: Mapping[Variable, Jacobian], weight: Array, value_of: Any) -> WeightedPair:
    """Both factors of a product, one row a scalar product, with the weight of each in the log density."""
    left, right = jacobian[product.left], jacobian[product.right]
    if product.is_dot:
        rows, columns, repeat = (index.ravel() for index in dot_rows(left.shape, right.shape))
        return left.rows(rows, rows.shape), right.rows(columns, columns.shape), weight.ravel()[repeat]
    shape = np.broadcast_shapes(left.shape, right.shape, weight.shape)
    for var in product.others:
        weight = weight * np.asarray(value_of(var))
    one = left.to_shape(shape)
    two = one if right is left else right.to_shape(shape)
    return one, two, _uniform(np.broadcast_to(weight, shape))


def _uniform(weight: np.ndarray) -> np.ndarray:
    """A single number where all are equal: then a million rows need no weighted copy."""
    flat = weight.ravel() if weight.size == 1 or 0 not in weight.strides else np.ascontiguousarray(weight).ravel()
    return flat[:1] if flat.size and np.all(flat == flat[0]) else flat


def precision_of(terms: list[WeightedPair], theta: VectorLayout) -> np.ndarray | sparse.csr_array:
    """Λ, dense or sparse."""
    blocks: dict[tuple[str, str], Any] = {}
    for term in terms:
        _accumulate(blocks, *term)
    # A few columns shared by all may be dense, where thousands of groups are not.
    entries = sum(b.nnz if sparse.issparse(b) else b.size for b in blocks.values())
    if theta.size > BANDED_FROM and entries <= SPARSE * theta.size**2:
        sizes = {n: s.stop - s.start for n, s in theta.slices.items()}
        grid = [[sparse.csr_array(blocks.get((a, b), (sizes[a], sizes[b]))) for b in sizes] for a in sizes]
        return sparse.csr_array(sparse.block_array(grid, format="csr"))
    result = np.zeros((theta.size, theta.size))
    for (a, b), block in blocks.items():
        result[theta.slices[a], theta.slices[b]] = block.toarray() if sparse.issparse(block) else block
    return result


def _accumulate(blocks: dict[tuple[str, str], Any], left: Jacobian, right: Jacobian, weight: np.ndarray) -> None:
    """Add −(J₁ᵀ W J₂ + J₂ᵀ W J₁) to the blocks of Λ."""
    same = left is right or left.blocks == right.blocks
    names = list(left.blocks)
    for i, one in enumerate(names):
        for two in names[i:] if same else right.blocks:
            cross = weighted_product(left.blocks[one], right.blocks[two], weight) * (-2.0 if same else -1.0)
            _add_block(blocks, one, two, cross)
            if not same or one != two:
                _add_block(blocks, two, one, cross.T)


def _add_block(blocks: dict[tuple[str, str], Any], one: str, two: str, value: Any) -> None:
    blocks[one, two] = added(blocks[one, two], value) if (one, two) in blocks else value


def weighted_product(a: JacobianBlock, b: JacobianBlock, weight: np.ndarray) -> Any:
    """Aᵀ diag(w) B, with the row scalings of both folded into w."""
    scale = np.asarray(weight * a.scale * b.scale)
    if scale.size > 1 and np.all(scale == scale.flat[0]):
        scale = scale.flat[:1]
    left, right = a.matrix, b.matrix
    if scale.size == 1:
        return (symmetric_product(left) if left is right else left.T @ right) * scale.item()
    if sparse.issparse(left):
        return (left.T @ sparse.diags_array(scale)) @ right
    if sparse.issparse(right):
        return np.asarray((right.T @ sparse.diags_array(scale)) @ left).T
    result = np.zeros((left.shape[1], right.shape[1]))
    for start in range(0, len(scale), CHUNK):
        rows = slice(start, start + CHUNK)
        result += left[rows].T @ (right[rows] * scale[rows, None])
    return result


def symmetric_product(matrix: Any) -> Any:
    """AᵀA; of a long dense matrix by BLAS's routine for it: with 50 columns a fifth faster than NumPy's product."""
    plain = not sparse.issparse(matrix) and matrix.dtype == np.float64 and matrix.flags.forc
    if not plain or matrix.size < LARGE or not FEWEST_COLUMNS <= matrix.shape[1] <= len(matrix) / TALL:
        return matrix.T @ matrix
    by_rows = matrix.flags.c_contiguous  # BLAS has columns
    upper = blas.dsyrk(1.0, matrix.T if by_rows else matrix, trans=0 if by_rows else 1)
    return upper + np.triu(upper, 1).T
