"""Categorical draws made for all rows at once: PyTensor calls Python for each, most of the time of replicated labels.

A draw is the number of categories whose cumulative probability is below a uniform number, so that the same generator
gives the same draws either way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.random.basic import CategoricalRV

__all__ = ["draw_categories_together"]

MOST = 20_000_000  # comparisons held in memory


class _Together(CategoricalRV):
    """PyTensor's operation with another way to its draws."""

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, p: np.ndarray, size: tuple[int, ...] | None) -> np.ndarray:
        rows = p.shape[:-1] if size is None else tuple(map(int, size))
        # What PyTensor refuses, or draws where no memory is left for this, stays with it.
        if len(rows) < p.ndim - 1 or np.broadcast_shapes(p.shape[:-1], rows) != rows:
            return np.asarray(super().rng_fn(rng, p, size))
        if math.prod(rows) * p.shape[-1] > MOST:
            return np.asarray(super().rng_fn(rng, p, size))
        levels = p.cumsum(axis=-1)
        return np.asarray(np.sum(levels < rng.uniform(size=rows)[..., None], axis=-1))


@node_rewriter([CategoricalRV])
def draw_categories_together(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """A Categorical variable in a graph that Python runs."""
    op: Any = node.op
    if type(op) is not CategoricalRV:
        return None
    return list(_Together(**{name: getattr(op, name) for name in op.__props__}).make_node(*node.inputs).outputs)
