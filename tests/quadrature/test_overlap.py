"""Marginals of what is narrow given what remains: a mixture over the nodes of the rule would be a comb."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk

OBSERVED, ERROR = 1.0, 2.0
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def near_a_student(sd: float) -> pm.Model:
    with pm.Model() as model:
        a = pm.StudentT("a", nu=4, mu=0, sigma=1)
        pm.Normal("y", pm.Normal("b", a, sd), ERROR, observed=OBSERVED)
    return model


def near_a_sum(sd: float) -> pm.Model:
    with pm.Model() as model:
        total = pm.StudentT("a", nu=30, mu=0, sigma=1) + pm.StudentT("c", nu=31, mu=0, sigma=1)
        pm.Normal("y", pm.Normal("b", total, sd), ERROR, observed=OBSERVED)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.5, 0.1, 0.05, 0.01])
def test_a_number_near_what_remains_has_the_density_of_its_integral(sd: float) -> None:
    """b given a is Normal, and the sum over a grid of a ten times finer than b is wide is its density."""
    dist = bk.infer(near_a_student(sd), random_seed=1, progressbar=False).marginals["b"].dist
    a = np.arange(-40.0, 40.0, sd / 3)
    weights = stats.t.pdf(a, 4) * stats.norm.pdf(OBSERVED, a, np.hypot(sd, ERROR))
    precision = sd**-2 + ERROR**-2
    given = stats.norm((a / sd**2 + OBSERVED / ERROR**2) / precision, precision**-0.5)
    x = np.linspace(-3.0, 4.0, 41)[:, None]
    weights /= weights.sum()
    np.testing.assert_allclose(dist.cdf(x.ravel()), given.cdf(x) @ weights, rtol=0, atol=1e-7)
    np.testing.assert_allclose(dist.pdf(x.ravel()), given.pdf(x) @ weights, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.1, 1e-3])
def test_where_too_many_nodes_would_be_needed_there_is_no_closed_form(sd: float) -> None:
    post = bk.infer(near_a_sum(sd), random_seed=1, progressbar=False)
    total = 0.01 * np.arange(-4000, 4001)
    of_sum = np.convolve(stats.t.pdf(total, 30), stats.t.pdf(total, 31), "same") * 0.01
    kernel = stats.norm.pdf(np.arange(-80, 81) * 0.01, 0, sd)
    of_b = np.convolve(of_sum, kernel / kernel.sum(), "same") * stats.norm.pdf(OBSERVED, total, ERROR)
    cumulative = np.cumsum(of_b) / of_b.sum() - of_b / of_b.sum() / 2
    if "b" in post.marginals:
        assert sd == 0.1
        x = np.linspace(-3.0, 4.0, 41)
        np.testing.assert_allclose(post.marginals["b"].cdf(x), np.interp(x, total, cumulative), rtol=0, atol=1e-5)
    else:
        assert sd == 1e-3
    draws = np.asarray(post.tree["posterior"]["b"]).ravel()
    assert stats.ks_1samp(draws, lambda x: np.interp(x, total, cumulative)).pvalue > 1e-4


def test_the_quantiles_of_rosenbrocks_banana() -> None:
    """Of b near a², whose nodes lie wider apart than b given a is wide."""
    (banana,) = bk.reference_posteriors(["rosenbrock"])
    a = np.linspace(-14.0, 16.0, 200_001)
    weights = stats.norm.pdf(a, 1, 2) * stats.norm.pdf(1, a**2, np.hypot(10, 0.1))
    precision = 100 + 0.01
    given = stats.norm((100 * a**2 + 0.01) / precision, precision**-0.5)
    for share in SHARES:
        quantile = banana.summary().loc["b", f"q{100 * share:g}"]
        assert given.cdf(quantile) @ weights / weights.sum() == pytest.approx(share, abs=1e-7)
