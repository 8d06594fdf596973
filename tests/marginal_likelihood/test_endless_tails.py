"""Densities whose integral is known to exist, or not to, and draws that would not tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from bayeskit.marginal_likelihood.endless_tails import endless_tail
from bayeskit.model.unconstrained import Unconstrained

GROUPS = np.repeat(np.arange(4), 3)
MIXED, ALIKE = np.array([0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1]), np.ones(12, dtype=int)
Y = np.array([0.3, -0.8, 1.9, 0.7])


def logistic(y: np.ndarray) -> None:
    pm.Bernoulli("y", logit_p=pm.Flat("mu") + pm.Normal("each", shape=4)[GROUPS], observed=y)


def spread(power: float) -> None:
    """An sd between groups of density τ^power, which has a pole of infinite mass at zero from −1 on."""
    tau = pm.HalfFlat("tau")
    pm.Potential("scale", power * pt.log(tau))
    pm.Bernoulli("y", logit_p=pm.Normal("each", 0.0, tau, shape=4)[GROUPS], observed=MIXED)


def alike() -> None:
    pm.Poisson("y", pt.exp(pm.Flat("mu") + pm.Flat("each")), observed=[2, 3])


def contaminated() -> None:
    """As the mean goes off, every datum may come from the wide component: a floor far below, without end."""
    mean = pm.Flat("mu")
    wide, narrow = pm.Normal.dist(0.0, 10.0), pm.Normal.dist(mean, 0.1)
    pm.Mixture("y", [0.1, 0.9], [wide, narrow], observed=np.linspace(-0.1, 0.1, 9))


def heavy() -> None:
    pm.StudentT("y", nu=2.0, mu=pm.Flat("mu"), sigma=1.0, observed=Y[:2])


def fourth() -> None:
    """p ∝ 1/(1 + x²)^¼: it falls off, and has no integral."""
    x = pm.Flat("x")
    pm.Potential("slow", -0.25 * pt.log1p(x**2))
    pm.Normal("y", 0.0, 1.0, observed=Y)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "both outcomes": (lambda: logistic(MIXED), ""),
    "one outcome": (lambda: logistic(ALIKE), "mu"),
    "an sd of constant density": (lambda: spread(-0.5), ""),
    "an sd of density one over it": (lambda: spread(-1.0), "tau"),
    "two numbers for one": (alike, "mu"),
    "a floor": (contaminated, "mu"),
    "heavy tails": (heavy, ""),
    "falling too slowly": (fourth, "x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_tail_without_end_is_named(case: str) -> None:
    build, expected = CASES[case]
    with pm.Model() as model:
        build()
    space = Unconstrained(model)
    draws = np.random.default_rng(0).normal(scale=0.5, size=(4, 200, space.size))
    found = endless_tail(space, draws)
    assert f"far out in {expected} the density was not seen" in found if expected else found == ""


def test_many_coordinates_are_not_looked_at() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu", shape=31), 1.0, observed=np.zeros(31))
    space = Unconstrained(model)
    assert "not looked at in 31 coordinates" in endless_tail(space, np.random.default_rng(0).normal(size=(2, 9, 31)))
