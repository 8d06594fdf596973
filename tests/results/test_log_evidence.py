"""The error of a sum of log evidences: standard errors add up in squares, bounds as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayeskit.results.log_evidence import LogEvidence, error_of_sum


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [([True, True], 5.0), ([False, False], 7.0), ([True, False], 5.0)],  # the last: a bound beside a standard error
)
def test_standard_errors_add_up_in_squares_and_bounds_as_they_are(sampled: list[bool], expected: float) -> None:
    assert error_of_sum(np.array([3.0, 2.0]), np.array(sampled), np.array([1.0, -2.0])) == pytest.approx(expected)


def test_an_unknown_error_stays_unknown() -> None:
    assert error_of_sum(np.array([0.1, np.inf]), np.array([False, True]), np.ones(2)) == math.inf


@pytest.mark.parametrize(
    ("value", "label", "error", "shown"),
    [
        (-36.513052031234, "exact", 3e-15, "-36.51305203 (exact; rounding 3.0e-15)"),
        (-36.513052031234, "quadrature", 1e-6, "-36.51305203 (quadrature; error bound 1.0e-06)"),
        (-36.513052031234, "estimated", 7.6e-4, "-36.51305 (estimated; standard error 7.6e-04)"),
        (-36.513052031234, "estimated", 9.96e-2, "-36.513 (estimated; standard error 1.0e-01)"),
        (-36.513052031234, "estimated", 1.5, "-36.5 (estimated; standard error 1.5e+00)"),
        (-123456.789, "estimated", 40.0, "-123457 (estimated; standard error 4.0e+01)"),
        (-36.513052031234, "estimated", 1e-14, "-36.51305203 (estimated; standard error 1.0e-14)"),
        (-36.513052031234, "estimated", np.inf, "-36.51305203 (estimated; of unknown error)"),
    ],
)
def test_no_digit_is_shown_that_the_error_hides(value: float, label: str, error: float, shown: str) -> None:
    assert str(LogEvidence(value, error, label)) == shown
