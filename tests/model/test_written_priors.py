"""Priors in full, as people write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest

from bayeskit.model.written_priors import written_priors

CASES: dict[str, tuple[Any, str]] = {
    "number": (lambda: pm.HalfCauchy("x", 5), "x ~ HalfCauchy(beta=5)"),
    "rate": (lambda: pm.Gamma("x", 2, 3), "x ~ Gamma(alpha=2, beta=3)"),
    "scale": (lambda: pm.Exponential("x", scale=4), "x ~ Exponential(scale=4)"),
    "precision": (lambda: pm.Normal("x", 0, tau=pm.Gamma("g", 2, 3)), "x ~ Normal(mu=0, tau=g)"),
    "array": (lambda: pm.Normal("x", np.arange(8.0), 1), "x ~ Normal(mu=[0, 1, …] (8 numbers), sigma=1), shape (8,)"),
    "formula": (
        lambda: pm.Normal("x", 0, 10 * pm.InverseGamma("s2", 2, 1) ** 0.5),
        "x ~ Normal(mu=0, sigma=10 * s2 ** 0.5)",
    ),
    "container": (lambda: pm.HalfNormal("x", pm.Data("scale", 2.0)), "x ~ HalfNormal(sigma=scale), scale = 2"),
    "dims": (
        lambda: pm.HalfNormal("x", pm.Data("scale", [2.0, 2.0, 2.0], dims="group"), dims="group"),
        "x ~ HalfNormal(sigma=scale), dims group (3), scale = 2 (3 times)",
    ),
    "no rule": (
        lambda: pm.Normal("x", pm.math.switch(pm.Normal("a") > 0, 1.0, 3.0), 1, shape=(2, 3)),
        "x ~ Normal(mu=switch(gt(a, 0), 1, 3), sigma=1), shape (2, 3)",
    ),
    "no rule of one": (
        lambda: pm.Normal("x", pm.math.switch(pm.Normal("a") > 0, 1.0, 3.0), 1),
        "x ~ Normal(mu=switch(gt(a, 0), 1, 3), sigma=1)",
    ),
    "inside": (
        lambda: pm.GaussianRandomWalk("x", sigma=0.5, init_dist=pm.Normal.dist(0, 9), steps=3),
        "x ~ RandomWalk(init_dist=Normal(mu=0, sigma=9), innovation_dist=Normal(mu=0, sigma=0.5), steps=3), shape (4,)",
    ),
    "as long as a dim": (
        lambda: (
            pm.modelcontext(None).add_coord("group", [1, 2, 3]),
            pm.GaussianRandomWalk("x", sigma=0.5, init_dist=pm.Normal.dist(0, 9), dims="group"),
        ),
        "x ~ RandomWalk(init_dist=Normal(mu=0, sigma=9), innovation_dist=Normal(mu=0, sigma=0.5), steps=2), "
        "dims group (3)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_priors_in_full(name: str) -> None:
    write, expected = CASES[name]
    with pm.Model() as model:
        write()
    assert written_priors(model)["x"] == expected
