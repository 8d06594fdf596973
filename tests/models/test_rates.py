"""Counts with exposures and times with censoring: graphs, evidence and modes against SciPy and statsmodels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import xarray as xr
from scipy import special, stats
from scipy.optimize import minimize

import bayeskit as bk
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.errors import BayeskitError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

POISSON, SURVIVAL = load_model("poisson_regression"), load_model("survival")
VAGUE: dict[str, Any] = {"standardise": False, "intercept_scale": 1e4, "prior_scale": 1e4}


def dataset(module: Any, **columns: Any) -> xr.Dataset:
    features = [name for name in columns if name.startswith("x")]
    return prepare(pd.DataFrame(columns), module.VARIABLES, {"x": features})


def evidence_on_a_grid(log_density: np.ndarray, *axes: np.ndarray) -> float:
    """The trapezoid rule over even axes, at whose ends the density is next to nothing."""
    return float(special.logsumexp(log_density) + sum(np.log(axis[1] - axis[0]) for axis in axes))


# --- counts -----------------------------------------------------------------------------------------------------------


def test_poisson_mode_under_vague_priors_is_the_published_fit() -> None:
    """Against statsmodels' GLM, and Dobson (2002), An Introduction to Generalized Linear Models, table 9.3."""
    data = example_data(POISSON.EXAMPLE, POISSON.VARIABLES)
    found = bk.map_estimate(POISSON.build(data, **VAGUE), random_seed=1)
    values = np.array([float(found.point["intercept"]), *found.point["weights"]])
    assert np.round(values, 2).tolist() == [-10.79, 2.38, -0.20, 1.44, -0.31]
    design = sm.add_constant(data["x"].to_numpy())
    exposure = data["exposure"].to_numpy()
    fit = sm.GLM(data["counts"].to_numpy(), design, family=sm.families.Poisson(), exposure=exposure).fit()
    assert values == pytest.approx(fit.params, rel=1e-5)


@pytest.mark.parametrize("distribution", ["poisson", "negative_binomial"])
def test_log_joint_of_counts_against_scipy(distribution: str) -> None:
    data = example_data(POISSON.EXAMPLE, POISSON.VARIABLES)
    joint = LogJoint.from_model(POISSON.build(data, distribution=distribution, **POISSON.EXAMPLE.options))
    x, y, exposure = (data[n].to_numpy() for n in ("x", "counts", "exposure"))
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    rng = np.random.default_rng(4)
    for _ in range(3):
        b, w, alpha = rng.normal(-5, 1), rng.normal(size=4), rng.gamma(2.0, 10.0)
        mu = exposure * np.exp(b + z @ w)
        expected = stats.norm(-5, 5).logpdf(b) + stats.norm(0, 2.5).logpdf(w).sum()
        point = {"intercept": b, "weights": w}
        if distribution == "poisson":
            expected += stats.poisson(mu).logpmf(y).sum()
        else:
            expected += stats.nbinom(alpha, alpha / (alpha + mu)).logpmf(y).sum() + stats.gamma(2, scale=10).logpdf(
                alpha
            )
            point["alpha"] = alpha
        assert joint.logp({n: np.asarray(v) for n, v in point.items()}) == pytest.approx(expected, rel=1e-10)


def test_poisson_evidence_against_a_dense_grid() -> None:
    x, y, exposure = np.array([0.0, 1, 2, 3, 4]), np.array([1, 0, 4, 6, 9]), np.array([2.0, 0.5, 3, 1.5, 1])
    model = POISSON.build(dataset(POISSON, counts=y, x1=x, exposure=exposure), intercept_scale=2.0, prior_scale=1.5)
    post = bk.infer(model, random_seed=1, progressbar=False)
    b, w = np.linspace(-5, 5, 101), np.linspace(-4, 5, 101)
    z = (x - x.mean()) / x.std()
    log = stats.norm(0, 2).logpdf(b)[:, None] + stats.norm(0, 1.5).logpdf(w)
    log = log + stats.poisson(exposure * np.exp(b[:, None, None] + w[:, None] * z)).logpmf(y).sum(axis=-1)
    assert post.method == "quadrature"
    assert float(post.log_evidence) == pytest.approx(evidence_on_a_grid(log, b, w), abs=1e-8)
    mean = np.sum(special.softmax(log) * w)
    assert float(np.ravel(post.marginal("weights").mean())[0]) == pytest.approx(mean, abs=1e-7)


