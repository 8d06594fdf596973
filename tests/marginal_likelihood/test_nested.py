"""Nested sampling: against closed forms, through parents and transforms, and what must be refused by name."""

from __future__ import annotations

import math
from importlib import util
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from scipy import stats

from bayeskit.marginal_likelihood import nested
from bayeskit.marginal_likelihood.estimators import Target
from bayeskit.marginal_likelihood.nested import estimate, obstacle
from bayeskit.model.unconstrained import Unconstrained

Y = np.array([2.1, 3.3, 1.9, 4.0])


@pytest.mark.slow
def test_against_a_closed_form_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prior with a parent, and a transform."""
    monkeypatch.setattr(nested, "FEWEST", 60)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 4.0)
        pm.Normal("y", pm.Normal("mean", 0.0, pm.math.sqrt(variance)), pm.math.sqrt(variance), observed=Y)
    truth = stats.multivariate_t(np.zeros(4), (np.eye(4) + 1) * 4 / 3, df=6).logpdf(Y)
    found = [estimate(Target(Unconstrained(model), seed, points=8)) for seed in range(2)]
    z = [(f.value - truth) / f.error for f in found]
    assert np.abs(z).max() < 3.5
    assert abs(np.mean(z)) < 1.5
    assert all(0.05 < f.error < 0.4 for f in found)


@pytest.mark.slow
def test_every_mode_is_in_the_cube_in_the_units_of_the_density(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "FEWEST", 60)
    with pm.Model() as model:
        x = pm.Uniform("x", [-10.0, 0.0], [10.0, 1.0])
        pm.Normal("y", pm.math.abs(x[0]), 0.5, observed=4.0)
    found = estimate(Target(Unconstrained(model), 1, log_mass=3.0, points=8))
    assert abs(found.value - 3.0 - math.log(2 / 20)) < 4 * found.error


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (lambda: pm.Dirichlet("w", [1.0, 1.0]), "w (Dirichlet) has no inverse"),
        (lambda: pm.MvNormal("m", [0.0, 0.0], np.eye(2)), "m (MvNormal) has no inverse"),
        (lambda: pm.Flat("f"), "f (Flat) has no inverse"),
        (lambda: pm.Normal("o", shape=2, transform=ordered, initval=[0.0, 1.0]), "a transform of o"),
        (lambda: pm.Normal("many", shape=31), "30 numbers at most"),
    ],
)
def test_what_no_cube_is_pushed_through_is_refused_by_name(prior: Any, said: str) -> None:
    with pm.Model() as model:
        prior()
    assert said in obstacle(Target(Unconstrained(model), 1))


def test_without_dynesty_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "find_spec", lambda name: None if name == "dynesty" else util.find_spec(name))
    with pm.Model() as model:
        pm.Normal("x")
    assert "bayeskit[nested]" in obstacle(Target(Unconstrained(model), 1))
