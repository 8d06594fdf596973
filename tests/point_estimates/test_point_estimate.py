"""Maxima of the evidence and posterior modes, against scikit-learn and direct maximisation of textbook formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
from remainder_cases import REMAINDERS
from scipy import integrate, optimize, special, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import BayesianRidge

import bayeskit as bk

RNG = np.random.default_rng(3)


@pytest.mark.slow
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


@pytest.mark.slow
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
    theirs = GaussianProcessRegressor(kernel, random_state=1).fit(x, y)
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


@pytest.mark.slow
def test_mode_and_laplace_evidence() -> None:
    """A regression with much data: the posterior of sigma is nearly Normal, and Laplace nearly exact."""
    x = RNG.normal(size=(400, 2))
    y = x @ [1.0, -1.0] + 0.5 * RNG.normal(size=400)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", x @ pm.Normal("weights", 0.0, 1.0, shape=2), sigma, observed=y)
    ours = bk.map_estimate(model, random_seed=1)

    eigenvalues, vectors = np.linalg.eigh(x @ x.T)
    turned = vectors.T @ y  # independent: the covariance is s² I + x xᵀ

    def objective(s: float) -> float:
        likelihood = stats.norm.logpdf(turned, 0.0, np.sqrt(s**2 + np.maximum(eigenvalues, 0.0))).sum()
        return -float(likelihood + stats.halfnorm.logpdf(s))

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
    with pytest.raises(bk.BayeskitError, match=r"bayeskit\.infer\(model\)\.marginal\(name\)"):
        bk.map_estimate(exact)
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


@pytest.mark.parametrize("vague", [1e-4, 50.0, 1e4, 1e8])
def test_a_mode_far_below_where_a_vague_prior_starts_is_not_passed_over(vague: float) -> None:
    effect, error = np.array([1.2, -0.4, 0.9, 0.1, -1.1, 0.5]), np.full(6, 0.3)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", vague)
        pm.Normal("y", tau * pm.Normal("z", shape=6), error, observed=effect)
    estimate = bk.maximize_evidence(model, random_seed=0)
    assert estimate.converged and not estimate.at_boundary
    assert estimate.point["tau"] == pytest.approx(np.sqrt(np.mean(effect**2) - 0.3**2), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-14, 1e-7, 1.0, 1e7, 1e14])
def test_a_scale_is_found_whatever_its_unit(unit: float) -> None:
    """y ~ Normal(0, s): the likelihood has its maximum at the root mean square, with the curvature 2n of log s."""
    y = unit * RNG.normal(size=40)
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.HalfCauchy("s", 1.0), observed=y)
    ours = bk.maximize_evidence(model, random_seed=1)
    size = float(np.sqrt(np.mean(y**2)))
    assert ours.converged and not ours.at_boundary and not ours.flat
    assert float(ours.point["s"]) == pytest.approx(size, rel=1e-9)
    assert np.sqrt(ours.covariance[0, 0]) == pytest.approx(size / np.sqrt(80), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("estimate", "other"), [(bk.maximize_evidence, 1e14), (bk.map_estimate, 1e-14)])
def test_a_change_of_units_changes_nothing_but_units(estimate: Any, other: float) -> None:
    y = np.random.default_rng(5).normal(size=(6, 4)) + np.arange(6.0)[:, None]
    found = []
    for unit in (1.0, other):
        with pm.Model() as model:
            tau, sigma = pm.HalfCauchy("tau", 2.0 * unit), pm.HalfNormal("sigma", 5.0 * unit)
            groups = pm.Normal("groups", pm.Normal("mu", 0.0, 5.0 * unit), tau, shape=6)
            pm.Normal("y", groups[:, None], sigma, observed=unit * y)
        ours = estimate(model, random_seed=1)
        assert ours.converged
        sd = np.sqrt(np.diag(ours.covariance)) / unit
        evidence = ours.log_evidence.value + y.size * np.log(unit)
        found.append([float(ours.point["tau"]) / unit, float(ours.point["sigma"]) / unit, *sd, evidence])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-14, 1.0, 1e14])
def test_slopes_are_found_whatever_the_unit_of_the_covariates(unit: float) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(80, 2))
    y = rng.random(80) < special.expit(x @ [1.0, -2.0])
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.0, 3.0 / unit, shape=2)
        pm.Bernoulli("y", logit_p=(unit * x) @ weights, observed=y.astype(int))
    ours = bk.map_estimate(model, random_seed=1)

    def objective(w: np.ndarray) -> float:
        return float(np.sum(np.logaddexp(0.0, np.where(y, -1.0, 1.0) * (x @ w))) + np.sum(w**2) / 18.0)

    best = optimize.minimize(objective, np.zeros(2), tol=1e-10)
    p = special.expit(x @ best.x)
    hessian = x.T @ ((p * (1 - p))[:, None] * x) + np.eye(2) / 9.0
    assert ours.converged
    np.testing.assert_allclose(ours.point["weights"] * unit, best.x, rtol=1e-4)
    np.testing.assert_allclose(ours.covariance * unit**2, np.linalg.inv(hessian), rtol=1e-3)


@pytest.mark.slow
def test_loadings_that_may_be_rotated_are_one_of_many_maxima() -> None:
    """The closed form of Tipping and Bishop (1999), equation 7: W Wᵀ is known, W up to a rotation."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(60, 4))
    with pm.Model() as model:
        loadings, noise = pm.Normal("loadings", 0.0, 1.0, shape=(4, 2)), pm.HalfNormal("noise", 1.0)
        pm.Normal("x", pm.Normal("z", 0.0, 1.0, shape=(60, 2)) @ loadings.T, noise, observed=x)
    ours = bk.maximize_evidence(model, random_seed=1)
    values, vectors = np.linalg.eigh(x.T @ x / 60)
    variance = values[:2].mean()
    assert ours.converged and ours.flat == ("loadings",) and not ours.at_boundary
    assert float(ours.point["noise"]) ** 2 == pytest.approx(variance, rel=1e-8)
    product = (vectors[:, 2:] * (values[2:] - variance)) @ vectors[:, 2:].T
    np.testing.assert_allclose(ours.point["loadings"] @ ours.point["loadings"].T, product, atol=1e-7)
    assert np.isfinite(ours.covariance[-1, -1]) and np.isnan(ours.covariance[0, 0])
    assert "flat in a direction of loadings" in ours.log_evidence.reason and "one of many maxima" in str(ours)


