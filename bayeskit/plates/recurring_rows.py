r"""Rows of a factor that are the same function of the same entry, each once and weighted by how often it is there.

.. math:: \sum_{r: g(r) = g} f_r(b, \phi) = \sum_k n_k f_k(b, \phi)

Of 10,000 answers of yes or no in fifty groups to three predictors of two values each, 800 are different.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import graph_inputs

from bayeskit.errors import DataError
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import DataSlot
from bayeskit.plates.chosen_rows import ChosenRows
from bayeskit.plates.element_numbers import Untold, all_different, numbers_of
from bayeskit.row_sums.separation import separate
from bayeskit.row_sums.sums_by_key import as_integers, distinct, require_few
from bayeskit.row_sums.terms import NotAdditive, as_factor
from bayeskit.types import Graph

__all__ = ["each_row_once"]

LONG = 200  # rows from which it may be worth the while
FEWER = 4  # times fewer: an answer of yes or no costs a third of what has a weight


def each_row_once(graph: Any, variable: Any, shape: tuple[int, ...], given: Mapping[Graph, tuple[int, ...]]) -> Graph:
    """A factor of a vector with fewer rows and the same sum for each entry, or itself where hardly any recur.

    ``given`` are the other symbols that it depends on, with their shapes. Of data that may be exchanged nothing is
    known.
    """
    rows = graph.type.shape[0] if graph.type.ndim == 1 else None
    if len(shape) != 1 or rows is None or rows < LONG or any(isinstance(v, DataSlot) for v in graph_inputs([graph])):
        return graph
    try:
        numbers = numbers_of([graph], all_different({variable: shape, **given}))[graph]
        _, first, times = np.unique(numbers, return_index=True, return_counts=True)
        if FEWER * len(first) > rows:
            return graph
        order = np.argsort(first)
        chosen = ChosenRows(variable, variable, np.arange(shape[0])).of(graph, 0, first[order])
    except Untold:
        return _by_columns(graph, {variable: shape, **given}, rows // FEWER)
    return pt.constant(times[order].astype(float)) * chosen


def _by_columns(graph: Any, symbols: Mapping[Any, tuple[int, ...]], most: int) -> Graph:
    """The same of a factor whose rows cannot be taken from its graph as it is: one that picks an entry in each row."""
    stand_ins = {
        v: pt.TensorType(v.type.dtype, lengths)(f"symbol{k}") for k, (v, lengths) in enumerate(symbols.items())
    }
    back = {new: old for old, new in stand_ins.items()}
    try:
        with np.errstate(all="ignore"):
            value, conditions = separate(substitute([graph], stand_ins)[0], {str(v.name): v for v in back})
        if conditions:
            return graph
        function, rows = as_factor(value), int(np.prod(value.shape, dtype=int))
        columns = [np.broadcast_to(c.values, value.shape).reshape(-1) for c in function.columns]
        require_few(columns, rows, most)
        _, codes = distinct([as_integers(c) for c in columns], rows, most)
    except (NotAdditive, DataError):  # what is not allowed says so when it is evaluated
        return graph
    first, times = np.unique(codes, return_index=True, return_counts=True)[1:]
    at = zip(function.columns, columns, strict=True)
    known: dict[Any, Any] = {c.place: pt.constant(values[first].astype(c.place.type.dtype)) for c, values in at}
    once = substitute([function.graph], known)
    return pt.constant(times.astype(float)) * substitute(once, back)[0]
