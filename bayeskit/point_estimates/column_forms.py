"""Sums of (column of the data) × (function of the parameters), and their algebra.

A column is a constant of the graph with one entry a row, or a symbolic array of weights; at most two columns of data
are multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs

from bayeskit.graphs.compile import compile_small
from bayeskit.types import Graph

__all__ = [
    "ONE",
    "Columns",
    "Form",
    "NotReduced",
    "added",
    "is_free",
    "lengths",
    "of_constant",
    "of_weights",
    "padded",
    "spread",
    "stretched",
    "times",
    "value_of",
]

WIDEST = 256  # columns of one array

# The weights (indices of symbolic columns), and at most two columns of data, in order.
Key = tuple[tuple[int, ...], tuple[int, ...]]
ONE: Key = ((), ())


class NotReduced(Exception):
    """The rows of a density do not separate."""


@dataclass(eq=False)
class Columns:
    """The columns that a density was found to be made of.

    Attributes
    ----------
    rows : int
    latent : mapping of tensor to frozenset
        What each node of the density depends on.
    symbolic : tuple of tensor
        Arrays of rows that are inputs, such as state probabilities.
    centre : tensor
        c, a vector with one entry a column.
    """

    rows: int
    latent: Mapping[Variable, frozenset[Variable]]
    symbolic: tuple[Variable, ...] = ()
    centre: Graph = field(default_factory=pt.dvector)
    data: list[np.ndarray] = field(default_factory=list)
    weights: list[tuple[int, int, int]] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    def number(self, column: np.ndarray) -> int:
        key = np.ascontiguousarray(column).tobytes()
        if key not in self.known:
            self.known[key] = len(self.data)
            self.data.append(np.asarray(column, dtype=float))
        return self.known[key]

    def weight(self, array: int, axis: int, place: int) -> int:
        if (array, axis, place) not in self.weights:
            self.weights.append((array, axis, place))
        return self.weights.index((array, axis, place))


@dataclass(frozen=True, eq=False)
class Form:
    """Σ_p y_p b_p: the keys of the columns, and b as a graph whose first axis runs over them."""

    keys: tuple[Key, ...]
    b: Graph

    def times(self, number: float) -> Form:
        """Multiplied by a number."""
        return self if number == 1 else Form(self.keys, -self.b if number == -1 else number * self.b)


def lengths(graph: Graph, without: int) -> list[Any]:
    """Of all axes but one; numbers where they are known."""
    return [graph.shape[i] if n is None else n for i, n in enumerate(graph.type.shape) if i != without]


def stretched(b: Graph, shape: Sequence[Any]) -> Graph:
    """b with the axes after the first broadcast to a shape."""
    shape = list(shape)
    return b if list(b.type.shape[1:]) == shape else pt.alloc(b, b.type.shape[0] or b.shape[0], *shape)


def of_constant(graph: Any, columns: Columns, axis: int) -> Form:
    values = np.moveaxis(np.asarray(value_of(graph)), axis, 0)
    flat = values.reshape(len(values), -1)
    varies = np.any(flat != flat[:1], axis=0)
    if not np.any(varies):
        return Form((ONE,), pt.constant(values[:1]))
    flat = flat.astype(float)
    if len(values) != columns.rows or np.sum(varies) > WIDEST or not np.all(np.isfinite(flat[:, varies])):
        raise NotReduced
    numbers = [columns.number(flat[:, j]) for j in np.flatnonzero(varies)]
    once = list(dict.fromkeys(numbers))
    b = np.zeros((len(once), flat.shape[1]))
    for j, number in zip(np.flatnonzero(varies), numbers, strict=True):
        b[once.index(number), j] = 1.0
    offset: Any = columns.centre[np.array(numbers)]
    if not np.all(varies):
        offset = pt.set_subtensor(pt.constant(flat[0])[np.flatnonzero(varies)], offset)
    stacked: Any = pt.concatenate([offset[None], pt.constant(b)])
    keys = (ONE, *(((), (n,)) for n in once))
    return Form(keys, stacked.reshape((len(keys), *values.shape[1:])))


def value_of(graph: Any) -> np.ndarray:
    if not all(isinstance(i, Constant) for i in graph_inputs([graph])):
        raise NotReduced
    return graph.data if isinstance(graph, Constant) else compile_small([], graph)()


def of_weights(graph: Any, columns: Columns, axis: int) -> Form:
    shape = tuple(n for i, n in enumerate(graph.type.shape) if i != axis)
    if None in shape:
        raise NotReduced
    size = int(np.prod(shape, dtype=int))
    array = columns.symbolic.index(graph)
    keys = tuple(((columns.weight(array, axis, place),), ()) for place in range(size))
    return Form(keys, pt.constant(np.eye(size).reshape(size, *shape)))


def padded(b: Graph, ndim: int) -> Graph:
    """b with axes of length one after the first, so that it has ``ndim`` in all."""
    return b.dimshuffle(0, *["x"] * (ndim - b.type.ndim), *range(1, b.type.ndim))


def is_free(form: Form) -> bool:
    return form.keys == (ONE,)


def added(forms: Sequence[Form]) -> Form:
    ndim = max(f.b.type.ndim for f in forms)
    keys = tuple(dict.fromkeys(k for f in forms for k in f.keys))
    if all(f.keys == keys for f in forms):
        return Form(keys, pt.add(*[padded(f.b, ndim) for f in forms]))
    return Form(keys, pt.add(*[spread(padded(f.b, ndim), f.keys, keys) for f in forms]))


def spread(b: Graph, own: Sequence[Key], keys: Sequence[Key]) -> Graph:
    """Rows of b at the places of their keys, zeros elsewhere; rows of the same key are added."""
    places = [keys.index(k) for k in own]
    if len(set(places)) < len(places):
        matrix = np.zeros((len(keys), len(own)))
        matrix[places, np.arange(len(own))] = 1.0
        return pt.tensordot(pt.constant(matrix), b, axes=1)
    if places == list(range(len(own))):
        return b if len(own) == len(keys) else pt.concatenate([b, _zeros(b, len(keys) - len(own))])
    source = np.full(len(keys), len(own))
    source[places] = np.arange(len(own))
    return pt.concatenate([b, _zeros(b, 1)])[source]


def _zeros(b: Graph, rows: int) -> Graph:
    if None in b.type.shape[1:]:
        return pt.zeros((rows, *[b.shape[i] for i in range(1, b.type.ndim)]))
    return pt.constant(np.zeros((rows, *b.type.shape[1:])))


def times(one: Form, two: Form) -> Form:
    if is_free(one) or is_free(two):
        ndim = max(one.b.type.ndim, two.b.type.ndim)
        keys = two.keys if is_free(one) else one.keys
        return Form(keys, padded(one.b, ndim) * padded(two.b, ndim))
    pairs = [_product(a, b) for a in one.keys for b in two.keys]
    keys = tuple(dict.fromkeys(pairs))
    ndim = max(one.b.type.ndim, two.b.type.ndim)
    left, right = padded(one.b, ndim), padded(two.b, ndim)
    outer = left[:, None] * right[None]
    known = [outer.shape[i] if n is None else n for i, n in enumerate(outer.type.shape)]
    return Form(keys, spread(outer.reshape((len(pairs), *known[2:]), ndim=ndim), pairs, keys))


def _product(one: Key, two: Key) -> Key:
    data = tuple(sorted(one[1] + two[1]))
    if len(data) > 2:
        raise NotReduced
    return tuple(sorted(one[0] + two[0])), data
