"""Regions that a search by climbing passes over, and kinks that no refinement smooths; against sums over fine grids."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from bayeskit.quadrature.integrate import NotIntegrable, integrate


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "noise"), [(1.0, 0.16), (0.7, 0.16), (1.0, 0.5)])
def test_modes_in_every_period_are_integrated(rate: float, noise: float) -> None:
    """a² = sin(rate b) with a normal error: the prior of b reaches over several periods, each with a mode or two."""

    def log_density(x: np.ndarray) -> np.ndarray:
        a, b = x.T
        distance = (a - 1) ** 2 + (b / 3) ** 2 + ((np.sin(rate * b) - a**2) / noise) ** 2
        return np.asarray(-0.5 * distance - np.log(3 * noise) - 1.5 * np.log(2 * np.pi))

    a, b = np.linspace(-3.5, 3.5, 801), np.linspace(-24, 24, 1601)  # trapezoidal sums of what falls off on every side
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = special.logsumexp(log_density(grid)) + np.log((a[1] - a[0]) * (b[1] - b[0]))
    rng = np.random.default_rng(0)
    probes = np.column_stack([rng.normal(1, 1, 1000), rng.normal(0, 3, 1000)])
    result = integrate(log_density, np.array([1.0, 0.0]), probes=probes, budget=1_000_000)
    assert abs(result.log_integral - expected) < result.error < 1e-6


@pytest.mark.parametrize("places", [[0.3], [-1.0, -0.5, 0.2, 0.9, 2.0], list(np.linspace(-2, 3, 50))])
def test_a_kink_is_given_up_early(places: list[float]) -> None:
    evaluated = 0

    def log_density(x: np.ndarray) -> np.ndarray:
        nonlocal evaluated
        evaluated += len(x)
        return np.asarray(stats.norm.logpdf(x[:, 0]) + stats.laplace.logpdf(np.array(places), x, 0.5).sum(axis=1))

    with pytest.raises(NotIntegrable, match="not smooth"):
        integrate(log_density, np.array([0.1]), probes=np.random.default_rng(0).normal(size=(500, 1)))
    assert evaluated < 60_000
