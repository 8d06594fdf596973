"""The integrals of a plate as a PyTensor operation in φ, with its gradient, for one φ or for many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node

from bayeskit.plates.plate import LINES, Plate
from bayeskit.types import Graph

__all__ = ["PlateIntegral", "PlateNodes", "log_integrals"]


class _OfPlate(Op):
    """φ → something of every entry, for one φ or, with axes in front of those of all inputs, for many."""

    __props__ = ("plate", "batch")

    def __init__(self, plate: Plate, batch: int = 0) -> None:
        self.plate, self.batch = plate, batch

    def _flat(self, inputs: Sequence[Any]) -> tuple[tuple[int, ...], list[np.ndarray], int]:
        """The axes in front, and the inputs with one in their place."""
        batch = np.shape(inputs[0])[: self.batch] if inputs else ()
        number = int(np.prod(batch, dtype=int))
        return batch, [np.asarray(i, dtype=float).reshape(number, *np.shape(i)[self.batch :]) for i in inputs], number

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        front = list(shapes[0][: self.batch]) if shapes else []
        return [(*front, *[pt.constant(n, dtype="int64") for n in self.plate.shape])]


class PlateIntegral(_OfPlate):
    """φ → log integrals of the entries."""

    def make_node(self, *inputs: Any) -> Apply:
        given = [pt.as_tensor_variable(i) for i in inputs]
        batch = given[0].type.shape[: self.batch] if given else ()
        return Apply(self, given, [pt.TensorType("float64", (*batch, *self.plate.shape))()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        batch, given, number = self._flat(inputs)
        output_storage[0][0] = self.plate.log_integrals(given, number).reshape(*batch, *self.plate.shape)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        if self.batch:
            raise NotImplementedError("the gradient of many integrals: take that of one, for many")
        places, shares = PlateNodes(self.plate).make_node(*inputs).outputs
        slopes: list[Graph] = self.plate.terms.gradient(inputs, places, shares, cotangents[0])
        return slopes


class PlateNodes(_OfPlate):
    """φ → the nodes b and their shares of the integrals, (K, *shape), which the gradient is made of."""

    def make_node(self, *inputs: Any) -> Apply:
        given = [pt.as_tensor_variable(i) for i in inputs]
        batch = given[0].type.shape[: self.batch] if given else ()
        return Apply(self, given, [pt.TensorType("float64", (*batch, None, *self.plate.shape))() for _ in range(2)])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        batch, given, number = self._flat(inputs)
        found = self.plate.integrals(given, number)
        # Where a node has no share, the slope there may be infinite: it is taken at the mode instead.
        places = np.where(found.shares > 0, found.places, found.mode[:, None])
        both = LINES[self.plate.kind](places)[0], found.shares
        for storage, value in zip(output_storage, both, strict=True):
            storage[0] = value.reshape(*batch, value.shape[1], *self.plate.shape)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        raise NotImplementedError  # the number of nodes is known when they are found

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of the integrals of a plate")


@_vectorize_node.register(_OfPlate)
def _of_many(op: _OfPlate, node: Apply, *batched: Any) -> Apply:
    """All inputs with the same axes in front: the integrals of many φ are taken together."""
    more = [new.type.ndim - old.type.ndim for new, old in zip(batched, node.inputs, strict=True)]
    most = max(more, default=0)
    if not most:
        return op.make_node(*batched)
    widest = batched[more.index(most)]
    lengths = [widest.type.shape[i] or widest.shape[i] for i in range(most)]
    own = [
        [value.type.shape[i - old.type.ndim] or value.shape[i - old.type.ndim] for i in range(old.type.ndim)]
        for old, value in zip(node.inputs, batched, strict=True)
    ]
    alike = [
        value if extra == most else pt.broadcast_to(value, (*lengths, *shape))
        for value, extra, shape in zip(batched, more, own, strict=True)
    ]
    return type(op)(op.plate, op.batch + most).make_node(*alike)


def log_integrals(plate: Plate) -> Graph:
    """log ∫ exp L of every entry, as a graph in the variables that the plate is given."""
    own = plate.one_each or plate
    value: Any = PlateIntegral(own).make_node(*own.terms.given).outputs[0]
    integrals: Graph = value if plate.copies is None else value[plate.copies]
    return integrals
