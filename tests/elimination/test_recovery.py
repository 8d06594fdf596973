"""Draws of what was eliminated, given what remains."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

from bayeskit.elimination import recovery
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery

DRAWS, MOST = 40, 30
X = np.random.default_rng(2).normal(size=(30, 3))


def plates() -> None:
    theta = pm.Normal("theta", 1.0, pm.HalfNormal("sd", 2.0), shape=8)
    pm.Normal("y", theta[np.arange(40) % 8], 1.5, observed=np.arange(40.0))


def walk() -> None:
    theta = pm.GaussianRandomWalk("theta", sigma=pm.HalfNormal("sd", 2.0), init_dist=pm.Normal.dist(0, 3), steps=9)
    pm.Normal("y", theta, 1.5, observed=np.arange(10.0))


def weights() -> None:
    theta = pm.Normal("theta", 1.0, 2.0, shape=3)
    pm.Normal("y", X @ theta, pm.HalfNormal("sd", 2.0), observed=X[:, 0])


@pytest.mark.parametrize("build", [plates, walk, weights])
def test_draws_made_in_parts_are_those_made_together(build, monkeypatch):
    with pm.Model() as model:
        build()
    given = {"sd": np.linspace(0.3, 3.0, DRAWS)}
    again = Recovery(collapsed_density(analyse(model)))
    together = again.draw(given, np.random.default_rng(1))["theta"]
    evaluated = []
    at = Recovery._at
    monkeypatch.setattr(Recovery, "_at", lambda self, of, values: evaluated.append(values) or at(self, of, values))
    monkeypatch.setattr(recovery, "AT_ONCE", MOST)
    np.testing.assert_allclose(again.draw(given, np.random.default_rng(1))["theta"], together, rtol=1e-13)
    assert len(evaluated) > 3
    assert sum(len(values["sd"]) for values in evaluated) == 1 + DRAWS  # of one it is seen how large they are
