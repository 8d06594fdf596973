"""Bounds of degrees, against differences along random lines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import OPERATIONS, evaluate, graphs, leaf
from scipy.special import comb

from bayeskit.graphs.polynomial_degree import degrees

RNG = np.random.default_rng(4)
X, OTHER = leaf("x"), leaf("y")
START, STEP, FIXED = RNG.normal(size=(3, 3, 3))

EXPECTED = {
    **dict.fromkeys(["multiply", "square", "product", "product of batches"], 2.0),
    **dict.fromkeys(["cube"], 3.0),
    **dict.fromkeys(["exponential", "positive part", "absolute value", "root of the square", "reciprocal"], math.inf),
    **dict.fromkeys(["cast", "truncate", "choose by the entries", "check", "softmax", "solve against it"], math.inf),
    **dict.fromkeys(["add", "subtract", "negate", "shift", "scale", "fill", "transpose", "reverse"], 1.0),
    **dict.fromkeys(["reshape", "allocate", "diagonal", "sum", "divide by a constant", "pick rows", "join rows"], 1.0),
    **dict.fromkeys(["choose by a constant", "stack entries", "set a row", "set entries", "sum of rows"], 1.0),
    **dict.fromkeys(["cumulative sum", "product with a constant", "solve", "one row"], 1.0),
    **dict.fromkeys(["add to a row", "add to a column", "add to entries"], 1.0),
    **dict.fromkeys(["to the power of zero"], 0.0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_degree_of_one_operation(name: str) -> None:
    graph = OPERATIONS[name](X, X)
    assert degrees([graph], {X: 1.0}).get(graph, 0.0) == EXPECTED[name]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(graph=graphs([X, OTHER]))
def test_differences_beyond_the_degree_vanish(graph: Any) -> None:
    bounds = degrees([graph], {X: 1.0})
    most = int(max((d for d in bounds.values() if math.isfinite(d)), default=0))
    points = [evaluate(graph, {X: START + t * STEP, OTHER: FIXED}) for t in np.linspace(-1, 1, most + 2)]
    size = 1.0
    for var in points[0]:
        degree = bounds.get(var, 0.0)
        if math.isinf(degree) or not var.type.dtype.startswith("float"):
            continue
        order = int(degree) + 1
        values = np.array([p[var] for p in points[: order + 1]], dtype=float)
        # What OTHER alone makes infinite or not a number is so everywhere; what is huge has no digits to compare.
        usable = np.all(np.abs(values) < 1e100, axis=0)
        values = np.where(usable, values, 0.0)
        signs = [(-1) ** k * comb(order, k) for k in range(order + 1)]
        narrow = "float32" in {v.type.dtype for v in points[0]}
        size = np.max(np.abs(values), initial=size)  # of anything so far: what is left of a difference has its error
        assert np.all(np.abs(np.tensordot(signs, values, axes=1)) <= (1e-5 if narrow else 1e-9) * size * 2.0**order)
