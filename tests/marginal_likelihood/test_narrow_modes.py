"""A spike that no chain steps into, by draws from the slab alone: an evidence is refused, or what it lacks is added."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.marginal_likelihood.sampled import evidence_of_draws

Y = np.array([3.2, 3.3, 3.0, 3.5])
SPIKE, SD, WIDE = 3.2, 1e-5, 100.0


def of_the_slab(model: pm.Model, name: str = "mean") -> bk.LogEvidence:
    """From exact draws of what the slab alone leaves."""
    precision = 1 + WIDE**-2
    draws = Y / precision + np.random.default_rng(1).normal(size=(4, 500, 4)) / np.sqrt(precision)
    return evidence_of_draws(analyse(model), model, {name: draws}, xr.Dataset(), 1)


def truth(weight: float) -> float:
    spike, slab = stats.norm.logpdf(Y, SPIKE, np.hypot(SD, 1)), stats.norm.logpdf(Y, 0, np.hypot(WIDE, 1))
    return float(np.logaddexp(np.log(weight) + spike, np.log1p(-weight) + slab).sum())


def mixture(weight: float) -> pm.Model:
    with pm.Model() as model:
        components = [pm.Normal.dist(SPIKE, SD), pm.Normal.dist(0.0, WIDE)]
        mean = pm.Mixture("mean", w=[weight, 1 - weight], comp_dists=components, shape=4)
        pm.Normal("y", mean, 1.0, observed=Y)
    return model


def test_a_spike_of_the_prior_refuses() -> None:
    """Of weight 1e-2, half of the posterior of each mean: no draw of 1,000 from the prior has all four."""
    found = of_the_slab(mixture(0.01))
    assert np.isnan(found.value) and "narrow mode (mean[" in found.unvisited and "= 3.2)" in found.unvisited


@pytest.mark.slow
def test_a_spike_that_holds_little_is_added() -> None:
    found, share = of_the_slab(mixture(5e-5)), truth(5e-5) - truth(1e-300)
    assert share > 0.015 and abs(found.value - truth(5e-5)) < 2 * found.error < 0.1


def test_no_spike_changes_nothing() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0.0, WIDE, shape=4), 1.0, observed=Y)
    found = of_the_slab(model)
    assert abs(found.value - truth(1e-300)) < 4 * found.error < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("form", ["potential", "likelihood", "moving"])
def test_a_spike_that_no_prior_draw_shows(form: str) -> None:
    """A Potential has no draws; a likelihood has its spike at the datum; the spike of a prior moves with its mean."""
    with pm.Model() as model:
        if form == "moving":
            centre = pm.Normal("centre", 0.0, 10.0)
            components = [pm.Normal.dist(centre, 1e-4), pm.Normal.dist(0.0, WIDE)]
            mean = pm.Mixture("mean", w=[0.5, 0.5], comp_dists=components, shape=4)
        else:
            mean = pm.Normal("mean", 0.0, WIDE, shape=4)
        if form == "potential":
            spike = pm.logp(pm.Normal.dist(SPIKE, SD), mean) - pm.logp(pm.Normal.dist(0.0, WIDE), mean)
            pm.Potential("spike", pt.logaddexp(np.log(0.5), np.log(0.5) + spike).sum())
        if form == "likelihood":
            exact = [pm.Normal.dist(mean, SD), pm.Normal.dist(0.0, WIDE)]
            pm.Mixture("z", w=[0.5, 0.5], comp_dists=exact, observed=[3.1, 3.2, 3.3, 3.4])
        pm.Normal("y", mean, 1.0, observed=Y)
    if form != "moving":
        assert "narrow mode (mean[" in of_the_slab(model).unvisited
        return
    rng = np.random.default_rng(1)
    draws = {"mean": Y + rng.normal(size=(4, 500, 4)), "centre": 10 * rng.normal(size=(4, 500))}
    assert "narrow mode" in evidence_of_draws(analyse(model), model, draws, xr.Dataset(), 1).unvisited
