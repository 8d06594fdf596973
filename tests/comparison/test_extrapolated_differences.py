"""Derivatives by extrapolated differences: of smooth functions, and of those whose slopes differ on two sides."""

from __future__ import annotations

import math

import pytest

from bayeskit.comparison.extrapolated_differences import derivative
from bayeskit.errors import ModelError
from bayeskit.results.log_evidence import LogEvidence


def known(value: float) -> LogEvidence:
    return LogEvidence(value, 1e-12, "quadrature")


@pytest.mark.parametrize("may_have_kink", [False, True])
def test_a_smooth_function(may_have_kink: bool) -> None:
    slope, error = derivative(lambda t: known(math.sin(3 * t) - math.cosh(2 * t)), 0.4, may_have_kink)
    assert abs(slope - 3.0) < error < 1e-4


@pytest.mark.parametrize("kink", [1e-4, 1e-2, 1.0, 30.0])
def test_a_kink_is_within_the_error_or_refused(kink: float) -> None:
    def function(t: float) -> LogEvidence:
        return known(math.exp(t) + kink * abs(t))

    try:
        slope, error = derivative(function, 0.4, may_have_kink=True)
    except ModelError as refused:
        assert kink > 1e-4 and "kink" in str(refused)
    else:
        assert kink < 1.0 and abs(slope - 1.0) + kink <= 1.01 * error + 1e-9
