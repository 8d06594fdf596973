r"""Entries of a plate whose factors are equal functions: persons with the same answers have one integral between them.

.. math:: \sum_g \log \int e^{L_g(b; \phi)} db = \sum_c n_c \log \int e^{L_c(b; \phi)} db

Every element of every node of a factor gets a number, such that elements of one node with one number are the same
function of the entry that they belong to and of φ. Numbers of leaves are those of their values, of φ of its elements,
and of an entry, whichever it is, the same. What an operation makes of elements has a number for each combination of
theirs. Entries whose rows have the same numbers, in whatever order, are equal; their sums are, to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, graph_inputs, toposort
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import AdvancedSubtensor, get_idx_list

from bayeskit.finite.axis_dependence import connection, held_index
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.operations import Kind, entry_sources, kind_of, parts
from bayeskit.model.data_slots import DataSlot, held_array
from bayeskit.plates.entry_rows import EntryRows
from bayeskit.types import Graph

__all__ = ["EqualEntries", "equal_entries"]

FEWER = 0.7  # of the entries, above which it is not worth the while
LARGEST = 20_000_000  # elements of a node that are numbered


class _Untold(Exception):
    """Which entries are equal, or the density of some of them by themselves, cannot be read from the graph."""


@dataclass(frozen=True, eq=False)
class EqualEntries:
    """The classes of equal entries, and the factors of the first entry of each."""

    of: np.ndarray  # for each entry, its class
    first: np.ndarray  # of each class, an entry
    variable: Graph  # the vector of these
    graphs: tuple[Graph, ...]


def equal_entries(
    graphs: Sequence[Graph], variable: Any, shape: tuple[int, ...], given: Mapping[Graph, tuple[int, ...]]
) -> EqualEntries | None:
    """The classes of a vector, whose factors are connected along it; None where there are hardly any, or none is known.

    ``given`` are the symbols of φ with their shapes. Of data that may be exchanged nothing is known.
    """
    if len(shape) != 1 or any(isinstance(v, DataSlot) for v in graph_inputs(graphs)):
        return None
    try:
        along = [_one_axis(connection(graph, variable, shape)[0], shape) for graph in graphs]
        numbers = _numbers_of(graphs, {variable: np.zeros(shape, dtype=int), **_all_of(given)})
        keys = [_of_entries(numbers[g], *of_one, shape[0]) for g, of_one in zip(graphs, along, strict=True)]
        of = _rows(np.stack(keys, axis=1))
        first = np.unique(of, return_index=True)[1]
        if len(first) > FEWER * shape[0] or len(first) < 2:
            return None
        symbol = pt.TensorType(variable.type.dtype, (len(first),))(f"{variable.name}_of_each")
        place = np.full(shape[0], -1)
        place[first] = np.arange(len(first))
        chosen = _Chosen(variable, symbol, place)
        each = [chosen.of(g, axis, np.flatnonzero(place[e] >= 0)) for g, (axis, e) in zip(graphs, along, strict=True)]
    except _Untold:
        return None
    return EqualEntries(of, first, symbol, tuple(each))


def _one_axis(axes: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """The axis of a factor that runs along the entries, and the entry of each of its rows."""
    (axis,) = [i for i, own in enumerate(axes) if own is not None]
    return axis, EntryRows.of(axes, shape).entries


def _of_entries(numbers: np.ndarray, axis: int, entries: np.ndarray, size: int) -> np.ndarray:
    """For each entry the number of its rows, whatever their order."""
    moved = np.moveaxis(numbers, axis, 0)
    rows = _rows(moved.reshape(len(moved), -1))
    order = np.lexsort((rows, entries))
    counts = np.bincount(entries, minlength=size)
    table = np.full((size, int(counts.max(initial=0))), -1)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[entries[order], place] = rows[order]
    return _rows(table)


# --- the numbers of elements ------------------------------------------------------------------------------------------
def _rows(table: np.ndarray) -> np.ndarray:
    """A number for each row, the same for equal ones."""
    if table.shape[1] == 0:
        return np.zeros(len(table), dtype=int)
    return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)


def _along_last(numbers: np.ndarray) -> np.ndarray:
    """A number for what lies along the last axis."""
    return _rows(numbers.reshape(-1, numbers.shape[-1])).reshape(numbers.shape[:-1])


def _together(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """A number for each combination of elements at one place."""
    result, *others = numbers
    for other in others:
        joined = result * (int(other.max(initial=0)) + 1) + other
        if joined.size > LARGEST:
            raise _Untold
        result = np.unique(joined, return_inverse=True)[1].reshape(joined.shape)
    return result


def _all_of(given: Mapping[Graph, tuple[int, ...]]) -> dict[Graph, np.ndarray]:
    return {symbol: _all_different(shape) for symbol, shape in given.items()}


def _numbers_of(graphs: Sequence[Graph], symbols: Mapping[Graph, np.ndarray]) -> Mapping[Graph, np.ndarray]:
    numbers = dict(symbols)
    for leaf in graph_inputs(graphs):
        if leaf not in numbers:
            values = held_array(leaf)
            numbers[leaf] = np.zeros((), dtype=int) if values is None else _of_values(values)
            if values is None and not isinstance(leaf, Constant):
                raise _Untold
    for node in toposort(graphs):
        found = _of_node(node, [numbers[i] for i in node.inputs])
        for out, own in zip(node.outputs, found, strict=True):
            numbers[out] = own
    return numbers


def _of_values(values: np.ndarray) -> np.ndarray:
    """By the bytes of values: those of NaN are equal, and zero is not equal to minus zero, whose logarithm differs."""
    if values.size > LARGEST:
        raise _Untold
    flat = np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")
    return np.unique(flat, return_inverse=True)[1].reshape(values.shape)


def _all_different(lengths: Sequence[Any]) -> np.ndarray:
    """A number for each element, which claims nothing."""
    if None in lengths or (size := int(np.prod(lengths, dtype=int))) > LARGEST:
        raise _Untold
    return np.arange(size).reshape(lengths)


def _of_node(node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    op, core, kind = node.op, core_op(node), kind_of(node)
    if isinstance(op, Elemwise) and len(node.outputs) == 1:
        return [_together(inputs)]
    if isinstance(core, Dot):
        return [_of_products(*inputs)]
    if isinstance(op, CAReduce):
        ndim = inputs[0].ndim
        axes = range(ndim) if op.axis is None else [a % ndim for a in op.axis]
        moved = np.moveaxis(inputs[0], list(axes), range(-len(axes), 0))
        kept = moved.shape[: ndim - len(axes)]
        return [_along_last(np.sort(moved.reshape(*kept, -1), axis=-1))]
    if kind in (Kind.MOVE, Kind.JOIN) and op is core:
        return _of_moved(node, inputs)
    return [_all_different(getattr(out.type, "shape", (None,))) for out in node.outputs]


def _of_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of a product of matrices: by the rows of the first and the columns of the second."""
    rows, columns = _along_last(left), _along_last(np.moveaxis(right, -2 if right.ndim > 1 else -1, -1))
    if left.ndim > 1 and right.ndim > 1:
        rows, columns = rows[..., :, None], columns[..., None, :]
    return _together([rows, columns])


