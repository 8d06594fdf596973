"""Sequential Monte Carlo: z-scores against a closed form, modes that draws would miss, and what must be refused."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from pymc.smc.kernels import SMC_KERNEL
from scipy import stats

from bayeskit.marginal_likelihood import sequential_monte_carlo
from bayeskit.marginal_likelihood.estimators import Target
from bayeskit.marginal_likelihood.sequential_monte_carlo import estimate, mean_of_runs, obstacle
from bayeskit.model.unconstrained import Unconstrained

Y = np.array([2.1, 3.3, 1.9, 4.0, 2.8, 3.1])


@cache
def conjugate() -> tuple[Unconstrained, float]:
    """Normal data, their mean and variance unknown: a multivariate t."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 4.0)
        pm.Normal("y", pm.Normal("mean", 0.0, pm.math.sqrt(variance)), pm.math.sqrt(variance), observed=Y)
    shape = (np.eye(6) + 1) * 4.0 / 3.0
    return Unconstrained(model), float(stats.multivariate_t(np.zeros(6), shape, df=6).logpdf(Y))


@pytest.mark.slow
def test_standard_error_is_honest() -> None:
    space, truth = conjugate()
    found = [estimate(Target(space, seed, points=500)) for seed in range(20)]
    z = np.array([(f.value - truth) / f.error for f in found])
    # Of errors that are honest the mean of z is beyond this in one run of a hundred, the variance in one of fifty.
    assert abs(z.mean()) < 0.58
    assert 0.4 < z.var() < 1.9


@pytest.mark.parametrize("without", [0, 60])
def test_stages_are_those_of_pymc(without: int) -> None:
    """Particles of which some have no likelihood; a spread that needs many stages, and one that needs none."""
    rng = np.random.default_rng(without)
    for spread in (0.01, 1.0, 30.0, 1000.0):
        likelihood = spread * rng.normal(size=200) - 5.0
        likelihood[:without] = sequential_monte_carlo.NONE
        own, theirs = (object.__new__(sequential_monte_carlo._Kernel) for _ in range(2))
        for kernel in (own, theirs):
            kernel.draws, kernel.threshold, kernel.likelihood_logp = 200, 0.5, likelihood
            kernel.beta, kernel.iteration, kernel.log_marginal_likelihood = 0.0, 0, 0.0
        while theirs.beta < 1 and theirs.iteration < 5:
            own.update_beta_and_weights()
            SMC_KERNEL.update_beta_and_weights(theirs)
            assert (own.beta, own.iteration) == (theirs.beta, theirs.iteration)
            np.testing.assert_allclose(own.weights, theirs.weights, rtol=1e-9)
            assert own.log_marginal_likelihood == pytest.approx(theirs.log_marginal_likelihood, rel=1e-12)


def test_the_same_seed_gives_the_same_number() -> None:
    space, _ = conjugate()
    assert estimate(Target(space, 3, points=1_000)) == estimate(Target(space, 3, points=1_000))


def test_modes_that_no_draw_shows_are_in_it() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 3.0)
        pm.Normal("y", pm.math.abs(x), 0.1, observed=4.0)
    truth = math.log(2.0) + stats.norm(0, math.hypot(3.0, 0.1)).logpdf(4.0)  # the halves do not overlap
    found = estimate(Target(Unconstrained(model), 1, np.full((4, 100, 1), 4.0)))
    assert abs(found.value - truth) < 4 * found.error < 0.5


def test_what_the_prior_integrates_to_is_part_of_the_density() -> None:
    space, truth = conjugate()
    found = estimate(Target(space, 1, log_mass=2.0, points=1_000))
    assert abs(found.value - 2.0 - truth) < 4 * found.error


def test_the_mean_of_runs_is_that_of_their_numbers() -> None:
    value, error = mean_of_runs(np.log([1.0, 2.0, 3.0, 6.0]))
    assert value == pytest.approx(math.log(3.0))
    assert error == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 3 / 2 * math.sqrt(3.0))


def test_an_improper_prior_and_an_order_are_obstacles() -> None:
    with pm.Model() as improper:
        pm.Normal("y", pm.Flat("x"), 1.0, observed=1.0)
    with pm.Model() as increasing:
        pm.Normal("x", shape=2, transform=ordered, initval=[0.0, 1.0])
    assert "a prior here has none" in obstacle(Target(Unconstrained(improper), 1))
    assert "transform of x" in obstacle(Target(Unconstrained(increasing), 1))


def test_a_likelihood_of_zero_is_refused() -> None:
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Uniform("top", 0.0, 1.0), observed=2.0)
    assert "zero" in estimate(Target(Unconstrained(model), 1, points=1_000)).reason
