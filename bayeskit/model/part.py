"""A part of a model that shares nothing with the rest of it, as a plain ``pm.Model``."""

from __future__ import annotations

from collections.abc import Collection

import pymc as pm
from pymc.model.fgraph import ModelNamed, ModelVar
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors

from bayeskit.model.data_slots import changed_copy

__all__ = ["NotApart", "part_of"]


class NotApart(Exception):
    """The part takes variables that were not named; the message says which."""


def part_of(model: pm.Model, names: Collection[str]) -> pm.Model:
    """Some random variables and Potentials of a model, and the data containers that they are made of.

    Deterministics are left out. NotApart where PyMC needs other variables for them, if only for their lengths.
    """

    def prune(fgraph: FunctionGraph) -> None:
        nodes = [n for n in fgraph.apply_nodes if isinstance(n.op, ModelVar)]
        above = set(ancestors([n.outputs[0] for n in nodes if n.op.name in names]))
        if others := sorted({n.op.name for n in nodes if n.outputs[0] in above} - set(names)):
            raise NotApart(f"{', '.join(sorted(names))} is made of {', '.join(others)}")
        for node in nodes:
            inside = node.inputs[0] in above if isinstance(node.op, ModelNamed) else node.outputs[0] in above
            if not inside:
                fgraph.remove_node(node)

    return changed_copy(model, prune)
