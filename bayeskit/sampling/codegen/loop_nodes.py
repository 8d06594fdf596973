"""Nodes that move numbers: views, indexing, joining, sums along axes, assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Alloc, ExtractDiag, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from bayeskit.sampling.codegen.scalar_expressions import REDUCTIONS, stored
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import FAILED, NoLoops, Workspace

__all__ = ["move"]


def move(ws: Workspace, node: Apply) -> bool:
    """Write a node that moves numbers; False if it is none, NoLoops if where to depends on more than constants."""
    for kind, write in WRITERS:
        if isinstance(node.op, kind):
            write(ws, node)
            return True
    return False


def _view(ws: Workspace, node: Apply) -> None:
    """A node whose result is its first argument seen otherwise."""
    op: Any = node.op
    place, out = ws.place(node.inputs[0]), node.outputs[0]
    if isinstance(op, Alloc | Reshape) and any(v not in ws.values for v in node.inputs[1:]):
        raise NoLoops("a shape that is not constant")
    if isinstance(op, Reshape) and not place.contiguous:
        place = ws.copied(place)
    seen = place.addresses
    if isinstance(op, DimShuffle):
        seen = seen.transpose([*op.shuffle, *set(range(seen.ndim)).difference(op.shuffle)]).reshape(ws.shapes[out])
    elif isinstance(op, Alloc):
        seen = np.broadcast_to(seen, ws.shapes[out])
    elif isinstance(op, Subtensor):
        seen = seen[_index(ws, node.inputs[1:], op.idx_list)]
    elif isinstance(op, ExtractDiag):
        seen = np.diagonal(seen, op.offset, op.axis1, op.axis2)
    elif isinstance(op, Reshape):
        seen = seen.reshape(ws.shapes[out])
    assert seen.shape == ws.shapes[out]
    ws.places[out] = place.seen(seen)


def _check(ws: Workspace, node: Apply) -> None:
    """An assertion: the number of failures counts, and the value goes on."""
    value, *tests = node.inputs
    if not all(np.all(ws.values[t]) for t in tests if t in ws.values):
        raise NoLoops("an assertion that always fails")
    for place in [ws.place(t) for t in tests if t not in ws.values]:
        ws.loop(place.shape, [place], partial(_fail_unless, place))
    ws.places[node.outputs[0]] = ws.place(value)


def _fail_unless(place: Place, at: Callable[[Place], str]) -> list[str]:
    return [f"if {at(place)} == 0.0:", f"    w[{FAILED}] = 1.0"]


def _split(ws: Workspace, node: Apply) -> None:
    place, op = ws.place(node.inputs[0]), node.op
    if node.inputs[1] not in ws.values:
        raise NoLoops("a shape that is not constant")
    ends = np.cumsum(ws.values[node.inputs[1]])[:-1]
    for out, part in zip(node.outputs, np.split(place.addresses, ends, op.axis), strict=True):
        ws.places[out] = place.seen(part)


def _index(ws: Workspace, variables: Sequence[Variable], idx_list: Any) -> tuple[Any, ...]:
    for var in variables:
        if var not in ws.values:
            raise NoLoops("an index that is not constant")
    values = [np.asarray(ws.values[v]) for v in variables]
    plain = [int(v) if v.ndim == 0 and v.dtype.kind in "iu" else v for v in values]
    return *subtensor.unflatten_index_variables(plain, idx_list), ...


def _gather(ws: Workspace, node: Apply) -> None:
    """Entries at constant places: their addresses are constants."""
    place, out = ws.place(node.inputs[0]), node.outputs[0]
    at_constant = ws.constant(place.addresses[_index(ws, node.inputs[1:], node.op.idx_list)])
    to = ws.new(out)
    ws.loop(to.shape, [at_constant, to], lambda at: [f"{at(to)} = {place.array}[int({at(at_constant)})]"])


def _scatter(ws: Workspace, node: Apply) -> None:
    """An array with some entries set, or added to, at constant places."""
    op: Any = node.op
    index = _index(ws, node.inputs[2:], op.idx_list)
    to = ws.new(node.outputs[0])
    ws.copy(ws.place(node.inputs[0]), to)
    sign = "=" if op.set_instead_of_inc else "+="
    entries = ws.place(node.inputs[1])
    addresses = to.addresses[index]
    if isinstance(op, IncSubtensor):
        part = to.seen(addresses)
        ws.loop(part.shape, [part, entries], lambda at: [f"{at(part)} {sign} {at(entries)}"])
        return
    repeated = np.unique(addresses).size < addresses.size
    if getattr(op, "ignore_duplicates", False) and not op.set_instead_of_inc and repeated:
        raise NoLoops("an index with repetitions that count once")
    place = ws.constant(addresses)
    ws.loop(place.shape, [place, entries], lambda at: [f"w[int({at(place)})] {sign} {at(entries)}"])


def _join(ws: Workspace, node: Apply) -> None:
    to, axis = ws.new(node.outputs[0]), node.op.axis
    ends = np.cumsum([ws.shapes[v][axis] for v in node.inputs])[:-1]
    for var, part in zip(node.inputs, np.split(to.addresses, ends, axis), strict=True):
        ws.copy(ws.place(var), to.seen(part))


def _make_vector(ws: Workspace, node: Apply) -> None:
    to = ws.new(node.outputs[0])
    for k, var in enumerate(node.inputs):
        ws.copy(ws.place(var), to.seen(to.addresses[k, ...]))


def _reduce(ws: Workspace, node: Apply) -> None:
    op: Any = node.op
    place, out = ws.place(node.inputs[0]), node.outputs[0]
    if (name := type(op.scalar_op).__name__) not in REDUCTIONS:
        raise NoLoops(f"{op}")
    if node.inputs[0].type.dtype == "bool" and name not in ("AND", "OR", "Add"):
        raise NoLoops(f"{op} of truth values")
    start, combine = REDUCTIONS[name]
    to = ws.new(out)
    axes = tuple(range(len(place.shape))) if op.axis is None else op.axis
    spread = to.seen(np.expand_dims(to.addresses, axes))  # the same along what is summed over
    truth = " != 0.0" if name in ("AND", "OR") else ""
    ws.loop(to.shape, [to], lambda at: [f"{at(to)} = {stored(start, out)}"])

    def body(at: Callable[[Place], str]) -> list[str]:
        total = stored(combine.format("z", "y"), out)
        return [f"y = {at(place)}{truth}", f"z = {at(spread)}{truth}", f"{at(spread)} = {total}"]

    ws.loop(place.shape, [place, spread], body)


WRITERS: tuple[tuple[Any, Callable[[Workspace, Apply], None]], ...] = (
    ((DimShuffle, Alloc, Subtensor, ExtractDiag, Reshape, SpecifyShape, ScalarFromTensor, TensorFromScalar), _view),
    (CheckAndRaise, _check),
    (Split, _split),
    (AdvancedSubtensor, _gather),
    ((AdvancedIncSubtensor, IncSubtensor), _scatter),
    (Join, _join),
    (MakeVector, _make_vector),
    (CAReduce, _reduce),
)
