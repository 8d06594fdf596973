"""Means that the density on a grid does not tell: from draws where their tail allows, else a word on why not."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayeskit as bk
from bayeskit.results.moments import moments_where_unknown, unknown_moments

DOSE = np.tile([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100], 2)
RESPONSE = np.array([2.1, 3.0, 4.8, 11, 28, 55, 78, 90, 95, 1.2, 2.4, 6.1, 13, 31, 52, 81, 88, 97])
RNG = np.random.default_rng(0)


def draws_of(values: np.ndarray) -> xr.DataArray:
    return xr.DataArray(values.reshape(4, 1000, -1), dims=("chain", "draw", "x"))


def test_a_dose_response_curve_has_the_mean_of_its_draws_and_says_so() -> None:
    with pm.Model() as model:
        ec50, sigma = pm.LogNormal("ec50", 0, 2), pm.HalfNormal("sigma", 5)
        pm.Normal("response", 98.0 / (1 + ec50 / DOSE), sigma, observed=RESPONSE)
    log_ec, log_sigma = np.linspace(-1, 3, 2001)[:, None], np.linspace(-2, 4, 200)
    squares = ((RESPONSE - 98.0 / (1 + np.exp(log_ec) / DOSE)) ** 2).sum(axis=1)[:, None]
    log_p = -squares / 2 / np.exp(2 * log_sigma) - (DOSE.size - 1) * log_sigma
    log_p = log_p + stats.norm.logpdf(log_ec, 0, 2) + stats.halfnorm.logpdf(np.exp(log_sigma), scale=5)
    p = np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()
    mean = np.sum(p * np.exp(log_ec))
    sd = np.sqrt(np.sum(p * (np.exp(log_ec) - mean) ** 2))
    post = bk.infer(model, random_seed=1)
    summary = post.summary()
    row = summary.loc["ec50"]
    assert np.isnan(post.marginal("ec50").mean())
    assert row["label"] == "quadrature interval, estimated moments"
    assert row["mcse_mean"] == pytest.approx(sd / np.sqrt(4000), rel=0.1)
    assert abs(row["mean"] - mean) < 4 * row["mcse_mean"]
    assert row["sd"] == pytest.approx(sd, rel=0.1)
    assert "does not tell whether it has one" in post.marginal("ec50")._repr_html_()
    assert summary.loc["sigma", ["mcse_mean", "label"]].tolist() == [0.0, "quadrature"]


def test_draws_of_heavy_tails_have_no_mean_either() -> None:
    draws = draws_of(np.stack([RNG.normal(size=4000), RNG.standard_cauchy(4000), RNG.standard_t(1.3, 4000)], 1))
    mean, sd, error, label = moments_where_unknown(np.full(3, np.nan), np.full(3, np.nan), draws, "quadrature")
    assert np.isfinite(mean).tolist() == np.isfinite(sd).tolist() == [True, False, False]
    assert error[0] == pytest.approx(1 / np.sqrt(4000), rel=0.1)
    assert label.tolist() == ["quadrature interval, estimated moments"] + 2 * [
        "quadrature; mean and sd not known, for the tail is too heavy"
    ]


def test_what_is_known_or_infinite_is_left() -> None:
    draws = draws_of(RNG.normal(size=(4000, 3)))
    mean, sd, error, label = moments_where_unknown(
        np.array([1.0, np.inf, 2.0]), np.array([1.0, np.inf, np.nan]), draws, "quadrature"
    )
    assert mean.tolist() == [1.0, np.inf, 2.0]
    assert sd[:2].tolist() == [1.0, np.inf]
    assert sd[2] == pytest.approx(1, rel=0.1)
    assert not np.any(error)
    assert label.tolist() == ["quadrature", "quadrature", "quadrature, estimated sd"]


def test_an_sd_that_is_known_to_be_infinite_stays_so_whatever_the_draws_say() -> None:
    mean, sd, error, label = moments_where_unknown(
        np.array([np.nan]), np.array([np.inf]), draws_of(RNG.normal(size=(4000, 1))), "quadrature"
    )
    assert np.isnan(mean[0])
    assert sd[0] == np.inf
    assert error[0] == 0.0
    assert label[0] == "quadrature; the sd is infinite, the mean not known"


@pytest.mark.slow
@pytest.mark.parametrize("length", [250, 1000])
@pytest.mark.parametrize(
    ("law", "fewest", "most"),
    [
        (stats.norm(), 0, 0),
        (stats.t(5), 0, 1),
        (stats.expon(), 0, 0),
        (stats.invgamma(5), 0, 3),
        (stats.halfcauchy(), 95, 100),
        (stats.pareto(2), 40, 100),
    ],
    ids=["Normal", "t5", "Exponential", "InverseGamma", "half-Cauchy", "1/x³"],
)
def test_draws_without_a_variance_are_found_and_others_are_left_alone(
    law: stats.rv_continuous, fewest: int, most: int, length: int
) -> None:
    draws = xr.DataArray(law.rvs(size=(4, length, 100), random_state=1), dims=("chain", "draw", "entry"))
    found = unknown_moments(draws)
    assert fewest <= len(found) <= most
    if law.dist.name == "halfcauchy":
        assert sum(missing == "mean and sd" for _, missing in found.values()) >= 80


@pytest.mark.slow
def test_importance_sampling_and_a_tree_of_draws_say_that_a_scale_has_no_variance() -> None:
    """Of a half-Cauchy scale of one effect, which has an observation, the density falls like 1/x³."""
    with pm.Model() as model:
        local, shared = pm.HalfCauchy("local", 1.0, shape=2), pm.HalfNormal("shared", 1.0)
        effect = pm.Normal("effect", 0.0, local * shared, shape=2)
        pm.Normal("y", effect, 1.0, observed=[0.3, 9.0])
    post = bk.infer(model, method="importance", random_seed=1)
    summary = post.summary()
    row = summary.loc["local[1]"]
    assert np.isnan(row["sd"]) and row["label"].startswith("estimated; ") and "tail index k = " in row["label"]
    assert np.isfinite(row["eti89_ub"])
    assert np.isfinite(summary.loc["shared", "sd"])
    assert any("not finite, or not known from draws, for local[" in note for note in post.plan.notes)
    draws = xr.DataTree.from_dict({"posterior": post.tree["posterior"].to_dataset()})
    doubts = bk.report_section(draws, "posterior", model=model).doubts
    assert any("not finite, or not known from draws, for local[" in doubt for doubt in doubts)
