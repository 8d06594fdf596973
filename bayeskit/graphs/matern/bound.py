"""How much the log density of a graph is off for what the filters of its Matérn processes leave out, as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors

from bayeskit.graphs.matern.softened import bound_of_softened
from bayeskit.graphs.matern.whitening import MaternWhitening, laid_out
from bayeskit.types import Graph

__all__ = ["bound_of_filters"]


class MaternBound(Op):
    """(x, y, d, c, λ), of :class:`bayeskit.graphs.matern.whitening.MaternWhitening`, → a bound in a log density."""

    __props__ = ("orders", "softening")

    def __init__(self, orders: tuple[int, ...], softening: tuple[float, ...]) -> None:
        self.orders = orders
        self.softening = softening

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, list(inputs), [pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        x, y, d, variances, rates = laid_out(inputs)
        orders, softening = np.array(self.orders), np.array(self.softening)
        found = bound_of_softened(x, y, d, orders, variances, rates, softening)
        output_storage[0][0] = np.asarray(found, dtype=np.float64)


def bound_of_filters(graph: Graph) -> Graph | None:
    """The sum of the bounds of all filters in a graph; None where none of them leaves anything out."""
    nodes = {v.owner for v in ancestors([graph]) if v.owner is not None and isinstance(v.owner.op, MaternWhitening)}
    found = [
        MaternBound(n.op.orders, n.op.softening).make_node(*n.inputs).outputs[0]
        for n in nodes
        if any(n.op.softening) or len(n.op.orders) > 1
    ]
    return pt.add(pt.constant(0.0), *found) if found else None
