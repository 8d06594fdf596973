"""PyTensor's ``clip`` in NumPy's terms, which has no function of its own that is the same.

It is the lower bound below that, else the upper bound above that, else the value. A minimum of a maximum is the same
while the bounds are in order; but PyMC writes a censoring with one side as clip(x, low, x), which that leaves as x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.scalar.basic import Clip
from pytensor.tensor.elemwise import Elemwise

from bayeskit.graphs.nodes import constant_number

__all__ = ["clip", "clip_to_bounds"]


def clip(value: Any, low: Any, high: Any) -> Any:
    """Of arrays."""
    if np.size(low) == np.size(high) == 1 and np.all(low <= high):  # as of every distance of a process
        return np.minimum(np.maximum(value, low), high)
    return np.where(value < low, low, np.where(value > high, high, value))


@node_rewriter([Elemwise])
def clip_to_bounds(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """``clip`` as a maximum and a minimum where its bounds are numbers, and as conditions where they are not."""
    if not isinstance(node.op.scalar_op, Clip):
        return None
    value, low, high = node.inputs
    least, most = (constant_number(bound) for bound in (low, high))
    if least is not None and most is not None and least <= most:
        result = pt.minimum(pt.maximum(value, low), high)
    else:
        result = pt.switch(pt.lt(value, low), low, pt.switch(pt.gt(value, high), high, value))
    return [pt.cast(result, node.outputs[0].type.dtype)]
