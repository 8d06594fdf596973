"""Matrices too large to be made, refused by name before anything is computed: a process of 10⁵ places has one of 80 GB.

A density may do without it (:mod:`bayeskit.model.matern_normal`), where drawing would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV

from bayeskit.errors import ModelError
from bayeskit.graphs.nodes import core_op
from bayeskit.types import Graph

__all__ = ["no_room_for", "require_room"]

MOST = 20_000  # rows of a matrix that is factorised: 3.2 GB


def no_room_for(variables: Iterable[Graph]) -> str:
    """What cannot be drawn for the size of a matrix of which its type knows, and why; empty where there is room."""
    variables = list(variables)
    nodes = (v.owner for v in ancestors(variables) if v.owner is not None)
    if max(map(_rows, nodes), default=0) <= MOST:
        return ""
    for variable in variables:
        rows = max(_rows(v.owner) for v in ancestors([variable]) if v.owner is not None)
        if rows > MOST:
            return f"{variable.name!r} needs a matrix of {rows:,} rows, of {8e-9 * rows**2:.0f} GB"
    return ""


def _rows(node: Graph) -> int:
    op = core_op(node)
    if isinstance(op, MvNormalRV):
        matrix = node.inputs[3]
    elif type(op).__name__ == "Cholesky":
        matrix = node.inputs[0]
    else:
        return 0
    lengths: Sequence[int | None] = matrix.type.shape[-1:]
    return lengths[0] or 0


def require_room(variables: Iterable[Graph], remedy: str) -> None:
    """A ModelError, with what to do instead, where variables cannot be drawn for the size of a matrix."""
    if what := no_room_for(variables):
        raise ModelError(f"{what}; {remedy}")
