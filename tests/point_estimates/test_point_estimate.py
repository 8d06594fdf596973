"""Maxima of the evidence and posterior modes, against scikit-learn and direct maximisation of textbook formulas."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from remainder_cases import REMAINDERS
from scipy import optimize, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import BayesianRidge

import bayeskit as bk

RNG = np.random.default_rng(3)


def test_ridge_is_scikit_learns() -> None:
    """BayesianRidge with flat hyperpriors maximises the same evidence."""
    x = RNG.normal(size=(60, 4))
    y = x @ [1.0, -2.0, 0.5, 0.0] + 0.7 * RNG.normal(size=60)
    with pm.Model() as model:
        sigma, tau = pm.HalfCauchy("sigma", 1.0), pm.HalfCauchy("tau", 1.0)
        weights = pm.Normal("weights", 0.0, tau, shape=4)
        pm.Normal("y", x @ weights, sigma, observed=y)
    ours = bk.maximize_evidence(model, random_seed=1)
    options = {"alpha_1": 0.0, "alpha_2": 0.0, "lambda_1": 0.0, "lambda_2": 0.0}
    theirs = BayesianRidge(fit_intercept=False, tol=1e-12, max_iter=5000, **options).fit(x, y)
    assert float(ours.point["sigma"]) == pytest.approx(theirs.alpha_**-0.5, rel=1e-5)
    assert float(ours.point["tau"]) == pytest.approx(theirs.lambda_**-0.5, rel=1e-5)
    assert ours.converged and ours.gradient < 1e-6
    covariance = float(ours.point["sigma"]) ** 2 * np.eye(60) + float(ours.point["tau"]) ** 2 * x @ x.T
    assert ours.log_density == pytest.approx(stats.multivariate_normal(cov=covariance).logpdf(y), rel=1e-9)
    draws = ours.draw(20_000, random_seed=2)["weights"]
    assert draws.mean(axis=0) == pytest.approx(theirs.coef_, abs=5 * draws.std() / 20_000**0.5)


def test_counts_against_direct_maximisation() -> None:
    counts = np.array([0, 9, 1, 14, 2, 30])
    with pm.Model() as model:
        a, b = pm.HalfNormal("a", 20.0), pm.HalfNormal("b", 20.0)
        pm.Poisson("y", pm.Gamma("rate", a, b, shape=6), observed=counts)
    ours = bk.maximize_evidence(model, random_seed=1)

    def objective(t: np.ndarray) -> float:
        a, b = np.exp(t)
        return -float(stats.nbinom(a, b / (b + 1)).logpmf(counts).sum())

    best = optimize.minimize(objective, [0.0, 0.0], tol=1e-12)
    assert ours.log_density == pytest.approx(-best.fun, abs=1e-8)
    assert [float(v) for v in ours.point.values()] == pytest.approx(np.exp(best.x), rel=1e-3)


def test_process_has_scikit_learns_hyperparameters() -> None:
    x = np.sort(RNG.uniform(0, 6, 25))[:, None]
    y = np.sin(x[:, 0]) + 0.2 * RNG.normal(size=25)
    with pm.Model() as model:
        amplitude, length, noise = (pm.HalfCauchy(n, 1.0) for n in ("amplitude", "length", "noise"))
        process = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", x, y, sigma=noise, jitter=0.0)
    ours = bk.maximize_evidence(model, random_seed=1)
    kernel = sk.ConstantKernel(1.0) * sk.RBF(1.0) + sk.WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=1).fit(x, y)
    assert ours.log_density == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-6)
    assert ours.converged


def test_eight_schools_are_pooled_at_the_boundary() -> None:
    model = next(c for c in REMAINDERS if c.name == "eight schools, centred").build()
    ours = bk.maximize_evidence(model, random_seed=1)
    assert ours.at_boundary == ("tau",)
    assert not ours.converged
    assert float(ours.point["tau"]) < 1e-4
    assert np.isnan(ours.log_evidence.value)
    assert "end of the support" in str(ours)


def test_mode_and_laplace_evidence() -> None:
    """A regression with much data: the posterior of sigma is nearly Normal, and Laplace nearly exact."""
    x = RNG.normal(size=(400, 2))
    y = x @ [1.0, -1.0] + 0.5 * RNG.normal(size=400)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", x @ pm.Normal("weights", 0.0, 1.0, shape=2), sigma, observed=y)
    ours = bk.map_estimate(model, random_seed=1)

    def objective(s: float) -> float:
        covariance = s**2 * np.eye(400) + x @ x.T
        return -(stats.multivariate_normal(cov=covariance).logpdf(y) + stats.halfnorm().logpdf(s))

    best = optimize.minimize_scalar(objective, bounds=(0.3, 0.8), method="bounded", options={"xatol": 1e-9})
    assert float(ours.point["sigma"]) == pytest.approx(best.x, abs=1e-6)
    assert ours.log_density == pytest.approx(-best.fun, abs=1e-7)
    exact = float(bk.infer(model, draws=10, random_seed=1).log_evidence)
    assert abs(ours.log_evidence.value - exact) < 0.01
    assert abs(ours.log_evidence.value - exact) < 3 * ours.log_evidence.error
    step = 1e-3
    curvature = (objective(best.x + step) - 2 * objective(best.x) + objective(best.x - step)) / step**2
    assert ours.curvature[0, 0] == pytest.approx(curvature, rel=1e-3)
    assert ours.covariance[0, 0] == pytest.approx(1 / ours.curvature[0, 0])


def test_what_cannot_be_maximised_is_refused() -> None:
    with pm.Model() as exact:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=[0.0])
    with pytest.raises(bk.BayeskitError, match="nothing remains"):
        bk.maximize_evidence(exact)
    with pm.Model() as absorbed:
        x = pm.Normal("x", pm.Normal("mu"), 1.0)
        pm.Poisson("y", pm.math.exp(x), observed=3)
    with pytest.raises(bk.BayeskitError, match="the prior of x"):
        bk.maximize_evidence(absorbed)
    assert bk.map_estimate(absorbed, random_seed=1).converged
    with pm.Model() as discrete:
        pm.Normal("y", pm.Poisson("n", pm.HalfCauchy("rate", 1.0)), 1.0, observed=[0.0])
    with pytest.raises(bk.BayeskitError, match="discrete"):
        bk.map_estimate(discrete)
