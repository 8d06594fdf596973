"""Directions on the circle: VonMises and Uniform(-π, π) priors, VonMises data of known concentration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mp, mpf
from oracles import Answer, von_mises

from table.case import Case

ANGLES = np.array([0.4, 1.3, -0.2, 0.9, 2.1, -3.0])
SHARPNESS = np.array([0.5, 4.0, 1.0, 2.5, 12.0, 0.125])
PLACE = np.array([0, 1, 1, 0, 2, 2])
BACK = np.array([3.1, -3.0, -2.75, 3.125])


def _log_base(kappa: Any) -> Any:
    return -sum((mp.log(2 * mp.pi * mp.besseli(0, mpf(float(k)))) for k in np.ravel(kappa)), mpf(0))


def _vector(kappa: Any, angle: Any) -> tuple[list[Any], list[Any]]:
    """κ cos and κ sin of each angle."""
    pairs = [
        (mpf(float(k)), mpf(float(x))) for k, x in zip(*map(np.ravel, np.broadcast_arrays(kappa, angle)), strict=True)
    ]
    return [k * mp.cos(x) for k, x in pairs], [k * mp.sin(x) for k, x in pairs]


def _sums(kappa: Any, angle: Any) -> tuple[Any, Any]:
    cosines, sines = _vector(kappa, angle)
    return sum(cosines, mpf(0)), sum(sines, mpf(0))


def _answer(prior: tuple[float, float], kappa: Any, angle: Any) -> Answer:
    kappa = np.broadcast_to(kappa, np.shape(angle))
    return von_mises("mu", _sums(prior[1], prior[0]), _sums(kappa, angle), _log_base(kappa))


def _uniform() -> None:
    mu = pm.Uniform("mu", -np.pi, np.pi)
    pm.VonMises("y", mu, pm.Data("kappa", SHARPNESS), observed=ANGLES)


def _groups() -> None:
    mu = pm.VonMises("mu", np.array([0.0, 1.0, 2.5]), 0.75, dims="place")
    pm.VonMises("y", mu[PLACE], SHARPNESS, observed=ANGLES)


def _groups_answer() -> Answer:
    sums = [_sums(SHARPNESS[g == PLACE], ANGLES[g == PLACE]) for g in range(3)]
    data = [s for s, _ in sums], [t for _, t in sums]
    return von_mises("mu", _vector(0.75, [0.0, 1.0, 2.5]), data, _log_base(SHARPNESS))


def _turned() -> None:
    mu = pm.VonMises("mu", 0.5, 2.0)
    heading = pm.Deterministic("heading", 0.25 - mu)
    pm.VonMises("y", heading, 3.0, observed=ANGLES)


def _two_likelihoods() -> None:
    mu = pm.VonMises("mu", 0.5, 2.0)
    pm.VonMises("first", mu, 3.0, observed=ANGLES[:2])
    pm.VonMises("second", mu, 0.5, observed=ANGLES[2:])


def _potential() -> None:
    mu = pm.VonMises("mu", 0.5, 2.0)
    pm.VonMises("y", mu, 3.0, observed=ANGLES)
    pm.Potential("field", 1.5 * pt.sin(mu) - 0.25 * pt.cos(mu))


def _potential_answer() -> Answer:
    cosine, sine = _sums(3.0, ANGLES)
    return von_mises("mu", _sums(2.0, 0.5), (cosine - mpf(0.25), sine + mpf(1.5)), _log_base(np.full(6, 3.0)))


def _two_answer() -> Answer:
    return _answer((0.5, 2.0), np.array([3.0, 3.0, 0.5, 0.5, 0.5, 0.5]), ANGLES)


VON_MISES = (
    Case(
        "von mises",
        "one concentration",
        lambda: pm.VonMises("y", pm.VonMises("mu", 0.5, 2.0), 3.0, observed=ANGLES),
        lambda: _answer((0.5, 2.0), 3.0, ANGLES),
    ),
    Case(
        "von mises", "Uniform prior, concentrations from pm.Data", _uniform, lambda: _answer((0, 0), SHARPNESS, ANGLES)
    ),
    Case(
        "von mises",
        "pointing backwards, on both sides of the cut",
        lambda: pm.VonMises("y", pm.VonMises("mu", 3.0, 2.0), 20.0, observed=BACK),
        lambda: _answer((3.0, 2.0), 20.0, BACK),
    ),
    Case(
        "von mises",
        "sharp",
        lambda: pm.VonMises("y", pm.VonMises("mu", 0.0, 1.0), 500.0, observed=1.0 + ANGLES / 20),
        lambda: _answer((0.0, 1.0), 500.0, 1.0 + ANGLES / 20),
    ),
    Case("von mises", "groups by index, dims", _groups, _groups_answer, {"place": ["a", "b", "c"]}),
    Case(
        "von mises",
        "measured from another axis, the other way round, Deterministic",
        _turned,
        lambda: _answer((0.5, 2.0), 3.0, 0.25 - ANGLES),
    ),
    Case("von mises", "two likelihoods", _two_likelihoods, _two_answer),
    Case(
        "von mises",
        "Potential",
        _potential,
        _potential_answer,
    ),
)
