"""Exact Jacobians of nodes that are affine in θ, by walking their graph once with NumPy and SciPy.

For a node u(θ) = u(0) + J θ the Jacobian J is constant. It is carried forward from J = I at θ itself, so ``X @ w``
gives X (the array itself, not a copy), an index ``mu[group]`` gives a sparse selection, a random walk a sparse band.
PyTensor's own ``jacobian`` differentiates backwards, once for each of the N rows; forwards it is one product.

A Jacobian has one block for each random variable, of shape (size of the node, size of the variable), row-major, dense
or sparse, with its row scaling kept apart so that dividing a million rows by a noise sd copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor
from scipy import sparse
from scipy.linalg import solve_triangular

from bayeskit.graphs.domain import Kind, kind_of, linear_argument
from bayeskit.graphs.nodes import core_op

__all__ = ["Block", "Jacobian", "broadcast_jacobian", "jacobians", "linear_jacobian", "perform", "sum_jacobians"]

Matrix = Any  # numpy.ndarray or scipy.sparse array, two-dimensional
DENSE_FROM = 0.25  # a sparse block fuller than this is multiplied faster as a dense one


@dataclass(frozen=True, eq=False)
class Block:
    """diag(scale) · matrix; ``scale`` is a number or one number a row."""

    matrix: Matrix
    scale: Any = 1.0

    def rows(self, index: np.ndarray) -> Block:
        """The block of the entries ``index`` of the node."""
        scale = self.scale if np.ndim(self.scale) == 0 else self.scale[index]
        return Block(self.matrix[index], scale)

    def times(self, factor: np.ndarray) -> Block:
        """The block of the node multiplied by ``factor``, one number or one a row."""
        return Block(self.matrix, self.scale * (factor.item() if factor.size == 1 else factor))

    def times_vector(self, vector: np.ndarray) -> np.ndarray:
        """diag(scale) · matrix · vector."""
        return np.asarray(self.scale * (self.matrix @ vector))

    def plain(self) -> Matrix:
        """The block as one matrix."""
        if np.ndim(self.scale) == 0:
            return self.matrix if self.scale == 1 else self.matrix * self.scale
        if sparse.issparse(self.matrix):
            return sparse.csr_array(sparse.diags_array(self.scale) @ self.matrix)
        return self.matrix * self.scale[:, None]

    def dense(self) -> np.ndarray:
        """The block as one dense matrix."""
        matrix = self.plain()
        return matrix.toarray() if sparse.issparse(matrix) else matrix


@dataclass(frozen=True, eq=False)
class Jacobian:
    """The Jacobian of one node: its shape, and a block for each random variable that it depends on."""

    shape: tuple[int, ...]
    blocks: dict[str, Block]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def _tidy(matrix: Matrix) -> Matrix:
    if sparse.issparse(matrix) and matrix.nnz > DENSE_FROM * matrix.shape[0] * matrix.shape[1]:
        return matrix.toarray()
    return matrix


def sum_jacobians(terms: list[Jacobian], shape: tuple[int, ...]) -> Jacobian:
    """The sum of Jacobians of one shape."""
    blocks: dict[str, Block] = {}
    for term in terms:
        for name, block in term.blocks.items():
            if name in blocks:
                blocks[name] = Block(_tidy(_add(blocks[name].plain(), block.plain())))
            else:
                blocks[name] = block
    return Jacobian(shape, blocks)


def _add(a: Matrix, b: Matrix) -> Matrix:
    if sparse.issparse(a) != sparse.issparse(b):
        a = a.toarray() if sparse.issparse(a) else a
        b = b.toarray() if sparse.issparse(b) else b
    return a + b


def broadcast_jacobian(jac: Jacobian, shape: tuple[int, ...]) -> Jacobian:
    """The Jacobian of a node broadcast to a larger shape."""
    if jac.shape == shape:
        return jac
    index = np.broadcast_to(np.arange(jac.size).reshape(jac.shape), shape).ravel()
    return Jacobian(shape, {n: b.rows(index) for n, b in jac.blocks.items()})


def _gather(node: Apply, jac: Jacobian, inputs: list[Any]) -> list[Jacobian]:
    """A structural node: ask the op itself where each of its entries comes from."""
    if isinstance(node.op, DimShuffle) and list(node.op.shuffle) == sorted(node.op.shuffle):
        (shape,) = perform(node, [np.empty(jac.shape), *inputs[1:]], shapes_only=True)
        return [Jacobian(shape, jac.blocks)]
    sources = perform(node, [np.arange(jac.size).reshape(jac.shape), *inputs[1:]])
    return [Jacobian(s.shape, {n: b.rows(s.ravel()) for n, b in jac.blocks.items()}) for s in sources]


def perform(node: Apply, inputs: list[Any], *, shapes_only: bool = False) -> list[Any]:
    """The outputs of a node, or their shapes, for given inputs."""
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, inputs, storage)
    return [np.shape(s[0]) if shapes_only else np.asarray(s[0]) for s in storage]


def _assemble(node: Apply, parts: list[Any], arguments: list[Any]) -> Jacobian:
    """A node that puts parts together (join, stack, set_subtensor): some of them constant, some affine."""
    stacked, offset, indices = [], 0, []
    for part in parts:
        shape = part.shape if isinstance(part, Jacobian) else np.shape(part)
        size = int(np.prod(shape, dtype=int))
        indices.append(np.arange(offset, offset + size).reshape(shape))
        stacked.append((part, size))
        offset += size
    (source,) = perform(node, [*indices, *arguments])
    source = source.astype(int)
    blocks = {}
    affine = [p for p, _ in stacked if isinstance(p, Jacobian)]
    for name in {n: None for p in affine for n in p.blocks}:
        width = next(p.blocks[name].matrix.shape[1] for p in affine if name in p.blocks)
        pieces = [
            sparse.csr_array(p.blocks[name].plain())
            if isinstance(p, Jacobian) and name in p.blocks
            else sparse.csr_array((size, width))
            for p, size in stacked
        ]
        blocks[name] = Block(_tidy(sparse.csr_array(sparse.vstack(pieces, format="csr"))[source.ravel()]))
    return Jacobian(source.shape, blocks)


def _sum(node: Apply, jac: Jacobian) -> Jacobian:
    axes = node.op.axis
    axes = tuple(range(len(jac.shape))) if axes is None else tuple(a % len(jac.shape) for a in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(jac.shape))
    shape = tuple(n for i, n in enumerate(jac.shape) if i not in axes)
    size = int(np.prod(shape, dtype=int))
    target = np.broadcast_to(np.arange(size).reshape(kept), jac.shape).ravel()
    adder = sparse.csr_array((np.ones(jac.size), (target, np.arange(jac.size))), shape=(size, jac.size))
    return Jacobian(shape, {n: Block(_tidy(adder @ b.plain())) for n, b in jac.blocks.items()})


def _apply_linear(node: Apply, position: int, jac: Jacobian, inputs: list[Any]) -> Jacobian:
    """Any op that is linear in one input: one matrix product or solve where it is one, else column by column."""
    other = next((np.asarray(v) for i, v in enumerate(inputs) if i != position and v is not None), None)
    op = core_op(node)
    core_ndim = {i for i, n in enumerate(jac.shape) if n != 1}
    if isinstance(op, Dot) and other is not None:
        column = len(core_ndim) <= 1 and jac.size == (
            jac.shape[-1] if len(jac.shape) == 1 or position == 0 else jac.shape[-2]
        )
        flat = (
            other[(0,) * (other.ndim - 2)]
            if other.ndim > 2 and other.size == other.shape[-1] * other.shape[-2]
            else other
        )
        if column and flat.ndim == 2:
            shape = _product_shape(*(jac.shape if i == position else np.shape(v) for i, v in enumerate(inputs)))
            matrix = flat if position == 1 else flat.T
            return Jacobian(shape, {n: _product(matrix, b) for n, b in jac.blocks.items()})
    if (
        type(op).__name__ == "SolveTriangular"
        and other is not None
        and jac.size == other.shape[-1] == other.size // other.shape[-1]
    ):
        (shape,) = perform(node, _with(inputs, position, np.zeros(jac.shape)), shapes_only=True)
        matrix = other.reshape(other.shape[-2:])
        solve = lambda b: solve_triangular(matrix, b, lower=op.lower, unit_diagonal=op.unit_diagonal)  # noqa: E731
        return Jacobian(shape, {n: Block(solve(b.dense())) for n, b in jac.blocks.items()})
    return _by_columns(lambda column: perform(node, _with(inputs, position, column))[0], jac)


def _product_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of a matrix product, without computing it."""
    lead = np.broadcast_shapes(left[:-2], right[:-2])
    return lead + left[-2:-1] + (right[-1:] if len(right) > 1 else ())


