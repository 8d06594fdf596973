r"""A scalar log density with the sums over rows in it taken over their distinct arguments, where these are few.

.. math:: \sum_{i=1}^n w_i \, f(\theta; k_i) = \sum_{k} \Bigl(\sum_{i: k_i = k} w_i\Bigr) f(\theta; k)

Counts of 300,000 rows in 500 groups are 500 numbers of rows and as many sums; beta-binomial data have as many distinct
pairs of trials and successes as there are. What is integrated over θ is evaluated some hundred times, and each time
reads all that is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as ps
from pytensor.tensor.math import Sum

from bayeskit.errors import DataError
from bayeskit.graphs.nodes import applies, conjuncts, constant_number
from bayeskit.graphs.operations import coefficients
from bayeskit.graphs.rewriting import substitute
from bayeskit.row_sums.reduced_graph import log_density
from bayeskit.row_sums.separation import separate
from bayeskit.row_sums.statistics import reduced_terms
from bayeskit.row_sums.terms import NotAdditive
from bayeskit.types import Graph

__all__ = ["over_distinct_rows"]

LONG = 1_000  # rows of a sum that may be worth it
FEWER = 4  # times fewer numbers are

type _Addend = tuple[float, Any]


def over_distinct_rows(graph: Graph, latents: Mapping[Graph, tuple[int, ...]]) -> Graph | None:
    """The same scalar graph with far fewer numbers in it, or None.

    Parameters
    ----------
    graph
        A log density as a sum of sums of functions of rows, maybe −∞ outside some conditions.
    latents
        What it depends on, each with its shape.
    """
    addends, conditions = _addends(graph, 1.0)
    stand_ins = {v: pt.TensorType(v.type.dtype, shape)(f"latent{k}") for k, (v, shape) in enumerate(latents.items())}
    back = {new: old for old, new in stand_ins.items()}
    names = {str(v.name): v for v in back}
    # A condition is a sum, too: of zeros where it holds.
    outside = [pt.switch(g, 0.0, -np.inf) for g in conditions]
    arrays = [*[g for _, g in addends], *outside]
    reduced = [_reduced(g, names) for g in substitute(arrays, stand_ins)]
    if not any(r is not None for r in reduced):
        return None
    sums: list[Any] = [
        pt.sum(g) if r is None else substitute([r], back)[0] for g, r in zip(arrays, reduced, strict=True)
    ]
    terms = [s if c == 1 else c * s for (c, _), s in zip(addends, sums, strict=False)]
    total: Any = pt.add(*terms) if len(terms) > 1 else terms[0]
    holds = [pt.ge(s, 0.0) for s in sums[len(addends) :]]
    return pt.switch(pt.all(pt.stack(holds)), total, -np.inf) if holds else total


def _addends(graph: Any, factor: float) -> tuple[list[_Addend], list[Any]]:
    """c and x of Σ c Σᵢ xᵢ, x an array or a number; and the conditions outside of which all of it is −∞."""
    node = graph.owner
    if node is None:
        return [(factor, graph)], []
    if isinstance(node.op, Sum):
        inner = node.inputs[0]
        whole = node.op.axis is None or len(node.op.axis) == inner.type.ndim
        return [(factor, inner if whole else graph)], []
    if applies(node, ps.Switch) and factor == 1 and constant_number(node.inputs[2]) == -np.inf:
        terms, conditions = _addends(node.inputs[1], factor)
        return terms, [*conjuncts(node.inputs[0]), *conditions]
    weights = coefficients(node)
    if weights is None or applies(node, ps.Cast):
        return [(factor, graph)], []
    parts = [_addends(i, c * factor) for c, i in zip(weights, node.inputs, strict=True) if c]
    return [t for terms, _ in parts for t in terms], [g for _, conditions in parts for g in conditions]


def _reduced(graph: Any, latents: Mapping[str, Any]) -> Any:
    """The sum of an array over its distinct arguments, or None where they are not few enough."""
    if None not in graph.type.shape and np.prod(graph.type.shape, dtype=int) < LONG:
        return None
    try:
        with np.errstate(all="ignore"):
            value, conditions = separate(graph, latents)
            rows = int(np.prod(value.shape, dtype=int))
            statistics = reduced_terms(value, conditions, latents, _as_it_is, most=rows // FEWER)
    except (NotAdditive, DataError):  # what is not allowed says so when it is evaluated
        return None
    if rows < LONG or not all(s.is_finite and s.largest * FEWER <= rows for s in statistics.values()):
        return None
    return log_density(statistics, latents, _as_it_is)


def _as_it_is(name: str, entries: np.ndarray) -> np.ndarray:
    """Entries by the numbers that they have: there are no labels to come."""
    return entries
