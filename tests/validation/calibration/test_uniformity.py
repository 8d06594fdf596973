"""Values that are uniform pass as often as they should, and each departure is seen by the test that is for it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from bayeskit.results.marginals import Marginal
from bayeskit.validation.calibration.probability_transform import independent_draws, of_draws, of_marginal
from bayeskit.validation.calibration.uniformity import uniformity


@pytest.mark.parametrize("number", [2, 40])
def test_p_values_of_uniform_values_are_uniform(number: int) -> None:
    rows = np.random.default_rng(number).random((600, number))
    found = [uniformity(row).p_values for row in rows]
    for kind in ("mean", "sd", "ecdf"):
        assert stats.kstest([p[kind] for p in found], "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    ("shift", "scale", "kind", "sign"),
    [(0.3, 1.0, "z_mean", 1), (-0.3, 1.0, "z_mean", -1), (0.0, 1.3, "z_sd", 1), (0.0, 0.7, "z_sd", -1)],
)
def test_a_shift_and_a_spread_are_told_by_their_sign(shift: float, scale: float, kind: str, sign: int) -> None:
    """A truth above its posterior: that lies too low. Truths at its ends: it is too narrow."""
    scores = np.random.default_rng(2).normal(shift, scale, 300)
    found = uniformity(stats.norm.cdf(scores))
    assert sign * getattr(found, kind) > 3.0
    other = "z_sd" if kind == "z_mean" else "z_mean"
    assert abs(getattr(found, other)) < 2.5


def test_statistics_are_those_of_the_textbook() -> None:
    values = np.random.default_rng(2).random(50)
    found, z = uniformity(values), stats.norm.ppf(values)
    assert found.z_mean == pytest.approx(z.mean() * np.sqrt(50), rel=1e-12)
    tail = stats.chi2(50).cdf(np.sum(z**2))
    assert found.p_sd == pytest.approx(2 * min(tail, 1 - tail), rel=1e-9)
    assert found.p_ecdf == pytest.approx(stats.kstest(values, "uniform", method="exact").pvalue, rel=1e-9)
    assert found.inside_50 == np.mean((values >= 0.25) & (values <= 0.75))


def test_what_is_no_number_is_a_problem_and_ends_are_not() -> None:
    assert uniformity(np.array([0.1, np.nan, 0.3])).problem == "1 values are not numbers"
    assert uniformity(np.array([0.1])).problem
    assert uniformity(np.array([0.0, 1.0, 0.5])).p_sd < 1e-10


def test_ranks_among_draws_are_uniform_by_enumeration() -> None:
    """Of four exchangeable values, ties among them, each is the truth once: the ranks have the mean of the uniform."""
    rng = np.random.default_rng(3)
    for values in ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]):
        ranks = [
            of_draws(np.delete(np.array(values), k), np.array(values[k]), rng)[0]
            for k, _ in itertools.product(range(4), range(400))
        ]
        assert stats.kstest(ranks, "uniform").pvalue > 1e-3
    assert np.isnan(of_draws(np.array([1.0, np.nan]), np.array(1.0), rng)).all()


def test_values_of_a_discrete_marginal_are_spread_over_its_jumps() -> None:
    dist, rng = stats.binom(3, 0.4), np.random.default_rng(4)
    marginal = Marginal("k", dist, "binomial")
    values = [of_marginal(marginal, truth, rng)[0] for truth in dist.rvs(1500, random_state=5)]
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_draws_are_thinned_to_their_effective_number() -> None:
    rng = np.random.default_rng(6)
    noise, walk = rng.normal(size=(4, 500)), np.empty((4, 500))
    walk[:, 0] = noise[:, 0]
    for t in range(1, 500):
        walk[:, t] = 0.9 * walk[:, t - 1] + np.sqrt(1 - 0.81) * noise[:, t]
    slow, rhat = independent_draws({"a": walk, "b": rng.normal(size=(4, 500, 2))}, 400)
    assert 40 < len(slow["a"]) == len(slow["b"]) < 220  # 2,000 draws of an AR(1) at 0.9 are worth 105
    assert 1.0 <= rhat < 1.1
    fast, _ = independent_draws({"b": rng.normal(size=(4, 500))}, 400)
    assert len(fast["b"]) == 400
