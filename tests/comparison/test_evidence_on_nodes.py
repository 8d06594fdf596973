"""Evidences over numbers of priors by sums over nodes: against integrals of other making, and how few are made anew."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.comparison import evidence_on_nodes
from bayeskit.comparison.density_of_priors import DensityOfPriors
from bayeskit.comparison.prior_sensitivity import sensitivity
from bayeskit.comparison.robustness_curve import robustness
from bayeskit.model.prior_constants import prior_constants

TIME = np.array([94.3, 15.7, 62.9, 126.0])
FAILURES = np.array([5, 1, 5, 14])


def pumps(rate: float = 1.0, shape: float = 0.1, beta: float = 1.0) -> pm.Model:
    with pm.Model() as model:
        of = pm.Exponential("alpha", rate), pm.Gamma("beta", shape, beta)
        pm.Poisson("y", pm.Gamma("theta", *of, shape=4) * TIME, observed=FAILURES)
    return model


@np.errstate(under="ignore")
def pumps_evidence(rate: float = 1.0, shape: float = 0.1, beta: float = 1.0) -> float:
    """By the trapezoidal rule over the logarithms of α and β; the counts are negative binomial given these."""
    u, v = np.meshgrid(np.linspace(-14, 8, 221), np.linspace(-90, 9, 661), indexing="ij")
    a, b = np.exp(u), np.exp(v)
    log_p = stats.expon(scale=1 / rate).logpdf(a) + u
    log_p += shape * np.log(beta) - special.gammaln(shape) + shape * v - beta * b
    for y, t in zip(FAILURES, TIME, strict=True):
        log_p += special.gammaln(y + a) - special.gammaln(a) - special.gammaln(y + 1)
        log_p += a * (v - np.log(b + t)) + y * (np.log(t) - np.log(b + t))
    return float(special.logsumexp(log_p) + np.log(0.1 * 0.15))


@functools.cache
def post() -> Any:
    return bk.infer(pumps(), random_seed=1)


def counts_of_integrals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    whole = evidence_on_nodes.answer

    def counted(*arguments: Any) -> Any:
        made.append("one")
        return whole(*arguments)

    monkeypatch.setattr(evidence_on_nodes, "answer", counted)
    return made


def test_a_curve_over_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counts_of_integrals(monkeypatch)
    table = robustness([post()], "alpha.lam", np.geomspace(1.0, 10.0, 30)).table
    assert len(made) <= 2
    assert set(table["label"]) == {"quadrature"} and table["error"].max() < 1e-6
    for row in table.iloc[[0, 9, 19, 29]].itertuples():
        assert abs(row.log_evidence - pumps_evidence(rate=row.value)) < row.error + 1e-8


def test_sensitivity_over_two_numbers_makes_no_integral(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counts_of_integrals(monkeypatch)
    table = sensitivity(post()).table
    assert not made
    h = 1e-2
    for name, argument, value in (("alpha.lam", "rate", 1.0), ("beta.alpha", "shape", 0.1)):
        one, two = (
            pumps_evidence(**{argument: value * (1 + k * h)}) - pumps_evidence(**{argument: value * (1 - k * h)})
            for k in (1, 2)
        )
        row = table.loc[name]
        assert abs(row["derivative"] - (8 * one - two) / (12 * h * value)) < row["error"] + 1e-5 * value
        assert row["error"] < 1e-5


def counted(scale: float) -> pm.Model:
    with pm.Model() as model:
        shared = pm.Data("scale", scale)
        r = pm.Normal("r", 0.0, shared)
        pm.Normal("x", pm.Normal("m", r, shared, shape=3), 1.0, observed=np.array([0.3, 1.9, 1.1]))
        pm.Poisson("y", pm.math.exp(r), observed=np.array([2, 0, 5]))
    return model


def test_a_container_in_the_priors_of_what_remains_and_of_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """x is Normal about r with variance s² + 1."""

    def evidence(scale: float) -> float:
        r = np.linspace(-12, 12, 801)
        log_p = stats.norm(0, scale).logpdf(r) + stats.poisson(np.exp(r)[:, None]).logpmf([2, 0, 5]).sum(axis=1)
        log_p += stats.norm(r[:, None], np.sqrt(scale**2 + 1)).logpdf([0.3, 1.9, 1.1]).sum(axis=1)
        return float(special.logsumexp(log_p) + np.log(r[1] - r[0]))

    made = counts_of_integrals(monkeypatch)
    table = robustness([bk.infer(counted(1.0), random_seed=1)], "scale", np.geomspace(1.0, 3.0, 9)).table
    assert len(made) <= 2
    for row in table.itertuples():
        assert abs(row.log_evidence - evidence(row.value)) < row.error + 1e-9


def test_the_end_of_what_remains_is_no_number_that_nodes_can_follow() -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Uniform("r", -1.0, 3.0) + pm.Normal("e", 0.0, 0.5)), observed=3)
    post = bk.infer(model, random_seed=1)
    density = DensityOfPriors.of(post, list(prior_constants(model).values()))
    assert density is not None and "e.sigma" in density.variables
    assert not {"r.lower", "r.upper"} & set(density.variables)
    table = robustness([post], "r.upper", [2.0, 3.0, 6.0]).table
    e = np.linspace(-6, 6, 101)
    for row in table.itertuples():
        r = np.linspace(-1.0, row.value, 2001)[:, None]
        weights = np.full((2001, 1), r[1, 0] - r[0, 0])
        weights[[0, -1]] /= 2
        log_p = stats.norm(0, 0.5).logpdf(e) + stats.poisson(np.exp(r + e)).logpmf(3) - np.log(row.value + 1)
        assert abs(row.log_evidence - (special.logsumexp(log_p, b=weights) + np.log(e[1] - e[0]))) < row.error + 1e-6
