"""Some rows of a factor of a density, as a graph of no more than these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor, get_idx_list

from bayeskit.finite.axis_dependence import held_index
from bayeskit.plates.element_numbers import Untold
from bayeskit.types import Graph

__all__ = ["ChosenRows"]


class ChosenRows:
    """Rows of nodes, taken as near to the leaves as can be, with a vector of some entries for that of all."""

    def __init__(self, variable: Graph, symbol: Graph, place: np.ndarray) -> None:
        self.variable, self.symbol, self.place = variable, symbol, place
        self.length = np.count_nonzero(place >= 0)  # of the symbol, whose type need not tell
        self.found: dict[tuple[Graph, int, bytes], Any] = {}

    def of(self, var: Any, axis: int, rows: np.ndarray) -> Any:
        """The rows of a node along one of its axes, which is not stretched."""
        key = var, axis, rows.tobytes()
        if key not in self.found:
            self.found[key] = self._of(var, axis, rows)
        return self.found[key]

    def _of(self, var: Any, axis: int, rows: np.ndarray) -> Any:
        if var is self.variable:
            places = self.place[rows]
            return self.symbol if np.array_equal(places, np.arange(self.length)) else self.symbol[places]
        if isinstance(var, Constant):
            return pt.constant(np.take(var.data, rows, axis=axis), dtype=var.type.dtype)
        node = var.owner
        if node is not None and isinstance(node.op, Elemwise) and len(node.outputs) == 1:
            stretched = var.type.shape[axis] != 1
            one = [stretched and i.type.shape[axis] == 1 for i in node.inputs]
            return node.op(
                *[
                    self._whole(i) if of_one else self.of(i, axis, rows)
                    for i, of_one in zip(node.inputs, one, strict=True)
                ]
            )
        if node is not None and isinstance(node.op, DimShuffle) and isinstance(own := node.op.new_order[axis], int):
            return node.op(self.of(node.inputs[0], own, rows))
        if node is not None and isinstance(node.op, Alloc):
            value, *lengths = node.inputs
            own = axis - (len(lengths) - value.type.ndim)
            lengths[axis] = pt.constant(len(rows), dtype="int64")
            stretched = own < 0 or value.type.shape[own] == 1
            return pt.alloc(self._whole(value) if stretched else self.of(value, own, rows), *lengths)
        if node is not None and axis == 0 and (picked := _picked(node)) is not None:
            return self.of(node.inputs[0], 0, picked[rows])
        return self._whole(var)[(slice(None),) * axis + (rows,)]

    def _whole(self, var: Any) -> Any:
        """A node that does not run along the entries, and so cannot depend on them."""
        if self.variable in ancestors([var]):
            raise Untold
        return var


def _picked(node: Any) -> np.ndarray | None:
    """The rows that a node picks along the first axis, by a vector of constants or data."""
    if not isinstance(node.op, AdvancedSubtensor):
        return None
    index, *others = get_idx_list(node.inputs, node.op.idx_list)
    vector = isinstance(index, Variable) and index.type.ndim == 1 and index.type.dtype != "bool"
    if not vector or any(i != slice(None) for i in others):
        return None
    held = held_index(index)
    return None if held is None or np.min(held, initial=0) < 0 else np.asarray(held)
