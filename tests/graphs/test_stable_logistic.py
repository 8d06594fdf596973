"""Logarithms of logistic functions, held against SciPy where rounding leaves nothing of the function itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from scipy import special, stats

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.stable_logistic import log1mexp, softplus, stable_logistics
from bayeskit.model.unconstrained import Unconstrained

X = np.array([-800.0, -40.0, -36.0, -1.0, 0.0, 2.0, 37.0, 38.0, 800.0])


def value_and_slope(graph: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    (graph,) = stable_logistics([graph])
    both = compile_small([x], [graph, pytensor.grad(graph.sum(), x)])(X)
    return both[0], both[1]


def test_softplus_is_that_of_scipy_at_any_number() -> None:
    np.testing.assert_allclose(softplus(X), np.logaddexp(0, X), rtol=1e-15)
    assert np.array_equal(softplus(np.array([np.inf, -np.inf])), [np.inf, 0.0])
    assert np.isnan(softplus(np.array([np.nan]))).all()


def test_log1mexp_is_accurate_at_either_end() -> None:
    """By the first terms of its series, log(−x) + x/2 and −exp x, at the ends, and as it is written between."""
    small, large = -np.array([1e-300, 1e-20, 1e-9]), -np.array([40.0, 300.0, 800.0])
    np.testing.assert_allclose(log1mexp(small), np.log(-small) + small / 2, rtol=1e-15)
    np.testing.assert_allclose(log1mexp(large), -np.exp(large), rtol=1e-15)
    between = -np.geomspace(0.1, 3.0, 30)
    np.testing.assert_allclose(log1mexp(between), np.log(1 - np.exp(between)), rtol=1e-13)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.array_equal(log1mexp(np.array([-np.inf, 0.0])), [0.0, -np.inf])
        assert np.isnan(log1mexp(np.array([np.nan, 0.1]))).all()
    x = pt.dvector("x")
    assert np.array_equal(compile_small([x], pt.log1mexp(x))(between), log1mexp(between))


@pytest.mark.parametrize(
    ("written", "sign"),
    [
        (lambda x: pt.log(pt.sigmoid(x)), 1),
        (lambda x: pt.log1p(-pt.sigmoid(x)), -1),
        (lambda x: pt.log(1 - pt.sigmoid(x)), -1),
        (lambda x: pt.log(pt.sigmoid(x)[::-1])[::-1], 1),
        (lambda x: pt.log((1 - pt.sigmoid(x))[None])[0], -1),
    ],
)
def test_logarithms_hold_where_the_function_is_rounded(written: Any, sign: int) -> None:
    x = pt.dvector("x")
    value, slope = value_and_slope(written(x), x)
    np.testing.assert_allclose(value, special.log_expit(sign * X), rtol=1e-14)
    np.testing.assert_allclose(slope, sign * special.expit(-sign * X), rtol=1e-14)


def test_what_is_no_logistic_function_is_left() -> None:
    x = pt.dvector("x")
    p = pt.sigmoid(x)
    for graph in (pt.log(2 * p), pt.log(2 - p), pt.log1p(p), pt.eq(p, 1)):
        (left,) = stable_logistics([graph])
        assert left is graph


@pytest.mark.parametrize("observed", [np.array([0, 1] * 5)[:9], np.ones(9, dtype=int), np.zeros(9, dtype=int)])
def test_labels_with_a_logit_of_any_size_have_a_density(observed: np.ndarray) -> None:
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X * pm.Normal("w", 0.0, 2.0), observed=observed)
    space = Unconstrained(model)
    expected = stats.norm(0, 2).logpdf(1.0) + special.log_expit(np.where(observed, X, -X)).sum()
    assert space.log_density(np.ones((1, 1)))[0] == pytest.approx(expected, rel=1e-14)
    value, slope = space.value_and_gradient(np.ones(1))
    assert value == pytest.approx(expected, rel=1e-14)
    assert slope[0] == pytest.approx(np.sum(X * (observed - special.expit(X))) - 0.25, rel=1e-12)
    assert sum("softplus" in str(v.owner.op).lower() for v in ancestors([space.graph]) if v.owner) == 1


def test_counts_of_trials_with_a_logit_of_any_size_have_a_density() -> None:
    counts = np.array([0, 3, 5, 2, 1, 4, 0, 5, 5])
    with pm.Model() as model:
        pm.Binomial("y", 5, pm.math.invlogit(X * pm.Normal("w", 0.0, 2.0)), observed=counts)
    expected = np.sum(np.log(special.comb(5, counts)))
    expected += np.sum(counts * special.log_expit(X) + (5 - counts) * special.log_expit(-X))
    found = Unconstrained(model).log_density(np.ones((1, 1)))[0]
    assert found == pytest.approx(expected + stats.norm(0, 2).logpdf(1.0), rel=1e-13)


def test_a_logit_that_is_no_number_has_no_density() -> None:
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pt.log(pm.Normal("w", 0.0, 2.0)) * np.ones(2), observed=[0, 1])
    assert not np.isfinite(Unconstrained(model).log_density(-np.ones((1, 1)))[0])
