"""A walk over submodels, against the sum over all of them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk


def regression(size: int, rows: int) -> pm.Model:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, size)) + 0.8 * rng.normal(size=(rows, 1))
    y = x[:, :3] @ [0.4, 0.25, 0.3] + rng.normal(size=rows)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 2.0)
        w = pm.Normal("w", 0.0, pm.math.sqrt(variance), shape=size)
        pm.Normal("y", pm.math.dot(x, w), pm.math.sqrt(variance), observed=y)
    return model


@pytest.mark.slow
def test_the_walk_finds_what_the_sum_over_all_finds_within_its_errors() -> None:
    model = regression(8, 40)
    exact = bk.select(model, "w", top=256)
    found = bk.select(model, "w", method="metropolis", draws=16_000, random_seed=1)
    assert found.label == "estimated"
    # Eight correlated z-scores, each beyond 4.5 with a probability of 1e-5
    z = (found.inclusion["probability"] - exact.inclusion["probability"]) / found.inclusion["error"]
    assert np.all(np.abs(z) < 4.5)
    assert found.inclusion["error"].max() < 0.03
    assert abs(found.log_evidence.value - exact.log_evidence.value) < 4.5 * found.error + 1e-3
    assert found.error < 0.02
    assert np.allclose(found.inclusion["visited_probability"], exact.inclusion["probability"], rtol=0, atol=0.01)
    assert np.allclose(found.coefficients["mean"], exact.coefficients["mean"], rtol=0, atol=0.01)
    both = found.models.merge(exact.models, on="predictors")
    assert len(both) == 10
    assert np.allclose(both["log_evidence_x"], both["log_evidence_y"], rtol=0, atol=1e-9)
    one, again = (bk.select(model, "w", method="metropolis", draws=500, random_seed=1).inclusion for _ in range(2))
    assert one.equals(again)


@pytest.mark.slow
def test_the_walk_is_right_about_the_empty_submodel() -> None:
    """From it, as from the full one, there is nothing to exchange."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 4))
    y = rng.normal(size=60)
    with pm.Model() as model:
        w = pm.Normal("w", 0.0, 1.0, shape=4)
        pm.Normal("y", x @ w, 1.0, observed=y)
    exact = bk.select(model, "w", inclusion_prior=0.4)
    assert 0.3 < exact.models["posterior_probability"].max() < 0.6
    z = []
    for seed in range(2):
        found = bk.select(model, "w", inclusion_prior=0.4, method="metropolis", random_seed=seed).inclusion
        z.append((found["probability"] - exact.inclusion["probability"]) / found["error"])
    assert np.sqrt(np.mean(np.square(z))) < 1.6


def test_more_coefficients_than_can_be_summed_over_are_searched() -> None:
    found = bk.select(regression(30, 200), "w", draws=2_000, random_seed=2)
    assert found.label == "estimated"
    assert set(found.median_probability_model) >= {0, 2}
    assert "searched, not summed" in found.notes[-1]
    with pytest.raises(bk.BayeskitError, match=r"2\^30 submodels are too many"):
        bk.select(regression(30, 200), "w", method="all")
