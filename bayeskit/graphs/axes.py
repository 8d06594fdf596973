"""Where the axes of an array go: which axis of an input an axis of an output follows, entry by entry."""

from __future__ import annotations

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import basic as ptb
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import Subtensor, get_idx_list

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
    if isinstance(op, Subtensor):
        indices = [*get_idx_list(node.inputs, op.idx_list), *[slice(None)] * len(same)]
        return tuple(i if indices[i] == slice(None) else None for i in same if isinstance(indices[i], slice))
    return None
