"""Matrices that are constants: eigenvalues computed once, and sparse ones written out.

PyMC's density of a conditional autoregression has the eigenvalues of its graph of neighbours, at each evaluation anew;
and where the graph is a sparse matrix, products that the other analyses have no rules for, nor gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.sparse.basic import DenseFromSparse
from pytensor.sparse.math import Dot as SparseDot
from pytensor.sparse.math import StructuredDot, TrueDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.linalg.decomposition.eigen import Eigvalsh
from scipy import linalg

from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.sparse_products import sparse_product

__all__ = ["with_constant_matrices"]


def with_constant_matrices(outputs: list[Variable], *, always: bool = False) -> list[Variable]:
    """The same graphs without sparse constants, and without eigenvalues of what is constant.

    Products with sparse constants are ``always`` of one form, or of one that is good for the numbers in them.
    """
    memo: dict[Variable, Variable] = {}
    for node in toposort(outputs):
        inputs = [memo.get(i, i) for i in node.inputs]
        out, sparse = node.outputs[0], any(isinstance(i.type, SparseTensorType) for i in node.inputs)
        decomposed = isinstance(core_op(node), Eigvalsh)
        if isinstance(out.type, SparseTensorType):
            continue
        if (sparse or decomposed) and all(isinstance(i, Constant) for i in graph_inputs([out])):
            with silently():
                memo[out] = pt.constant(_eigenvalues(inputs) if decomposed else out.eval(mode="FAST_COMPILE"))
        elif sparse and (product := _product(node, memo, always)) is not None:
            memo[out] = product
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True))
    return [memo.get(o, o) for o in outputs]


def _product(node: Apply, memo: Mapping[Variable, Variable], always: bool) -> Variable | None:
    """The dense result of a product with a constant sparse matrix, written out; None where it is something else."""
    if isinstance(node.op, DenseFromSparse) and (inner := node.inputs[0].owner) and isinstance(inner.op, TrueDot):
        return _product(inner, memo, always)
    if not isinstance(node.op, SparseDot | StructuredDot | TrueDot) or len(node.inputs) != 2:
        return None
    of_matrix = [isinstance(i.type, SparseTensorType) for i in node.inputs]
    if sum(of_matrix) != 1 or not node.outputs[0].type.dtype.startswith("float"):
        return None
    matrix, other = (node.inputs[of_matrix.index(kind)] for kind in (True, False))
    if not all(isinstance(i, Constant) for i in graph_inputs([matrix])):
        return None
    with silently():
        value: Any = matrix.data if isinstance(matrix, Constant) else matrix.eval(mode="FAST_COMPILE")
    right: Any = memo.get(other, other)
    if of_matrix[0]:
        return sparse_product(value, right, always=always)
    product: Any = sparse_product(value.T, right.T, always=always)
    return product.T


def _eigenvalues(inputs: list[Any]) -> np.ndarray:
    """Not a number for a matrix that is none: PyTensor raises, and an isolated area divides by its zero neighbours."""
    matrices = [np.asarray(i.eval(mode="FAST_COMPILE")) for i in inputs]
    if not all(np.all(np.isfinite(m)) for m in matrices):
        return np.full(len(matrices[0]), np.nan)
    # Five times as fast as the same with a unit matrix beside it.
    alone = len(matrices) == 1 or np.array_equal(matrices[1], np.eye(len(matrices[1])))
    return np.asarray(linalg.eigvalsh(matrices[0]) if alone else linalg.eigvalsh(*matrices))
