"""Structural time series: likelihood, smoothing and forecasts at equal parameters against statsmodels' Kalman filter.

statsmodels is given the prior of the first state as it is here (a known initialisation) and, where the season changes,
no noise in the steps to the first S - 1 effects, which are all part of the first state here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import linalg, special, stats
from statsmodels.tsa.statespace.initialization import Initialization
from statsmodels.tsa.statespace.structural import UnobservedComponents

import bayeskit as bk
from bayeskit.cli import main
from bayeskit.datasets import load_example, prepare
from bayeskit.errors import BayeskitError
from bayeskit.models import load_model

MODULE = load_model("structural_time_series")
SDS = {"noise": 0.13, "level_step": 0.21, "slope_step": 0.04, "season_step": 0.07}
PRIORS = {"level_mean": 315.0, "level_scale": 3.0, "slope_scale": 0.4}
SEASON_SCALE, WEIGHT_SCALE = 1.5, 2.0


def series(y: Any, **features: Any) -> xr.Dataset:
    table = pd.DataFrame({"y": y} | features)
    return prepare(table, MODULE.VARIABLES, {"x": tuple(features)} if features else {})


def kalman(y: np.ndarray, trend: str, period: int, changing: bool, x: np.ndarray | None = None) -> Any:
    """statsmodels' model with the sds SDS and the priors PRIORS; its states are level, slope, season, weights."""
    model = UnobservedComponents(
        y, level=True, stochastic_level=True, trend=True, stochastic_trend=trend == "walk", irregular=True,
        seasonal=period, stochastic_seasonal=changing, exog=x, mle_regression=False,
    )  # fmt: skip
    season = SEASON_SCALE**2 * (period * np.eye(period) - 1)[:-1, :-1] / (period - 1)
    covariance = linalg.block_diag(PRIORS["level_scale"] ** 2, PRIORS["slope_scale"] ** 2, season)
    if x is not None:
        covariance = linalg.block_diag(covariance, WEIGHT_SCALE**2 * np.eye(x.shape[1]))
    mean = np.append(PRIORS["level_mean"], np.zeros(len(covariance) - 1))
    model.ssm.loglikelihood_burn = 0
    model.ssm.initialize(Initialization(len(mean), "known", constant=mean, stationary_cov=covariance))
    names = {"sigma2.irregular": "noise", "sigma2.level": "level_step", "sigma2.trend": "slope_step"}
    model.update(np.array([SDS[names.get(name, "season_step")] ** 2 for name in model.param_names]))
    if changing:
        steps = np.repeat(model.ssm["state_cov"][:, :, None], len(y), axis=2)
        steps[-1, -1, : period - 2] = 0.0
        model.ssm["state_cov"] = steps
    return model


def test_changing_season_and_slope_with_missing_rows_and_forecasts_at_equal_parameters() -> None:
    y = load_example("mauna_loa")["co2"].to_numpy()[:24]  # of which rows 21 and 22 are missing
    model = MODULE.build(series(y), trend="walk", period=4, ahead=5, season_scale=SEASON_SCALE, **PRIORS)
    post = bk.infer(pm.do(model, SDS), draws=100, random_seed=1)
    state_space = kalman(np.append(y, np.full(5, np.nan)), "walk", 4, changing=True)
    smoothed = state_space.ssm.smooth()
    assert post.method == "exact"
    assert float(post.log_evidence) == pytest.approx(state_space.ssm.loglike(), abs=1e-8)
    for name, state in (("level", 0), ("slope", 1), ("season", 2)):
        found = post.marginal(name)
        assert np.asarray(found.mean()) == pytest.approx(smoothed.smoothed_state[state], abs=1e-8)
        assert np.asarray(found.var()) == pytest.approx(smoothed.smoothed_state_cov[state, state], abs=1e-8)
    ahead = post.marginal("forecast")
    assert list(post.tree["posterior"]["forecast"]["missing_row"].to_numpy()) == [20, 21, 24, 25, 26, 27, 28]
    assert np.asarray(ahead.mean()) == pytest.approx(smoothed.smoothed_forecasts[0, np.isnan(state_space.endog[:, 0])])


