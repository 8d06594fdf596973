"""Faults that are said to be found half the time are, by simulation; of one draw a posterior none is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from bayeskit.validation.calibration.detectable_faults import detectable_sds
from bayeskit.validation.calibration.uniformity import uniformity

TIMES = 400


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
