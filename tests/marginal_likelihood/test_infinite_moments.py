"""Moments that are infinite are told by the density, from draws that do not show it: powers of textbook tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit.graphs.environment import lightly
from bayeskit.marginal_likelihood.infinite_moments import tail_indices
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.moments import TAIL_INDEX, unknown_moments

RNG = np.random.default_rng(5)

#: A prior, and the α of its density 1/x^(1 + α); None where all of its moments that are asked for are finite.
PRIORS: dict[str, tuple[Callable[[], Any], float | None]] = {
    "half-Cauchy": (lambda: pm.HalfCauchy("x", 3.0), 1.0),
    "Cauchy": (lambda: pm.Cauchy("x", -2.0, 0.1), 1.0),
    "half-t": (lambda: pm.HalfStudentT("x", nu=1.7, sigma=2.0), 1.7),
    "t": (lambda: pm.StudentT("x", nu=2.0, mu=1.0, sigma=1e3), 2.0),
    "inverse gamma": (lambda: pm.InverseGamma("x", 0.6, 4.0), 0.6),
    "t of three degrees": (lambda: pm.StudentT("x", nu=3.0, mu=0.0, sigma=1.0), None),
    "half-normal": (lambda: pm.HalfNormal("x", 5.0), None),
    "log-normal": (lambda: pm.LogNormal("x", 0.0, 3.0), None),
    "gamma": (lambda: pm.Gamma("x", 0.01, 0.01), None),
    "beta": (lambda: pm.Beta("x", 0.1, 0.1), None),
}


def indices_of(model: pm.Model) -> dict[str, np.ndarray]:
    with lightly():
        space = Unconstrained(model)
        return tail_indices(space, RNG.normal(size=(200, space.size)))


@pytest.mark.parametrize("name", PRIORS)
def test_the_power_is_that_of_the_density(name: str) -> None:
    prior, power = PRIORS[name]
    with pm.Model() as model:
        x = prior()
        pm.Bernoulli("y", p=0.5 + 0.25 * pm.math.tanh(x), observed=[0, 1])  # which bounds the likelihood away from zero
    found = indices_of(model)
    if power is None:
        assert not found
    else:
        np.testing.assert_allclose(found["x"], 1.0 / power, rtol=0.02)


def test_data_that_cut_the_tail_off_leave_none() -> None:
    with pm.Model() as model:
        x = pm.Cauchy("x", 0.0, 1.0, shape=3)
        pm.Normal("y", x[0], 1.0, observed=0.3)
        pm.Bernoulli("z", logit_p=x[1], observed=0)
    found = indices_of(model)["x"]
    np.testing.assert_allclose(
        found, [0.0, 1.0, 1.0], atol=0.02
    )  # of the second, the one side that zeros say nothing of


@pytest.mark.slow
def test_what_the_density_tells_is_a_label_and_a_note() -> None:
    draws = xr.DataArray(RNG.normal(size=(4, 50, 2)), dims=("chain", "draw", "k"), attrs={TAIL_INDEX: [0.0, 1.0]})
    assert unknown_moments(draws) == {1: (1.0, "mean and sd")}
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=4)
        scale = pm.HalfCauchy("scale", 1.0)
        mean = np.linspace(-1.0, 1.0, 24).reshape(6, 4) @ slopes
        pm.Poisson("y", pm.math.exp(mean) * scale / (1.0 + scale), observed=[0, 1, 0, 2, 1, 0])
    post = bk.infer(model, method="importance", random_seed=1, progressbar=False)
    table = post.summary()
    assert np.isnan(table.loc["scale", ["mean", "sd"]].astype(float)).all()
    assert "not known" in table.loc["scale", "label"]
    assert np.isfinite(table.loc["slopes[0]", "mean"])
    assert any("scale" in note and "read quantiles" in note for note in post.plan.notes)
