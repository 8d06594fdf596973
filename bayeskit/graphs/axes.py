"""Where the axes of an array go: which axis of an input an axis of an output follows, entry by entry."""

from __future__ import annotations

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import basic as ptb
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, get_idx_list

from bayeskit.types import Graph

__all__ = ["followed_axes"]


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
