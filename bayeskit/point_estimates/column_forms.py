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
from pytensor.graph.basic import Variable

from bayeskit.types import Graph

__all__ = ["ONE", "ColumnForm", "Columns", "NotReduced", "lengths", "stretched"]

# The weights (indices of symbolic columns), and at most two columns of data, in order.
Key = tuple[tuple[int, ...], tuple[int, ...]]
ONE: Key = ((), ())


class NotReduced(Exception):
    """The rows of a density do not separate."""


@dataclass(eq=False)
class Columns:
    """The columns that a density was found to be made of.

    ``latent`` says what each node of the density depends on, ``symbolic`` are arrays of rows that are inputs, such as
    state probabilities, and the ``centre`` is c, a vector with one entry a column.
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
class ColumnForm:
    """Σ_p y_p b_p: the keys of the columns, and b as a graph whose first axis runs over them."""

    keys: tuple[Key, ...]
    b: Graph

    @property
    def free(self) -> bool:
        """Whether it is the same in all rows."""
        return self.keys == (ONE,)

    def padded(self, ndim: int) -> ColumnForm:
        """With axes of length one after the first, so that b has ``ndim`` in all."""
        extra = ["x"] * (ndim - self.b.type.ndim)
        return ColumnForm(self.keys, self.b.dimshuffle(0, *extra, *range(1, self.b.type.ndim)))

    def scaled(self, number: float) -> ColumnForm:
        """Multiplied by a number."""
        return self if number == 1 else ColumnForm(self.keys, -self.b if number == -1 else number * self.b)

    def spread(self, keys: Sequence[Key]) -> Graph:
        """b at the places of its keys among others, zeros elsewhere; what has the same key is added."""
        places, count = [keys.index(k) for k in self.keys], len(self.keys)
        if len(set(places)) < count:
            matrix = np.zeros((len(keys), count))
            matrix[places, np.arange(count)] = 1.0
            return pt.tensordot(pt.constant(matrix), self.b, axes=1)
        if places == list(range(count)):  # the derivative of a choice takes longer than that of what is put in front
            return self.b if count == len(keys) else pt.concatenate([self.b, _zeros(self.b, len(keys) - count)])
        source = np.full(len(keys), count)
        source[places] = np.arange(count)
        return pt.concatenate([self.b, _zeros(self.b, 1)])[source]

    @staticmethod
    def aligned(forms: Sequence[ColumnForm]) -> tuple[tuple[Key, ...], list[Graph]]:
        """The keys of several forms together, and the b of each at these, with as many axes."""
        keys = tuple(dict.fromkeys(k for f in forms for k in f.keys))
        ndim = max(f.b.type.ndim for f in forms)
        return keys, [f.padded(ndim).spread(keys) for f in forms]

    @staticmethod
    def added(forms: Sequence[ColumnForm]) -> ColumnForm:
        """The sum of several."""
        keys, graphs = ColumnForm.aligned(forms)
        return ColumnForm(keys, pt.add(*graphs))

    def times(self, other: ColumnForm) -> ColumnForm:
        """The product of two; raises NotReduced where more than two columns of data are multiplied."""
        ndim = max(self.b.type.ndim, other.b.type.ndim)
        left, right = self.padded(ndim).b, other.padded(ndim).b
        if self.free or other.free:
            return ColumnForm(other.keys if self.free else self.keys, left * right)
        pairs = tuple(_product(a, b) for a in self.keys for b in other.keys)
        outer = left[:, None] * right[None]
        known = [outer.shape[i] if n is None else n for i, n in enumerate(outer.type.shape)]
        product = ColumnForm(pairs, outer.reshape((len(pairs), *known[2:]), ndim=ndim))
        keys = tuple(dict.fromkeys(pairs))
        return ColumnForm(keys, product.spread(keys))


def lengths(graph: Graph, without: int) -> list[Any]:
    """Of all axes but one; numbers where they are known."""
    return [graph.shape[i] if n is None else n for i, n in enumerate(graph.type.shape) if i != without]


def stretched(b: Graph, shape: Sequence[Any]) -> Graph:
    """b with the axes after the first broadcast to a shape."""
    shape = list(shape)
    return b if list(b.type.shape[1:]) == shape else pt.alloc(b, b.type.shape[0] or b.shape[0], *shape)


def _zeros(b: Graph, rows: int) -> Graph:
    shape = (rows, *lengths(b, 0))
    return pt.zeros(shape) if None in b.type.shape[1:] else pt.constant(np.zeros(shape))


def _product(one: Key, two: Key) -> Key:
    data = tuple(sorted(one[1] + two[1]))
    if len(data) > 2:
        raise NotReduced
    return tuple(sorted(one[0] + two[0])), data
