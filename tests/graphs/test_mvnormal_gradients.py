"""Multivariate Normals whose covariance depends on parameters: value, gradient, and what the gradient costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.traversal import toposort
from scipy import stats

import bayeskit as bk
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.mvnormal_gradients import cheap_gradients
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.rewriting import inline
from bayeskit.sampling.native import density_graphs

SIZE = 20
Y = np.random.default_rng(1).normal(size=(3, SIZE))


def log_density(correlation: Any, observed: np.ndarray) -> Any:
    covariance = pt.eye(SIZE) + correlation * (np.ones((SIZE, SIZE)) - np.eye(SIZE))
    return pt.sum(pm.logp(pm.MvNormal.dist(np.zeros(SIZE), covariance), observed))


@pytest.mark.parametrize("observed", [Y[0], Y], ids=["one row", "three rows"])
def test_value_and_gradient_are_those_of_scipy(observed: np.ndarray) -> None:
    r = pt.scalar("r")
    cheap = cheap_gradients(log_density(r, observed))
    function = compile_small([r], inline([cheap, pytensor.grad(cheap, r)]))

    def expected(correlation: float) -> float:
        covariance = np.eye(SIZE) * (1 - correlation) + correlation
        return float(np.sum(stats.multivariate_normal(np.zeros(SIZE), covariance).logpdf(observed)))

    value, gradient = function(np.array(0.4))
    assert value == pytest.approx(expected(0.4), rel=1e-12)
    assert gradient == pytest.approx((expected(0.4 + 1e-5) - expected(0.4 - 1e-5)) / 2e-5, rel=1e-7)


@pytest.mark.parametrize("correlation", [-0.5, 1.5, np.nan])
def test_what_is_not_positive_definite_is_refused_as_by_pymc(correlation: float) -> None:
    r = pt.scalar("r")
    plain = log_density(r, Y[0])
    for graph in (plain, cheap_gradients(plain)):
        with pytest.raises(ParameterValueError, match="posdef"):
            compile_small([r], inline([graph]))(np.array(correlation))


def test_the_gradient_of_a_large_one_is_one_node() -> None:
    """The check that the pivots are positive has a gradient of zeros, not to be carried through N systems."""
    size = 200
    with pm.Model() as model:
        scale, noise = pm.HalfNormal("scale", 1.0), pm.HalfNormal("noise", 1.0)
        process = pm.gp.Marginal(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, 2.0))
        process.marginal_likelihood("y", np.arange(1.0 * size)[:, None], np.ones(size), sigma=noise, jitter=0.0)
    collapsed = bk.collapse(model)
    kinds = [type(core_op(n)).__name__ for n in toposort(density_graphs(collapsed, collapsed.value_vars))]
    assert kinds.count("Terms") == 1
    assert not [k for k in kinds if "Solve" in k or "Cholesky" in k]
