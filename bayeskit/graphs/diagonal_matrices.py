"""Diagonal matrices written as a choice between entries and zeros, for evaluation at many points.

``pt.diag(v)`` puts v into a matrix of zeros, at places and of a size that it asks v for. At many points PyTensor's
batched form of that runs Python three times a point: for a process of nine inputs, most of what its density costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.subtensor import AdvancedIncSubtensor

from bayeskit.graphs.instructions import NotEvaluable
from bayeskit.graphs.interpreter import evaluator
from bayeskit.graphs.nodes import applies
from bayeskit.graphs.rewriting import substitute
from bayeskit.types import Graph

__all__ = ["diagonal_entries", "diagonals_as_choices"]

LARGEST = 64  # rows: a choice looks at all entries, which beyond that takes longer than Python does


def diagonals_as_choices(graph: Graph) -> Graph:
    """The same graph, with small matrices that are zero but for their diagonal in a form that has one for many points.

    The size of a matrix must follow from the types of its parts.
    """
    found = {n.outputs[0]: _chosen(n) for n in toposort([graph]) if isinstance(n.op, AdvancedIncSubtensor)}
    replaced: dict[Variable, Variable] = {old: new for old, new in found.items() if new is not None}
    return substitute([graph], replaced)[0] if replaced else graph


def _chosen(node: Apply) -> Graph | None:
    entries = diagonal_entries(node.outputs[0])
    if entries is None or not 1 < entries.type.shape[0] <= LARGEST:
        return None
    size = entries.type.shape[0]
    return pt.switch(np.eye(size, dtype=bool), entries, np.zeros((), dtype=node.outputs[0].type.dtype))


def diagonal_entries(matrix: Graph) -> Graph | None:
    """The vector that a matrix has on its diagonal, if it is zero elsewhere by its making; None where that is not seen.

    Seen are what ``pt.diag`` of a vector of known length makes, written out; constants; and multiples of both.
    """
    value = _constant_value(matrix)
    if value is not None:
        diagonal = value.ndim == 2 and value.shape[0] == value.shape[1] and not np.any(value - np.diag(np.diag(value)))
        return pt.constant(np.diag(value)) if diagonal else None
    node = matrix.owner
    if node is not None and applies(node, ps.Mul):
        return _multiple(node)
    if node is None or not isinstance(node.op, AdvancedIncSubtensor):
        return None
    op: Any = node.op
    zero, entries, *places = node.inputs
    if not op.set_instead_of_inc or zero.type.ndim != 2 or entries.type.ndim != 1 or len(places) != 2:
        return None
    size = entries.type.shape[0]
    if size is None or op.idx_list != (0, 1):
        return None
    try:
        zeros, *at = evaluator([], [zero, *places])()
    except NotEvaluable:  # they depend on more than the shapes of other nodes
        return None
    if zeros.shape != (size, size) or np.any(zeros) or not all(np.array_equal(k, np.arange(size)) for k in at):
        return None
    return entries


def _constant_value(matrix: Graph) -> np.ndarray | None:
    if isinstance(matrix, Constant):
        return np.asarray(matrix.data)
    try:
        return None if matrix.owner is None else np.asarray(evaluator([], [matrix])()[0])
    except NotEvaluable:
        return None


def _multiple(node: Apply) -> Graph | None:
    """s v from s times diag(v), with a number s."""
    numbers = [i for i in node.inputs if set(i.type.shape) <= {1}]
    matrices = [i for i in node.inputs if i not in numbers]
    if len(matrices) != 1 or matrices[0].type.shape != node.outputs[0].type.shape:
        return None
    entries = diagonal_entries(matrices[0])
    if entries is None:
        return None
    product: Graph = pt.mul(entries, *(pt.reshape(n, (1,)) for n in numbers))
    return product
