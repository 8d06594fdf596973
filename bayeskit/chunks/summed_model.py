"""A model with sums in the place of its observed variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import ModelDeterministic, ModelNamed, ModelObservedRV, ModelValuedVar
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph

from bayeskit.chunks.labels import KnownLabels
from bayeskit.chunks.reading import Reading, Statistics
from bayeskit.graphs.rewriting import depends_on, substitute
from bayeskit.model.data_slots import changed_copy, take_out, with_constants
from bayeskit.model.summed_likelihood import SumRounding, is_summed, summed_name, with_rounding
from bayeskit.row_sums.reduced_graph import log_density
from bayeskit.row_sums.rounding import rounding_of_sums

__all__ = ["summed_model"]


def summed_model(
    reading: Reading,
    labels: KnownLabels,
    statistics: Statistics,
    of_rows: Collection[str] = (),
    densities: Sequence[Any] = (),
    roundings: Sequence[Any] = (),
) -> pm.Model:
    """The model of what was read, with the sums ``statistics`` for its rows, and without Deterministics ``of_rows``.

    ``densities`` are more log densities of data, graphs of the stand-ins for the free variables in ``reading``, and
    ``roundings`` what these are off. What depends on the same variables is one factor: blocks that are independent stay
    so.
    """
    packing = labels.packing(reading.model, reading.shapes)
    latents = reading.latents
    parts: dict[frozenset[str], list[Any]] = {}
    by_scope: dict[frozenset[str], Statistics] = {}
    for sign, statistic in sorted(statistics.items()):
        graph = log_density({sign: statistic}, latents, packing.unpack)
        by_scope.setdefault(_scope(graph, latents), {})[sign] = statistic
    for scope, some in by_scope.items():
        parts[scope] = [log_density(some, latents, packing.unpack)]
    for graph in densities:
        parts.setdefault(_scope(graph, latents), []).append(graph)
    if constant := parts.pop(frozenset(), []):
        first = next(iter(parts), frozenset())
        parts[first] = [*parts.get(first, []), *constant]
    copy = with_constants(reading.model, containers=False)
    own: dict[Any, Any] = {v: copy[n] for n, v in latents.items()}
    before = [p for p in copy.potentials if is_summed(p.name)]
    for number, graphs in enumerate(parts.values()):
        graph = substitute([sum(graphs[1:], graphs[0])], own)[0]
        with copy:
            pm.Potential(summed_name(number + len(before)), graph)

    def change(fgraph: FunctionGraph) -> None:
        for node in list(fgraph.toposort()):
            if _is_of_rows(node, of_rows):
                take_out(fgraph, node)

    rounding = pt.add(rounding_of_sums(statistics, latents, packing.unpack), *roundings)
    return with_rounding(changed_copy(copy, change), SumRounding(latents, rounding))


def _scope(graph: Any, latents: Mapping[str, Any]) -> frozenset[str]:
    found = depends_on([graph], latents.values()).get(graph, frozenset())
    return frozenset(n for n, v in latents.items() if v in found)


def _is_of_rows(node: Any, of_rows: Collection[str]) -> bool:
    if isinstance(node.op, ModelDeterministic):
        return node.outputs[0].name in of_rows
    if isinstance(node.op, ModelNamed) and not isinstance(node.op, ModelValuedVar):
        return isinstance(node.inputs[0], Constant)  # data
    return isinstance(node.op, ModelObservedRV)
