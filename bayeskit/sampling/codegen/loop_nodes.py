"""Nodes that move numbers: views, indexing, joining, sums along axes, assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, ExtractDiag, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    unflatten_index_variables,
)

from bayeskit.sampling.codegen.scalar_expressions import REDUCTIONS, literal
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import FAILED, NoLoops, Workspace

__all__ = ["move"]


def move(ws: Workspace, node: Apply) -> bool:
    """Write a node that moves numbers; False if it is none.

    Raises
    ------
    NoLoops
        If it depends on more than shapes and constants where to.
    """
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
    if isinstance(op, DimShuffle):
        place = place.transposed(op.new_order)
    elif isinstance(op, Alloc):
        place = place.broadcast(ws.shapes[out])
    elif isinstance(op, Subtensor):
        place = place.indexed(_index(ws, node.inputs[1:], op.idx_list))
    elif isinstance(op, ExtractDiag):
        place = place.diagonal(op.offset, op.axis1, op.axis2)
    elif isinstance(op, Reshape):
        place = place if place.contiguous else ws.copied(place)
        place = Place.row_major(place.array, place.offset, ws.shapes[out])
    assert place.shape == ws.shapes[out]
    ws.places[out] = place


def _check(ws: Workspace, node: Apply) -> None:
    """An assertion: the number of failures counts, and the value goes on."""
    for test in node.inputs[1:]:
        if test in ws.values:
            if not np.all(ws.values[test]):
                raise NoLoops("an assertion that always fails")
            continue
        _fail_unless(ws, ws.place(test))
    ws.places[node.outputs[0]] = ws.place(node.inputs[0])


def _fail_unless(ws: Workspace, place: Place) -> None:
    ws.loop(place.shape, [place], lambda at: [f"if {at(place)} == 0.0:", f"    w[{FAILED}] = 1.0"])


def _split(ws: Workspace, node: Apply) -> None:
    place, op = ws.place(node.inputs[0]), node.op
    if node.inputs[1] not in ws.values:
        raise NoLoops("a shape that is not constant")
    starts = np.cumsum([0, *(ws.shapes[o][op.axis] for o in node.outputs)])
    for (a, b), out in zip(pairwise(starts), node.outputs, strict=True):
        ws.places[out] = place.indexed([*[slice(None)] * op.axis, slice(int(a), int(b))])


def _index(ws: Workspace, variables: Sequence[Variable], idx_list: Any) -> tuple[Any, ...]:
    for var in variables:
        if var not in ws.values:
            raise NoLoops("an index that is not constant")
    values = [np.asarray(ws.values[v]) for v in variables]
    plain = [int(v) if v.ndim == 0 and v.dtype.kind in "iu" else v for v in values]
    return unflatten_index_variables(plain, idx_list)


def _gather(ws: Workspace, node: Apply) -> None:
    """Entries at constant places: their addresses are constants."""
    place, out = ws.place(node.inputs[0]), node.outputs[0]
    index = _index(ws, node.inputs[1:], node.op.idx_list)
    addresses = np.ascontiguousarray(place.addresses()[index])
    at_constant = ws.constant(addresses.astype(np.float64))
    to = ws.new(out)
    array = place.array
    ws.loop(to.shape, [at_constant, to], lambda at: [f"{at(to)} = {array}[int({at(at_constant)})]"])


def _scatter(ws: Workspace, node: Apply) -> None:
    """An array with some entries set, or added to, at constant places."""
    op: Any = node.op
    out = node.outputs[0]
    index = _index(ws, node.inputs[2:], op.idx_list)
    to = ws.new(out)
    ws.copy(ws.place(node.inputs[0]), to)
    sign = "=" if op.set_instead_of_inc else "+="
    entries = ws.place(node.inputs[1])
    if isinstance(op, IncSubtensor):
        part = to.indexed(index)
        entries = entries.broadcast(part.shape)
        ws.loop(part.shape, [part, entries], lambda at: [f"{at(part)} {sign} {at(entries)}"])
        return
    addresses = np.ascontiguousarray(to.addresses()[index])
    if getattr(op, "ignore_duplicates", False) and not op.set_instead_of_inc and _repeats(addresses):
        raise NoLoops("an index with repetitions that count once")
    at_constant = ws.constant(addresses.astype(np.float64))
    spread = entries.broadcast(addresses.shape)
    ws.loop(
        addresses.shape,
        [at_constant, spread],
        lambda at: [f"w[int({at(at_constant)})] {sign} {at(spread)}"],
    )


def _join(ws: Workspace, node: Apply) -> None:
    to, axis = ws.new(node.outputs[0]), node.op.axis
    at = 0
    for var in node.inputs:
        length = ws.shapes[var][axis]
        index = [slice(None)] * (axis % len(to.shape))
        ws.copy(ws.place(var), to.indexed([*index, slice(at, at + length)]))
        at += length


def _make_vector(ws: Workspace, node: Apply) -> None:
    to = ws.new(node.outputs[0])
    for k, var in enumerate(node.inputs):
        ws.copy(ws.place(var), to.indexed([k]))


def _reduce(ws: Workspace, node: Apply) -> None:
    op: Any = node.op
    place, out = ws.place(node.inputs[0]), node.outputs[0]
    if (name := type(op.scalar_op).__name__) not in REDUCTIONS:
        raise NoLoops(f"{op}")
    start, combine = REDUCTIONS[name]
    shape = place.shape
    reduced = set(range(len(shape))) if op.axis is None else {a % len(shape) for a in op.axis}
    to = ws.new(out)
    # The result as an array of the argument's shape, the same along what is summed over.
    strides, kept = [], iter(to.strides)
    for k in range(len(shape)):
        strides.append(0 if k in reduced else next(kept))
    spread = Place(to.array, to.offset, shape, tuple(strides))
    truth = node.inputs[0].type.dtype == "bool"
    first = literal({"True": 1.0, "False": 0.0}[start]) if start in ("True", "False") else start
    ws.loop(to.shape, [to], lambda at: [f"{at(to)} = {first}"])

    def body(at: Callable[[Place], str]) -> list[str]:
        if name in ("AND", "OR"):
            worse = "==" if name == "AND" else "!="
            return [f"if {at(place)} {worse} 0.0:", f"    {at(spread)} = {'0.0' if name == 'AND' else '1.0'}"]
        return [f"y = {at(place)}", f"z = {at(spread)}", f"{at(spread)} = {combine.format('z', 'y')}"]

    if truth and name not in ("AND", "OR", "Add"):
        raise NoLoops(f"{op} of truth values")
    ws.loop(shape, [place, spread], body)


def _repeats(addresses: np.ndarray) -> bool:
    return np.unique(addresses).size < addresses.size


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
