"""Regressions without a closed form: graphs and evidence against SciPy, scikit-learn and statsmodels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import xarray as xr
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

import bayeskit as bk
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.errors import BayeskitError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

LOGISTIC, ROBUST = load_model("logistic_regression"), load_model("robust_regression")


def o_rings() -> tuple[np.ndarray, np.ndarray]:
    table = load_example("o_rings")
    return table["temperature"].to_numpy(dtype=float), table["distress"].to_numpy()


def dataset(module: Any, **columns: Any) -> xr.Dataset:
    features = [name for name in columns if name.startswith("x")]
    return prepare(pd.DataFrame(columns), module.VARIABLES, {"x": features})


@cache
def fitted(**options: Any) -> bk.Posterior:
    data = example_data(LOGISTIC.EXAMPLE, LOGISTIC.VARIABLES)
    return bk.infer(LOGISTIC.build(data, **options), random_seed=1, progressbar=False)


# --- logistic regression ----------------------------------------------------------------------------------------------


@cache
def on_a_grid(link: str) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Log evidence, intercepts, slopes and posterior shares of O-rings on an even grid: SciPy's densities alone.

    The integrand is smooth and vanishes at the edges, so that the trapezoid rule errs by less than 1e-10.
    """
    t, y = o_rings()
    z = (t - t.mean()) / t.std()
    intercept, slope = (v.ravel() for v in np.meshgrid(np.linspace(-9, 6, 101), np.linspace(-13, 7, 101)))
    eta = intercept[:, None] + slope[:, None] * z
    log_p, log_q = (
        (special.log_expit(eta), special.log_expit(-eta))
        if link == "logit"
        else (stats.norm.logcdf(s * eta) for s in (1, -1))
    )
    log = np.where(y == 1, log_p, log_q).sum(axis=1)
    log += stats.norm(0, 5).logpdf(intercept) + stats.norm(0, 2.5).logpdf(slope)
    total = special.logsumexp(log)
    return total + np.log(15 / 100 * 20 / 100), intercept, slope, np.exp(log - total)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_logistic_evidence_and_moments_against_a_dense_grid(link: str) -> None:
    post = fitted(link=link)
    expected, intercept, slope, share = on_a_grid(link)
    assert post.method == "quadrature"
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-8)
    for name, values in (("intercept", intercept), ("weights", slope)):
        mean = share @ values
        assert np.ravel(post.marginal(name).mean()) == pytest.approx(mean, abs=1e-7)
        assert np.ravel(post.marginal(name).std()) == pytest.approx(np.sqrt(share @ (values - mean) ** 2), abs=1e-7)


def test_logistic_by_importance_sampling_against_the_same_grid() -> None:
    data = example_data(LOGISTIC.EXAMPLE, LOGISTIC.VARIABLES)
    post = bk.infer(LOGISTIC.build(data), method="importance", random_seed=1, progressbar=False)
    evidence = post.log_evidence
    assert evidence.label == "estimated"
    assert abs(float(evidence) - on_a_grid("logit")[0]) < 4 * evidence.error
    assert evidence.error < 1e-3


def test_flat_logistic_mode_is_that_of_maximum_likelihood() -> None:
    """Against statsmodels, scikit-learn without penalty, and the numbers of Dalal, Fowlkes and Hoadley (1989)."""
    t, y = o_rings()
    data = example_data(LOGISTIC.EXAMPLE, LOGISTIC.VARIABLES)
    found = bk.map_estimate(LOGISTIC.build(data, prior="flat", standardise=False), random_seed=1)
    values = [float(found.point["intercept"]), float(found.point["weights"][0])]
    assert np.round(values, 3).tolist() == [15.043, -0.232]
    fit = sm.Logit(y, sm.add_constant(t)).fit(disp=False)
    assert values == pytest.approx(fit.params, rel=1e-5)
    assert found.log_density == pytest.approx(fit.llf, abs=1e-9)
    other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(t[:, None] - t.mean(), y)
    assert values[1] == pytest.approx(other.coef_[0, 0], rel=1e-4)
    assert values[0] + values[1] * t.mean() == pytest.approx(other.intercept_[0], abs=1e-4)


