"""Draws outside of a support are named, of every kind of support, and their ends are inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.distributions.transforms import ordered

import bayeskit as bk
from bayeskit.errors import DataError
from bayeskit.results.draws_outside_support import support_requirement

NUMBER = 60
OUTSIDE: dict[str, Any] = {
    "scale": -1.0,
    "gamma": -1.0,
    "chance": 1.5,
    "between": -0.1,
    "above": -1.0,
    "composition": [0.5, 0.6, 0.7],
    "negative_composition": [-0.1, 0.4, 0.7],
    "in_order": [1.0, 0.0, 2.0],
    "events": -1,
    "halves": 0.5,
    "yes": 2,
    "successes": 6,
    "category": 3,
    "cut": 5,
    "die": 7,
    "counts": [2, 3],
    "factor": [-1.0, 0.2, 0.3],
}
ENDS: dict[str, Any] = {"chance": 1.0, "between": 0.0, "above": 0.0, "composition": [0.0, 0.0, 1.0]}


@cache
def many_kinds() -> pm.Model:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        pm.Gamma("gamma", 2.0, scale)
        pm.Beta("chance", 2.0, 2.0)
        pm.Uniform("between", 0.0, 1.0 + scale)
        pm.Exponential("above", scale)
        pm.Dirichlet("composition", np.ones(3))
        pm.Dirichlet("negative_composition", np.ones(3))
        pm.Normal("in_order", 0.0, 1.0, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        pm.Poisson("events", 3 * scale)
        pm.Poisson("halves", 3.0)
        pm.Bernoulli("yes", 0.3)
        pm.Binomial("successes", 5, 0.4)
        pm.Categorical("category", [0.2, 0.3, 0.5])
        pm.Truncated("cut", pm.Poisson.dist(2.0), lower=1, upper=4)
        pm.DiscreteUniform("die", 1, 6)
        pm.Multinomial("counts", 4, [0.3, 0.7])
        pm.LKJCholeskyCov("factor", eta=2.0, n=2, sd_dist=pm.Exponential.dist(1.0))
        pm.Normal("anywhere", 0.0, scale)
    return model


@cache
def requirement() -> Callable[[dict[str, np.ndarray]], None]:
    """It keeps nothing of the draws that it was asked of."""
    return support_requirement(many_kinds())


@cache
def prior_draws() -> dict[str, np.ndarray]:
    model = many_kinds()
    drawn = pm.draw(model.free_RVs, draws=NUMBER, random_seed=1, mode="FAST_COMPILE")
    found = {str(rv.name): np.asarray(v, dtype=float) for rv, v in zip(model.free_RVs, drawn, strict=True)}
    return found | {"in_order": np.sort(found["in_order"], axis=-1)}


def changed(name: str, value: Any, *places: int) -> dict[str, np.ndarray]:
    values = prior_draws()[name].copy()
    values[list(places)] = value
    return prior_draws() | {name: values}


def test_draws_from_the_prior_are_inside_and_so_are_ends() -> None:
    requirement()(prior_draws())
    for name, value in ENDS.items():
        requirement()(changed(name, value, 0))


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_variable_that_is_outside_is_named_with_how_often(name: str) -> None:
    with pytest.raises(DataError, match=rf"^2 of {NUMBER} draws of '{name}' lie outside of its support: give draws"):
        requirement()(changed(name, OUTSIDE[name], 3, 5))


def _line() -> tuple[pm.Model, xr.DataTree]:
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 3.0), pm.HalfNormal("sigma"), observed=rng.normal(size=20))
    sigma = np.abs(rng.normal(1.0, 0.1, size=(4, 50)))
    sigma[2, 7] = -0.3
    draws = {"mu": (("chain", "draw"), rng.normal(size=(4, 50))), "sigma": (("chain", "draw"), sigma)}
    return model, xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})


def test_whatever_reads_draws_refuses_those_outside(tmp_path: Any) -> None:
    model, tree = _line()
    said = "^1 of 200 draws of 'sigma' lies outside of its support"
    with pytest.raises(DataError, match=said):
        bk.report(tree, tmp_path / "page.html", model=model)
    with pytest.raises(DataError, match=said):
        bk.posterior_check(tree, model)
    with pytest.raises(DataError, match=said):
        bk.recover(model, tree)
    with pytest.raises(bk.BayeskitError, match=r"of 2 data sets had an answer.*of 'sigma' lies outside of its support"):
        bk.calibrate(model, method=lambda model, seed: tree, datasets=2, draws=200, progressbar=False)
