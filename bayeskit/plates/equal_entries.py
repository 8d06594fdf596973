r"""Entries of a plate whose factors are equal functions: persons with the same answers have one integral between them.

.. math:: \sum_g \log \int e^{L_g(b; \phi)} db = \sum_c n_c \log \int e^{L_c(b; \phi)} db

Elements of a factor are told apart by :mod:`numbers <bayeskit.plates.element_numbers>`, of which an entry, whichever it
is, has the same. Entries whose rows have the same numbers, in whatever order, are equal; their sums are, to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import graph_inputs

from bayeskit.finite.axis_dependence import connection
from bayeskit.model.data_slots import DataSlot
from bayeskit.plates.chosen_rows import ChosenRows
from bayeskit.plates.element_numbers import Untold, all_different, numbers_of, rows_numbered
from bayeskit.plates.entry_rows import EntryRows
from bayeskit.types import Graph

__all__ = ["EqualEntries", "equal_entries"]

FEWER = 0.7  # of the entries, above which it is not worth the while


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
        numbers = numbers_of(graphs, {variable: np.zeros(shape, dtype=int), **all_different(given)})
        keys = [_of_entries(numbers[g], *of_one, shape[0]) for g, of_one in zip(graphs, along, strict=True)]
        of = rows_numbered(np.stack(keys, axis=1))
        first = np.unique(of, return_index=True)[1]
        if len(first) > FEWER * shape[0] or len(first) < 2:
            return None
        symbol = pt.TensorType(variable.type.dtype, (len(first),))(f"{variable.name}_of_each")
        place = np.full(shape[0], -1)
        place[first] = np.arange(len(first))
        chosen = ChosenRows(variable, symbol, place)
        each = [chosen.of(g, axis, np.flatnonzero(place[e] >= 0)) for g, (axis, e) in zip(graphs, along, strict=True)]
    except Untold:
        return None
    return EqualEntries(of, first, symbol, tuple(each))


def _one_axis(axes: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """The axis of a factor that runs along the entries, and the entry of each of its rows."""
    (axis,) = [i for i, own in enumerate(axes) if own is not None]
    return axis, EntryRows.of(axes, shape).entries


def _of_entries(numbers: np.ndarray, axis: int, entries: np.ndarray, size: int) -> np.ndarray:
    """For each entry the number of its rows, whatever their order."""
    moved = np.moveaxis(numbers, axis, 0)
    rows = rows_numbered(moved.reshape(len(moved), -1))
    order = np.lexsort((rows, entries))
    counts = np.bincount(entries, minlength=size)
    table = np.full((size, int(counts.max(initial=0))), -1)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[entries[order], place] = rows[order]
    return rows_numbered(table)