def test_a_sum_that_alone_is_known_is_flat_in_its_parts() -> None:
    with pm.Model() as model:
        a, b = pm.Flat("a"), pm.Flat("b")
        pm.StudentT("y", 4.0, mu=a + b, sigma=pm.HalfNormal("s", 1.0), observed=[0.1, 0.9, 2.0])
    ours = bk.map_estimate(model, random_seed=1)
    assert ours.converged and ours.flat == ("a", "b")


def test_the_laplace_evidence_is_audited_like_every_other() -> None:
    y = 1.2 + 0.5 * RNG.normal(size=50)
    cut = pm.distributions.transforms.Interval(0, 2)
    found = {}
    for name, prior in {
        "flat": lambda: pm.HalfFlat("s"),
        "cut": lambda: pm.Normal("s", 0.0, 1.0, transform=cut, initval=1.0),
    }.items():
        with pm.Model() as model:
            pm.Normal("y", 1.0, prior(), observed=y)
        found[name] = bk.map_estimate(model, random_seed=1)
        assert found[name].converged
    assert np.isnan(found["flat"].log_evidence.value)
    assert "HalfFlat is improper" in found["flat"].log_evidence.reason

    def density(s: float) -> float:
        return float(np.exp(stats.norm(1.0, s).logpdf(y).sum() + 40.0)) * stats.truncnorm(0.0, 2.0).pdf(s)

    exact = np.log(integrate.quad(density, 0.0, 2.0, points=[0.4, 0.6], epsabs=0)[0]) - 40.0
    assert found["cut"].log_evidence.value == pytest.approx(exact, abs=0.03)


def test_the_laplace_evidence_counts_every_labelling() -> None:
    """Two means whose labels may be exchanged, against the integral over a grid of both."""
    y = np.concatenate([RNG.normal(-4.0, 1.0, 30), RNG.normal(4.0, 1.0, 30)])
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5, shape=60)
        pm.Normal("y", pm.Laplace("mu", 0.0, 5.0, shape=2)[z], 1.0, observed=y)
    ours = bk.map_estimate(model, random_seed=1)
    grid = np.linspace(-8.0, 8.0, 801)
    each = stats.norm(0.0, 1.0).pdf(y[:, None] - grid) / 2
    log_p = sum(np.log(row[:, None] + row) for row in each)
    log_p = log_p + stats.laplace(0.0, 5.0).logpdf(grid)[:, None] + stats.laplace(0.0, 5.0).logpdf(grid)
    exact = special.logsumexp(log_p) + 2 * np.log(grid[1] - grid[0])
    assert ours.log_evidence.value == pytest.approx(exact, abs=0.03)
    assert "2! = 2 labellings" in ours.log_evidence.convention and ours.log_evidence.error == np.inf
