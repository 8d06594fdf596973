"""Likelihoods with a parameter of each observation integrated out, against closed forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayeskit as bk
from bayeskit.comparison.integrated_likelihood import integrated_log_likelihood
from bayeskit.comparison.leave_one_out import loo_from_draws

RNG = np.random.default_rng(3)
COUNTS = np.array([0, 3, 5, 21, 2])
MU = RNG.normal(size=(2, 30))


def draws_of(**values: np.ndarray) -> xr.Dataset:
    dims = {n: ("chain", "draw", *[f"{n}_{k}" for k in range(v.ndim - 2)]) for n, v in values.items()}
    return xr.Dataset({n: (dims[n], v) for n, v in values.items()})


def rates() -> pm.Model:
    with pm.Model() as model:
        shape = pm.Exponential("shape", 1.0)
        pm.Poisson("n", pm.Gamma("rate", shape, 0.5, shape=5), observed=COUNTS)
    return model


def groups(noise: float = 1.0) -> pm.Model:
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mu"), 2.0, shape=3)
        pm.Normal("y", effect[[0, 0, 1, 2, 2]], noise, observed=[0.1, 0.7, -2.0, 3.0, 2.2])
    return model


def test_counts_with_a_gamma_rate_each_are_negative_binomial() -> None:
    shape = RNG.gamma(3.0, size=(2, 40))
    draws = draws_of(shape=shape, rate=RNG.gamma(2.0, size=(2, 40, 5)))
    found = integrated_log_likelihood(rates(), draws, None)
    expected = stats.nbinom(shape[..., None], 0.5 / 1.5).logpmf(COUNTS)
    assert found is not None and np.max(np.abs(found - expected)) < 1e-8


@pytest.mark.slow
def test_a_group_that_is_one_observation_is_multivariate_normal() -> None:
    draws = draws_of(mu=MU, effect=np.zeros((2, 30, 3)))
    found = integrated_log_likelihood(groups(), draws, {"y": np.array([0, 0, 2, 1, 1])})
    assert found is not None
    for number, y in enumerate(([0.1, 0.7], [3.0, 2.2], [-2.0])):
        size = len(y)
        joint = stats.multivariate_normal(np.zeros(size), np.eye(size) + 4.0)
        expected = joint.logpdf(np.asarray(y) - MU.ravel()[:, None] * np.ones(size)).reshape(MU.shape)
        assert np.max(np.abs(found[..., number] - expected)) < 1e-8


@pytest.mark.parametrize("numbers", [range(5), [0, 1, 0, 1, 2]])
def test_observations_that_share_an_entry_or_have_several_have_no_integral(numbers: Sequence[int]) -> None:
    members = {"y": np.array(numbers)}
    assert integrated_log_likelihood(groups(), draws_of(mu=MU, effect=np.zeros((2, 30, 3))), members) is None


def test_an_entry_that_others_depend_on_is_not_integrated() -> None:
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 2.0, shape=2)
        pm.Normal("mean", effect.sum(), 1.0)
        pm.Normal("y", effect, 1.0, observed=[1.0, 2.0])
    assert integrated_log_likelihood(model, draws_of(effect=np.zeros((2, 30, 2)), mean=MU), None) is None


def test_scores_of_effects_of_their_own_are_those_of_the_closed_form() -> None:
    """Of y ~ Normal(mu, sqrt(4.01)): draws of an effect follow its observation so closely that none could leave it."""
    y = np.array([0.1, -2.0, 3.0, 2.2, 9.0])
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("effect", pm.Normal("mu"), 2.0, shape=5), 0.1, observed=y)
    found, note = loo_from_draws(bk.infer(model, random_seed=1))
    assert found is not None and not note
    variance = [1 / (1 + 4 / 4.01) for _ in y]
    mean = [v * (y.sum() - own) / 4.01 for v, own in zip(variance, y, strict=True)]
    exact = stats.norm(mean, np.sqrt(np.add(variance, 4.01))).logpdf(y)
    assert np.max(np.abs(found.elpd - exact) / found.error) < 4 and found.error.max() < 0.1
