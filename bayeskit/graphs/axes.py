"""Where the axes of an array go, node by node: which axis of an input one of an output follows; one entry along one."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import basic as ptb
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, get_idx_list

from bayeskit.types import Graph

__all__ = ["entry", "followed_axes"]


def followed_axes(out: Graph, position: int) -> tuple[int | None, ...] | None:
    """For each axis of an output the axis of one of its node's inputs that it follows.

    An output follows an axis where its entries at i depend on the entries of the input at i only, in the same way for
    every i. An axis of the input that none follows is mixed. None where nothing is known.
    """
    node, op = out.owner, out.owner.op
    same: tuple[int, ...] = tuple(range(node.inputs[position].type.ndim))
    if isinstance(op, Blockwise):
        batch = op.batch_ndim(node)
        return (*range(batch), *[None] * (out.type.ndim - batch))
    if isinstance(op, Elemwise):
        return same
    if isinstance(op, ptb.Join):
        return tuple(None if i == op.axis else i for i in same)
    if isinstance(op, IncSubtensor) and position < 2:
        whole = _whole_axes(node)
        if position == 0:
            return tuple(i if i in whole else None for i in same)
        # What is put there may be stretched along an axis.
        put = dict(zip(whole[len(whole) - len(same) :], zip(same, node.inputs[1].type.shape, strict=True), strict=True))
        return tuple(put[i][0] if n and put.get(i, (0, 0))[1] == n else None for i, n in enumerate(out.type.shape))
    if position > 0:
        return None
    if isinstance(op, SpecifyShape | CheckAndRaise | ViewOp):
        return same
    if isinstance(op, DimShuffle):
        return tuple(None if i == "x" else i for i in op.new_order)
    if isinstance(op, CAReduce):
        return tuple(i for i in same if op.axis is not None and i not in op.axis)
    if isinstance(op, CumOp | Softmax | LogSoftmax):
        mixed = same if op.axis is None else np.ravel(op.axis) % len(same)
        return tuple(None if i in mixed else i for i in same)
    if isinstance(op, ptb.Alloc):
        return (None,) * (out.type.ndim - len(same)) + same
    if isinstance(op, ptb.ExtractDiag):
        return (*(i for i in same if i not in (op.axis1, op.axis2)), None)
    return _whole_axes(node) if isinstance(op, Subtensor) else None


def _whole_axes(node: Apply) -> tuple[int | None, ...]:
    """For each axis of the part that a node takes or changes, the axis of the input that it is; None of a selection."""
    of_index = node.inputs[2:] if isinstance(node.op, IncSubtensor) else node.inputs[1:]
    indices = [*get_idx_list([node.inputs[0], *of_index], node.op.idx_list), *[slice(None)] * node.inputs[0].type.ndim]
    axes = enumerate(indices[: node.inputs[0].type.ndim])
    return tuple(i if index == slice(None) else None for i, index in axes if isinstance(index, slice))


def entry(graph: Any, index: int, axis: int) -> Graph:
    """``graph[..., index, ...]`` along an axis, as the graph of that entry alone.

    A stack of K densities, multiplied by weights and summed, is then K sums that have nothing to do with each other.
    """
    if graph.type.shape[axis] == 1:
        index = 0
    node = graph.owner
    op: Any = None if node is None else node.op
    if isinstance(op, Elemwise):
        return op(*[entry(i, index, axis) for i in node.inputs])
    if isinstance(op, DimShuffle):
        below = op.new_order[axis]
        order = [o for i, o in enumerate(op.new_order) if i != axis]
        if below == "x":
            return node.inputs[0].dimshuffle(order)
        picked = entry(node.inputs[0], index, below)
        return picked.dimshuffle([o if o == "x" else o - (o > below) for o in order])
    if isinstance(op, ptb.Alloc):
        value, *shape = node.inputs
        below = axis - (graph.type.ndim - value.type.ndim)
        kept = [s for i, s in enumerate(shape) if i != axis]
        return op(value if below < 0 else entry(value, index, below), *kept)
    if isinstance(op, ptb.Join) and op.axis == axis:
        start = 0
        for piece in node.inputs:
            length = piece.type.shape[axis]
            if length is None:
                break
            if index < start + length:
                return entry(piece, index - start, axis)
            start += length
    if isinstance(graph, Constant):
        shape = graph.type.shape[:axis] + graph.type.shape[axis + 1 :]
        return type(graph)(graph.type.clone(shape=shape), np.take(graph.data, index, axis))
    return graph[(slice(None),) * axis + (index,)]
