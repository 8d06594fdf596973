r"""Answers of yes or no to which an entry adds a number: one logarithm for several rows, and no exponential of them.

.. math:: -\sum_r \log(1 + e^{a_r + s_r b}) = -\log \prod_r (1 + e^{a_r} e^{s_r b}), \qquad s_r = \pm 1

The e^{a_r} belong to φ and the e^{±b} to a place, so that a row at a place is a product and a sum: compiled, as rows of
:mod:`bayeskit.plates.concave_density`. NumPy's passes over a table of rows and places took seven times as long, nearly
all of it in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.scalar.basic import Switch

from bayeskit.graphs.compile import compile_small, compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.graphs.numba_functions import as_written
from bayeskit.graphs.operation_costs import charge
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.graphs.stable_logistic import softened
from bayeskit.plates import concave_density
from bayeskit.plates.concave_density import concave_log_density
from bayeskit.plates.entry_rows import EntryRows
from bayeskit.types import Graph

__all__ = ["LogisticRows", "SignedRows", "add_up", "logit_of"]

PLACE, ROW = 20.0, 0.8  # nanoseconds of a place of an entry, and of a row at it
AWAY, ROUNDED = 2.0**20, 1e-12  # a place at which slopes are read, and what they may be off one


def logit_of(graph: Any, variable: Graph, given: Sequence[Graph]) -> tuple[Graph, Graph | None] | None:
    """x of rows −log(1 + exp x) with x affine in b and φ together, and where they are impossible whatever these are.

    None of other graphs. Of x that is affine in both the slope in b is a constant: a product of the two is not affine.
    """
    impossible = None
    if graph.owner is not None and applies(graph.owner, Switch) and constant_number(graph.owner.inputs[1]) == -np.inf:
        impossible, graph = graph.owner.inputs[0], graph.owner.inputs[2]
        if not {variable, *given}.isdisjoint(ancestors([impossible])):
            return None
    x = softened(graph)
    if x is None or x.type.ndim != graph.type.ndim or x.type.dtype != "float64":
        return None
    known: Mapping[Graph, float] = degrees([x], dict.fromkeys([variable, *given], 1.0))
    return (x, impossible) if known.get(x, 0.0) == 1.0 else None


@dataclass(frozen=True, eq=False)
class SignedRows:
    """Rows in the order of the entries that they belong to, with their signs."""

    signs: np.ndarray
    order: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, signs: np.ndarray, entries: np.ndarray) -> SignedRows:
        order = np.argsort(entries, kind="stable")
        return cls(signs[order], order, entries[order])

    @cached_property
    def owners(self) -> np.ndarray:
        """The entries that have rows."""
        return np.unique(self.entries)

    @cached_property
    def begin(self) -> np.ndarray:
        """For each of these, the first of its rows, and after the last of them the number of rows."""
        return np.searchsorted(self.entries, [*self.owners, np.inf])


@dataclass(frozen=True, eq=False)
class LogisticRows:
    """Rows −log(1 + exp x) of one factor, x and where they are impossible as graphs with a leading axis of places."""

    places: Graph
    given: tuple[Graph, ...]
    logit: Graph  # (K, *axes of the factor)
    impossible: Graph | None
    shape: tuple[int, ...]  # of b
    rows: EntryRows
    kept: list[SignedRows | None] = field(default_factory=list, repr=False)  # where no data may be exchanged

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}  # compiled anew where it is unpickled

    @cached_property
    def _logits(self) -> Any:
        return compile_stacked([self.places, *self.given], self.logit)

    @cached_property
    def _impossible(self) -> Any:
        return None if self.impossible is None else compile_small([], self.impossible)

    @cached_property
    def _of_constants(self) -> bool:
        graphs = [g for g in (self.logit, self.impossible) if g is not None]
        return not any(isinstance(v, SharedVariable) for v in graph_inputs(graphs))

    def signed(self, given: Sequence[np.ndarray]) -> SignedRows | None:
        """The rows; None where there is none, the slope of one is no sign, or it is impossible."""
        if self.kept:
            return self.kept[0]
        at = np.array([0.0, AWAY]).reshape(1, 2, *[1] * len(self.shape)) * np.ones(self.shape)
        with silently():
            low, high = np.asarray(self._logits(at, *[np.zeros((1, *g.shape[1:])) for g in given]))[0]
            possible = self._impossible is None or not np.any(self._impossible())
        slopes, found = (high - low) / AWAY, None
        if possible and slopes.size and np.all(np.abs(np.abs(slopes) - 1.0) < ROUNDED):
            found = SignedRows.of(np.sign(slopes).ravel(), self.rows.of_rows(slopes.shape))
        if self._of_constants:
            self.kept.append(found)
        return found

    def offsets(self, rows: SignedRows, given: Sequence[np.ndarray], number: int) -> np.ndarray:
        """a of each row in order, (N, R)."""
        with silently():
            found = np.asarray(self._logits(np.zeros((number, 1, *self.shape)), *given))
        return np.broadcast_to(found.reshape(len(found), len(rows.order))[:, rows.order], (number, len(rows.order)))


def add_up(rows: SignedRows, offsets: np.ndarray, places: np.ndarray, to: np.ndarray) -> None:
    """Add rows with a (N, R) at places (N, K, G) to the entries of b."""
    charge(len(offsets) * places.shape[1] * (PLACE * len(rows.owners) + ROW * len(rows.order)))
    # One layout: numba compiles once for each.
    _add_rows(np.array(offsets, order="C"), rows.signs, rows.owners, rows.begin, np.array(places, order="C"), to)


@as_written(concave_density.__file__)
def _add_rows(
    offsets: np.ndarray, signs: np.ndarray, owners: np.ndarray, begin: np.ndarray, places: np.ndarray, to: np.ndarray
) -> None:
    """Rows are entries of which nothing else is known."""
    several = places.shape[1]
    nothing, ones, grows = np.zeros(3), np.ones(len(signs)), np.zeros(len(signs), dtype=np.bool_)
    t, total, room = np.empty(several), np.empty(several), np.empty((4, several))
    for n in range(len(offsets)):
        powers = np.exp(offsets[n])
        for j in range(len(owners)):
            first, last = begin[j], begin[j + 1]
            for k in range(several):
                t[k] = places[n, k, owners[j]]
            rows = offsets[n, first:last], powers[first:last], signs[first:last], ones[first:last], grows[first:last]
            concave_log_density(t, several, (nothing, *rows), room, total)
            for k in range(several):
                to[n, k, owners[j]] += total[k]
