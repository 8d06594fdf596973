"""Necks of funnels: densities of known integral, by independent draws of all but the end of the neck."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from bayeskit.elimination.plan import analyse
from bayeskit.marginal_likelihood.bridge import bridge
from bayeskit.marginal_likelihood.conventions import audit
from bayeskit.marginal_likelihood.estimators import first_estimate
from bayeskit.marginal_likelihood.necks import mass_in_necks, necks_of
from bayeskit.marginal_likelihood.proposal import BridgeSide, Refused
from bayeskit.marginal_likelihood.sampled import drawn_from
from bayeskit.sampling.nuts import pop_unconstrained, sample_nuts


@dataclass(frozen=True)
class Funnel:
    """``size`` Normals of scale exp(slope · v), v Normal, whose integral is one; v or −v is the first coordinate."""

    size: int
    width: float
    slope: float = 1.0
    sign: float = 1.0

    def log_density(self, x: np.ndarray) -> np.ndarray:
        v = self.sign * x[:, 0]
        each = stats.norm.logpdf(x[:, 1:], scale=np.exp(self.slope * v)[:, None])
        return np.asarray(stats.norm.logpdf(v, scale=self.width) + each.sum(axis=1))

    def draw(self, seed: int, cut: float, n: int = 2000) -> np.ndarray:
        """Chains of independent draws, none of them from the lowest ``cut`` of the neck."""
        rng = np.random.default_rng([3, seed])
        v = self.width * stats.norm.ppf(cut + (1 - cut) * rng.random(n))
        x = rng.normal(size=(n, self.size)) * np.exp(self.slope * v)[:, None]
        return np.column_stack([self.sign * v, x]).reshape(4, n // 4, -1)


@dataclass(frozen=True)
class Pair:
    """Two independent funnels."""

    one: Funnel

    def log_density(self, x: np.ndarray) -> np.ndarray:
        left, right = np.split(x, 2, axis=1)
        return self.one.log_density(left) + self.one.log_density(right)

    def draw(self, seed: int, cut: float, n: int = 2000) -> np.ndarray:
        return np.concatenate([self.one.draw(2 * seed + k, cut, n) for k in (0, 1)], axis=-1)


FUNNELS = [
    pytest.param(Funnel(5, 1.0), 0.0, id="scale, whole"),
    pytest.param(Funnel(5, 1.0), 0.08, id="scale"),
    pytest.param(Funnel(5, 2.0, 0.5, -1.0), 0.08, id="precision"),
    pytest.param(Funnel(20, 0.7), 0.03, id="many"),
    pytest.param(Pair(Funnel(4, 1.0)), 0.08, id="two"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("funnel", "cut"), FUNNELS)
def test_an_evidence_has_the_end_of_a_neck_that_no_chain_went_down(funnel: Funnel | Pair, cut: float) -> None:
    """Where the draws lack a share, their own error is several times too small, always on one side."""
    estimates = [bridge(funnel.log_density, funnel.draw(seed, cut), random_seed=seed) for seed in range(6)]
    z = np.array([e.value / e.error for e in estimates])
    assert abs(z.mean()) < 1 and math.sqrt(np.mean(z**2)) < 1.2
    assert max(e.error for e in estimates) < 0.35


def test_a_neck_that_holds_too_much_is_a_refusal() -> None:
    funnel = Funnel(5, 1.0)
    evidence = bridge(funnel.log_density, funnel.draw(1, 0.6), random_seed=1)
    assert math.isnan(evidence.value)
    assert "the neck of a funnel" in evidence.reason and "the neck of a funnel" in evidence.unvisited


def correlated(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(2000, 4)) @ np.tril(np.ones((4, 4)))


def heavy(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(2000, 4)) / np.sqrt(rng.chisquare(4, size=(2000, 1)))


def skewed(rng: np.random.Generator) -> np.ndarray:
    return np.log(rng.gamma(0.7, size=(2000, 4)))


@pytest.mark.parametrize("draw", [correlated, heavy, skewed])
def test_no_neck_where_nothing_shrinks(draw: Callable[[np.random.Generator], np.ndarray]) -> None:
    assert not any(necks_of(draw(np.random.default_rng(seed))) for seed in range(4))


def test_the_driver_is_found_and_what_it_drives_is_no_driver() -> None:
    (neck,) = necks_of(Funnel(5, 1.0).draw(1, 0.0).reshape(-1, 6))
    assert (neck.driver, neck.sign) == (0, 1.0) and np.all(neck.slopes[1:] > 0.5)
    (neck,) = necks_of(Funnel(5, 2.0, 0.5, -1.0).draw(1, 0.0).reshape(-1, 6))
    assert (neck.driver, neck.sign) == (0, -1.0)
    assert {n.driver for n in necks_of(Pair(Funnel(4, 1.0)).draw(1, 0.0).reshape(-1, 10))} == {0, 5}


def test_a_neck_that_the_proposal_covers_costs_nothing() -> None:
    funnel, count = Funnel(5, 1.0), 0

    def counted(x: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(x)
        return funnel.log_density(x)

    draws = funnel.draw(1, 0.08)
    heights = funnel.log_density(draws.reshape(-1, 6)).reshape(draws.shape[:2])
    everywhere = mass_in_necks(counted, draws, heights, np.ones(heights.shape), np.random.default_rng(1))
    assert everywhere == (0.0, 0.0) and not count
    missing, error = mass_in_necks(counted, draws, heights, np.zeros(heights.shape), np.random.default_rng(1))
    assert 0 < error < 0.05 and abs(missing - 0.08 / 0.92) < 4 * error
    assert count < 40_000


def test_one_chain_has_an_error_too() -> None:
    funnel = Funnel(5, 1.0)
    draws = funnel.draw(1, 0.08).reshape(1, 2000, 6)
    heights = funnel.log_density(draws[0])[None]
    missing, error = mass_in_necks(funnel.log_density, draws, heights, np.zeros((1, 2000)), np.random.default_rng(1))
    assert missing > 0.03 and 0 < error < 0.1


def test_a_bridge_is_solved_whatever_the_lowest_proposal() -> None:
    """Off the axis of a neck the density is exp(−1e168), and bisection from there took too long."""
    ratios = np.random.default_rng(1).normal(-9.0, 2.0, size=(2, 1, 400))
    unseen = np.zeros((1, 400), dtype=bool)
    plain = BridgeSide(ratios[0], ratios[1, 0], unseen, unseen[0]).solve(0.0154)
    for lowest in (-1e5, -4.3e168, -math.inf):
        proposals = np.where(ratios[1, 0] == ratios[1].min(), lowest, ratios[1, 0])
        assert abs(BridgeSide(ratios[0], proposals, unseen, unseen[0]).solve(0.0154).log_z - plain.log_z) < 1e-2
    with pytest.raises(Refused, match="do not overlap"):
        BridgeSide(ratios[0], np.full(400, -math.inf), unseen, unseen[0]).solve(0.5)


def lasso_by_integrals(y: np.ndarray) -> float:
    """log p(y): an integral over log s of products of integrals over one coefficient each."""
    u = np.sinh(np.linspace(-12, 12, 801))
    logs = np.linspace(-25, 12, 161)
    heights = []
    for s in np.exp(logs):
        b = u * min(s, 1.0)
        density = np.exp(-np.abs(b) / s) / (2 * s) * stats.t.pdf(y[:, None] - b, 4)
        each = np.log(np.trapezoid(density, b, axis=1)).sum()
        heights.append(each + math.log(s) + stats.halfcauchy.logpdf(s))
    return float(np.log(np.trapezoid(np.exp(heights), logs)))


@pytest.mark.slow
def test_bayesian_lasso_by_nuts() -> None:
    """Its chains seldom go down to small s, and the evidence from them was four standard errors too low."""
    y = np.array([0.1, -0.3, 0.5, 4.0, -6.0])
    with pm.Model() as model:
        b = pm.Laplace("b", 0.0, pm.HalfCauchy("s", 1.0), shape=5)
        pm.StudentT("y", 4.0, mu=b, sigma=1.0, observed=y)
    exact = lasso_by_integrals(y)
    assert exact == pytest.approx(-13.7882, abs=1e-3)
    tree = sample_nuts(model, 2000, 3, unconstrained=True)
    analysis, draws = analyse(model), pop_unconstrained(tree)
    drawn = drawn_from(analysis, model, draws, tree["sample_stats"].to_dataset(), 3, None, audit(analysis))
    # Without the search for modes that no chain visited, which is most of the time, and finds none here.
    estimate = drawn.evidence(first_estimate, doubted=False)
    assert abs(estimate.value - exact) < 2.5 * estimate.error < 0.5


def product_of_factors(points: np.ndarray) -> np.ndarray:
    """ab ~ Normal(1, 0.3) under Student t's of two degrees, at rows (a, b)."""
    a, b = points.T
    return np.asarray(stats.t.logpdf(a, 2) + stats.t.logpdf(b, 2) + stats.norm.logpdf(a * b, 1.0, 0.3))


