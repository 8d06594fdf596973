"""Banded blocks in the far tails of their scales, against dense algebra of sixty digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.compile import small_mode
from bayeskit.model.unconstrained import Unconstrained

ROWS = 80
Y = np.cumsum(np.random.default_rng(3).normal(size=ROWS)) + 5.0
SEASON = np.arange(ROWS) % 2


def level() -> None:
    """y_t = l_t + noise, l a random walk."""
    step, noise = pm.HalfNormal("step", 1.0), pm.HalfNormal("noise", 1.0)
    path = pm.GaussianRandomWalk("path", sigma=step, init_dist=pm.Normal.dist(0.0, 3.0), shape=ROWS)
    pm.Normal("y", path, noise, observed=Y)


def level_and_season() -> None:
    """With two numbers that every row has a part in: a band with a border."""
    step, noise = pm.HalfNormal("step", 1.0), pm.HalfNormal("noise", 1.0)
    season = pm.Normal("season", 0.0, 2.0, shape=2)
    path = pm.GaussianRandomWalk("path", sigma=step, init_dist=pm.Normal.dist(0.0, 3.0), shape=ROWS)
    pm.Normal("y", path + season[SEASON], noise, observed=Y)


def oracle(step: float, noise: float, season: float) -> mp.mpf:
    """log p(y, log step, log noise) by the Kalman filter of level and seasons, and half-Normals."""
    with mp.workdps(60):
        value = mp.mpf(0)
        mean, cov = mp.zeros(3, 1), mp.diag([9, mp.mpf(season) ** 2, mp.mpf(season) ** 2])
        for t, y in enumerate(Y.tolist()):
            cov[0, 0] += mp.mpf(step) ** 2 if t else 0
            seen = mp.matrix([1, int(SEASON[t] == 0), int(SEASON[t] == 1)])
            spread = cov * seen
            variance = (seen.T * spread)[0] + mp.mpf(noise) ** 2
            off = y - (seen.T * mean)[0]
            value -= (mp.log(2 * mp.pi * variance) + off**2 / variance) / 2
            mean, cov = mean + spread * (off / variance), cov - spread * spread.T / variance
        for scale in (step, noise):
            value += mp.log(2 / mp.pi) / 2 - mp.mpf(scale) ** 2 / 2 + mp.log(scale)
        return value


def density(body: Callable[[], None]) -> Unconstrained:
    with pm.Model() as model:
        body()
    collapsed = collapsed_density(analyse(model))
    assert collapsed.remaining == ("step", "noise")
    return Unconstrained(collapsed_model(collapsed), collapsed.weight)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "season", "scales", "off"),
    [
        (level, 0.0, [(1.0, 1e-4), (1.0, 1e-6), (0.8, 1e-9), (1.0, 1e-12), (0.5, 0.5), (1e-3, 3.0)], 1e-7),
        (level_and_season, 2.0, [(1.0, 0.1), (1.0, 1e-3), (1.0, 1e-5)], 1e-3),
    ],
    ids=["a band", "with a border"],
)
def test_no_digits_are_lost_where_the_noise_goes_to_zero(
    body: Any, season: float, scales: list[tuple[float, float]], off: float
) -> None:
    space = density(body)
    at = np.log(np.array(scales))
    expected = [float(oracle(*pair, season)) for pair in scales]
    np.testing.assert_allclose(space.log_density(at), expected, rtol=0, atol=off)


def test_what_is_rounding_is_no_number() -> None:
    """A season of two and a level differ by next to nothing where each row is nearly known: their sum is."""
    assert np.isnan(density(level_and_season).log_density(np.log([[1.0, 1e-9]]))).all()


def test_its_gradient_is_that_of_the_formula() -> None:
    space, h = density(level), 1e-6
    for step, noise in [(1.0, 0.3), (0.8, 1e-3)]:
        _, gradient = space.value_and_gradient(np.log([step, noise]))
        by_differences = [
            float((oracle(step * a, noise * b, 0.0) - oracle(step / a, noise / b, 0.0)) / (2 * h))
            for a, b in [(np.exp(h), 1.0), (1.0, np.exp(h))]
        ]
        np.testing.assert_allclose(gradient, by_differences, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("body", [level, level_and_season], ids=["a band", "with a border"])
def test_nuts_has_its_gradient(body: Callable[[], None]) -> None:
    """Of the model that ``collapse`` gives, as PyMC derives it."""
    with pm.Model() as model:
        body()
    small = bk.collapse(model)
    at = {k: np.asarray(v) - 0.3 for k, v in small.initial_point(0).items()}
    slope = small.compile_dlogp(mode=small_mode())(at)
    space = density(body)
    expected = space.value_and_gradient(space.start - 0.3)[1]
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
