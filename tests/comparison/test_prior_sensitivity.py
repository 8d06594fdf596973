"""Derivatives of log evidences in the numbers of priors: against closed forms, SciPy's integrals and rebuilt models."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.prior_sensitivity import sensitivity
from bayeskit.errors import ModelError
from bayeskit.results.log_evidence import LogEvidence

Y = np.array([1.2, 0.4, 2.2])
EFFECT = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SE = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def normal(mu0: float = 0.3, sd: float = 2.0) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", mu0, sd), 1.5, observed=Y)
    return model


@functools.cache
def normal_post() -> bk.Posterior:
    return bk.infer(normal(), random_seed=1)


@functools.cache
def normal_table() -> pd.DataFrame:
    return sensitivity(normal_post()).table


def normal_evidence(mu0: float = 0.3, sd: float = 2.0) -> float:
    return float(stats.multivariate_normal(np.full(3, mu0), 2.25 * np.eye(3) + sd**2).logpdf(Y))


def coin(a: float, b: float) -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Beta("p", a, b), observed=7)
    return model


def regression(sigma: float = 10.0, alpha: float = 2.0, beta: float = 1.0) -> pm.Model:
    x = np.linspace(-1, 1, 8)
    with pm.Model() as model:
        s2 = pm.InverseGamma("s2", alpha, beta)
        w = pm.Normal("w", [0.0, 1.0], sigma * s2**0.5)
        pm.Normal("y", w[0] + w[1] * x, s2**0.5, observed=0.5 + 2 * x + np.sin(7 * x))
    return model


def regression_evidence(sigma: float = 10.0, alpha: float = 2.0, beta: float = 1.0, mean: float = 1.0) -> float:
    """y is a multivariate Student t."""
    x = np.linspace(-1, 1, 8)
    design = np.stack([np.ones(8), x], axis=1)
    shape = (np.eye(8) + sigma**2 * design @ design.T) * beta / alpha
    y = 0.5 + 2 * x + np.sin(7 * x)
    return float(stats.multivariate_t(design @ [0.0, mean], shape, df=2 * alpha).logpdf(y))


def schools(scale: float = 5.0, sd: float = 5.0) -> pm.Model:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, sd), pm.HalfCauchy("tau", scale)
        pm.Normal("y", pm.Normal("theta", mu, tau, shape=8), SE, observed=EFFECT)
    return model


def schools_evidence(scale: float = 5.0, sd: float = 5.0) -> float:
    def density(tau: float) -> float:
        variance = SE**2 + tau**2
        total = sd**2 + 1 / np.sum(1 / variance)  # of the weighted mean, whose own mean is zero
        mean = np.sum(EFFECT / variance) / np.sum(1 / variance)
        log_likelihood = -0.5 * np.sum(np.log(2 * np.pi * variance) + (EFFECT - mean) ** 2 / variance)
        log_likelihood += -0.5 * (mean**2 / total + np.log(total * np.sum(1 / variance)))
        return float(np.exp(log_likelihood + 14 * np.log(10)) * 2 / (np.pi * scale * (1 + (tau / scale) ** 2)))

    pieces = [integrate.quad(density, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in ((0, 5), (5, 30), (30, np.inf))]
    return math.log(sum(pieces)) - 14 * math.log(10)


def slope(f: Callable[[float], float], at: float, h: float = 1e-2) -> float:
    """By central differences of sixth order."""
    h *= max(abs(at), 1.0)
    weights = {1: 45, 2: -9, 3: 1}
    return sum(w * (f(at + k * h) - f(at - k * h)) for k, w in weights.items()) / (60 * h)


@functools.cache
def schools_post() -> Any:
    return bk.infer(schools(), random_seed=1)


def test_a_normal_mean() -> None:
    table = normal_table()
    total = 2.25 + 3 * 4.0  # ȳ has variance σ²/n + τ²
    score = 3 * (Y.mean() - 0.3) / total
    assert table.loc["mu.mu", "derivative"] == pytest.approx(score, abs=1e-10)
    expected = 2.0 * (score**2 - 3 / total)
    assert table.loc["mu.sigma", "derivative"] == pytest.approx(expected, abs=1e-10)
    assert table.loc["mu.sigma", "elasticity"] == pytest.approx(2.0 * math.log(2) * expected, abs=1e-9)
    assert math.isnan(table.loc["mu.mu", "elasticity"])
    assert set(table["label"]) == {"exact"} and table["error"].max() < 1e-9


@pytest.mark.slow
def test_a_model_is_inferred_first() -> None:
    table = bk.sensitivity(normal(), random_seed=1).table
    assert table.equals(normal_table())


def test_a_coin() -> None:
    table = bk.infer(coin(2.0, 1.5), random_seed=1).sensitivity().table
    digamma = special.digamma
    expected = digamma(9.0) - digamma(13.5) + digamma(3.5) - digamma(2.0)
    assert table.loc["p.alpha", "derivative"] == pytest.approx(expected, abs=1e-9)
    assert list(table["elasticity"].abs()) == sorted(table["elasticity"].abs(), reverse=True)


def test_a_regression() -> None:
    table = sensitivity(bk.infer(regression(), random_seed=1)).table
    assert set(table.index) == {"s2.alpha", "s2.beta", "w.mu[0]", "w.mu[1]", "w.sigma"}
    expected = {
        "w.sigma": slope(lambda v: regression_evidence(sigma=v), 10.0),
        "s2.alpha": slope(lambda v: regression_evidence(alpha=v), 2.0),
        "s2.beta": slope(lambda v: regression_evidence(beta=v), 1.0),
        "w.mu[1]": slope(lambda v: regression_evidence(mean=v), 1.0),
    }
    for name, value in expected.items():
        assert table.loc[name, "derivative"] == pytest.approx(value, abs=1e-8), name


def test_quadrature() -> None:
    table = sensitivity(schools_post()).table
    expected = {"tau.beta": slope(schools_evidence, 5.0), "mu.sigma": slope(lambda v: schools_evidence(sd=v), 5.0)}
    for name, value in expected.items():
        row = table.loc[name]
        assert row["label"] == "quadrature" and row["error"] < 1e-7
        assert abs(row["derivative"] - value) < row["error"] + 1e-8, name


@pytest.mark.slow
def test_draws() -> None:
    sampled = bk.infer(normal(), method="nuts", random_seed=3, progressbar=False)
    table, exact = sensitivity(sampled).table, normal_table()
    for name, row in table.iterrows():
        assert row["label"] == "estimated"
        assert abs(row["derivative"] - exact.loc[name, "derivative"]) < 4 * row["error"] < 0.1


def test_an_expectation_without_a_variance_is_refused() -> None:
    """Of the mean of effects it is that of 1 / τ, whose square has none where τ may be zero; draws of τ are exact."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        pm.Normal("y", pm.Normal("effect", 0.3, tau, shape=3), 1.0, observed=Y)
    post = bk.infer(model, draws=8000, random_seed=1)
    estimated = LogEvidence(post.log_evidence.value, 0.0, "estimated")
    found = sensitivity(replace(post, method="nuts", log_evidence=estimated))
    assert math.isnan(found.table.loc["effect.mu", "derivative"])
    assert any("effect.mu: few draws decide" in note for note in found.notes)
    exact = sensitivity(post).table.loc["tau.sigma", "derivative"]
    assert abs(found.table.loc["tau.sigma", "derivative"] - exact) < 4 * found.table.loc["tau.sigma", "error"]


