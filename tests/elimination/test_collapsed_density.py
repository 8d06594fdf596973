"""The density of what remains, far from the data, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.plan import analyse

SLOPES = np.array([0.0, 1.0, 0.5])
COUNTS, REAL = np.array([1, 2, 0]), np.array([1.0, 2.0, 0.3])
WIDTH = 100.0


def _poisson(s: Any, growth: Any) -> None:
    pm.Poisson("y", s * growth, observed=COUNTS)


def _exponential(s: Any, growth: Any) -> None:
    pm.Exponential("y", s * growth, observed=REAL)


def _precision(s: Any, growth: Any) -> None:
    pm.Normal("y", 0.0, tau=s * growth, observed=REAL)


def _scale(s: Any, growth: Any) -> None:
    pm.Exponential("y", scale=s * growth, observed=REAL)


def _variance(s: Any, growth: Any) -> None:
    pm.Normal("y", 0.0, pt.sqrt(s * growth), observed=REAL)


# The data, the prior of s, and per observation, with u = ± b x: what multiplies s or 1/s beside exp(u), the power of
# exp(u), and what is free of both.
CASES: list[tuple[Callable[[Any, Any], None], Any, int, np.ndarray, np.ndarray, np.ndarray]] = [
    (_poisson, pm.Gamma, 1, np.ones(3), COUNTS, -gammaln(COUNTS + 1.0)),
    (_exponential, pm.Gamma, 1, REAL, np.ones(3), np.zeros(3)),
    (_precision, pm.Gamma, 1, REAL**2 / 2, np.full(3, 0.5), np.full(3, -np.log(2 * np.pi) / 2)),
    (_scale, pm.InverseGamma, -1, REAL, np.ones(3), np.zeros(3)),
    (_variance, pm.InverseGamma, -1, REAL**2 / 2, np.full(3, 0.5), np.full(3, -np.log(2 * np.pi) / 2)),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__[1:])
@pytest.mark.parametrize("vague", [1.0, 0.01])
def test_a_rate_that_grows_without_bound_is_integrated_out(case: Any, vague: float) -> None:
    """The candidate's formula at a fixed value of s gave +2e71 nats at b = 200, where the density is −2e4."""
    data, prior, sign, factor, power, rest = case
    with pm.Model() as model:
        s, b = prior("s", vague, vague), pm.Normal("b", 0.0, WIDTH)
        data(s, pt.exp(b * SLOPES))
    collapsed = collapsed_density(analyse(model))
    assert collapsed.remaining == ("b",)
    for slope in (-600.0, -200.0, -40.0, -1.0, 0.0, 3.0, 40.0, 200.0, 300.0, 600.0):
        u = sign * slope * SLOPES
        shape = vague + power.sum()
        log_rate = logsumexp(np.append(u + np.log(factor), np.log(vague)))
        expected = vague * np.log(vague) - gammaln(vague) + gammaln(shape) - shape * log_rate
        expected += np.sum(power * u + rest) + norm.logpdf(slope, 0.0, WIDTH)
        found = float(collapsed.log_density(np.asarray(slope)))
        # Squares of e³⁵⁵ and more are no numbers, and PyMC's gradients of scales have some: nothing is claimed there.
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-9) or (abs(slope) == 600 and found == -np.inf), slope
