"""Evidences over numbers of priors by sums over nodes: against integrals of other making, and how few are made anew."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.comparison import evidence_of_priors, evidence_on_nodes
from bayeskit.comparison.prior_sensitivity import sensitivity
from bayeskit.comparison.robustness_curve import robustness

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
    u, v = np.meshgrid(np.linspace(-14, 8, 111), np.linspace(-90, 9, 331), indexing="ij")
    a, b = np.exp(u), np.exp(v)
    log_p = stats.expon(scale=1 / rate).logpdf(a) + u
    log_p += shape * np.log(beta) - special.gammaln(shape) + shape * v - beta * b
    for y, t in zip(FAILURES, TIME, strict=True):
        log_p += special.gammaln(y + a) - special.gammaln(a) - special.gammaln(y + 1)
        log_p += a * (v - np.log(b + t)) + y * (np.log(t) - np.log(b + t))
    return float(special.logsumexp(log_p) + np.log(0.2 * 0.3))


@functools.cache
def post() -> Any:
    return bk.infer(pumps(), random_seed=1)


def counts_of_integrals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where nodes are known to be off, each value has an integral of its own, which ``evidence_of_priors`` asks for."""
    made: list[str] = []
    whole = evidence_on_nodes.answer

    def counted(analysis: Any, method: str, **options: Any) -> Any:
        if method != "exact":  # of a part with a closed form
            made.append("one")
        return whole(analysis, method, **options)

    for module in (evidence_on_nodes, evidence_of_priors):
        monkeypatch.setattr(module, "answer", counted)
    return made


@pytest.mark.slow
def test_a_curve_over_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counts_of_integrals(monkeypatch)
    table = robustness([post()], "alpha.lam", np.geomspace(1.0, 10.0, 10)).table
    assert len(made) <= 2
    assert set(table["label"]) == {"quadrature"} and table["error"].max() < 1e-6
    for row in table.iloc[[0, 6, 9]].itertuples():
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


@pytest.mark.slow
def test_a_container_in_the_priors_of_what_remains_and_of_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """x is Normal about r with variance s² + 1."""

    def evidence(scale: float) -> float:
        r = np.linspace(-12, 12, 801)
        log_p = stats.norm(0, scale).logpdf(r) + stats.poisson(np.exp(r)[:, None]).logpmf([2, 0, 5]).sum(axis=1)
        log_p += stats.norm(r[:, None], np.sqrt(scale**2 + 1)).logpdf([0.3, 1.9, 1.1]).sum(axis=1)
        return float(special.logsumexp(log_p) + np.log(r[1] - r[0]))

    made = counts_of_integrals(monkeypatch)
    table = robustness([bk.infer(counted(1.0), random_seed=1)], "scale", np.geomspace(1.0, 3.0, 4)).table
    assert len(made) == 3  # what is integrated out depends on it, too: each value but the one as written has its own
    for row in table.itertuples():
        assert abs(row.log_evidence - evidence(row.value)) < row.error + 1e-9


def test_the_ends_of_what_remains_move_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of counts; its density is zero outside of (lower, upper), and the likelihood is not."""

    def evidence(lower: float = -1.0, upper: float = 3.0) -> float:
        r, weights = special.roots_legendre(60)
        r, weights = lower + (upper - lower) * (r + 1) / 2, weights / 2
        return float(special.logsumexp(stats.poisson(np.exp(r)).logpmf(3), b=weights))

    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Uniform("r", -1.0, 3.0)), observed=3)
    made = counts_of_integrals(monkeypatch)
    post = bk.infer(model, random_seed=1)
    table = sensitivity(post).table
    assert not made
    for name in ("lower", "upper"):
        f = {k: evidence(**{name: (-1.0 if name == "lower" else 3.0) + k * 1e-2}) for k in (-2, -1, 1, 2)}
        slope = (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / 0.12
        row = table.loc[f"r.{name}"]
        assert abs(row["derivative"] - slope) < row["error"] + 1e-7 and row["error"] < 1e-5
    for row in robustness([post], "r.upper", [3.0, 3.5, 4.0]).table.itertuples():
        assert abs(row.log_evidence - evidence(upper=row.value)) < row.error + 1e-10


@pytest.mark.slow
def test_an_angle(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyMC winds the line around the circle; quadrature does not."""
    with pm.Model() as model:
        angle = pm.VonMises("angle", 0.3, 2.0)
        pm.Normal("y", angle**3, 1.0, observed=1.2)
    post = bk.infer(model, random_seed=1)
    a = np.linspace(-np.pi, np.pi, 20_001)

    def evidence(kappa: float) -> float:
        log_p = stats.vonmises(kappa, loc=0.3).logpdf(a) + stats.norm(a**3, 1.0).logpdf(1.2)
        weights = np.full(a.size, a[1] - a[0])
        weights[[0, -1]] /= 2
        return float(special.logsumexp(log_p, b=weights))

    made = counts_of_integrals(monkeypatch)
    for row in robustness([post], "angle.kappa", [2.0, 2.5, 3.0]).table.itertuples():
        assert len(made) == 1  # at the end
        assert abs(row.log_evidence - evidence(row.value)) < row.error + 1e-6


def test_a_closed_form_that_another_end_has_not() -> None:
    """p is uniform on (0, upper): an incomplete beta integral; what lies beyond one is impossible."""

    def evidence(upper: float) -> float:
        share = special.betainc(8, 4, min(upper, 1.0))
        return float(np.log(120 * share / upper) + special.betaln(8, 4))

    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Uniform("p", 0.0, 1.0), observed=7)
    table = robustness([bk.infer(model, random_seed=1)], "p.upper", [0.8, 1.0, 1.2]).table
    assert list(table["label"]) == ["quadrature", "exact", "quadrature"]
    for row in table.itertuples():
        assert abs(row.log_evidence - evidence(row.value)) < row.error + 1e-12


def weighed(mean: float = 0.0, sd: float = 1.0) -> pm.Model:
    with pm.Model() as model:
        w = pm.Normal("a", 0.0, 2.0), pm.Normal("b", mean, sd)
        pm.Bernoulli("y", logit_p=w[0] + w[1] * TIME / 50, observed=FAILURES > 2)
    return model


def weighed_evidence(mean: float, sd: float) -> float:
    """By the trapezoidal rule over standard deviations of both priors, closer to their means: a wide one has a step."""
    u, v = np.linspace(-9, 9, 91), np.linspace(-7.0, 7.0, 501)
    z = 0.02 * np.sinh(v)
    logit = 2.0 * u[:, None, None] + (mean + sd * z[:, None]) * TIME / 50
    log_p = -np.logaddexp(0.0, np.where(FAILURES > 2, -logit, logit)).sum(axis=-1)
    log_p += stats.norm.logpdf(u)[:, None] + stats.norm.logpdf(z) + np.log(0.02 * np.cosh(v))
    return float(special.logsumexp(log_p) + np.log((u[1] - u[0]) * (v[1] - v[0])))


@pytest.mark.slow
def test_nodes_go_along_with_a_prior_over_four_decades(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a small sd the posterior is the prior, and goes where that goes."""
    mean = 3.0
    post = bk.infer(weighed(mean), random_seed=1)
    made = counts_of_integrals(monkeypatch)
    table = robustness([post], "b.sigma", np.geomspace(0.01, 100.0, 17)).table
    assert len(made) <= 3
    assert set(table["label"]) == {"quadrature"} and table["error"].max() < 2e-6
    for row in table.iloc[::4].itertuples():  # the ends and the middle have integrals of their own
        assert abs(row.log_evidence - weighed_evidence(mean, row.value)) < row.error + 1e-9
