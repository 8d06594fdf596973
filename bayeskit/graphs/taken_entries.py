"""Functions of entries that are taken many times, computed before they are taken.

Of a parameter of a group that many rows take, ``p[group]``, PyTensor computes log p and its derivatives for each row:
it moves indexing to the front, which is right where few entries are taken. Of 144 probabilities that 4,320 observations
take, a log density with its gradient took 360 microseconds; with the functions of the 144 numbers, 90.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayeskit.graphs.rewriting import substitute

__all__ = ["computed_before_taken"]


def computed_before_taken(graphs: list[Variable], shapes: Mapping[Variable, tuple[int, ...]]) -> list[Variable]:
    """The same graphs with elementwise functions of ``x[index]`` as entries of functions of x, where these are fewer.

    ``shapes`` are those of all their variables.
    """
    known = dict(shapes)
    found: dict[Variable, Variable] = {}
    for node in toposort(graphs):
        if not isinstance(node.op, Elemwise) or len(node.outputs) != 1:
            continue
        taken = [v.owner for i in node.inputs if _takes((v := found.get(i, i)).owner)]
        if not taken or not 0 < math.prod(known[taken[0].inputs[0]]) < math.prod(known[node.outputs[0]]):
            continue
        arguments = [_before(found.get(i, i), taken[0], known) for i in node.inputs]
        if None in arguments:
            continue
        before: Any = node.op(*arguments)
        known[before] = known[taken[0].inputs[0]]
        found[node.outputs[0]] = taken[0].op(before, *taken[0].inputs[1:])
    return substitute(graphs, found) if found else graphs


def _takes(node: Any) -> bool:
    return node is not None and isinstance(node.op, AdvancedSubtensor)


def _before(var: Any, taken: Apply, known: Mapping[Variable, tuple[int, ...]]) -> Variable | None:
    """What an argument is before entries are taken as by a node; None where it is something else at each of them."""
    if all(n == 1 for n in var.type.shape):
        return var.dimshuffle()
    node = var.owner
    alike = _takes(node) and node.op == taken.op and node.inputs[1:] == taken.inputs[1:]
    return node.inputs[0] if alike and known[node.inputs[0]] == known[taken.inputs[0]] else None
