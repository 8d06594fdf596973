"""Random walks seen through counts, returns and levels, with what is known of them from sums over grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.linalg import toeplitz

__all__ = ["COUNTS", "LIKELIHOODS", "RETURNS", "STEPS", "by_grid", "counts", "volatility"]

STEPS = 70
RNG = np.random.default_rng(3)
WALK = np.cumsum(0.3 * RNG.standard_normal(STEPS))
COUNTS = RNG.poisson(np.exp(WALK))
RETURNS = np.exp(WALK / 2) * RNG.standard_normal(STEPS)
LEVELS = WALK + 0.5 * RNG.standard_normal(STEPS)


def walk(data: Callable[[Any], Any]) -> pm.Model:
    """A random walk with one unknown scale, seen through data."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 0.5)
        level = pm.GaussianRandomWalk("level", sigma=scale, init_dist=pm.Normal.dist(0, 1), steps=STEPS - 1)
        data(level)
    return model


def counts() -> pm.Model:
    return walk(lambda x: pm.Poisson("y", pm.math.exp(x), observed=COUNTS))


def volatility() -> pm.Model:
    return walk(lambda x: pm.Normal("y", 0.0, pm.math.exp(x / 2), observed=RETURNS))


def levels() -> pm.Model:
    return walk(lambda x: pm.Normal("y", x, 0.5, observed=LEVELS))


LIKELIHOODS: dict[str, tuple[Callable[[], pm.Model], Callable[[np.ndarray], np.ndarray]]] = {
    "counts": (counts, lambda x: stats.poisson.logpmf(COUNTS[:, None], np.exp(x))),
    "volatility": (volatility, lambda x: stats.norm.logpdf(RETURNS[:, None], 0, np.exp(x / 2))),
    "levels": (levels, lambda x: stats.norm.logpdf(LEVELS[:, None], x, 0.5)),
}


def by_grid(log_likelihood: Callable[[np.ndarray], np.ndarray], scale: float) -> float:
    """log p(y | scale) of a walk, summed forward over a grid of its values, which converges exponentially."""
    step = scale / 3
    x = np.arange(-9.0, 9.0 + step, step)
    seen = log_likelihood(x)
    transition = toeplitz(stats.norm.pdf(x - x[0], 0.0, scale)) * step
    state, total = np.exp(stats.norm.logpdf(x)) * step, 0.0
    for t in range(STEPS):
        state = (transition @ state if t else state) * np.exp(seen[t])
        mass = state.sum()
        total, state = total + np.log(mass), state / mass
    return float(total)
