"""Λ as a sum of weighted products of Jacobians, Λ = −Σ (J₁ᵀ diag(w) J₂ + J₂ᵀ diag(w) J₁), over the products w·u₁·u₂."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from scipy import sparse

from bayeskit.gaussian.banded_layout import BANDED_FROM
from bayeskit.gaussian.jacobians import Jacobian, JacobianBlock, dot_rows
from bayeskit.graphs.nodes import core_op

__all__ = [
    "Product",
    "WeightedPair",
    "expanded",
    "precision_of",
    "products_of",
    "square_root",
    "stacked_slices",
    "weighted_product",
]

WeightedPair = tuple[Jacobian, Jacobian, np.ndarray]  # J₁, J₂ and weight of w·u₁·u₂, one row a scalar product
ROOT_LIMIT = 4_000_000  # entries of the square root, which is dense
SPARSE = 0.25  # share of the entries of Λ up to which it is worth looking for a band
CHUNK = 65_536  # rows multiplied at a time where the weights differ by row: bounds the scratch memory


@dataclass(frozen=True)
class Product:
    """A node that is the product of two affine nodes, and its weight in the log density."""

    node: Apply
    left: Variable
    right: Variable

    @property
    def is_power(self) -> bool:
        """Whether it is a square or a power, entry by entry."""
        return isinstance(getattr(core_op(self.node), "scalar_op", None), ps.Sqr | ps.Pow)


def products_of(outputs: Sequence[Variable], degree: Mapping[Variable, float]) -> list[Product]:
    """The nodes at which a quadratic is made out of affine nodes."""
    found = []
    for node in toposort(list(outputs)):
        if degree.get(node.outputs[0], 0) != 2 or any(degree.get(i, 0) > 1 for i in node.inputs):
            continue
        affine = [i for i in node.inputs if degree.get(i, 0) == 1]
        op = core_op(node)
        if isinstance(op, Dot | Elemwise):
            found.append(Product(node, affine[0], affine[-1]))
        else:
            raise NotImplementedError(f"no product rule for {node.op}")
    return found


def stacked_slices(names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, slice]:
    """Where each variable lies in the stack."""
    result, start = {}, 0
    for name in names:
        stop = start + int(np.prod(shapes[name], dtype=int))
        result[name] = slice(start, stop)
        start = stop
    return result


def square_root(
    terms: list[WeightedPair], names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> np.ndarray | None:
    """A with AᵀA = Λ, one row a term, where every term is a square with a negative weight and A is of moderate size."""
    slices = stacked_slices(names, shapes)
    size = sum(s.stop - s.start for s in slices.values())
    rows = sum(left.size for left, _, _ in terms)
    if rows * size > ROOT_LIMIT or any(a is not b or np.any(w > 0) for a, b, w in terms):
        return None
    parts = []
    for left, _, weight in terms:
        part = np.zeros((left.size, size))
        for name, block in left.blocks.items():
            part[:, slices[name]] = block.dense()
        parts.append(part * np.broadcast_to(np.sqrt(-2 * weight), (left.size,))[:, None])
    return np.concatenate(parts)


def expanded(
    product: Product, jacobian: Mapping[Variable, Jacobian], weight: np.ndarray, value_of: Any
) -> WeightedPair:
    """Both factors of a product, one row a scalar product, with the weight of each in the log density."""
    left, right = jacobian[product.left], jacobian[product.right]
    op = core_op(product.node)
    if isinstance(op, Dot):
        rows, columns, repeat = (index.ravel() for index in dot_rows(left.shape, right.shape))
        return left.rows(rows, rows.shape), right.rows(columns, columns.shape), weight.ravel()[repeat]
    shape = np.broadcast_shapes(left.shape, right.shape, weight.shape)
    for var in product.node.inputs:
        if isinstance(op.scalar_op, ps.Mul) and var is not product.left and var is not product.right:
            weight = weight * np.asarray(value_of(var))
    one = left.to_shape(shape)
    two = one if right is left else right.to_shape(shape)
    return one, two, _uniform(np.broadcast_to(weight, shape))


def _uniform(weight: np.ndarray) -> np.ndarray:
    """A single number where all are equal: then a million rows need no weighted copy."""
    flat = weight.ravel() if weight.size == 1 or 0 not in weight.strides else np.ascontiguousarray(weight).ravel()
    return flat[:1] if flat.size and np.all(flat == flat[0]) else flat


def precision_of(
    terms: list[WeightedPair], names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> np.ndarray | sparse.csr_array:
    """Λ, dense or sparse."""
    blocks: dict[tuple[str, str], Any] = {}
    for term in terms:
        _accumulate(blocks, *term)
    return _assemble(blocks, names, shapes)


def _accumulate(blocks: dict[tuple[str, str], Any], left: Jacobian, right: Jacobian, weight: np.ndarray) -> None:
    """Add −(J₁ᵀ W J₂ + J₂ᵀ W J₁) to the blocks of Λ."""
    if left is right or left.blocks == right.blocks:
        names = list(left.blocks)
        for i, one in enumerate(names):
            for two in names[i:]:
                cross = weighted_product(left.blocks[one], left.blocks[two], weight) * -2.0
                _add_block(blocks, one, two, cross)
                if one != two:
                    _add_block(blocks, two, one, cross.T)
        return
    for one, a in left.blocks.items():
        for two, b in right.blocks.items():
            cross = weighted_product(a, b, weight)
            _add_block(blocks, one, two, -cross)
            _add_block(blocks, two, one, -cross.T)


def _add_block(blocks: dict[tuple[str, str], Any], one: str, two: str, value: Any) -> None:
    if (one, two) in blocks:
        old = blocks[one, two]
        if sparse.issparse(old) != sparse.issparse(value):
            old, value = (m.toarray() if sparse.issparse(m) else m for m in (old, value))
        value = old + value
    blocks[one, two] = value


def weighted_product(a: JacobianBlock, b: JacobianBlock, weight: np.ndarray) -> Any:
    """Aᵀ diag(w) B, with the row scalings of both folded into w."""
    scale = np.asarray(weight * a.scale * b.scale)
    if scale.size > 1 and np.all(scale == scale.flat[0]):
        scale = scale.flat[:1]
    left, right = a.matrix, b.matrix
    if scale.size == 1:
        return (left.T @ right) * scale.item()
    if sparse.issparse(left):
        return (left.T @ sparse.diags_array(scale)) @ right
    if sparse.issparse(right):
        return np.asarray((right.T @ sparse.diags_array(scale)) @ left).T
    result = np.zeros((left.shape[1], right.shape[1]))
    for start in range(0, len(scale), CHUNK):
        rows = slice(start, start + CHUNK)
        result += left[rows].T @ (right[rows] * scale[rows, None])
    return result


def _assemble(
    blocks: Mapping[tuple[str, str], Any], names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> Any:
    sizes = {n: int(np.prod(shapes[n], dtype=int)) for n in names}
    size = sum(sizes.values())
    # A few columns shared by all may be dense, where thousands of groups are not.
    entries = sum(b.nnz if sparse.issparse(b) else b.size for b in blocks.values())
    if size > BANDED_FROM and entries <= SPARSE * size**2:
        grid = [[sparse.csr_array(blocks.get((a, b), (sizes[a], sizes[b]))) for b in names] for a in names]
        return sparse.csr_array(sparse.block_array(grid, format="csr"))
    slices = stacked_slices(names, shapes)
    result = np.zeros((size, size))
    for (a, b), block in blocks.items():
        result[slices[a], slices[b]] = block.toarray() if sparse.issparse(block) else block
    return result
