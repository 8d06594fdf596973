"""Groups with chances of their own: evidence and posterior against SciPy, and against the book that has the table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import minimize

import bayeskit as bk
from bayeskit.datasets import Example, example_data
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

GROUPS = load_model("beta_binomial_groups")
RATS = example_data(Example("rat_tumours", {"successes": "tumours", "trials": "rats"}), GROUPS.VARIABLES)
TUMOURS, TRIALS = RATS["successes"].to_numpy(), RATS["trials"].to_numpy()


def log_likelihood(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Of the beta-binomial counts; by differences of log Beta functions, which SciPy has without cancellation."""
    a, b = np.asarray(alpha)[..., None], np.asarray(beta)[..., None]
    terms = special.betaln(a + TUMOURS, b + TRIALS - TUMOURS) - special.betaln(a, b)
    return np.sum(terms + np.log(special.binom(TRIALS, TUMOURS)), axis=-1)


@pytest.mark.slow
def test_posterior_against_a_dense_grid_and_the_book() -> None:
    """The trapezoid rule over the log odds of the mean and the logarithm of the spread.

    The posterior means of alpha and beta are 2.4 and 14.3 in Bayesian Data Analysis, section 5.3, by the same prior
    without its ends.
    """
    odds, log_spread = np.linspace(-3.2, -0.5, 181), np.linspace(np.log(1e-2), 0, 401)
    m, s = special.expit(odds)[:, None], np.exp(log_spread)
    alpha, beta = m / s**2, (1 - m) / s**2
    log = log_likelihood(alpha, beta) + np.log(m * (1 - m)) + np.log(s) - np.log(0.99)
    cells = np.log(odds[1] - odds[0]) + np.log(log_spread[1] - log_spread[0])
    post = bk.infer(GROUPS.build(RATS), random_seed=1, progressbar=False)
    assert post.method == "quadrature"
    assert float(post.log_evidence) == pytest.approx(special.logsumexp(log) + cells, abs=1e-7)
    share = special.softmax(log)
    means = np.array([np.sum(share * alpha), np.sum(share * beta)])
    assert means.round(1).tolist() == [2.4, 14.3]
    drawn, trials = post.tree["posterior"]["mean"], post.tree["posterior"]["spread"] ** -2
    assert [float((p * trials).mean()) for p in (drawn, 1 - drawn)] == pytest.approx(means, rel=0.03)
    current = np.sum(share * (alpha + 4) / (alpha + beta + 14))  # of the current experiment, 4 of 14
    assert post.marginal("theta").mean()[-1] == pytest.approx(current, abs=1e-7)


def test_log_joint_against_scipy() -> None:
    model = GROUPS.build(RATS, mean_alpha=2.0, mean_beta=5.0, largest=100.0)
    m, s, theta = 0.2, 0.3, np.random.default_rng(3).uniform(0.05, 0.4, size=71)
    a, b = m / s**2, (1 - m) / s**2
    expected = stats.beta(2, 5).logpdf(m) - np.log(0.9) + stats.beta(a, b).logpdf(theta).sum()
    expected += stats.binom(TRIALS, theta).logpmf(TUMOURS).sum()
    point = {"mean": np.array(m), "spread": np.array(s), "theta": theta}
    assert LogJoint.from_model(model).logp(point) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_empirical_bayes_is_the_maximum_of_the_beta_binomial_likelihood() -> None:
    found = bk.maximize_evidence(GROUPS.build(RATS), random_seed=1).point
    fit = minimize(
        lambda x: -log_likelihood(*np.exp(x)), np.log([1.4, 8.6]), method="Nelder-Mead", options={"fatol": 1e-10}
    )
    alpha, beta = np.exp(fit.x)
    assert float(found["mean"]) == pytest.approx(alpha / (alpha + beta), abs=1e-5)
    assert float(found["spread"]) == pytest.approx((alpha + beta) ** -0.5, abs=1e-5)
