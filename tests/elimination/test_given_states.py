"""Integrated out given finite variables, which are summed out last: against sums and integrals of SciPy's densities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk

SPIKE, SLAB = 0.01, 2.0
ROWS, P = 15, 3
X = np.random.default_rng(3).normal(size=(ROWS, P))
Y = X @ [1.0, 0.0, -0.5] + np.random.default_rng(4).normal(size=ROWS)
EVERY = np.array(list(itertools.product([0, 1], repeat=P)))
SD = np.where(EVERY, SLAB, SPIKE)
FLAT = np.full(len(EVERY), -P * math.log(2))


def spike_and_slab(share: float | None = 0.5) -> pm.Model:
    with pm.Model() as model:
        z = pm.Bernoulli("z", pm.Beta("share", 1.0, 3.0) if share is None else share, shape=P)
        b = pm.Normal("b", 0.0, z * SLAB + (1 - z) * SPIKE, shape=P)
        noise = pm.HalfNormal("noise", 1.0)
        pm.Normal("y", X @ b, noise, observed=Y)
        pm.Deterministic("largest", pm.math.max(b))
    return model


def log_normal(y: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """The log density of y by each covariance, with a mean of zero."""
    squares = np.sum(
        y * np.linalg.solve(covariances, np.broadcast_to(y[:, None], (*covariances.shape[:-1], 1)))[..., 0], -1
    )
    return -0.5 * (len(y) * math.log(2 * math.pi) + np.linalg.slogdet(covariances)[1] + squares)


def integral(y: np.ndarray, log_prior: np.ndarray, weigh: Callable[[float], np.ndarray]) -> tuple[float, np.ndarray]:
    """The log evidence, and the mean of what is weighed, by 160 Gauss-Legendre nodes over the scale of the noise."""
    nodes, weights = np.polynomial.legendre.leggauss(160)
    scales, weights = 0.05 + 3.5 * (nodes + 1), weights * 3.5
    between = [(X * sd**2) @ X.T for sd in SD]
    covariances = np.array(between) + scales[:, None, None, None] ** 2 * np.eye(ROWS)
    logs = log_normal(y, covariances) + log_prior + (stats.halfnorm.logpdf(scales) + np.log(weights))[:, None]
    value = special.logsumexp(logs)
    share = np.exp(logs - value)
    return float(value), sum(np.tensordot(p, weigh(s), axes=(0, 0)) for p, s in zip(share, scales, strict=True))


def means(noise: float) -> np.ndarray:
    """Of the weights given each z and the scale of the noise."""
    precision = X.T @ X / noise**2 + np.eye(P) / SD[:, None, :] ** 2
    return np.linalg.solve(precision, np.broadcast_to((X.T @ Y / noise**2)[:, None], (len(EVERY), P, 1)))[..., 0]


@pytest.fixture(scope="module")
def posterior() -> bk.Posterior:
    return bk.infer(spike_and_slab(), draws=1000, random_seed=1)


@pytest.mark.slow
def test_a_spike_and_a_slab_are_summed_over_after_the_weights(posterior: bk.Posterior) -> None:
    steps = [(s.variables, s.family, s.given) for s in posterior.plan.eliminated]
    assert steps == [(("b",), "normal", ("z", "noise")), (("z",), "categorical", ("noise",))]
    assert posterior.plan.remaining == ("noise",)
    both = integral(Y, FLAT, lambda s: np.hstack([EVERY, means(s)]))
    assert posterior.method == posterior.log_evidence.label == "quadrature"
    assert abs(posterior.log_evidence.value - both[0]) < posterior.log_evidence.error + 1e-9
    assert posterior.log_evidence.error < 1e-7
    np.testing.assert_allclose(posterior.marginal("z").mean(), both[1][:P], atol=1e-7)
    draws = posterior.tree["posterior"]
    weights = draws["b"].values.reshape(-1, P)
    np.testing.assert_allclose(weights.mean(axis=0), both[1][P:], atol=5 * weights.std(axis=0).max() / 31)
    np.testing.assert_allclose(draws["largest"].values.ravel(), weights.max(axis=1))
    # Each weight has the width of its own indicator.
    z = draws["z"].values.reshape(-1, P)
    assert np.abs(weights[z == 0]).max() < 6 * SPIKE
    assert weights[z[:, 0] == 1, 0].std() > 10 * SPIKE


@pytest.mark.slow
def test_probabilities_of_the_indicators_are_those_of_the_marginal(posterior: bk.Posterior) -> None:
    found = bk.states(posterior, variable="z", draws=400).responsibilities()
    probability = found["probability"].sel(state=1).values
    np.testing.assert_allclose(probability, posterior.marginal("z").mean(), atol=0.05)


@pytest.mark.slow
def test_the_share_of_slabs_goes_with_the_weights() -> None:
    post = bk.infer(spike_and_slab(None), draws=400, random_seed=2)
    assert post.plan.remaining == ("noise",)
    number = EVERY.sum(axis=1)
    log_prior = special.betaln(1 + number, 3 + P - number) - special.betaln(1, 3)
    expected, slabs = integral(Y, log_prior, lambda _: number)
    assert abs(post.log_evidence.value - expected) < post.log_evidence.error + 1e-9
    share = post.tree["posterior"]["share"].values
    assert float(share.mean()) == pytest.approx(float(1 + slabs) / (4 + P), abs=5 * share.std() / 20)


@pytest.mark.slow
def test_other_data_are_summed_anew(posterior: bk.Posterior) -> None:
    moved = bk.infer(posterior.analysis.with_data({"y": np.roll(Y, 1)}), draws=100, random_seed=1)
    expected, _ = integral(np.roll(Y, 1), FLAT, lambda _: EVERY)
    assert abs(moved.log_evidence.value - expected) < moved.log_evidence.error + 1e-9


def test_indicators_of_rows_go_before_the_weights_that_would_couple_them() -> None:
    x = np.random.default_rng(5).normal(size=20)
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.0, 5.0, shape=2)
        noise = pm.HalfNormal("noise", 2.0)
        wide = pm.HalfNormal("wide", 10.0)
        far = pm.Normal("far", 0.0, 10.0)
        outlier = pm.Bernoulli("outlier", pm.Beta("share", 1.0, 5.0), shape=20)
        mean = pm.math.switch(outlier, far, weights[0] + weights[1] * x)
        pm.Normal("y", mean, pm.math.switch(outlier, wide, noise), observed=1 + 2 * x)
    plan = bk.explain(model)
    assert [(s.variables, s.family) for s in plan.eliminated] == [(("outlier",), "categorical")]
    assert plan.remaining == ("weights", "noise", "wide", "far", "share")


@pytest.mark.slow
def test_a_few_rows_of_two_components_leave_their_common_scale() -> None:
    y = np.array([-1.2, -0.8, 0.9])
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.3, shape=3)
        means = pm.Normal("means", 0.0, 2.0, shape=2)
        scale = pm.HalfNormal("scale", 1.0)
        pm.Normal("y", means[z], scale, observed=y)
    post = bk.infer(model, draws=100, random_seed=1)
    assert post.plan.remaining == ("scale",)
    log_prior = np.log(np.where(EVERY, 0.3, 0.7)).sum(axis=1)
    same = EVERY[:, :, None] == EVERY[:, None, :]

    def density(s: float) -> float:
        logs = log_normal(y, 4.0 * same + s**2 * np.eye(3))
        return float(np.exp(special.logsumexp(log_prior + logs) + stats.halfnorm.logpdf(s)))

    expected = math.log(integrate.quad(density, 0, 6, epsabs=0, epsrel=1e-11)[0])
    assert abs(post.log_evidence.value - expected) < post.log_evidence.error + 1e-9
