r"""The log joint density of each entry of a variable, all else held fixed: a sum of factors that take it by itself.

.. math:: L_g(b; \phi) = \sum_{f} \sum_{r: g(r) = g} f_r(b, \phi)

Where every factor is connected along the axes of b (:mod:`bayeskit.finite.axis_dependence`), all entries can be put
anywhere at once, and the rows of a factor that belong to one entry are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.tensor.basic import Alloc

from bayeskit.finite.axis_dependence import Axis, EntriesMixed, connection
from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.graphs.operation_costs import charge
from bayeskit.graphs.rewriting import apart_from_checks, inline
from bayeskit.graphs.stable_logistic import stable_logistics
from bayeskit.model.log_joint import LogJoint
from bayeskit.types import Graph

__all__ = ["EntryTerms", "entry_terms"]

PLACE = 12.0  # nanoseconds that a place of an entry takes besides its density


@dataclass(frozen=True, eq=False)
class EntryRows:
    """Which entry of b each row of one factor belongs to; its other axes are added up."""

    added: tuple[int, ...]  # axes of the factor that do not run along b
    entries: np.ndarray  # of the rest, flat, the flat index of the entry of b

    @classmethod
    def of(cls, axes: Sequence[Axis | None], shape: tuple[int, ...]) -> EntryRows:
        joined = [axis for axis in axes if axis is not None]
        places = [axis.indices(axis.length(shape)) for axis in joined]
        index = [np.zeros([len(p) for p in places], dtype=int) for _ in shape]
        for k, (axis, place) in enumerate(zip(joined, places, strict=True)):
            along = np.unravel_index(place, [shape[a] for a in axis.all])
            spread = [1] * k + [-1] + [1] * (len(joined) - k - 1)
            for a, values in zip(axis.all, along, strict=True):
                index[a] = index[a] + values.reshape(spread)
        flat = np.ravel_multi_index(index, shape) if shape else np.zeros((), dtype=int)
        return cls(tuple(i for i, axis in enumerate(axes) if axis is None), np.ravel(flat))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
        order = np.argsort(self.entries, kind="stable")
        entries, starts = np.unique(self.entries[order], return_index=True)
        return None if np.array_equal(order, np.arange(len(order))) else order, starts, entries

    def add_up(self, rows: np.ndarray, to: np.ndarray) -> None:
        """Add rows of shape (N, K, *axes) to the entries of b, of shape (N, K, G)."""
        rows = rows.sum(axis=tuple(i + 2 for i in self.added)) if self.added else rows
        rows = rows.reshape(*rows.shape[:2], -1)
        order, starts, entries = self._sorted
        if len(starts) < len(self.entries):
            rows = rows if order is None else rows[..., order]
            to[..., entries] += np.add.reduceat(rows, starts, axis=-1)
        elif order is None and len(entries) == to.shape[-1]:
            to += rows
        else:
            to[..., self.entries] += rows

    def spread(self, weights: Any, axes: int, lengths: Sequence[Any]) -> Any:
        """Weights of the entries of b, of shape (K, G), for the rows of the factor, as a graph: (K, *axes)."""
        kept = [lengths[i] for i in range(axes) if i not in self.added]
        along = weights[:, self.entries].reshape((weights.shape[0], *kept))
        order = iter(range(1, len(kept) + 1))
        return along.dimshuffle(0, *["x" if i in self.added else next(order) for i in range(axes)])


@dataclass(frozen=True, eq=False)
class EntryTerms:
    """L(b; φ) of every entry: the factors as graphs in b, with a leading axis of K places, and in φ."""

    shape: tuple[int, ...]  # of b
    places: Any  # symbol of b, (K, *shape), on its own support
    given: tuple[Graph, ...]  # symbols of φ
    factors: tuple[Graph, ...]  # each (K, *its own axes)
    rows: tuple[EntryRows, ...]

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def length(self) -> int:
        """The number of rows of the factors: what one place of all entries costs."""
        return sum(max(len(r.entries), 1) * max(1, _fixed(f, r)) for f, r in zip(self.factors, self.rows, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_function"}  # compiled anew where it is unpickled

    @cached_property
    def _function(self) -> Any:
        return compile_stacked([self.places, *self.given], list(self.factors))

    def __call__(self, places: np.ndarray, given: Sequence[np.ndarray]) -> np.ndarray:
        """L at K places of each entry, for each of N values of φ: from (N, K, G) to (N, K, G); −∞ where it is none."""
        number, several, _ = places.shape
        total = np.zeros((number, several, self.size))
        charge(PLACE * total.size)
        with silently():
            found = self._function(places.reshape(number, several, *self.shape), *given)
        for rows, values, graph in zip(self.rows, found, self.factors, strict=True):
            values = np.asarray(values)
            if values.ndim < graph.type.ndim + 1:  # it depends on no φ that is stacked
                values = values[None]
            rows.add_up(np.broadcast_to(values, (number, several, *values.shape[2:])), total)
        return np.where(np.isnan(total), -np.inf, total)

    def gradient(self, given: Sequence[Graph], places: Graph, shares: Graph, to: Graph) -> list[Graph]:
        """∂/∂φ of Σ_g c_g Σ_k s_kg L_g(b_kg; φ), the places b and shares s, (K, *shape), and c of ``to`` held."""
        held: Any = pt.TensorType("float64", (None, self.size))()
        parts = []
        for factor, rows in zip(self.factors, self.rows, strict=True):
            axes = factor.type.ndim - 1
            lengths = [factor.shape[i + 1] for i in range(axes)]
            spread = rows.spread(held, axes, lengths)
            # A place without a share may have a density of zero, whose logarithm times zero is no number.
            parts.append(pt.sum(pt.switch(pt.eq(spread, 0), 0.0, factor) * spread))
        total = pt.add(*parts) if len(parts) > 1 else parts[0]
        slopes: Any = pytensor.grad(total, list(self.given), disconnected_inputs="ignore")
        weighted: Any = shares * to
        flat = weighted.reshape((shares.shape[0], self.size))
        known = {**dict(zip(self.given, given, strict=True)), self.places: places, held: flat}
        found: list[Graph] = graph_replace(slopes, known, strict=False)
        return found


def _fixed(factor: Graph, rows: EntryRows) -> int:
    lengths = [factor.type.shape[i + 1] for i in rows.added]
    return int(np.prod([n or 1 for n in lengths], dtype=int))


def entry_terms(joint: LogJoint, name: str, shape: tuple[int, ...], factors: Sequence[str]) -> EntryTerms:
    """The terms of a variable's entries; EntriesMixed where a factor depends on several of them at once."""
    variable: Any = joint.values[name]
    graphs, rows = [], []
    for factor in factors:
        graph, _, _ = apart_from_checks(joint.factors[factor])
        graph = _without_copies(inline([graph])[0])
        try:
            axes, _ = connection(graph, variable, shape)
        except EntriesMixed as error:
            raise EntriesMixed(f"{error} in the log density of {factor!r}") from None
        graphs.append(graph)
        rows.append(EntryRows.of(axes, shape))
    places: Any = pt.TensorType(variable.type.dtype, (None, *shape))(f"{name}_places")
    around = set().union(*[joint.scopes[f] for f in factors]) - {name}
    given = tuple(joint.values[n] for n in joint.names if n in around)
    everywhere = vectorize_graph(stable_logistics(graphs), {variable: places})
    return EntryTerms(shape, places, given, tuple(everywhere), tuple(rows))


def _without_copies(graph: Any) -> Any:
    """The graph of a factor without what only says of which shape it is, and is."""
    while graph.owner is not None and isinstance(graph.owner.op, Alloc):
        value = graph.owner.inputs[0]
        if None in value.type.shape or value.type.shape != graph.type.shape:
            break
        graph = value
    return graph
