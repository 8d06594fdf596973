"""Constant Jacobians of affine nodes, and how their rows move: gathered, scaled, stacked, summed, multiplied.

For a node u(θ) = u(0) + J θ the Jacobian J is constant. It is carried forward from J = I at θ itself, so ``X @ w``
gives X (the array itself, not a copy), an index ``mu[group]`` gives a sparse selection, a random walk a sparse band.
PyTensor's own ``jacobian`` differentiates backwards, once for each of the N rows; forwards it is one product.

A Jacobian has one block for each random variable, of shape (size of the node, size of the variable), row-major, dense
or sparse, with its row scaling kept apart so that dividing a million rows by a noise sd copies nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot
from scipy import sparse
from scipy.linalg import solve_triangular

from bayeskit.graphs.instructions import performed
from bayeskit.graphs.nodes import core_op

__all__ = ["Jacobian", "JacobianBlock", "added", "dot_rows", "linear_image", "sum_jacobians", "summed_rows", "vstacked"]

Matrix = Any  # numpy.ndarray or scipy.sparse array, two-dimensional
Shape = tuple[int, ...]
DENSE_FROM = 0.25  # a sparse block fuller than this is multiplied faster as a dense one


@dataclass(frozen=True, eq=False)
class JacobianBlock:
    """diag(scale) · matrix; ``scale`` is a number or one number a row."""

    matrix: Matrix
    scale: Any = 1.0

    def __post_init__(self) -> None:
        if self.matrix.dtype == bool:  # whose products are "or" of "and"
            object.__setattr__(self, "matrix", self.matrix.astype(float))

    def rows(self, index: np.ndarray) -> JacobianBlock:
        """The block of the entries ``index`` of the node."""
        scale = self.scale if np.ndim(self.scale) == 0 else self.scale[index]
        return JacobianBlock(self.matrix[index], scale)

    def times(self, factor: np.ndarray) -> JacobianBlock:
        """The block of the node multiplied by ``factor``, one number or one a row."""
        return JacobianBlock(self.matrix, self.scale * (factor.item() if factor.size == 1 else factor))

    def where(self, chosen: np.ndarray) -> JacobianBlock:
        """Zero in the rows not chosen; selected rather than multiplied, because 0·∞ is not 0."""
        matrix = self.plain()
        if not sparse.issparse(matrix):
            return JacobianBlock(np.where(chosen[:, None], matrix, 0.0))
        entries = sparse.coo_array(matrix)
        (row, column), used = entries.coords, chosen[entries.coords[0]]
        return JacobianBlock(sparse.csr_array((entries.data[used], (row[used], column[used])), shape=matrix.shape))

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

    shape: Shape
    blocks: dict[str, JacobianBlock]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def rows(self, index: np.ndarray, shape: Shape) -> Jacobian:
        """Of the node of some shape whose entries are the entries ``index`` of this one."""
        return Jacobian(shape, {n: b.rows(index) for n, b in self.blocks.items()})

    def reshaped(self, shape: Shape) -> Jacobian:
        return Jacobian(shape, self.blocks)

    def to_shape(self, shape: Shape) -> Jacobian:
        """Of the node broadcast."""
        if math.prod(shape) == self.size:  # only axes of length one are added: nothing is copied
            return self.reshaped(shape)
        return self.rows(broadcast_index(self.shape, shape), shape)

    def times(self, factor: np.ndarray) -> Jacobian:
        """Of the node multiplied by a constant, one number or one for each row."""
        if factor.size == 1 and factor.item() == 1:
            return self
        return Jacobian(self.shape, {n: b.times(factor) for n, b in self.blocks.items()})

    def where(self, chosen: np.ndarray) -> Jacobian:
        """Of the node with zeros in the rows not chosen."""
        return self if np.all(chosen) else Jacobian(self.shape, {n: b.where(chosen) for n, b in self.blocks.items()})


def broadcast_index(shape: Shape, larger: Shape) -> np.ndarray:
    """For each entry of an array broadcast to a larger shape, flat, the entry that it comes from."""
    return np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), larger).ravel()


def dot_rows(left: Shape, right: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix product as scalar products: entries of the left, of the right, and of the result."""
    a = np.arange(math.prod(left)).reshape(left)
    b = np.arange(math.prod(right)).reshape(right)
    a = a[None, :] if a.ndim == 1 else a
    b = b[:, None] if b.ndim == 1 else b
    rows, columns = np.broadcast_arrays(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
    repeat = np.arange(math.prod(rows.shape[:-1])).reshape(rows.shape[:-1])
    return rows, columns, np.broadcast_to(repeat[..., None], rows.shape)


def product_shape(left: Shape, right: Shape) -> Shape:
    """Shape of a matrix product, without computing it."""
    lead = np.broadcast_shapes(left[:-2], right[:-2])
    return lead + left[-2:-1] + (right[-1:] if len(right) > 1 else ())


def _tidy(matrix: Matrix) -> Matrix:
    if sparse.issparse(matrix) and matrix.nnz > DENSE_FROM * matrix.shape[0] * matrix.shape[1]:
        return matrix.toarray()
    return matrix


def sum_jacobians(terms: Sequence[Jacobian], shape: Shape) -> Jacobian:
    """The Jacobian of the sum of nodes of one shape."""
    blocks: dict[str, JacobianBlock] = {}
    for term in terms:
        for name, block in term.blocks.items():
            if name in blocks:
                blocks[name] = JacobianBlock(_tidy(added(blocks[name].plain(), block.plain())))
            else:
                blocks[name] = block
    return Jacobian(shape, blocks)


def added(a: Matrix, b: Matrix) -> Matrix:
    """The sum of two matrices, sparse if both are."""
    if sparse.issparse(a) != sparse.issparse(b):
        a, b = (m.toarray() if sparse.issparse(m) else m for m in (a, b))
    return a + b


def vstacked(parts: Sequence[Jacobian | None], sizes: Sequence[int]) -> Jacobian:
    """The Jacobian of nodes laid flat, one after another, of some sizes; None for one that is zero."""
    blocks = {}
    for name in {n: None for part in parts if part is not None for n in part.blocks}:
        known = [None if part is None or name not in part.blocks else part.blocks[name].plain() for part in parts]
        width = next(matrix.shape[1] for matrix in known if matrix is not None)
        filled = sum(n for matrix, n in zip(known, sizes, strict=True) if matrix is not None)
        if any(sparse.issparse(matrix) for matrix in known) or filled < DENSE_FROM * sum(sizes):
            pieces = [sparse.csr_array((n, width) if m is None else m) for m, n in zip(known, sizes, strict=True)]
            blocks[name] = JacobianBlock(_tidy(sparse.csr_array(sparse.vstack(pieces, format="csr"))))
        else:
            dense = [np.zeros((n, width)) if m is None else m for m, n in zip(known, sizes, strict=True)]
            blocks[name] = JacobianBlock(np.concatenate(dense))
    return Jacobian((sum(sizes),), blocks)


def summed_rows(jacobian: Jacobian, targets: np.ndarray, shape: Shape) -> Jacobian:
    """The Jacobian of sums: ``targets`` is, for each entry of the node, the number of its sum."""
    entries = (np.ones(jacobian.size), (targets, np.arange(jacobian.size)))
    adder = sparse.csr_array(entries, shape=(math.prod(shape), jacobian.size))
    return Jacobian(shape, {n: JacobianBlock(_tidy(adder @ b.plain())) for n, b in jacobian.blocks.items()})


def linear_image(node: Apply, position: int, jacobian: Jacobian, inputs: Sequence[Any]) -> Jacobian:
    """The Jacobian of a node that is linear in the input ``position``: one product or solve where it is one, else by
    columns; ``jacobian`` is that of the input, ``inputs`` the values of the others.
    """
    op = core_op(node)
    other: np.ndarray = np.asarray(inputs[1 - position]) if len(inputs) == 2 else np.zeros(())
    if other.ndim > 2 and other.size == other.shape[-1] * other.shape[-2]:
        other = other.reshape(other.shape[-2:])
    axis = -1 if position == 0 else max(-2, -len(jacobian.shape))  # the one that a matrix product sums over
    contracted = jacobian.shape[axis] if jacobian.shape else 1
    if isinstance(op, Dot) and 1 <= other.ndim <= 2 and jacobian.size == contracted:
        shapes = [jacobian.shape if k == position else np.shape(v) for k, v in enumerate(inputs)]
        matrix = other[None, :] if other.ndim == 1 else other if position == 1 else other.T
        return _mapped(lambda b: _product(matrix, b), jacobian, product_shape(*shapes))

    run = performed(node)  # many systems at once: a whitening of 7,500 rows, for each column of a Jacobian

    def function(column: np.ndarray) -> np.ndarray:
        return np.asarray(run([column if k == position else np.asarray(v) for k, v in enumerate(inputs)]))

    shape = function(np.zeros(jacobian.shape)).shape
    if isinstance(op, SolveTriangular) and other.ndim == 2 and jacobian.size == len(other):
        options = {"lower": op.lower, "unit_diagonal": op.unit_diagonal}
        return _mapped(lambda b: solve_triangular(other, b.dense(), **options), jacobian, shape)

    def by_columns(block: JacobianBlock) -> np.ndarray:
        result = np.empty((math.prod(shape), block.matrix.shape[1]))
        for k, column in enumerate(block.dense().T):
            result[:, k] = np.ravel(function(column.reshape(jacobian.shape)))
        return result

    return _mapped(by_columns, jacobian, shape)


def _mapped(function: Callable[[JacobianBlock], Matrix], jacobian: Jacobian, shape: Shape) -> Jacobian:
    return Jacobian(shape, {n: JacobianBlock(_by_used_columns(function, b)) for n, b in jacobian.blocks.items()})


def _by_used_columns(function: Callable[[JacobianBlock], Matrix], block: JacobianBlock) -> Matrix:
    """The image of a matrix by a linear function of its columns, sparse where few of them are not zero.

    The whitened first effects of a season are three rows, but as many columns as the series is long: dense, their
    square would be a matrix of the length by the length.
    """
    if not sparse.issparse(block.matrix):
        return function(block)
    used = np.unique(block.matrix.tocoo().col)
    width = block.matrix.shape[1]
    if not 0 < len(used) <= DENSE_FROM * width:
        return function(block)
    few = JacobianBlock(sparse.csr_array(sparse.csr_array(block.matrix)[:, used]), block.scale)
    place = sparse.csr_array((np.ones(len(used)), (np.arange(len(used)), used)), shape=(len(used), width))
    return sparse.csr_array(sparse.csr_array(function(few)) @ place)


def _product(matrix: np.ndarray, block: JacobianBlock) -> np.ndarray:
    inner = block.plain()
    square = sparse.issparse(inner) and inner.shape[0] == inner.shape[1]
    if square and (inner - sparse.eye_array(inner.shape[0])).nnz == 0:
        return matrix
    return np.asarray(matrix @ inner)
