"""Time and space: random walks, autoregressions, Gaussian processes, and a hidden Markov chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["CHAINS"]

# Annual flow of the Nile at Aswan, 1871-1885, in 10^8 m^3 (Cobb 1978).
NILE = np.array([1120.0, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020])


def _random_walk() -> pm.Model:
    """A random walk of fifteen years, all variances known."""
    with pm.Model() as model:
        level = pm.GaussianRandomWalk("level", sigma=40.0, init_dist=pm.Normal.dist(1000.0, 300.0), steps=14)
        pm.Normal("flow", level, 120.0, observed=NILE)
    return model


def _random_walk_of_unknown_steps() -> pm.Model:
    """A random walk and the size of its steps: the flow of the Nile."""
    with pm.Model() as model:
        step = pm.HalfNormal("step", 0.5)
        level = pm.GaussianRandomWalk("level", sigma=step, init_dist=pm.Normal.dist(10.0, 3.0), steps=14)
        pm.Normal("flow", level, 1.2, observed=NILE / 100.0)
    return model


def _autoregression() -> pm.Model:
    """An autoregression of first order seen without error: its coefficient and its variance."""
    y = (NILE - NILE.mean()) / 100.0
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 2.0)
        coefficient = pm.Normal("coefficient", 0.0, pm.math.sqrt(variance))
        pm.Normal("y", coefficient * y[:-1], pm.math.sqrt(variance), observed=y[1:])
    return model


def _hidden_autoregression() -> pm.Model:
    """An autoregression seen with errors: its coefficient and every state."""
    with pm.Model() as model:
        rho = pm.Uniform("rho", -1.0, 1.0)
        state = pm.AR("state", rho=[rho], sigma=0.7, init_dist=pm.Normal.dist(0.0, 1.0), steps=14)
        pm.Normal("y", state, 0.5, observed=(NILE - NILE.mean()) / 100.0)
    return model


def _gaussian_process() -> pm.Model:
    """A Gaussian process at twelve places, its kernel known: neighbours of correlation 0.98."""
    place = np.linspace(0.0, 4.0, 12)[:, None]
    y = np.sin(place[:, 0]) + 0.2 * np.random.default_rng(51).normal(size=12)
    with pm.Model() as model:
        kernel = pm.gp.cov.Matern52(1, 1.5)(place).eval(mode="FAST_COMPILE")
        curve = pm.MvNormal("curve", np.zeros(12), kernel)
        pm.Normal("y", curve, 0.2, observed=y)
    return model


def _gaussian_process_of_unknown_length() -> pm.Model:
    """A Gaussian process, its length and its amplitude, the curve integrated out as PyMC's Marginal does."""
    place = np.linspace(0.0, 4.0, 9)[:, None]
    y = np.sin(place[:, 0]) + 0.2 * np.random.default_rng(52).normal(size=9)
    with pm.Model() as model:
        length = pm.Gamma("length", 3.0, 2.0)
        amplitude = pm.HalfNormal("amplitude", 1.0)
        process = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", place, y, sigma=0.3, jitter=0.0)
    return model


def _hidden_markov_chain() -> pm.Model:
    """A Markov chain of two states, the states summed out: how often it stays, and how far apart the states lie."""
    y = np.array([0.3, -0.4, 0.6, 2.1, 2.9, 1.8, 2.2, 0.1, -0.7, 0.5, 0.2, 2.4])

    def log_density(value: Any, first: Any, stay: Any, apart: Any) -> Any:
        emitted = pt.exp(-0.5 * (value[:, None] - pt.stack([first, first + apart], axis=-1)) ** 2) / np.sqrt(2 * np.pi)
        move = pt.stack([pt.stack([stay, 1 - stay]), pt.stack([1 - stay, stay])])
        forward = 0.5 * emitted[0]
        for t in range(1, len(y)):
            forward = pt.dot(forward, move) * emitted[t]
        return pt.log(forward.sum())

    with pm.Model() as model:
        stay = pm.Beta("stay", 4.0, 2.0)
        apart = pm.HalfNormal("apart", 3.0)
        low = np.zeros(len(y))
        pm.CustomDist("y", low, stay, apart, logp=log_density, signature="(n),(),()->(n)", observed=y)
    return model


CHAINS = references_of(
    "chains",
    _random_walk,
    _random_walk_of_unknown_steps,
    _autoregression,
    _hidden_autoregression,
    _gaussian_process,
    _gaussian_process_of_unknown_length,
    _hidden_markov_chain,
)
