"""One entry along an axis of a graph, taken before what is computed rather than after."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from bayeskit.types import Graph

__all__ = ["entry"]


def entry(graph: Any, index: int, axis: int) -> Graph:
    """``graph[..., index, ...]`` along an axis, as the graph of that entry alone.

    A stack of K densities, multiplied by weights and summed, is then K sums that have nothing to do with each other.

    Parameters
    ----------
    graph : tensor
    index : int
    axis : int
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
    if isinstance(op, Alloc):
        value, *shape = node.inputs
        below = axis - (graph.type.ndim - value.type.ndim)
        kept = [s for i, s in enumerate(shape) if i != axis]
        return op(value if below < 0 else entry(value, index, below), *kept)
    if isinstance(op, Join) and op.axis == axis:
        start = 0
        for piece in node.inputs:
            length = piece.type.shape[axis]
            if length is None:
                break
            if index < start + length:
                return entry(piece, index - start, axis)
            start += length
    if isinstance(graph, Constant):
        return type(graph)(graph.type.clone(shape=_without(graph.type.shape, axis)), np.take(graph.data, index, axis))
    return graph[(slice(None),) * axis + (index,)]


def _without(shape: tuple[int | None, ...], axis: int) -> tuple[int | None, ...]:
    return shape[:axis] + shape[axis + 1 :]