def test_counts_without_exposure_have_one_each() -> None:
    data = dataset(POISSON, counts=[1, 3, 2], x1=[0.0, 1.0, 0.5])
    ones = dataset(POISSON, counts=[1, 3, 2], x1=[0.0, 1.0, 0.5], exposure=[1.0, 1.0, 1.0])
    point = {"intercept": np.array(0.3), "weights": np.array([0.2])}
    one, other = (LogJoint.from_model(POISSON.build(d)).logp(point) for d in (data, ones))
    assert one == other


# --- times ------------------------------------------------------------------------------------------------------------


def leukaemia() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = load_example("leukaemia")
    return tuple(table[n].to_numpy(dtype=float) for n in ("weeks", "relapse", "treated"))  # type: ignore[return-value]


@cache
def survival() -> bk.Posterior:
    data = example_data(SURVIVAL.EXAMPLE, SURVIVAL.VARIABLES)
    return bk.infer(SURVIVAL.build(data, **SURVIVAL.EXAMPLE.options), random_seed=1, progressbar=False)


def test_the_table_is_that_of_gehan() -> None:
    """Relapses and weeks at risk of both groups: 9 in 359 and 21 in 182 (Cox and Oakes 1984)."""
    weeks, relapse, treated = leukaemia()
    assert [(weeks[treated == g].sum(), relapse[treated == g].sum()) for g in (1, 0)] == [(359, 9), (182, 21)]


def test_exponential_mode_under_vague_priors_is_the_rate_of_each_group() -> None:
    data = example_data(SURVIVAL.EXAMPLE, SURVIVAL.VARIABLES)
    found = bk.map_estimate(SURVIVAL.build(data, distribution="exponential", **VAGUE), random_seed=1)
    assert float(found.point["intercept"]) == pytest.approx(np.log(182 / 21), abs=1e-6)
    assert float(found.point["weights"][0]) == pytest.approx(np.log(359 / 9) - np.log(182 / 21), abs=1e-6)


def test_exponential_evidence_against_a_dense_grid() -> None:
    """Given the rate of a group its likelihood is rate^events exp(-rate weeks)."""
    post = survival()
    b, w = np.linspace(0.5, 4.5, 101), np.linspace(-1.5, 5.5, 101)
    log = stats.norm(2, 2.5).logpdf(b)[:, None] + stats.norm(0, 2.5).logpdf(w)
    log = log - 21 * b[:, None] - 182 * np.exp(-b[:, None]) - 9 * (b[:, None] + w) - 359 * np.exp(-b[:, None] - w)
    assert post.method == "quadrature"
    assert float(post.log_evidence) == pytest.approx(evidence_on_a_grid(log, b, w), abs=1e-8)
    assert float(np.ravel(post.marginal("weights").mean())[0]) == pytest.approx(
        np.sum(special.softmax(log) * w), abs=1e-7
    )


def test_log_joint_of_times_against_scipy() -> None:
    weeks, relapse, treated = leukaemia()
    data = example_data(SURVIVAL.EXAMPLE, SURVIVAL.VARIABLES)
    options = {**SURVIVAL.EXAMPLE.options, "distribution": "weibull"}
    joint = LogJoint.from_model(SURVIVAL.build(data, **options))
    rng = np.random.default_rng(4)
    for _ in range(3):
        b, w, k = rng.normal(2, 0.5), rng.normal(1, 0.5), rng.gamma(10.0, 0.1)
        until = stats.weibull_min(k, scale=np.exp(b + w * treated))
        expected = np.where(relapse == 1, until.logpdf(weeks), until.logsf(weeks)).sum()
        expected += stats.norm(2, 2.5).logpdf(b) + stats.norm(0, 2.5).logpdf(w) + stats.lognorm(0.5).logpdf(k)
        point = {"intercept": np.array(b), "weights": np.array([w]), "shape": np.array(k)}
        assert joint.logp(point) == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