def test_a_number_in_two_priors_is_one() -> None:
    def model(scale: float) -> pm.Model:
        with pm.Model() as model:
            shared = pm.Data("scale", scale)
            pm.Normal("y", pm.Normal("a", 0, shared) + pm.Normal("b", 0, shared), 1.5, observed=Y)
        return model

    table = sensitivity(bk.infer(model(2.0), random_seed=1))
    # a + b is Normal(0, √2 scale).
    expected = slope(lambda v: normal_evidence(0.0, math.sqrt(2) * v), 2.0)
    assert table.table.loc["scale", "derivative"] == pytest.approx(expected, abs=1e-9)
    assert any("a.sigma, b.sigma" in note for note in table.notes)


def test_data_set_later_changes_nothing() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.3, pm.Data("scale", 2.0)), 1.5, observed=Y)
    post = bk.infer(model, random_seed=1)
    pm.set_data({"scale": 9.0}, model=model)
    assert sensitivity(post).table.loc["scale", "value"] == 2.0
    assert model["scale"].get_value() == 9.0


@pytest.mark.slow
def test_the_end_of_a_support_is_none_of_draws() -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.Uniform("rate", 0.0, 6.0), observed=3)
    draws = {"draws": 400, "sampler": {"tune": 200}}
    sampled = sensitivity(bk.infer(model, method="nuts", random_seed=1, progressbar=False, **draws))
    assert math.isnan(sampled.table.loc["rate.upper", "derivative"])
    assert any("rate.upper" in note and "end of a support" in note for note in sampled.notes)


