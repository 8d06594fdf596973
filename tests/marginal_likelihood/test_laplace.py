"""Laplace's approximation: exact for Normals, its error covers what it leaves out, every mode is counted."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

from bayeskit.marginal_likelihood.estimators import Target
from bayeskit.marginal_likelihood.laplace import estimate, obstacle
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.records import LogEvidence


def laplace(model: pm.Model, draws: np.ndarray | None = None, **options: object) -> LogEvidence:
    return estimate(Target(Unconstrained(model), 1, draws, **options))  # type: ignore[arg-type]


@cache
def normals() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 1.0, 2.0, shape=3)
        pm.Normal("y", mean.sum() + np.arange(4.0), 0.5, observed=[0.1, 0.2, 0.3, 0.4])
    return model


def test_of_a_normal_it_is_exact() -> None:
    covariance = 0.25 * np.eye(4) + 3 * 4.0
    truth = stats.multivariate_normal.logpdf([0.1, 0.2, 0.3, 0.4], 3.0 + np.arange(4.0), covariance)
    found = laplace(normals())
    assert found.value == pytest.approx(truth, abs=1e-6)
    assert found.error < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 30, 300])
def test_the_error_of_a_poisson_rate_covers_what_is_left_out(count: int) -> None:
    """log Γ against Stirling's formula: the next term is 1 / (12 n)."""
    with pm.Model() as model:
        pm.Poisson("n", pm.Exponential("rate", 1.0), observed=count)
    truth = -(count + 1) * math.log(2.0)
    found = laplace(model)
    assert 0 < abs(found.value - truth) < found.error < 5 * abs(found.value - truth)


def two_modes(distance: float) -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 20.0)
        pm.Potential("modes", pm.math.logaddexp(-0.5 * (x - distance) ** 2, -2.0 * (x + distance) ** 2 - 1.0))
    return model


def test_every_mode_that_a_draw_leads_to_is_counted() -> None:
    model = two_modes(8.0)
    grid = np.linspace(-20, 20, 400_001)
    height = np.logaddexp(-0.5 * (grid - 8) ** 2, -2.0 * (grid + 8) ** 2 - 1.0) + stats.norm(0, 20).logpdf(grid)
    truth = special.logsumexp(height) + math.log(grid[1] - grid[0])
    draws = np.concatenate([np.random.default_rng(1).normal(8, 1, 300), np.random.default_rng(2).normal(-8, 0.5, 300)])
    found = laplace(model, np.random.default_rng(3).permutation(draws).reshape(4, -1, 1))
    assert abs(found.value - truth) < 1e-3 + 4 * found.error


def test_images_under_a_symmetry_are_counted_without_climbing_to_them() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x**2, 0.1, observed=2.0)
    grid = np.linspace(0.5, 3, 200_001)
    height = stats.norm.logpdf(grid) + stats.norm(grid**2, 0.1).logpdf(2.0)
    half = special.logsumexp(height) + math.log(grid[1] - grid[0])
    draws = np.random.default_rng(1).normal(math.sqrt(2.0), 0.03, size=(4, 100, 1))
    found = laplace(model, draws, symmetries=[np.eye(1), -np.eye(1)])
    assert abs(found.value - half - math.log(2)) < found.error < 0.05


def test_a_density_that_is_no_normal_is_refused() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=6)
        pm.Potential("far", -2.0 * pm.math.log1p(1e4 * x**2).sum())
    assert "not near a Normal" in laplace(model).reason


def test_a_flat_direction_is_refused() -> None:
    with pm.Model() as model:
        x = pm.Flat("x", shape=2)
        pm.Normal("y", x.sum(), 1.0, observed=1.0)
    assert math.isnan(laplace(model).value)


def test_many_numbers_are_an_obstacle() -> None:
    with pm.Model() as model:
        pm.Normal("x", shape=41)
    assert "40 numbers at most" in obstacle(Target(Unconstrained(model), 1))