def test_flat_logistic_has_a_posterior_and_no_evidence() -> None:
    post = fitted(prior="flat")
    assert np.isnan(float(post.log_evidence))
    assert "Flat" in post.log_evidence.reason
    t, y = o_rings()
    z = (t - t.mean()) / t.std()
    intercept, slope = (v.ravel() for v in np.meshgrid(np.linspace(-7, 5, 101), np.linspace(-14, 4, 101)))
    eta = intercept[:, None] + slope[:, None] * z
    share = special.softmax(np.where(y == 1, special.log_expit(eta), special.log_expit(-eta)).sum(axis=1))
    draws = post.tree["posterior"]["weights"].to_numpy().ravel()
    mean = share @ slope
    sd = np.sqrt(share @ (slope - mean) ** 2)
    assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(draws.size)
    assert draws.std() == pytest.approx(sd, rel=0.1)


def test_probability_at_the_temperature_of_the_last_flight() -> None:
    t, _ = o_rings()
    _, intercept, slope, share = on_a_grid("logit")
    p = special.expit(intercept + slope * (31 - t.mean()) / t.std())
    drawn = fitted(link="logit").predict({"x": [[31.0]]}, random_seed=3)["y"].to_numpy()
    expected = share @ p
    assert expected > 0.9
    assert abs(drawn.mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / drawn.size)


@pytest.mark.parametrize(
    ("x1", "x2", "y", "refused"),
    [
        ([1, 2, 3, 4], [0, 1, 1, 0], [0, 0, 1, 1], "separate the events"),
        ([1, 2, 2, 4], [0, 0, 0, 0.5], [0, 0, 1, 1], "separate the events"),  # quasi-separated: a tie
        ([1, 2, 3, 4], [0, 1, 1, 0], [1, 1, 1, 1], "separate the events"),
        ([1, 2, 3, 4, 5], [2, 4, 6, 8, 10], [0, 1, 0, 1, 0], "a combination of others"),
        ([1, 2, 3, 4, 5], [7, 7, 7, 7, 7], [0, 1, 0, 1, 0], "a combination of others"),
        ([1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0, 1], ""),
    ],
)
def test_flat_priors_need_data_that_are_not_separated(x1: Any, x2: Any, y: Any, refused: str) -> None:
    data = dataset(LOGISTIC, y=y, x1=x1, x2=x2)
    LOGISTIC.build(data)  # a proper prior has an answer to all of them
    if refused:
        with pytest.raises(BayeskitError, match=refused):
            LOGISTIC.build(data, prior="flat")
    else:
        LOGISTIC.build(data, prior="flat")


def test_options_of_a_normal_prior_are_refused_with_a_flat_one() -> None:
    data = example_data(LOGISTIC.EXAMPLE, LOGISTIC.VARIABLES)
    with pytest.raises(BayeskitError, match=r"option prior_scale is 1\.0 but has no effect here; set prior=normal too"):
        LOGISTIC.build(data, prior="flat", prior_scale=1.0)


@pytest.mark.parametrize("y", [[0, 1, 2], [0.5, 1, 0]])
def test_a_response_that_is_not_binary_is_refused(y: Any) -> None:
    with pytest.raises(BayeskitError, match="column 'y', row"):
        LOGISTIC.build(dataset(LOGISTIC, y=y, x1=[1.0, 2.0, 3.0]))


# --- robust regression ------------------------------------------------------------------------------------------------


def outlying() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = np.linspace(-1, 1, 9)
    y = 1 + 2 * x + 0.8 * rng.normal(size=9)
    y[7] += 6
    return x, y


