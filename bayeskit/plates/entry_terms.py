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

from bayeskit.finite.axis_dependence import EntriesMixed, connection
from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.graphs.operation_costs import charge
from bayeskit.graphs.rewriting import apart_from_checks, inline
from bayeskit.graphs.stable_logistic import stable_logistics
from bayeskit.model.log_joint import LogJoint
from bayeskit.plates.concave_entries import ConcaveEntries
from bayeskit.plates.entry_integral import EntryDensity
from bayeskit.plates.entry_rows import EntryRows
from bayeskit.plates.logistic_rows import LogisticRows, add_up, logit_of
from bayeskit.types import Graph

__all__ = ["EntryTerms", "entry_factors", "entry_terms", "given_by"]

CHEAPER = 3  # times, a row of yes or no
HELD = 4_000_000  # numbers of what depends on φ alone, that are kept
PLACE = 12.0  # nanoseconds that a place of an entry takes besides its density


@dataclass(frozen=True, eq=False)
class EntryTerms:
    """L(b; φ) of every entry: the factors as graphs in b, with a leading axis of K places, and in φ."""

    shape: tuple[int, ...]  # of b
    places: Any  # symbol of b, (K, *shape), on its own support
    given: tuple[Graph, ...]  # symbols of φ
    factors: tuple[Graph, ...]  # each (K, *its own axes)
    rows: tuple[EntryRows, ...]
    logistic: tuple[LogisticRows | None, ...]  # of the factors that are rows of yes or no
    concave: ConcaveEntries | None  # where all factors are of that form

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def length(self) -> int:
        """The number of rows of the factors: what one place of all entries costs. Those of yes or no cost a third."""
        lengths = [max(len(r.entries), 1) * max(1, _fixed(f, r)) for f, r in zip(self.factors, self.rows, strict=True)]
        return sum(-(-n // CHEAPER) if of else n for n, of in zip(lengths, self.logistic, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}  # compiled anew where it is unpickled

    @cached_property
    def _functions(self) -> dict[tuple[int, ...], Any]:
        return {}

    def _add_up(self, which: tuple[int, ...], places: np.ndarray, given: Sequence[np.ndarray], to: np.ndarray) -> None:
        """Add some of the factors to the entries of b, row by row."""
        number, several, _ = places.shape
        if (function := self._functions.get(which)) is None:
            function = compile_stacked([self.places, *self.given], [self.factors[k] for k in which])
            self._functions[which] = function
        with silently():
            found = function(places.reshape(number, several, *self.shape), *given)
        for k, values in zip(which, found, strict=True):
            values = np.asarray(values)
            if values.ndim < self.factors[k].type.ndim + 1:  # it depends on no φ that is stacked
                values = values[None]
            self.rows[k].add_up(np.broadcast_to(values, (number, several, *values.shape[2:])), to)

    def at(self, given: Sequence[np.ndarray]) -> EntryDensity:
        """L of some of N values of φ, given by their n indices, at places (n, K, G), in that shape; −∞ if it is none.

        What depends on φ alone is computed once.
        """
        signed = {k: (r, rows) for k, r in enumerate(self.logistic) if r is not None and (rows := r.signed(given))}
        plain = tuple(k for k in range(len(self.factors)) if k not in signed)
        number = len(given[0]) if given else 1
        few = {k: pair for k, pair in signed.items() if number * len(pair[1].order) <= HELD}
        held = {k: logistic.offsets(rows, given, number) for k, (logistic, rows) in few.items()}

        def log_density(of: np.ndarray, places: np.ndarray) -> np.ndarray:
            total = np.zeros(places.shape)
            charge(PLACE * total.size)
            these = [g[of] for g in given]
            if plain:
                self._add_up(plain, places, these, total)
            for k, (logistic, rows) in signed.items():
                offsets = held[k][of] if k in held else logistic.offsets(rows, these, len(of))
                add_up(rows, offsets, places, total)
            return np.where(np.isnan(total), -np.inf, total)

        return log_density

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


def entry_factors(joint: LogJoint, factors: Sequence[str]) -> list[Graph]:
    """The graphs of factors, without checks of parameters."""
    return [_without_copies(inline([apart_from_checks(joint.factors[factor])[0]])[0]) for factor in factors]


def given_by(joint: LogJoint, name: str, factors: Sequence[str]) -> tuple[Graph, ...]:
    """The symbols of what the entries of a variable depend on."""
    around = set().union(*[joint.scopes[f] for f in factors]) - {name}
    return tuple(joint.values[n] for n in joint.names if n in around)


def entry_terms(
    graphs: Sequence[Graph], names: Sequence[str], variable: Any, shape: tuple[int, ...], given: tuple[Graph, ...]
) -> EntryTerms:
    """The terms of a variable's entries, from the graphs of its factors, given by name.

    EntriesMixed where one of them depends on several entries at once.
    """
    rows = []
    for graph, factor in zip(graphs, names, strict=True):
        try:
            axes, _ = connection(graph, variable, shape)
        except EntriesMixed as error:
            raise EntriesMixed(f"{error} in the log density of {factor!r}") from None
        rows.append(EntryRows.of(axes, shape))
    places: Any = pt.TensorType(variable.type.dtype, (None, *shape))(f"{variable.name}_places")
    stable = stable_logistics(list(graphs))
    everywhere = vectorize_graph(stable, {variable: places})
    logistic: list[LogisticRows | None] = []
    for graph, row in zip(stable, rows, strict=True):
        found = logit_of(graph, variable, given)
        if found is not None:
            logit, impossible = vectorize_graph(found[0], {variable: places}), found[1]
            logistic.append(LogisticRows(places, given, logit, impossible, shape, row))
        else:
            logistic.append(None)
    concave = ConcaveEntries.of(stable, variable, places, given, rows)
    return EntryTerms(shape, places, given, tuple(everywhere), tuple(rows), tuple(logistic), concave)


def _without_copies(graph: Any) -> Any:
    """The graph of a factor without what only says of which shape it is, and is."""
    while graph.owner is not None and isinstance(graph.owner.op, Alloc):
        value = graph.owner.inputs[0]
        if None in value.type.shape or value.type.shape != graph.type.shape:
            break
        graph = value
    return graph
