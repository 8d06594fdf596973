"""Components have no names: what is asked of one of them is asked over all labellings, whatever the chains did."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit import Posterior
from bayeskit.marginal_likelihood.relabelling import over_all_labellings

Y = [-2.1, -1.8, -2.4, -1.9, 1.9, 2.2]


METHODS = pytest.mark.parametrize("method", ["nuts", "importance"])


def mixture() -> pm.Model:
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", np.ones(2))
        mean = pm.Normal("mean", 0.0, 2.0, shape=2, initval=[-2.0, 2.0])
        pm.Deterministic("first", mean[0])
        pm.NormalMixture("y", weight, mean, 0.5, observed=Y)
    return model


@cache
def posterior(method: str) -> Posterior:
    """By NUTS, whose chains all stay in the labelling that they start in, or of one that is integrated for all."""
    found = bk.infer(mixture(), method=method, draws=800, random_seed=1, progressbar=False)
    draws = found.tree["posterior"]["mean"]
    assert bool((draws[..., 0] < draws[..., 1]).all() | (draws[..., 0] > draws[..., 1]).all())
    return found


@pytest.mark.slow
@METHODS
def test_every_labelling_is_as_frequent_as_any_other(method: str) -> None:
    before, after = posterior(method).tree["posterior"], over_all_labellings(posterior(method)).tree["posterior"]
    sides = (after["mean"][..., 0] < after["mean"][..., 1]).mean(("chain", "draw"))
    assert float(sides) == 0.5
    for name in ("weight", "mean"):
        pairs = [np.sort(draws[name].to_numpy(), axis=-1) for draws in (before, after)]
        np.testing.assert_array_equal(*pairs)
    np.testing.assert_array_equal(after["first"], after["mean"][..., 0])
    moved = after["mean"][..., 0] != before["mean"][..., 0]
    np.testing.assert_array_equal(after["weight"].where(moved)[..., 0], before["weight"].where(moved)[..., 1])


@pytest.mark.slow
@METHODS
def test_an_order_of_components_says_nothing(method: str) -> None:
    found = posterior(method).hypothesis("mean[0] < mean[1]", random_seed=1)
    if method == "nuts":
        assert found.posterior_probability == 0.5
        assert found.log_bayes_factor == pytest.approx(0.0, abs=1e-12)
    else:  # of 100,000 draws at one of two labellings that overlap next to nowhere a few are on the other side
        assert found.posterior_probability == pytest.approx(0.5, abs=1e-4)
        assert found.log_bayes_factor == pytest.approx(0.0, abs=4e-4)


@pytest.mark.slow
@METHODS
def test_one_components_prior_has_the_sensitivity_of_the_others(method: str) -> None:
    """By symmetry; in one labelling the weights of a third and two thirds make them differ by 0.7."""
    table = posterior(method).sensitivity().table
    one, other = table.loc["weight.a[0]"], table.loc["weight.a[1]"]
    assert abs(one["derivative"] - other["derivative"]) < 4 * np.hypot(one["error"], other["error"])
    assert one["error"] < 0.02


@pytest.mark.slow
def test_one_labelling_stays_where_the_model_has_one() -> None:
    exact = bk.infer(coin(), draws=8, random_seed=1)
    assert over_all_labellings(exact) is exact
    sampled = bk.infer(coin(), method="nuts", draws=40, random_seed=1, progressbar=False, sampler={"tune": 50})
    xr.testing.assert_identical(over_all_labellings(sampled).tree["posterior"], sampled.tree["posterior"])


def coin() -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Beta("p", 2.0, 2.0), observed=4)
    return model
