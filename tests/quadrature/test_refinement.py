"""How far a lattice is refined: what comes first, and what is kept where the budget runs out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln, log_ndtr, ndtr

from bayeskit.quadrature.integrate import NotIntegrable, Quadrature, integrate

SHAPES = np.array([0.7, 2.0, 4.0])
SHEAR = np.array([[1.0, 0.0, 0.0], [0.8, 1.5, 0.0], [-0.5, 0.6, 0.7]])
TRUTH = gammaln(SHAPES).sum() - np.log(np.prod(np.diag(SHEAR)))  # of a product of log-gamma densities of SHEAR x


def integral(budget: int, acceptable: float, tolerance: float = 1e-6) -> Quadrature:
    def log_density(x: np.ndarray) -> np.ndarray:
        z = x @ SHEAR.T
        return (SHAPES * z - np.exp(z)).sum(axis=1)

    return integrate(log_density, np.zeros(3), tolerance=tolerance, acceptable=acceptable, budget=budget)


@pytest.mark.slow
def test_a_budget_that_runs_out_leaves_what_there_is_with_a_larger_bound() -> None:
    """The aim is far out of reach: how far a budget leads varies by a third with the last digit of exp on a machine."""
    tolerance, budget = 1e-10, 150_000
    with pytest.raises(NotIntegrable, match="not met within 150000 evaluations"):
        integral(budget, tolerance, tolerance)
    result = integral(budget, 1e-5, tolerance)
    assert result.evaluations <= budget
    assert tolerance < result.error <= 1e-5
    assert abs(result.log_integral - TRUTH) < result.error


@pytest.mark.slow
def test_with_enough_evaluations_the_bound_aimed_for_is_met_though_a_larger_one_would_do() -> None:
    result = integral(500_000, 1e-5)
    assert result.error <= 1e-6
    assert abs(result.log_integral - TRUTH) < result.error


@pytest.mark.slow
def test_a_likelihood_that_falls_by_steps_is_within_its_error() -> None:
    """log(1 - Φ(x)) by way of Φ(x), which rounding makes a staircase: an unlikely event in a probit regression."""
    x = np.append(np.linspace(-2.0, 2.0, 12), 8.0)  # twelve doses, 25 subjects each, and one who is far off
    yes = np.append(np.round(25 * ndtr(x[:-1])), 0.0)
    no = np.append(25 - yes[:-1], 1.0)

    def by_rounded_probabilities(w: np.ndarray) -> np.ndarray:
        p = ndtr(w * x)
        return stats.norm.logpdf(w[:, 0], 0, 2.5) + np.log(p) @ yes + np.log(1.0 - p) @ no

    def stable(w: float) -> float:
        return float(stats.norm.logpdf(w, 0, 2.5) + yes @ log_ndtr(w * x) + no @ log_ndtr(-w * x))

    result = integrate(by_rounded_probabilities, np.ones(1))
    top = stable(0.658)
    truth = top + np.log(quad(lambda w: np.exp(stable(w) - top), -0.5, 2.5, epsabs=1e-14, points=[0.658])[0])
    assert 1e-9 < abs(result.log_integral - truth) < result.error < 1e-6
