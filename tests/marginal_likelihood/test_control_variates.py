"""Means of importance weights whose expansion is taken off, for densities whose integral is one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.control_variates import UNSEEN, controlled_mean
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighed import Weighed, weighed
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighted_mixture import SobolPoints
from bayeskit.types import ArrayFunction

POINTS = 32 * 128


def weighted_points(density: ArrayFunction, proposal: MixtureProposal, seed: int, power: int = 7) -> Weighed:
    rng = np.random.default_rng(seed)
    return weighed(density, [SobolPoints(proposal, rng) for _ in range(32)], power)


def standard_t(size: int) -> MixtureProposal:
    return MixtureProposal(np.ones(1), (Proposal(np.zeros(size), np.eye(size), 8.0),))


def skewed(z: np.ndarray) -> np.ndarray:
    """Logs of Gamma variables of shape 400, standardised: a posterior of some hundred rows."""
    x, sd = z / 20 + math.log(400), 1 / 20
    return np.asarray(np.sum(400 * x - np.exp(x) - special.gammaln(400) + math.log(sd), axis=1))


@pytest.mark.parametrize("size", [2, 4, 6])
def test_next_to_a_normal_density_a_quarter_of_a_point_is_left(size: int) -> None:
    proposal = standard_t(size)
    for seed in range(3):
        found = weighted_points(skewed, proposal, seed)
        value, error = controlled_mean(found, proposal)
        assert UNSEEN / POINTS <= error < 1.5 * UNSEEN / POINTS
        assert abs(value) < 4 * error
        assert found.error > 3 * error


def test_what_is_left_is_unbiased_though_the_expansion_is_poor() -> None:
    """Of a mixture of two Normals some degrees explain half: means over independent samples agree with one."""
    proposal = standard_t(2)

    def two(z: np.ndarray) -> np.ndarray:
        parts = [stats.multivariate_normal([m, 0.0], [[0.8, 0.2], [0.2, 0.7]]).logpdf(z) for m in (-0.7, 0.9)]
        return np.asarray(np.logaddexp(*parts) - math.log(2))

    found = [controlled_mean(weighted_points(two, proposal, seed), proposal) for seed in range(16)]
    z = np.array([value / error for value, error in found])
    assert np.sum(z**2) < stats.chi2(16).isf(1e-4)


@pytest.mark.parametrize(
    ("density", "size"),
    [
        pytest.param(lambda z: stats.t(3).logpdf(z).sum(axis=1), 2, id="heavy tails"),
        pytest.param(lambda z: np.where(np.all(np.abs(z) < 1.7, axis=1), -2 * np.log(3.4), -np.inf), 2, id="edges"),
        pytest.param(lambda z: stats.norm.logpdf(z).sum(axis=1), 40, id="more polynomials than points"),
    ],
)
def test_elsewhere_the_weights_are_what_counts(density: ArrayFunction, size: int) -> None:
    proposal = standard_t(size)
    found = weighted_points(density, proposal, 0, 5)
    assert controlled_mean(found, proposal) == (found.mean, found.error)


def test_a_bump_that_points_fell_into_is_not_explained_away() -> None:
    """A thousandth of the mass, a Normal of sd 5 about one of sd 1: what is left has a tail without a variance."""
    proposal = standard_t(3)

    def contaminated(z: np.ndarray) -> np.ndarray:
        wide = stats.norm.logpdf(z, 0, 5).sum(axis=1) + math.log(1e-3)
        return np.asarray(np.logaddexp(stats.norm.logpdf(z).sum(axis=1) + math.log1p(-1e-3), wide))

    z = []
    for seed in range(6):
        found = weighted_points(contaminated, proposal, seed)
        value, error = controlled_mean(found, proposal)
        z.append(value / error)
    assert np.max(np.abs(z)) < 4
