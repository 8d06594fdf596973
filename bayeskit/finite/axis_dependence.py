"""Which entries of a factor depend on which entries of a variable, read from the graph of its log density.

A factor f with axes (i, j, …) is *connected* along axis a of a variable z where f[…, i, …] depends on z only through
z[…, i, …]. Then, with z finite, f can be evaluated at z = k everywhere at once, K evaluations in all, and gives the
factor's values for every state of every entry of z.

pymc-extras' ``subgraph_batch_dim_connection`` answers the same question for graphs of random variables; it knows
neither the checks, diagonals and selections of log densities nor PyMC's own density of a nested indicator.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scalar.basic import Cast
from pytensor.tensor.basic import ARange
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, Subtensor, get_idx_list

from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.nodes import applies, core_op, name_of
from bayeskit.graphs.operations import followed_axes
from bayeskit.types import Graph

__all__ = ["Axis", "EntriesMixed", "connection", "held_index"]


class EntriesMixed(Exception):
    """A factor mixes entries of the variable; the message says where."""

    def __init__(self, where: Apply | str) -> None:
        super().__init__(where if isinstance(where, str) else f"`{name_of(core_op(where))}`")


@dataclass(frozen=True)
class Axis:
    """An axis of a factor that runs along an axis of the variable, or through several at once.

    Through several where entries are picked one by one, as in z[rows, columns]. Where the factor has a selection of the
    entries only, ``positions`` are their indices, as bytes of int64; along several axes, counted row by row.
    """

    axis: int | tuple[int, ...]
    positions: bytes | None = None

    @property
    def all(self) -> tuple[int, ...]:
        """The axes of the variable."""
        return self.axis if isinstance(self.axis, tuple) else (self.axis,)

    def length(self, shape: Sequence[int]) -> int:
        """How many entries the variable has along these axes."""
        return int(np.prod([shape[a] for a in self.all], dtype=int))

    def indices(self, length: int) -> np.ndarray:
        """The entries along the axis, in order."""
        return np.arange(length) if self.positions is None else np.frombuffer(self.positions, dtype=np.int64)

    def select(self, index: Any, length: int) -> Axis:
        """The same axis after indexing with a slice or integers."""
        return Axis(self.axis, np.ascontiguousarray(self.indices(length)[index], dtype=np.int64).tobytes())


Axes = tuple[Axis | None, ...]


def connection(graph: Variable, variable: Variable, shape: Sequence[int]) -> tuple[Axes, dict[Variable, Axes]]:
    """For each axis of a factor without checks, the axis of the variable that it runs along; and of all nodes below it.

    Raises
    ------
    EntriesMixed
        If an entry of the factor depends on several entries of the variable, or that cannot be told.
    """
    own: Axes = tuple(Axis(i) if n > 1 else None for i, n in enumerate(shape))
    axes = _Connection({variable: own}, shape).walk([graph])
    result = axes.get(graph, (None,) * graph.type.ndim)
    present = {axis for a in result if a is not None for axis in a.all}
    if graph in axes and any(n > 1 and i not in present for i, n in enumerate(shape)):
        raise EntriesMixed("a sum over its entries")
    return result, {var: a for var, a in axes.items() if any(a) or var is variable}


class _Connection(GraphAnalysis[Axes]):
    """For each axis of a node, the axis of the variable that it runs along."""

    def __init__(self, leaves: Mapping[Variable, Axes], shape: Sequence[int]) -> None:
        super().__init__(leaves)
        self.shape = shape

    def constant(self, var: Graph) -> Axes:
        return (None,) * getattr(var.type, "ndim", 0)

    def transfer(self, out: Graph, values: list[Axes]) -> Axes:
        if not any(any(axes) for axes in values):
            return self.constant(out)
        node = out.owner
        if len(node.outputs) > 1 and not isinstance(node.op, Blockwise):
            raise EntriesMixed(node)
        axes = super().transfer(out, values)
        for axis, length in zip(axes, out.type.shape, strict=True):
            # A selection of one entry may be spread over many: its axis is then not one of the variable's any more.
            spread = axis is not None and axis.positions is not None and len(axis.indices(0)) == 1
            if spread and length not in (1, None):
                raise EntriesMixed(node)
        return axes

    def unknown(self, out: Graph, values: list[Axes]) -> Axes:
        """The axes that the output follows, where the others are not the variable's."""
        followed = []
        for position, axes in enumerate(values):
            if not any(axes):
                continue
            order = followed_axes(out, position)
            if order is None or any(axis is not None and i not in order for i, axis in enumerate(axes)):
                raise EntriesMixed(out.owner)
            followed.append(tuple(None if i is None else axes[i] for i in order))
        return _together(followed, out.owner)

    def move(self, out: Graph, values: list[Axes]) -> Axes:
        rules = {Subtensor: _basic, AdvancedSubtensor: _advanced, Reshape: _reshape}
        rule = rules.get(type(out.owner.op))
        return self.unknown(out, values) if rule is None else rule(out.owner, values, self.shape)

    def join(self, out: Graph, values: list[Axes]) -> Axes:
        placed = _placed(out.owner, values, self.shape) if isinstance(out.owner.op, AdvancedIncSubtensor) else None
        return self.unknown(out, values) if placed is None else placed