def test_weibull_mode_against_scipy_whose_likelihood_has_the_published_maximum() -> None:
    """R's survreg, as printed in Venables and Ripley (2002), section 13.2: 2.248 and 1.267, scale 0.732."""
    weeks, relapse, treated = leukaemia()

    def log_likelihood(b: float, w: float, log_k: float) -> float:
        shape, scale = np.exp(log_k), np.exp(b + w * treated)
        until = stats.weibull_min  # as it is: one that is frozen at each point would be most of the time
        alike = until.logpdf(weeks, shape, scale=scale), until.logsf(weeks, shape, scale=scale)
        return float(np.where(relapse == 1, *alike).sum())

    def log_posterior(b: float, w: float, log_k: float) -> float:
        prior = stats.norm.logpdf([b, w], 0, 50).sum() + stats.lognorm.logpdf(np.exp(log_k), 2)
        return float(log_likelihood(b, w, log_k) + prior)

    start = np.array([2.0, 1.0, 0.3])
    likely, mode = (minimize(lambda v, f=f: -f(*v), start).x for f in (log_likelihood, log_posterior))
    assert [likely[0], likely[1], np.exp(-likely[2])] == pytest.approx([2.248, 1.267, 0.732], abs=6e-4)
    wide = {"standardise": False, "intercept_scale": 50.0, "prior_scale": 50.0, "shape_scale": 2.0}
    data = example_data(SURVIVAL.EXAMPLE, SURVIVAL.VARIABLES)
    found = bk.map_estimate(SURVIVAL.build(data, **wide), random_seed=1).point
    values = [float(found["intercept"]), float(found["weights"][0]), float(np.log(found["shape"]))]
    assert values == pytest.approx(mode, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [10.0, 100.0])
def test_a_mode_is_found_where_the_mean_of_its_prior_is_beyond_all_numbers(wide: float) -> None:
    """exp(50) and exp(5000), where a search begins."""
    data = example_data(SURVIVAL.EXAMPLE, SURVIVAL.VARIABLES)
    found = bk.map_estimate(SURVIVAL.build(data, **VAGUE, shape_scale=wide), random_seed=1)
    time, event, x = (data[n].to_numpy() for n in ("time", "event", "x"))

    def lost(at: np.ndarray) -> float:
        shape, scale = np.exp(at[0]), np.exp(at[1] + at[2] * x[:, 0])
        likelihood = np.where(
            event == 1, stats.weibull_min.logpdf(time, shape, scale=scale), -((time / scale) ** shape)
        )
        return float(-likelihood.sum() - stats.lognorm.logpdf(shape, wide) - stats.norm.logpdf(at[1:], 0, 1e4).sum())

    best = minimize(lost, [0.0, 2.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    at = [np.log(found.point["shape"]), found.point["intercept"], found.point["weights"][0]]
    assert found.converged
    np.testing.assert_allclose(np.array(at, dtype=float), best.x, atol=1e-5)


def test_predictions_are_cut_where_they_are_censored() -> None:
    post = survival()
    new = {"x": [[0.0], [1.0], [1.0]], "event": [1, 1, 0], "limit": [1.0, 1.0, 5.0]}
    drawn = post.predict(new, random_seed=2)["time"].to_numpy().reshape(-1, 3)
    assert drawn[:, 2].max() == 5.0
    assert drawn[:, 1].max() > 50
    scale = np.exp(post.tree["posterior"]["intercept"].to_numpy().ravel())
    assert abs(np.mean(drawn[:, 0] / scale) - 1) < 5 / np.sqrt(len(scale))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"time": [0.0, 1.0]}, {}, "column 'time', row 1"),
        ({"event": [1, 2]}, {}, "column 'event', row 2"),
        ({}, {"distribution": "exponential", "shape_scale": 1.0}, "option shape_scale is 1.0 but has no effect here"),
    ],
)
def test_times_that_the_model_cannot_explain_are_refused(
    columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BayeskitError, match=message):
        SURVIVAL.build(
            dataset(SURVIVAL, **({"time": [2.0, 1.0], "event": [1, 0], "x1": [0.0, 1.0]} | columns)), **options
        )
