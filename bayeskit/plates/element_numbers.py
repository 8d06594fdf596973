"""A number for every element of the nodes of graphs, the same for elements that are the same function.

Numbers of leaves are those of their values, or given. What an operation makes of elements has a number for each
combination of theirs: elements of one node with one number are the same function of what the leaves stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import Dot

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.operations import Kind, entry_sources, kind_of, parts
from bayeskit.model.data_slots import held_array
from bayeskit.types import Graph

__all__ = ["Untold", "all_different", "numbers_of", "rows_numbered"]

LARGEST = 20_000_000  # elements of a node that are numbered


class Untold(Exception):
    """Which elements are equal, or some of them by themselves, cannot be read from the graph."""


def rows_numbered(table: np.ndarray) -> np.ndarray:
    """A number for each row, the same for equal ones."""
    if table.shape[1] == 0:
        return np.zeros(len(table), dtype=int)
    return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)


def _along_last(numbers: np.ndarray) -> np.ndarray:
    """A number for what lies along the last axis."""
    return rows_numbered(numbers.reshape(-1, numbers.shape[-1])).reshape(numbers.shape[:-1])


def _together(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """A number for each combination of elements at one place."""
    result, *others = numbers
    for other in others:
        joined = result * (int(other.max(initial=0)) + 1) + other
        if joined.size > LARGEST:
            raise Untold
        result = np.unique(joined, return_inverse=True)[1].reshape(joined.shape)
    return result


def all_different(given: Mapping[Graph, tuple[int, ...]]) -> dict[Graph, np.ndarray]:
    """A number for each element of each of some symbols, given with their shapes."""
    return {symbol: _all_different(shape) for symbol, shape in given.items()}


def numbers_of(graphs: Sequence[Graph], symbols: Mapping[Graph, np.ndarray]) -> Mapping[Graph, np.ndarray]:
    """The numbers of the elements of all nodes, from those of the symbols that the graphs depend on."""
    numbers = dict(symbols)
    for leaf in graph_inputs(graphs):
        if leaf not in numbers:
            values = held_array(leaf)
            numbers[leaf] = np.zeros((), dtype=int) if values is None else _of_values(values)
            if values is None and not isinstance(leaf, Constant):
                raise Untold
    for node in toposort(graphs):
        found = _of_node(node, [numbers[i] for i in node.inputs])
        for out, own in zip(node.outputs, found, strict=True):
            numbers[out] = own
    return numbers


def _of_values(values: np.ndarray) -> np.ndarray:
    """By the bytes of values: those of NaN are equal, and zero is not equal to minus zero, whose logarithm differs."""
    if values.size > LARGEST:
        raise Untold
    flat = np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")
    return np.unique(flat, return_inverse=True)[1].reshape(values.shape)


def _all_different(lengths: Sequence[Any]) -> np.ndarray:
    """A number for each element, which claims nothing."""
    if None in lengths or (size := int(np.prod(lengths, dtype=int))) > LARGEST:
        raise Untold
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
        raise Untold
    return compile_small([], var)()
