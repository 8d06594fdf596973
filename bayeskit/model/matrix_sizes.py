"""Matrices too large to be made, refused by name before anything is computed: a process of 10⁵ places has one of 80 GB.

A density may do without it (:mod:`bayeskit.model.matern_normal`), where drawing would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV

from bayeskit.errors import ModelError
from bayeskit.graphs.nodes import core_op
from bayeskit.types import Graph

__all__ = ["no_room_for", "require_room"]

MOST = 20_000  # rows of a matrix that is factorised: 3.2 GB


def no_room_for(variables: Mapping[str, Graph]) -> str:
    """What cannot be drawn for the size of a matrix of which its type knows, and why; empty where there is room."""
    if _rows(variables.values()) <= MOST:
        return ""
    rows = {name: _rows([variable]) for name, variable in variables.items()}
    name = next(name for name in rows if rows[name] > MOST)
    return f"{name!r} needs a matrix of {rows[name]:,} rows, which takes {8e-9 * rows[name] ** 2:,.0f} GB"


def _rows(variables: Iterable[Graph]) -> int:
    """The rows of the largest matrix above variables that is, or would be, factorised; 0 where none is known."""
    found = [0]
    for node in {v.owner for v in ancestors(variables) if v.owner is not None}:
        op = core_op(node)
        if isinstance(op, MvNormalRV) or type(op).__name__ == "Cholesky":
            matrix = node.inputs[3 if isinstance(op, MvNormalRV) else 0]
            found.append(matrix.type.shape[-1] or 0)
    return max(found)


def require_room(variables: Mapping[str, Graph], remedy: str) -> None:
    """A ModelError, with what to do instead, where variables cannot be drawn for the size of a matrix."""
    if what := no_room_for(variables):
        raise ModelError(f"{what}; {remedy}")