def test_robust_log_joint_against_scipy() -> None:
    data = example_data(ROBUST.EXAMPLE, ROBUST.VARIABLES)
    joint = LogJoint.from_model(ROBUST.build(data, **ROBUST.EXAMPLE.options))
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    rng = np.random.default_rng(4)
    for _ in range(3):
        b, w, sigma, nu = rng.normal(18, 2), rng.normal(size=3) * 4, rng.gamma(3.0), rng.gamma(3.0, 3.0)
        expected = stats.t(nu, b + z @ w, sigma).logpdf(y).sum() + stats.norm(20, 10).logpdf(b)
        expected += stats.norm(0, 10).logpdf(w).sum() + stats.halfnorm(scale=5).logpdf(sigma)
        expected += stats.gamma(2, scale=10).logpdf(nu)
        point = {"intercept": b, "weights": w, "sigma": sigma, "nu": nu}
        assert joint.logp({n: np.asarray(v) for n, v in point.items()}) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_robust_evidence_and_slope_against_a_dense_rule() -> None:
    """Gauss–Legendre over the three numbers; the outlier pulls the slope of least squares."""
    x, y = outlying()
    options: dict[str, Any] = {"freedom": 3.0, "standardise": False, "intercept_scale": 3.0, "prior_scale": 3.0}
    options |= {"intercept_mean": 0.0, "noise_scale": 1.0}
    post = bk.infer(ROBUST.build(dataset(ROBUST, y=y, x1=x), **options), random_seed=1, progressbar=False)
    assert post.method == "quadrature"
    nodes, weights = np.polynomial.legendre.leggauss(64)

    def over(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        return (low + high) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights

    (b, wb), (w, ww), (u, wu) = over(-4, 7), over(-5, 9), over(-3.0, 1.6)
    line = b[:, None, None, None] + w[:, None, None] * x
    log = stats.t(3.0).logpdf((y - line) / np.exp(u)[:, None]).sum(axis=-1) - (len(y) - 1) * u
    log += stats.norm(0, 3).logpdf(b)[:, None, None] + stats.norm(0, 3).logpdf(w)[:, None]
    log += stats.halfnorm().logpdf(np.exp(u)) + np.log(wb)[:, None, None] + np.log(ww)[:, None] + np.log(wu)
    expected = special.logsumexp(log)
    assert float(post.log_evidence) == pytest.approx(expected, abs=2e-6)
    mean = float(np.sum(np.exp(log - expected) * w[:, None]))
    assert float(np.ravel(post.marginal("weights").mean())[0]) == pytest.approx(mean, abs=1e-5)
    least_squares = np.polyfit(x, y, 1)[0]
    assert least_squares > 3.5
    assert mean < 3


def test_priors_that_are_not_given_go_with_the_unit_of_the_response() -> None:
    """In thousandths the density is that of y, times 1000 for each row, at the same point in that unit."""
    x, y = outlying()
    joint, other = (LogJoint.from_model(ROBUST.build(dataset(ROBUST, y=k * y, x1=x))) for k in (1.0, 1000.0))
    values = {"intercept": np.array(0.7), "weights": np.array([1.3]), "sigma": np.array(0.9)}
    point = {**values, "nu": np.array(4.0)}
    larger = {name: 1000 * value for name, value in values.items()} | {"nu": np.array(4.0)}
    assert other.logp(larger) == pytest.approx(joint.logp(point) - (len(y) + 3) * np.log(1000), abs=1e-9)


def test_with_many_degrees_of_freedom_it_is_the_linear_regression() -> None:
    """The same density at every point, under the same priors."""
    x, y = outlying()
    shared: dict[str, Any] = {"noise": "half_normal", "noise_scale": 2.0, "intercept_scale": 4.0, "prior_scale": 3.0}
    shared["intercept_mean"] = 0.0
    robust = LogJoint.from_model(ROBUST.build(dataset(ROBUST, y=y, x1=x), freedom=1e7, **shared))
    line = load_model("linear_regression")
    normal = LogJoint.from_model(line.build(dataset(line, y=y, x1=x), **shared))
    rng = np.random.default_rng(4)
    for _ in range(5):
        point = {"intercept": rng.normal(1, 1), "weights": rng.normal(2, 1, size=1)}
        sd = rng.uniform(1.0, 3.0)
        found, expected = (
            joint.logp({n: np.asarray(v) for n, v in {**point, name: sd}.items()})
            for joint, name in ((robust, "sigma"), (normal, "noise_sd"))
        )
        assert found == pytest.approx(expected, abs=1e-5)
