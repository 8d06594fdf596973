"""Conditional autoregressions, ``pm.CAR``: whether a variable is one, and whether its neighbours make a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from scipy import sparse

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently

__all__ = ["has_car", "is_car", "neighbours", "require_neighbours", "room_to_singular", "weights_of"]


def is_car(rv: Any) -> bool:
    """Whether a random variable is a ``pm.CAR``."""
    return type(rv.owner.op).__name__ == "CARRV"


def has_car(rv: Any, others: frozenset[Any]) -> bool:
    """Whether a random variable is made of a ``pm.CAR`` that is no variable of the model: observed in part, say."""
    above = ancestors(rv.owner.inputs, blockers=others)
    return is_car(rv) or any(v.owner is not None and v not in others and is_car(v) for v in above)


def neighbours(rv: Any) -> Variable:
    """W, as a graph."""
    found: Variable = rv.owner.inputs[3]
    return found


def _known(graph: Variable) -> Any:
    """The value of a graph; None where it depends on a random variable."""
    if any(v.owner is not None and isinstance(v.owner.op, RandomVariable) for v in ancestors([graph])):
        return None
    with silently():
        return compile_small([], graph)()


def room_to_singular(rv: Any) -> float:
    """1 − |α|, by which the precision is far from singular; one where α depends on a random variable."""
    alpha = _known(rv.owner.inputs[4])
    return 1.0 if alpha is None else float(1.0 - np.max(np.abs(alpha)))


def weights_of(rv: Any) -> np.ndarray | None:
    """W, dense; None where it depends on a random variable."""
    given = _known(neighbours(rv))
    if given is None:
        return None
    dense = given.toarray() if sparse.issparse(given) else np.asarray(given)
    return dense.reshape(dense.shape[-2:]).astype(float)


def require_neighbours(model: pm.Model) -> None:
    """A ModelError for neighbours that no conditional autoregression has: PyMC's density is no number then."""
    for rv in model.basic_RVs:
        w = weights_of(rv) if rv.owner is not None and is_car(rv) else None
        if w is None:
            continue
        if not np.array_equal(w, w.T):
            i, j = np.argwhere(w != w.T)[0]
            raise ModelError(
                f"the W of {rv.name!r} is not symmetric: W[{i}, {j}] is {w[i, j]:g} and W[{j}, {i}] is {w[j, i]:g}; "
                "make it so, as in np.maximum(W, W.T)"
            )
        if np.any(alone := ~(w.sum(axis=0) > 0)):
            raise ModelError(
                f"area {np.argmax(alone)} of {rv.name!r} has no neighbours in W, or their weights sum to no positive "
                "number, so that its precision is not positive: give it a neighbour, or a Normal effect of its own"
            )