@pytest.mark.slow
def test_a_bayes_factor() -> None:
    with pm.Model() as null:
        pm.Normal("y", 0.0, 1.5, observed=Y)
    compared = bk.compare({"null": null, "effect": normal_post(), "wide": normal(sd=9.0)}, loo=False, random_seed=1)
    table = compared.sensitivity("null", "effect").table
    expected = slope(lambda v: normal_evidence(sd=v), 2.0)
    assert table.loc[("effect", "mu.sigma"), "derivative"] == pytest.approx(-expected, abs=1e-9)
    both = sensitivity(compared, between=["effect", "wide"]).table
    assert set(both.index) == {("both", "mu.mu"), ("effect", "mu.sigma"), ("wide", "mu.sigma")}
    difference = slope(lambda v: normal_evidence(v), 0.3) - slope(lambda v: normal_evidence(v, 9.0), 0.3)
    assert both.loc[("both", "mu.mu"), "derivative"] == pytest.approx(difference, abs=1e-9)


def test_what_is_refused_or_said() -> None:
    with pytest.raises(ModelError, match="a posterior is of one"):
        sensitivity(normal_post(), between=["a", "b"])
    compared = bk.compare([normal_post(), normal(sd=3.0)], loo=False, random_seed=1)
    with pytest.raises(ModelError, match="no model 'c'"):
        sensitivity(compared, between=["model 1", "c"])
    with pytest.raises(ModelError, match="name two"):
        sensitivity(compared, between=["model 1"])
    with pm.Model() as flat:
        pm.Normal("y", pm.Flat("mu"), pm.Gamma("s", 2.0, 2.0), observed=Y)
    said = sensitivity(bk.infer(flat, random_seed=1))
    assert any("improper" in note for note in said.notes) and set(said.table["label"]) == {"estimated"}


def test_matrices_of_a_prior_are_named_as_not_moved() -> None:
    with pm.Model() as model:
        w = pm.MvNormal("w", np.zeros(2), np.array([[2.0, 0.5], [0.5, 1.0]]))
        pm.Normal("y", w.sum(), 1.0, observed=Y)
    found = sensitivity(bk.infer(model, random_seed=1))
    assert found.notes == ("w.cov is a matrix: its entries are not moved",)
    assert list(found.table.index.sort_values()) == ["w.mu[0]", "w.mu[1]"]


def test_what_is_said_of_both_models_is_said_once() -> None:
    def many(sd: float) -> pm.Model:
        with pm.Model() as model:
            w = pm.Normal("w", np.zeros(60), sd, shape=60)
            pm.Normal("y", w.sum(), 1.0, observed=Y)
        return model

    notes = bk.compare({"a": many(1.0), "b": many(2.0)}, loo=False, random_seed=1).sensitivity("a", "b").notes
    assert notes == ("a, b: w.mu has 60 entries, which are moved together",)