def _of_moved(node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """By asking the operation where its elements come from; what is no part of it are indices and lengths."""
    own, known, flat, above = parts(node), [], [], 0
    for k, (var, numbers) in enumerate(zip(node.inputs, inputs, strict=True)):
        if k in own:
            known.append(numbers.shape)
            flat.append(numbers.ravel() + above)
            above += int(numbers.max(initial=-1)) + 1
        else:
            known.append(_value_of(var))
    every = np.concatenate(flat)
    return [every[sources] for sources in entry_sources(node, known)]


def _value_of(var: Any) -> Any:
    """Of an index or a length."""
    if isinstance(var, Constant):
        return var.data
    if any(not isinstance(leaf, Constant | SharedVariable) for leaf in graph_inputs([var])):
        raise _Untold
    return compile_small([], var)()


# --- the factors of some entries --------------------------------------------------------------------------------------
class _Chosen:
    """Rows of nodes, taken as near to the leaves as can be, with a vector of some entries for that of all."""

    def __init__(self, variable: Graph, symbol: Graph, place: np.ndarray) -> None:
        self.variable, self.symbol, self.place = variable, symbol, place
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
            return self.symbol if np.array_equal(places, np.arange(self.symbol.type.shape[0])) else self.symbol[places]
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
            raise _Untold
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