def _product(matrix: np.ndarray, block: Block) -> Block:
    inner = block.plain()
    if (
        sparse.issparse(inner)
        and inner.shape[0] == inner.shape[1]
        and (inner - sparse.eye_array(inner.shape[0])).nnz == 0
    ):
        return Block(matrix)
    result = matrix @ inner
    return Block(np.asarray(result))


def _with(inputs: list[Any], position: int, value: Any) -> list[Any]:
    return [value if i == position else v for i, v in enumerate(inputs)]


def _by_columns(function: Callable[[np.ndarray], np.ndarray], jac: Jacobian) -> Jacobian:
    blocks, shape = {}, jac.shape
    for name, block in jac.blocks.items():
        dense = block.dense()
        columns = [function(dense[:, k].reshape(jac.shape)) for k in range(dense.shape[1])]
        shape = columns[0].shape if columns else shape
        blocks[name] = Block(np.stack([c.ravel() for c in columns], axis=1))
    return Jacobian(shape, blocks)


def _elementwise(node: Apply, parts: list[Any], shape: tuple[int, ...]) -> Jacobian:
    op = node.op.scalar_op
    affine = {i: broadcast_jacobian(p, shape) for i, p in enumerate(parts) if isinstance(p, Jacobian)}
    flat = {i: _flat(p, shape) for i, p in enumerate(parts) if not isinstance(p, Jacobian)}
    if isinstance(op, ps.Mul):
        ((_, jac),) = affine.items()
        return _scale(jac, [flat[i] for i in flat])
    if isinstance(op, ps.TrueDiv):
        return _scale(affine[0], [1.0 / flat[1]])
    if isinstance(op, ps.Switch):
        chosen = flat[0] != 0
        return sum_jacobians([_scale(j, [chosen if i == 1 else ~chosen]) for i, j in affine.items()], shape)
    if isinstance(op, ps.Second):
        affine = {1: affine[1]}
    elif not isinstance(op, ps.Add | ps.Sub | ps.Neg | ps.Identity | ps.Cast):
        raise NotImplementedError(f"no Jacobian rule for {node.op}")
    signs = {0: 1.0, 1: -1.0} if isinstance(op, ps.Sub) else {0: -1.0} if isinstance(op, ps.Neg) else {}
    return sum_jacobians([_scale(j, [np.asarray(signs.get(i, 1.0))]) for i, j in affine.items()], shape)


