"""Small questions about the nodes of a PyTensor graph that many readers of graphs ask."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant
from pytensor.tensor.basic import MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.type_other import NoneTypeT

__all__ = [
    "applies",
    "asks_for_one",
    "conjuncts",
    "constant_number",
    "core_op",
    "evaluated_shape",
    "name_of",
    "without_shuffles",
]


def core_op(node: Apply) -> Any:
    """The op of a node, without the ``Blockwise`` around it."""
    return node.op.core_op if isinstance(node.op, Blockwise) else node.op


def name_of(op: Any) -> str:
    """The name of an operation, without what PyTensor says of its kind."""
    return str(getattr(op, "scalar_op", op)).split("{")[0].lower()


def applies(node: Apply, *kinds: type) -> bool:
    """Whether a node applies one of some scalar operations to every entry."""
    return isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, kinds)


def asks_for_one(size: Any) -> bool:
    """Whether the ``size`` that a random variable is given asks for one draw, and not an array of them."""
    return isinstance(size.type, NoneTypeT) or (isinstance(size, Constant) and np.size(size.data) == 0)


def without_shuffles(var: Any) -> Any:
    """What axes were added to, dropped from or exchanged in."""
    while var.owner is not None and isinstance(var.owner.op, DimShuffle):
        var = var.owner.inputs[0]
    return var


def constant_number(var: Any) -> float | None:
    """The value of a constant that is one number, of whatever number of axes; else None."""
    leaf = without_shuffles(var)
    return float(np.ravel(leaf.data)[0]) if isinstance(leaf, Constant) and np.size(leaf.data) == 1 else None


def conjuncts(condition: Any) -> list[Any]:
    """The conditions that ``all`` joins."""
    node = condition.owner
    if node is not None and isinstance(node.op, All | MakeVector | TensorFromScalar | ScalarFromTensor):
        return [leaf for i in node.inputs for leaf in conjuncts(i)]
    return [condition]


def evaluated_shape(var: Any) -> tuple[int, ...]:
    """The shape of a graph that has no inputs, run as it is: compiling it takes longer than all else that is asked."""
    return tuple(int(n) for n in var.shape.eval(mode="FAST_COMPILE"))