def test_repeating_season_and_weights_at_equal_parameters() -> None:
    """Without change in the season every response has its effect by its place in the season."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(14, 2)), 315 + rng.normal(size=14)
    options: dict[str, Any] = {"trend": "constant", "period": 3, "season": "constant", "season_scale": SEASON_SCALE}
    options |= PRIORS | {"standardise": False, "prior_scale": WEIGHT_SCALE}
    model = MODULE.build(series(y, x1=x[:, 0], x2=x[:, 1]), **options)
    post = bk.infer(pm.do(model, {n: v for n, v in SDS.items() if n in model.named_vars}), draws=100, random_seed=1)
    state_space = kalman(y, "constant", 3, changing=False, x=x)
    smoothed = state_space.ssm.smooth()
    assert float(post.log_evidence) == pytest.approx(state_space.ssm.loglike(), abs=1e-8)
    assert np.asarray(post.marginal("weights").mean()) == pytest.approx(smoothed.smoothed_state[-2:, -1], abs=1e-8)
    drawn = post.tree["posterior"]["season"]
    assert np.abs(drawn.sum("phase")).max() < 1e-12
    assert drawn.sel(phase=2).std() == pytest.approx(np.sqrt(smoothed.smoothed_state_cov[2, 2, 1]), rel=0.25)


@pytest.mark.slow
def test_evidence_of_a_level_against_a_dense_grid() -> None:
    """y is Normal with covariance s² 11ᵀ + τ² min(i, j) + σ² I; the logarithms of both sds are on an even grid."""
    y = load_example("nile")["volume"].to_numpy()[:9].astype(float)
    given = {"level_mean": 1100.0, "level_scale": 200.0, "noise": 90.0, "level_step": 60.0, "step_spread": 0.5}
    post = bk.infer(MODULE.build(series(y), **given), draws=100, random_seed=1, progressbar=False)
    steps = np.minimum.outer(np.arange(9), np.arange(9))
    log_noise, log_step = np.log(90) + np.linspace(-3.5, 3.5, 61), np.log(60) + np.linspace(-3.5, 3.5, 61)
    walk = np.exp(2 * log_step)[:, None, None] * steps
    covariance = 200.0**2 + walk + np.exp(2 * log_noise)[:, None, None, None] * np.eye(9)
    values, vectors = np.linalg.eigh(covariance)
    white = np.einsum("...ij,i->...j", vectors, y - 1100) / np.sqrt(values)
    log = -0.5 * np.sum(white**2 + np.log(2 * np.pi * values), axis=-1)
    log += stats.norm(np.log(90), 0.5).logpdf(log_noise)[:, None] + stats.norm(np.log(60), 0.5).logpdf(log_step)
    assert post.method == "quadrature"
    expected = special.logsumexp(log) + 2 * np.log(7 / 60)
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-7)


def test_a_wide_first_level_is_the_exact_diffuse_likelihood_but_for_its_sd() -> None:
    """At the estimates of Durbin and Koopman (2012), section 2.2.5, for the Nile."""
    y = load_example("nile")["volume"].to_numpy()
    model = MODULE.build(series(y), level_scale=1e7)
    post = bk.infer(pm.do(model, {"noise": np.sqrt(15099.0), "level_step": np.sqrt(1469.1)}), draws=20, random_seed=1)
    diffuse = UnobservedComponents(y, "local level", use_exact_diffuse=True).loglike([15099.0, 1469.1])
    assert float(post.log_evidence) + np.log(1e7) == pytest.approx(diffuse, abs=1e-6)


@pytest.mark.slow
def test_csv_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sales.csv").write_text("month,sold\n2024-01,5.1\n2024-02,6\n2024-03,\n2024-04,7.2\n2024-05,6.6\n")
    given = ["--data", str(tmp_path / "sales.csv"), "--columns", "y=sold,row=month"]
    assert main(["infer", "structural_time_series", *given, "--set", "ahead=2"]) == 0
    printed = capsys.readouterr().out
    assert "forecast[2024-05 + 2]" in printed
    assert "forecast[2024-03]" in printed


def test_a_series_whose_squares_overflow_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "large.csv").write_text("y\n1e300\n2e300\n-1e300\n3e300\n")
    assert main(["infer", "structural_time_series", "--data", str(tmp_path / "large.csv"), "--columns", "y=y"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and "give the series in a larger unit" in printed.err


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ({}, {"period": 4}, "the series has 4 rows; it needs more than 4, the steps of one season"),
        ({"x1": [1.0, 2, 3, 4]}, {"ahead": 1}, "option ahead is 1, but the features of those steps are not known"),
        ({}, {"slope_step": 1.0, "trend": "constant"}, "option slope_step is 1.0 but has no effect here"),
        ({}, {"season_step": 1.0}, "option season_step is 1.0 but has no effect here"),
        ({}, {"prior_scale": 1.0}, "set features x too"),
    ],
)
def test_options_without_effect_and_short_series_are_refused(
    features: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BayeskitError, match=message):
        MODULE.build(series([1.0, 2.0, np.nan, 2.5], **features), **options)