def _flat(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(value)
    return array.ravel() if array.size == 1 else np.broadcast_to(array, shape).ravel()


def _scale(jac: Jacobian, factors: list[np.ndarray]) -> Jacobian:
    total: Any = np.asarray(1.0)
    for factor in factors:
        total = total * factor
    if np.size(total) == 1 and np.asarray(total).item() == 1:
        return jac
    return Jacobian(jac.shape, {n: b.times(np.asarray(total)) for n, b in jac.blocks.items()})


def _node_jacobian(node: Apply, parts: list[Any]) -> list[Jacobian]:
    op = core_op(node)
    affine = [i for i, p in enumerate(parts) if isinstance(p, Jacobian)]
    if isinstance(op, Elemwise):
        shape = np.broadcast_shapes(*[p.shape if isinstance(p, Jacobian) else np.shape(p) for p in parts])
        return [_elementwise(node, parts, shape)]
    if type(op).__name__ in ("CheckParameterValue", "CheckAndRaise", "Assert"):
        return [parts[0]]
    if kind_of(node) is Kind.MOVE:
        return _gather(node, parts[0], parts)
    if kind_of(node) is Kind.JOIN:
        count = 2 if isinstance(op, IncSubtensor | AdvancedIncSubtensor) else len(parts)
        return [_assemble(node, parts[:count], parts[count:])]
    if isinstance(op, Sum):
        return [_sum(node, parts[0])]
    if isinstance(op, CumOp) and op.mode == "add":
        return [_by_columns(lambda column: perform(node, [column])[0], parts[0])]
    if len(affine) == 1 and (isinstance(op, Dot) or affine[0] == linear_argument(node)):
        (position,) = affine
        return [_apply_linear(node, position, parts[position], _with(parts, position, None))]
    raise NotImplementedError(f"no Jacobian rule for {node.op}")


def linear_jacobian(node: Apply, parts: list[Any]) -> Jacobian:
    """The Jacobian of a node with one output that is linear in those of its arguments that are Jacobians."""
    (result,) = _node_jacobian(node, parts)
    return result


def jacobians(
    outputs: list[Variable],
    targets: Mapping[Variable, tuple[str, tuple[int, ...]]],
    degree: Mapping[Variable, float],
    value_of: Callable[[Variable], Any],
) -> dict[Variable, Jacobian]:
    """Jacobians of affine nodes.

    Parameters
    ----------
    outputs : list of tensor
        Nodes of degree one (see :func:`bayeskit.graphs.polynomial_degree.degrees`).
    targets : mapping of tensor to (str, tuple of int)
        θ: name and shape of each variable.
    degree : mapping of tensor to float
        The degrees, from which those nodes are told that do not depend on θ.
    value_of : callable
        Gives the value of such a node.

    Returns
    -------
    dict of tensor to Jacobian
    """
    found: dict[Variable, Jacobian] = {}
    for var, (name, shape) in targets.items():
        size = int(np.prod(shape, dtype=int))
        found[var] = Jacobian(shape, {name: Block(sparse.csr_array(sparse.eye_array(size, format="csr")))})
    for node in toposort(outputs):
        if not any(i in found for i in node.inputs) or isinstance(node.op, Shape | Shape_i):
            continue
        if any(degree.get(o, 0) == 0 for o in node.outputs):
            continue
        parts = [found[i] if i in found else value_of(i) for i in node.inputs]
        for out, jac in zip(node.outputs, _node_jacobian(node, parts), strict=True):
            found[out] = jac
    return {o: found[o] for o in outputs}
