"""What lies away from the draws: densities whose mass there is known, and mixtures with an empty component."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import sparse, special, stats

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.plan import analyse
from bayeskit.marginal_likelihood.beyond_reach import mass_beyond
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.results.records import LogEvidence


def with_a_skewed_mode(x: np.ndarray) -> np.ndarray:
    """A Normal, and 0.02 of its mass in a log-gamma density times a Normal, far away: no Normal fits it."""
    near = stats.norm.logpdf(x).sum(axis=1)
    far = stats.loggamma.logpdf(x[:, 0] - 20.0, 0.3) + stats.norm.logpdf(x[:, 1])
    return np.asarray(np.logaddexp(near, math.log(0.02) + far))


def test_mass_beyond_is_that_of_a_skewed_mode() -> None:
    near, mode = Proposal(np.zeros(2), np.eye(2)), Proposal(np.array([18.8, 0.0]), np.diag([1.8, 1.0]))
    identity = [sparse.eye_array(2, format="csr")]
    z = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        mass, error = mass_beyond(with_a_skewed_mode, identity, lambda x: x[:, 0] > 5.5, [near, mode], 0.0, rng)
        assert error < 0.002
        z.append((mass - 0.02) / error)
    assert abs(np.mean(z)) < 1.2 and np.abs(z).max() < 4


def test_mass_beyond_is_counted_under_every_labelling() -> None:
    """A mode and its mirror image, by a proposal at one of them; and nothing where there is none."""
    swap = [sparse.csr_array(np.eye(2)), sparse.csr_array(np.eye(2)[::-1])]

    def log_density(x: np.ndarray) -> np.ndarray:
        away = [stats.norm.logpdf(x - shift).sum(axis=1) + math.log(0.01) for shift in ([20.0, 0.0], [0.0, 20.0])]
        return np.asarray(special.logsumexp([stats.norm.logpdf(x).sum(axis=1), *away], axis=0))

    proposals = [Proposal(np.zeros(2), np.eye(2)), Proposal(np.array([20.0, 0.0]), np.eye(2))]
    rng = np.random.default_rng(1)
    mass, error = mass_beyond(log_density, swap, lambda x: x.max(axis=1) > 8, proposals, 0.0, rng)
    assert abs(mass - 0.02) < 4 * error < 0.004
    mass, _ = mass_beyond(log_density, swap, lambda x: x.max(axis=1) > 40, proposals, 0.0, rng)
    assert mass < 1e-6


WIDE = 15.0  # prior scale of a location


@cache
def analysis_of(data: tuple[float, ...]) -> Analysis:
    """Of a mixture of two, which several sets of draws are from."""
    with pm.Model() as model:
        weight = pm.Dirichlet("w", np.ones(2))
        location = pm.Normal("mu", 0.0, WIDE, shape=2)
        pm.NormalMixture("y", w=weight, mu=location, sigma=1.0, observed=np.array(data))
    return analyse(model)


def evidence(data: np.ndarray, empty: bool, seed: int) -> tuple[LogEvidence, float, float]:
    """From draws with or without those in which a component has no observation; the right one; and their share."""
    allocations = np.array(list(itertools.product((0, 1), repeat=len(data))))
    count = np.stack([(allocations == k).sum(axis=1) for k in (0, 1)], axis=1)
    total = np.stack([(allocations == k) @ data for k in (0, 1)], axis=1)
    terms = special.betaln(1 + count[:, 0], 1 + count[:, 1]) + stats.norm.logpdf(data).sum()
    terms += np.sum(-0.5 * np.log1p(WIDE**2 * count) + 0.5 * total**2 / (count + WIDE**-2), axis=1)
    lacks = count.min(axis=1) == 0
    probability = special.softmax(np.where(lacks & (not empty), -np.inf, terms))
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(terms), size=4000, p=probability)
    w = rng.beta(1 + count[chosen, 0], 1 + count[chosen, 1])
    precision = count[chosen] + WIDE**-2
    mu = total[chosen] / precision + rng.normal(size=precision.shape) / np.sqrt(precision)
    draws = {"w_simplex__": 0.5 * special.logit(w).reshape(4, 1000, 1), "mu": mu.reshape(4, 1000, 2)}
    analysis = analysis_of(tuple(data))
    found = evidence_of_draws(analysis, analysis.original.model, draws, xr.Dataset(), seed)
    exact = float(special.logsumexp(terms))
    return found, exact, math.exp(special.logsumexp(terms[lacks]) - exact)


# Two groups that one component explains nearly as well; the prior of a location is centred far below them.
DATA = 20.0 + 0.8 * np.array([-2.6, -2.1, -1.9, -1.6, -1.4, 1.5, 1.7, 2.0, 2.3, 2.4])


@pytest.mark.slow
def test_an_empty_component_that_no_draw_has_is_added() -> None:
    found, exact, share = evidence(DATA, False, 1)
    assert 0.03 < share < 0.07
    assert abs(found.value - exact) < 1.5 * found.error < 0.15


@pytest.mark.slow
def test_empty_components_among_the_draws_are_not_counted_twice() -> None:
    found, exact, _ = evidence(DATA, True, 1)
    assert abs(found.value - exact) < 2.5 * found.error < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "share"), [(0.8, 0.02), (0.7, 0.18)])
def test_an_empty_component_under_a_prior_centred_among_the_data(spread: float, share: float) -> None:
    """No mode, but a region: what it holds is added, or the estimate refused; where draws have it, nothing changes."""
    data = spread / 0.8 * (DATA - 20.0)
    found, exact, lacking = evidence(data, False, 1)
    assert lacking == pytest.approx(share, rel=0.15)
    if share < 0.05:
        assert abs(found.value - exact) < found.error < 0.05
    else:
        assert math.isnan(found.value) and "another mode" in found.reason
        return
    visited, exact, _ = evidence(data, True, 1)
    assert abs(visited.value - exact) < 2.5 * visited.error < 0.1
