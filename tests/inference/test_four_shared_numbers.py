"""Effects of groups integrated one by one given four numbers, over which quadrature goes, against dense integration."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.results.records import Posterior

R = np.random.default_rng(7)
GROUPS = 4
GROUP = np.repeat(np.arange(GROUPS), 3)
X = R.normal(size=(len(GROUP), 2))
TRIALS = R.integers(3, 9, size=len(GROUP))
HITS = R.binomial(TRIALS, special.expit(0.3 + X @ [0.7, -0.5] + 0.8 * R.normal(size=GROUPS)[GROUP]))
SHARED = ("a", "w", "s")


def mixed() -> pm.Model:
    """A logistic regression with an intercept for each group."""
    with pm.Model() as model:
        a, w, s = pm.Normal("a", 0, 2), pm.Normal("w", 0, 2, shape=2), pm.LogNormal("s", -0.5, 0.5)
        b = pm.Normal("b", 0, s, shape=GROUPS)
        pm.Binomial("y", TRIALS, logit_p=a + X @ w + b[GROUP], observed=HITS)
    return model


@functools.cache
def answered() -> Posterior:
    return bk.infer(mixed(), random_seed=4)


def dense() -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, and mean and sd of the intercept and the weights: sums over a, w, log s and the effects in sds.

    Steps are some 0.8 of the sds that the intercept and the weights have where the effects are nothing: of half as long
    ones the evidence is the same to 1e-6.
    """
    axes = [np.arange(-4.4, 2.41, 0.25), np.arange(-2.6, 2.81, 0.25), np.arange(-2.2, 2.21, 0.25)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    log_s, z, volume = np.arange(-3.75, 2.8, 0.25), np.linspace(-7, 7, 41), 0.25**4
    prior = stats.norm.logpdf(points, 0, 2).sum(axis=1) + np.log(volume)
    choices = special.gammaln(TRIALS + 1) - special.gammaln(HITS + 1) - special.gammaln(TRIALS - HITS + 1)
    odds, hits = np.exp(points[:, :1] + points[:, 1:] @ X.T), points[:, :1] + points[:, 1:] @ X.T
    table = []
    for log_scale in log_s:
        s = np.exp(log_scale)
        total = prior + stats.norm.logpdf(log_scale, -0.5, 0.5) + choices.sum()
        for k in range(GROUPS):
            rows = np.flatnonzero(k == GROUP)
            area: Any = 0.0
            for u in z:  # (1 + e^η) of few trials: their product is a number still
                misses = np.log(1 + odds[:, rows] * np.exp(s * u)) @ TRIALS[rows].astype(float)
                area = area + np.exp(HITS[rows].sum() * s * u - u * u / 2 - misses)
            total = total + hits[:, rows] @ HITS[rows] + np.log(area * (z[1] - z[0]) / np.sqrt(2 * np.pi))
        table.append(total)
    log_mass = np.array(table)
    value = special.logsumexp(log_mass)
    weights = np.exp(log_mass - value).sum(axis=0)
    mean = weights @ points
    return float(value), mean, np.sqrt(weights @ (points - mean) ** 2)


@pytest.mark.slow
def test_the_evidence_and_the_draws_are_those_of_dense_integration() -> None:
    post = answered()
    value, mean, sd = dense()
    assert post.method == post.log_evidence.label == "quadrature"
    assert post.log_evidence.error < 2e-4
    assert abs(float(post.log_evidence) - value) <= post.log_evidence.error + 1e-6
    posterior = post.tree["posterior"].dataset
    draws = np.column_stack([posterior["a"].to_numpy().reshape(-1), posterior["w"].to_numpy().reshape(-1, 2)])
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(len(draws)))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.08)


def test_the_plan_says_what_is_done_and_the_numbers_over_which_it_goes_have_no_closed_marginals() -> None:
    post = answered()
    assert {n for step in post.plan.eliminated for n in step.variables} == {"b"}
    assert set(post.plan.remaining) == set(SHARED)
    assert not post.marginals
    assert post.certificate < 1e-6


def test_sensitivity_goes_by_weights_of_the_draws() -> None:
    # A derivative over small steps of evidences that are known to 1e-4 would have an error of a hundredth.
    table = answered().sensitivity().table
    assert set(table["label"]) == {"estimated"}
    assert table.loc["w.sigma", "error"] < 2e-3
