"""Gradients along the wanted paths only are those that PyTensor and central differences give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import disconnected_grad
from pytensor.graph.traversal import toposort

from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.graphs.gradient import gradient

A = np.random.default_rng(0).uniform(0.5, 2.0, (4, 3))
COUNTS = np.arange(3)

# Functions of a vector x of length 3 and a scalar s, both positive.
GRAPHS: dict[str, Callable[[Any, Any], Any]] = {
    "Normal": lambda x, s: -0.5 * ((-x + A) / s) ** 2 - pt.log(s) - 0.5 * np.log(2 * np.pi),
    "Normal, by precision": lambda x, s: pt.sqrt(s) * pt.sqr(pt.dot(A, x)) + pt.log(pt.sqrt(s) * x[0]),
    "stretched": lambda x, s: (x[:, None] * x[None, :] / s + s) * x,
    "one length stretched": lambda x, s: pt.mul(pt.alloc(x[:1], 4), A[:, 0]) + s,
    "powers": lambda x, s: x**3 + s**0.5 + x**-1.5 + x ** pt.as_tensor(COUNTS) + s**x + 2.0**s,
    "exponentials": lambda x, s: pt.exp(-x / s) + pt.log1p(x * s) + pt.reciprocal(s * x) + pt.expm1(x),
    "choice": lambda x, s: pt.switch(x > 1, x * s, -x) + pt.switch(pt.lt(s, 0), s, pt.log(x)),
    "fill": lambda x, s: pt.fill(A * x, s) * pt.fill(x, 2.0),
    "moved": lambda x, s: pt.stack([x.dimshuffle(0), x[::-1], s * x]).T.dimshuffle(1, "x", 0)[:2],
    "indexed": lambda x, s: pt.set_subtensor(x[np.array([0, 1, 1, 2])][1:3], s)[None] * s,
    "sums": lambda x, s: pt.sum(x) * pt.prod(x) + pt.cumsum(x) * pt.max(x * s) - pt.mean(A * x, axis=0),
    "special": lambda x, s: pt.gammaln(x) + pt.sigmoid(s * x) + pt.abs(x - 1) + pt.softplus(x) + pt.maximum(x, s),
    "matrices": lambda x, s: pt.linalg.solve(pt.diag(x) + s * np.ones((3, 3)), x) + pt.linalg.cholesky(pt.diag(x)),
    "whole numbers between": lambda x, s: pt.cast(pt.floor(x), "int64") * s + pt.cast(x, "float64"),
    "held": lambda x, s: disconnected_grad(x) * s + x * disconnected_grad(s),
    "one of two absent": lambda x, s: pt.log(x) * x.shape[0],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_agrees_with_pytensor(name: str) -> None:
    x, s = pt.vector("x", dtype="float64", shape=(3,)), pt.scalar("s", dtype="float64")
    total = pt.sum(GRAPHS[name](x, s))
    found = compile_small([x, s], gradient(total, [x, s]))
    reference = pytensor.function(
        [x, s],
        pytensor.grad(total, [x, s], disconnected_inputs="ignore"),
        mode=small_mode(),
        on_unused_input="ignore",
    )
    value = compile_small([x, s], total)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        at, scale = rng.uniform(0.3, 2.5, 3), rng.uniform(0.3, 2.5)
        one, two = found(at, scale), reference(at, scale)
        for mine, theirs in zip(one, two, strict=True):
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
        if name != "held":
            slopes = [(value(at + e, scale) - value(at - e, scale)) / 2e-6 for e in 1e-6 * np.eye(3)]
            np.testing.assert_allclose(one[0], slopes, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(
                one[1], (value(at, scale + 1e-6) - value(at, scale - 1e-6)) / 2e-6, rtol=1e-6, atol=1e-6
            )


def test_a_node_within_the_graph() -> None:
    x = pt.vector("x", dtype="float64", shape=(3,))
    square = x**2
    total = pt.sum(3.0 * square + x * square)
    inner, outer = compile_small([x], gradient(total, [square, x]))(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(inner, [4.0, 5.0, 6.0])
    np.testing.assert_allclose(outer, [9.0, 24.0, 45.0])


def test_constants_are_not_differentiated() -> None:
    x = pt.scalar("x", dtype="float64")
    total = pt.sum(pt.log(pt.as_tensor(A)) * x ** pt.as_tensor(A))
    reference: Any = pytensor.grad(total, x)
    assert len(list(toposort(gradient(total, [x])))) < len(list(toposort([reference])))
