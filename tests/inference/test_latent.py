"""A latent Gaussian under other data as a rung of the ladder: evidence, draws, and what is left to NUTS."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError
from bayeskit.inference import latent
from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.conventions import audit
from tests.latent_oracles import COUNTS, LIKELIHOODS, STEPS, by_grid, counts


@pytest.fixture(scope="module")
def posterior() -> bk.Posterior:
    return bk.infer(counts(), random_seed=1, draws=400)


@pytest.fixture(scope="module")
def by_sums() -> tuple[float, float, float]:
    """Log evidence (to 0.001), and mean and sd of the scale, by the trapezoid rule over its logarithm."""
    u = np.arange(-2.8, 1.3, 0.2)
    log_likelihood = LIKELIHOODS["counts"][1]
    logs = [by_grid(log_likelihood, s) + stats.halfnorm(scale=0.5).logpdf(s) + np.log(s) for s in np.exp(u)]
    height = max(logs)
    mass = np.exp(np.array(logs) - height)
    mean = mass @ np.exp(u) / mass.sum()
    return (
        height + float(np.log(0.2 * mass.sum())),
        float(mean),
        float(np.sqrt(mass @ (np.exp(u) - mean) ** 2 / mass.sum())),
    )


@pytest.mark.slow
def test_evidence_and_scale_are_those_of_sums_over_grids(
    posterior: bk.Posterior, by_sums: tuple[float, float, float]
) -> None:
    evidence = posterior.log_evidence
    value, mean, sd = by_sums
    assert (posterior.method, evidence.label) == ("importance", "estimated")
    assert evidence.error < 0.02
    assert abs(evidence.value - value) < 4 * evidence.error
    scale = posterior.tree["posterior"]["scale"].to_numpy().ravel()
    assert abs(scale.mean() - mean) < 5 * sd / np.sqrt(300)
    assert abs(scale.std() - sd) < 0.1 * sd
    assert posterior.tree["posterior"]["level"].shape == (4, 100, STEPS)


@pytest.mark.slow
def test_draws_follow_the_data(posterior: bk.Posterior) -> None:
    """E[rate | y] of a Poisson count with a latent x: by Tweedie's identity the mean of the score of x is zero.

    In E over the posterior, d/dx log p(y, x) vanishes: prior and data balance at each step.
    """
    draws = posterior.tree["posterior"]
    x = draws["level"].to_numpy().reshape(-1, STEPS)
    scale = draws["scale"].to_numpy().reshape(-1, 1)
    steps = np.diff(x, axis=1) / scale**2
    score = np.zeros_like(x)
    score[:, 0] = -x[:, 0]
    score[:, 1:] -= steps
    score[:, :-1] += steps
    score += COUNTS - np.exp(x)
    z = score.mean(axis=0) / (score.std(axis=0) / np.sqrt(len(x)))
    # Of draws that are resampled from weighted ones a few occur twice: the z-scores of 70 steps are a little wide.
    assert np.sqrt(np.mean(z**2)) < 1.5 and np.abs(z).max() < 5


def test_the_plan_says_what_was_done_and_how_well(posterior: bk.Posterior) -> None:
    plan = str(posterior.plan)
    assert "level (70 numbers, Normal before the data are seen) will be integrated by importance sampling" in plan
    assert "of which" in plan and "Pareto k" in plan
    assert posterior.plan.eliminated == () and posterior.plan.remaining == ("scale", "level")
    assert "Gaussian approximation" in posterior.account
    assert posterior.tree["posterior"].attrs["pareto_k"] < 0.5


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws(posterior: bk.Posterior) -> None:
    again = bk.infer(counts(), random_seed=1, draws=400)
    assert again.log_evidence == posterior.log_evidence
    for name in ("scale", "level"):
        np.testing.assert_array_equal(again.tree["posterior"][name], posterior.tree["posterior"][name])


@pytest.mark.slow
def test_what_may_have_several_modes_is_refused_with_the_reason() -> None:
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 1.0, 0.2)
        level = pm.Normal("level", 0, scale, shape=45)
        apart = np.linspace(-5, 5, 45)[:, None] + [0.0, 0.1, 3.0]
        pm.StudentT("y", nu=1.5, mu=level[:, None], sigma=0.2, observed=apart)
    with pytest.raises(bk.BayeskitError, match=r"several modes|no mode"):
        bk.infer(model, method="importance", random_seed=1, draws=100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "reason"),
    [
        (lambda x: pm.Normal("y", pt.abs(x), 0.05, observed=np.full(30, 1.0)), "kink"),
        (lambda x: pm.Normal("y", pt.sqrt(x**2 + 1e-4), 0.05, observed=np.full(30, 1.0)), "several modes|log-concave"),
        (
            lambda x: pm.NormalMixture("y", [0.5, 0.5], pt.stack([x, x + 2], axis=-1), 0.02, observed=np.zeros(30)),
            "kink|mixture",
        ),
    ],
    ids=["a kink", "its smooth double", "a mixture"],
)
def test_modes_behind_fifty_standard_deviations_are_seen(likelihood: Callable[[Any], Any], reason: str) -> None:
    """The density is log-concave for as far as its curvature is looked at about one of them."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 0.5)
        likelihood(pm.GaussianRandomWalk("level", sigma=scale, init_dist=pm.Normal.dist(0.3, 1), steps=29))
    request = Request(model, analyse(model), 100, 1, audit(analyse(model)), False, {})
    said = latent.obstacle(request.analysis)
    if not said:
        with pytest.raises(BayeskitError, match=reason):
            latent.answer(request)
    else:
        assert re.search(reason, said)
