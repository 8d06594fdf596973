"""The error of a sum of log evidences: standard errors add up in squares, bounds as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayeskit.results.log_evidence import error_of_sum


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [([True, True], 5.0), ([False, False], 7.0), ([True, False], 5.0)],  # the last: a bound beside a standard error
)
def test_standard_errors_add_up_in_squares_and_bounds_as_they_are(sampled: list[bool], expected: float) -> None:
    assert error_of_sum(np.array([3.0, 2.0]), np.array(sampled), np.array([1.0, -2.0])) == pytest.approx(expected)


def test_an_unknown_error_stays_unknown() -> None:
    assert error_of_sum(np.array([0.1, np.inf]), np.array([False, True]), np.ones(2)) == math.inf