def _placed(node: Apply, axes: list[Axes], shape: Sequence[int]) -> Axes | None:
    """A vector of which some places are set to its own values, as PyMC joins what was observed and what is missing.

    Places that hold nothing of the variable may be taken for any of its entries: what is computed there is the same
    for all of its states.
    """
    whole, part, *keys = node.inputs
    places = held_index(keys[0]) if len(keys) == 1 and whole.type.ndim == part.type.ndim == 1 else None
    if places is None or (any(axes[0]) and any(axes[1])):
        return None
    if any(axes[0]):
        return axes[0]
    places = np.flatnonzero(places) if places.dtype == bool else places
    (own,), (length,) = axes[1], whole.type.shape
    length = len(held_index(keys[0])) if keys[0].type.dtype == "bool" else length
    if own is None or length is None or len(np.unique(places)) < len(places):
        return None
    entries = np.zeros(length, dtype=np.int64)
    entries[places] = np.arange(len(places))
    return (own.select(entries, own.length(shape) if own.positions is None else len(own.positions) // 8),)


def _together(axes: Sequence[Axes], node: Apply) -> Axes:
    ndim = max(len(a) for a in axes)
    padded = [(None,) * (ndim - len(a)) + a for a in axes]
    result = []
    for column in zip(*padded, strict=True):
        known = {a for a in column if a is not None}
        if len(known) > 1:
            raise EntriesMixed(node)
        result.append(known.pop() if known else None)
    named = [axis for a in result if a is not None for axis in a.all]
    if len(named) > len(set(named)):
        raise EntriesMixed(node)
    return tuple(result)


def _reshape(node: Apply, axes: list[Axes], shape: Sequence[int]) -> Axes:
    """Only where nothing but axes of length one come or go."""
    before, after = node.inputs[0].type.shape, node.outputs[0].type.shape
    wide = [i for i, n in enumerate(before) if n != 1]
    now = [i for i, n in enumerate(after) if n != 1]
    pairs = [(before[i], after[j]) for i, j in zip(wide, now, strict=False)]
    # One unknown length follows from the others; of two, (2, n) as (n, 2) is not to be told from what keeps its axes.
    untold = len(wide) != len(now) or sum(None in pair for pair in pairs) > 1
    if untold or any(old != new and None not in (old, new) for old, new in pairs):
        raise EntriesMixed(node)
    result: list[Axis | None] = [None] * len(after)
    for i, j in zip(wide, now, strict=True):
        result[j] = axes[0][i]
    return tuple(result)


def _sliced(own: Axis | None, index: slice, shape: Sequence[int], node: Apply) -> Axis | None:
    if own is None or index == slice(None):
        return own
    ends = [int(e.data) if isinstance(e, Constant) else e for e in (index.start, index.stop, index.step)]
    if not all(e is None or isinstance(e, int) for e in ends):
        raise EntriesMixed(node)
    return own.select(slice(*ends), own.length(shape))


def _basic(node: Apply, axes: list[Axes], shape: Sequence[int]) -> Axes:
    op: Any = node.op
    if any(a is not None for own in axes[1:] for a in own):
        raise EntriesMixed(node)
    indices = list(get_idx_list(node.inputs, op.idx_list))
    indices += [slice(None)] * (len(axes[0]) - len(indices))
    result: list[Axis | None] = []
    for own, index in zip(axes[0], indices, strict=True):
        if isinstance(index, slice):
            result.append(_sliced(own, index, shape, node))
        elif own is not None:
            raise EntriesMixed(node)
    return tuple(result)


def _advanced(node: Apply, axes: list[Axes], shape: Sequence[int]) -> Axes:
    """Indexing with arrays: of parameters by the variable, or of something connected by constants."""
    op: Any = node.op
    value, *keys = node.inputs
    of_key = dict(zip(keys, axes[1:], strict=True))
    indices = list(get_idx_list(node.inputs, op.idx_list))
    indices += [slice(None)] * (len(axes[0]) - len(indices))
    arrays = [i for i, index in enumerate(indices) if not isinstance(index, slice)]
    ndim = max(indices[i].type.ndim for i in arrays)
    group: Axes = _together([(None,) * ndim, *(of_key[indices[i]] for i in arrays)], node)
    picked = _picked([(axes[0][i], indices[i]) for i in arrays], shape)
    for i in arrays:
        own = axes[0][i]
        if picked is not None:
            group = _together([group, (picked,)], node)
            break
        if own is not None:
            selected = _selected(own, indices[i], value.type.shape[i], ndim, len(arrays) == 1, shape, node)
            group = _together([group, selected], node)
    pairs = zip(axes[0], indices, strict=True)
    rest = [_sliced(own, index, shape, node) for own, index in pairs if isinstance(index, slice)]
    first = 0 if any(b - a > 1 for a, b in itertools.pairwise(arrays)) else arrays[0]
    return (*rest[:first], *group, *rest[first:])


def _picked(pairs: Sequence[tuple[Axis | None, Any]], shape: Sequence[int]) -> Axis | None:
    """Entries picked one by one along several whole axes, by vectors of constants; None for any other indexing."""
    axes, places = [], []
    for own, index in pairs:
        vector = isinstance(index, Constant) and index.type.ndim == 1 and index.type.dtype != "bool"
        if own is None or own.positions is not None or isinstance(own.axis, tuple) or not vector:
            return None
        axes.append(own.axis)
        places.append(index.data)
    if len(axes) < 2 or len({len(p) for p in places}) > 1 or len(set(axes)) < len(axes):
        return None
    sizes = [shape[a] for a in axes]
    places = [np.arange(n)[p] for p, n in zip(places, sizes, strict=True)]
    flat = np.ravel_multi_index(places, sizes)
    return Axis(tuple(axes), np.ascontiguousarray(flat, dtype=np.int64).tobytes())


def _selected(
    own: Axis, index: Any, length: int | None, ndim: int, alone: bool, shape: Sequence[int], node: Apply
) -> Axes:
    """The axes of a group of indices of which one picks entries along a connected axis."""
    if _is_arange(index, length):
        wide = [i for i, n in enumerate(index.type.shape) if n != 1]
        if len(wide) == 1:
            place = ndim - index.type.ndim + wide[0]
            return tuple(own if i == place else None for i in range(ndim))
    if alone and index.type.ndim == 1 and (entries := held_index(index)) is not None:
        return (own.select(entries, own.length(shape) if own.positions is None else len(own.positions) // 8),)
    raise EntriesMixed(node)


def held_index(index: Any) -> Any:
    """The numbers of an index that is a constant or in a container of data; None otherwise."""
    while index.owner is not None and applies(index.owner, Cast):
        index = index.owner.inputs[0]
    if isinstance(index, SharedVariable):
        return index.get_value(borrow=True)
    return index.data if isinstance(index, Constant) else None


def _is_arange(index: Any, length: int | None) -> bool:
    while index.owner is not None and isinstance(index.owner.op, DimShuffle | Reshape):
        index = index.owner.inputs[0]
    if isinstance(index, Constant):
        return length is not None and np.array_equal(np.ravel(index.data), np.arange(length))
    if index.owner is None or not isinstance(index.owner.op, ARange):
        return False
    start, _, step = index.owner.inputs
    return all(isinstance(c, Constant) for c in (start, step)) and start.data == 0 and step.data == 1
