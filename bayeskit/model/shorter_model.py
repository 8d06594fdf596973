"""Densities that read far fewer numbers, and models that have them, where rows of data recur."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import ModelObservedRV
from pytensor.graph.fg import FunctionGraph

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import substitute, with_constant_data
from bayeskit.model.data_slots import changed_copy, sealed_in, take_out, with_constants
from bayeskit.model.log_joint import LogJoint
from bayeskit.row_sums.distinct_rows import over_distinct_rows
from bayeskit.terminal import let_alarms_through
from bayeskit.types import Graph, Point

__all__ = ["is_long", "shorter_density", "shorter_model"]

SAME = 1e-9  # of a log density that is written otherwise, relative
LARGE = 1_000  # numbers in the data from which it is looked at


def is_long(joint: LogJoint) -> bool:
    """Whether there are data enough that it is worth looking for rows that recur."""
    return joint.data_size >= LARGE


def shorter_density(total: Graph, joint: LogJoint, shapes: Mapping[str, tuple[int, ...]], point: Point) -> Graph | None:
    """A scalar graph in the latent variables with sums over distinct rows, if these are few; else None.

    It is the same number at the ``point``, to rounding. Of data that are sealed nothing is known.
    """
    if not is_long(joint) or sealed_in([total]):
        return None
    try:
        return _shorter(total, joint, shapes, point)
    except Exception as error:  # whatever becomes of it, the density is what it is
        let_alarms_through(error)
        return None


def _shorter(total: Graph, joint: LogJoint, shapes: Mapping[str, tuple[int, ...]], point: Point) -> Graph | None:
    (written,) = with_constant_data([total])
    found = over_distinct_rows(written, {v: shapes[n] for n, v in joint.values.items()})
    if found is None:
        return None
    arguments = joint.arguments({n: point[n] if n in point else np.zeros(shapes[n]) for n in joint.values})
    one, other = compile_small(list(joint.values.values()), [found, total])(*arguments)
    return found if abs(one - other) <= SAME * (1.0 + abs(other)) else None


def shorter_model(joint: LogJoint, shapes: Mapping[str, tuple[int, ...]], point: Point) -> pm.Model | None:
    """The model with sums over distinct rows for observed variables of which these are few; None if there is none."""
    sums = {}
    for name in [str(rv.name) for rv in joint.model.observed_RVs]:
        if (shorter := shorter_density(pt.sum(joint.factors[name]), joint, shapes, point)) is not None:
            sums[name] = shorter
    if not sums:
        return None
    copy = with_constants(joint.model, containers=False)
    own: dict[Any, Any] = {v: copy[n] for n, v in joint.values.items()}
    with copy:
        for name, graph in sums.items():
            pm.Potential(f"{name} by distinct rows", substitute([graph], own)[0])

    def change(fgraph: FunctionGraph) -> None:
        for node in list(fgraph.toposort()):
            if isinstance(node.op, ModelObservedRV) and node.outputs[0].name in sums:
                take_out(fgraph, node)

    return changed_copy(copy, change)
