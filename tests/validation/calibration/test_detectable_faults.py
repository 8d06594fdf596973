"""Faults that are said to be found half the time are, by simulation; of one draw a posterior none is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom, norm

from bayeskit.validation.calibration.detectable_faults import detectable_log_evidence, detectable_sds
from bayeskit.validation.calibration.uniformity import uniformity

TIMES = 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("datasets", "alpha", "ranked"),
    [(200, 0.01 / 21, None), (200, 0.01 / 21, 200), (200, 0.001, 5), (20, 0.001, 100), (2, 0.001, None)],
)
def test_a_fault_of_that_size_is_found_half_the_time(datasets: int, alpha: float, ranked: int | None) -> None:
    rng = np.random.default_rng(1)
    for sd in detectable_sds(datasets, alpha, ranked):
        truths = rng.normal(size=(TIMES, datasets)) / sd  # in sds of the posterior
        u = norm.cdf(truths)
        if ranked is not None:
            u = (rng.binomial(ranked, u) + rng.random(u.shape)) / (ranked + 1)
        found = sum(uniformity(row).p_sd <= alpha for row in u)
        assert binom.cdf(found, TIMES, 0.45) > 1e-3 and binom.sf(found - 1, TIMES, 0.55) > 1e-3


def test_of_one_draw_of_each_posterior_or_two_data_sets_no_sd_is_found() -> None:
    assert detectable_sds(10**5, 0.01, 1) == (0.0, math.inf)
    assert detectable_sds(2, 0.001, 200) == (0.0, math.inf)
    assert detectable_sds(10**4, 0.01, None) == pytest.approx((1, 1), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("models", "sharpness"), [(2, 1.0), (2, 4.0), (3, 2.0)])
def test_a_log_evidence_so_far_off_is_found_half_the_time(models: int, sharpness: float) -> None:
    rng = np.random.default_rng(2)
    datasets, alpha = 200, 0.01 / 3
    p = softmax(sharpness * rng.normal(size=(datasets, models)), axis=1)
    nats = detectable_log_evidence(p, alpha)
    found = []
    for sign in (-1, 1):
        wrong = p * np.exp([sign * nats, *[0.0] * (models - 1)])
        ends = np.concatenate([np.zeros((datasets, 1)), np.cumsum(wrong / wrong.sum(axis=1, keepdims=True), axis=1)], 1)
        true = (rng.random((TIMES, datasets, 1)) > np.cumsum(p, axis=1)).sum(axis=2)
        row = np.arange(datasets)
        u = ends[row, true] + rng.random((TIMES, datasets)) * (ends[row, true + 1] - ends[row, true])
        found.append(sum(uniformity(each).p_mean <= alpha for each in u))
    assert binom.cdf(min(found), TIMES, 0.42) > 1e-3 and binom.sf(min(found) - 1, TIMES, 0.55) > 1e-3


def test_where_the_data_leave_no_doubt_no_evidence_that_is_off_is_found() -> None:
    certain = np.tile([1.0, 0.0], (200, 1))
    assert detectable_log_evidence(np.array([[0.5, 0.5]] * 2), 0.001) > 10
    assert detectable_log_evidence(np.abs(certain - 1e-15), 0.001) == math.inf