@cache
def integral_of_product() -> float:
    a = np.sinh(np.linspace(-10, 10, 501))
    rows = np.stack(np.meshgrid(a, a, indexing="ij"), axis=-1).reshape(-1, 2)
    return math.log(np.trapezoid(np.trapezoid(np.exp(product_of_factors(rows)).reshape(501, 501), a), a))


@pytest.mark.parametrize("within", [4.0, math.inf])
def test_folded_draws_lack_the_ends_of_a_ridge(within: float) -> None:
    """Chains that agree once they are folded, and none of which went where one factor is next to nothing."""
    truth = integral_of_product()
    unmoved = np.eye(2)
    symmetries = [unmoved, -unmoved, unmoved[::-1], -unmoved[::-1]]
    z = []
    for seed in range(3):
        rng = np.random.default_rng([7, seed])
        points = rng.standard_t(2, size=(60_000, 2))
        points = points[
            np.log(rng.random(len(points))) < stats.norm.logpdf(points.prod(axis=1), 1, 0.3) + math.log(0.75)
        ]
        points = points[np.abs(points).max(axis=1) < within][:4000]
        points *= np.sign(points[:, :1]) * np.repeat([1, -1, 1, -1], 1000)[:, None]  # each chain keeps its sign
        evidence = bridge(product_of_factors, points.reshape(4, 1000, 2), random_seed=seed, symmetries=symmetries)
        z.append((evidence.value - truth) / evidence.error)
    assert abs(np.mean(z)) < 1.5 and max(np.abs(z)) < 2.5
