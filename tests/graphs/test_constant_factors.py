"""Nodes that are a constant times a power of a number, against the graph as it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import Elemwise
from random_graphs import CONSTANT, evaluate, graphs

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.constant_factors import constants_in_front

X = np.random.default_rng(1).uniform(0, 10, size=(30, 1))
WEIGHTS = np.random.default_rng(2).normal(size=(30, 30))
Kernel = Callable[[Any], Any]

KERNELS: dict[str, Kernel] = {
    "exponentiated quadratic": lambda s: pm.gp.cov.ExpQuad(1, s)(X),
    "a number computed": lambda s: pm.gp.cov.ExpQuad(1, pt.exp(s))(X),
    "rational quadratic": lambda s: pm.gp.cov.RatQuad(1, 0.7, s)(X),
    "Matern 5/2": lambda s: pm.gp.cov.Matern52(1, s)(X),
    "exponential": lambda s: pm.gp.cov.Exponential(1, s)(X),
    "periodic": lambda s: pm.gp.cov.Periodic(1, s, 2.0)(X),
    "linear": lambda s: pm.gp.cov.Linear(1, c=s)(X),
    "sum and product": lambda s: (pm.gp.cov.ExpQuad(1, s) * pm.gp.cov.Linear(1, c=0.5) + pm.gp.cov.Matern32(1, s))(X),
    "other points": lambda s: pm.gp.cov.ExpQuad(1, s)(X, X[:25] + 0.1) @ WEIGHTS[:25],
    "shared": lambda s: pm.gp.cov.ExpQuad(1, s)(pytensor.shared(X, shape=X.shape)),
    "cube": lambda s: pt.exp(-(((pt.constant(X) * s) ** 3) ** 2) * 1e-6) * WEIGHTS,
    "maximum of an even power": lambda s: pt.exp(-pt.maximum((pt.constant(WEIGHTS) * s) * s, 0.0)),
    "maximum of an odd power": lambda s: pt.exp(-pt.maximum(pt.constant(WEIGHTS) * s, 0.0)),
    "clipped from above": lambda s: pt.exp(-pt.clip(pt.constant(WEIGHTS) * s * s, 0.0, 1.0)),
    "clipped elsewhere": lambda s: pt.exp(-pt.clip(pt.constant(WEIGHTS) * s * s, 0.5, np.inf)),
    "two degrees": lambda s: pt.exp(-(pt.constant(WEIGHTS) * s + pt.constant(WEIGHTS.T) * s * s)),
    "added in part": lambda s: pt.exp(pt.inc_subtensor((WEIGHTS * s)[3:, :4], (WEIGHTS * s)[2, 2])),
    "shifted in part": lambda s: pt.exp(pt.inc_subtensor((WEIGHTS * s)[3:, :4], 1.5)),
    "shifted": lambda s: pt.exp(-((pt.constant(WEIGHTS) * s + 1.0) ** 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("number", [-1.3, 0.3, 0.9, 40.0])
def test_value_and_gradient_are_unchanged(name: str, number: float) -> None:
    s = pt.scalar("s")
    total = pt.sum(KERNELS[name](s) * WEIGHTS)
    found = constants_in_front(total)
    for one, two in zip(
        compile_small([s], [total, pt.grad(total, s)])(np.array(number)),
        compile_small([s], [found, pt.grad(found, s)])(np.array(number)),
        strict=True,
    ):
        # Distances of zero are zero exactly, and not the rounding of a difference of squares under a square root.
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-6)


def products(graph: Any) -> int:
    """Sums and products of matrices of 30 × 30 that are not constant."""
    return sum(
        isinstance(v.owner.op, Elemwise) and v.type.shape == (30, 30) and not isinstance(v, Constant)
        for v in ancestors([graph])
        if v.owner is not None
    )


def test_a_distance_is_one_product() -> None:
    s = pt.scalar("s")
    total = pt.sum(pm.gp.cov.ExpQuad(1, s)(X))
    assert products(total) > 4
    assert products(constants_in_front(total)) == 2  # the product and its exponential


@pytest.mark.parametrize(
    "name",
    ["maximum of an odd power", "clipped from above", "clipped elsewhere", "two degrees", "shifted", "shifted in part"],
)
def test_what_is_not_homogeneous_is_left_alone(name: str) -> None:
    s = pt.scalar("s")
    total = pt.sum(KERNELS[name](s))
    assert products(constants_in_front(total)) >= products(total) - 1


def test_a_length_scale_for_each_dimension_is_left_alone() -> None:
    s = pt.vector("s", shape=(2,))
    total = pt.sum(pm.gp.cov.ExpQuad(2, s)(np.column_stack([X, X**2])))
    assert constants_in_front(total) is total


NUMBER = pt.scalar("number")
OTHER = pt.scalar("other")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graph=graphs([NUMBER * CONSTANT, CONSTANT / NUMBER, OTHER * CONSTANT], length=4))
def test_random_graphs_keep_their_values(graph: Any) -> None:
    found = constants_in_front(pt.exp(graph)[0, 1])
    for number in (-1.3, 0.7):
        values = {NUMBER: np.array(number), OTHER: np.array(1.9)}
        one = evaluate(graph, values)[graph][0, 1]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(evaluate(found, values)[found], np.exp(one), rtol=1e-6, atol=1e-12)
