r"""How much the log density of sums may be off for the rounding of the sums, as a graph.

Sums of many rows are made in double precision, block by block. A mean m is right to ε |m|, a sum of squares and
products S to some ε √(S_jj S_kk), so that

.. math:: w \, n \, (a + m^\top g)^2 + w \, g^\top S g

is right to :math:`ε w [2 n |a + m^\top g| (|a| + |m|^\top |g|) + C (\sum_j |g_j| \sqrt{S_{jj}})^2]`: of rows about a
mean that is large beside their spread, and of a regression that explains most of them, that is more than the ε of the
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.row_sums.reduced_graph import Held, columns_of_root, held, means_over_root, rows_over_root
from bayeskit.row_sums.statistics import RowStatistic

__all__ = ["rounding_of_sums"]

EPSILON = float(np.finfo(float).eps)
PRODUCTS = 32.0  # of sums of products; 5 was found of 60,000 rows, whose blocks have up to 32,768


def rounding_of_sums(
    statistics: Mapping[str, RowStatistic], latents: Mapping[str, Any], unpack: Callable[[str, np.ndarray], np.ndarray]
) -> Any:
    """A scalar graph of ``latents``, in nats; the arguments are those of the log density."""
    every = held(statistics, latents, unpack)
    found = [_ROUNDINGS[one.recipe.kind](one) for one in every if one.recipe.kind != "condition"]
    return EPSILON * pt.add(*found, pt.constant(0.0))


def _outer(one: Held) -> Any:
    return 1.0 if one.recipe.outer is None else pt.abs(one.graph(one.recipe.outer))


def _of_sum(one: Held) -> Any:
    return pt.sum(pt.constant(np.abs(one.total)) * _outer(one))


def _of_linear(one: Held) -> Any:
    assert one.mean is not None
    rows = pt.constant(np.abs(one.mean))
    return pt.sum(pt.dot(rows, pt.abs(one.graph(one.recipe.vector))) * _outer(one))


def _of_square(one: Held) -> Any:
    assert one.mean is not None and one.scatter is not None
    sd = np.sqrt(np.maximum(np.einsum("uii->ui", one.scatter), 0)).astype(float)
    middle: Any = pt.constant(0.0)
    size: Any = pt.constant(0.0)
    spread: Any = pt.constant(0.0)
    start = 0
    for number, function, vector in one.recipe.inner:
        graph = one.graph(function)
        if number is not None:
            middle, size = middle + number * graph, size + pt.abs(number * graph)
            continue
        g: Any = np.ones(1) if vector is None else one.graph(vector)
        width = 1 if vector is None else g.type.shape[0]
        mean, deviation = one.mean[:, start : start + width], sd[:, start : start + width]
        middle = middle + pt.dot(mean, g) * graph
        size = size + pt.dot(np.abs(mean), abs(g)) * abs(graph)
        spread = spread + pt.dot(deviation, abs(g)) * abs(graph)
        start += width
    return pt.sum(_outer(one) * (2.0 * one.total * pt.abs(middle) * size + PRODUCTS * spread**2))


def _of_vectors(one: Held) -> Any:
    """The same of rows that are divided by L, with |L⁻¹ m| for the size of a mean."""
    assert one.mean is not None and one.scatter is not None
    middle, size = (
        means_over_root(one),
        rows_over_root(one, pt.constant(np.sqrt(one.total)[:, None] * np.abs(one.mean))),
    )
    deviations = rows_over_root(one, pt.constant(columns_of_root(one)))
    return _outer(one) * (2.0 * pt.sum(pt.abs(middle) * pt.abs(size)) + PRODUCTS * pt.sum(pt.sqr(deviations)))


_ROUNDINGS: dict[str, Callable[[Held], Any]] = {
    "sum": _of_sum,
    "linear": _of_linear,
    "square": _of_square,
    "vectors": _of_vectors,
}
