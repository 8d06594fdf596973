"""Normal with InverseGamma or Gamma jointly: the mean and the variance, or precision, unknown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mp, mpf
from oracles import (
    Answer,
    GaussianGraph,
    elementwise,
    exact,
    inverse,
    log_det,
    stack,
    sum_log,
)

from table.case import Case
from table.data import (
    COV3,
    GAPS,
    GROUP,
    GROUPS,
    MILLION,
    POSITIVE,
    REAL,
    SERIES,
    WIDE,
    X,
    half_log_2pi,
    kernel,
    million_line,
    million_line_sums,
)
from table.describe import scaled_answer


def _nig_variance() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    mu = pm.Normal("mu", 1.0, pt.sqrt(4.0 * v))
    pm.Normal("y", mu, pt.sqrt(v), observed=REAL)


def _nig_oracle(g: GaussianGraph) -> None:
    g.observe(g.normal("mu", 1, 2), 1, REAL)


def _nig_precision() -> None:
    tau = pm.Gamma("tau", 3.0, 2.0)
    mu = pm.Normal("mu", 1.0, tau=0.25 * tau)
    pm.Normal("y", mu, tau=tau, observed=REAL)


def _nig_precision_sd() -> None:
    tau = pm.Gamma("tau", mu=1.5, sigma=1.0)
    sigma = pm.Deterministic("sigma", tau**-0.5)
    mu = pm.Normal("mu", 1.0, 2 * sigma)
    pm.Normal("y", mu, sigma, observed=REAL)


def _nig_kappa() -> None:
    kappa = pm.Data("kappa", 0.25)
    v = pm.InverseGamma("v", mu=2.0, sigma=1.0)
    sd = pm.Deterministic("sd_of_the_mean", pt.sqrt(v / kappa))
    mu = pm.Normal("mu", 1.0, sd)
    pm.Normal("y", mu, tau=1 / v, observed=REAL)


def _nig_exponential() -> None:
    tau = pm.Exponential("tau", 2.0)
    mu = pm.Normal("mu", 1.0, tau=tau / 4)
    pm.Normal("y", mu, 1 / pt.sqrt(tau), observed=REAL)


def _nig_chi_squared() -> None:
    tau = pm.ChiSquared("tau", 5)
    mu = pm.Normal("mu", 1.0, tau=tau / 4)
    pm.Normal("y", mu, tau=tau, observed=REAL)


def _nig_regression() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    w = pm.Normal("w", 0, 10 * pt.sqrt(v), dims="feature")
    pm.Normal("y", pm.Data("x", X) @ w, pt.sqrt(v), observed=REAL)


def _nig_regression_intercept() -> None:
    tau = pm.Gamma("tau", 2.0, 1.0)
    intercept = pm.Normal("intercept", 0, tau=0.01 * tau)
    w = pm.Normal("w", 0, tau=np.array([1.0, 0.5, 0.25]) * tau, shape=3)
    pm.Normal("y", intercept + pt.dot(X, w), tau=tau, observed=REAL)


def _nig_regression_intercept_oracle(g: GaussianGraph) -> None:
    sds = elementwise(lambda t: 1 / mp.sqrt(t), np.array([1.0, 0.5, 0.25]))
    g.observe(g.normal("intercept", 0, 1 / mp.sqrt(mpf(0.01))) + X @ g.normal("w", 0, sds, (3,)), 1, REAL)


def _nig_mvnormal() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    w = pm.MvNormal("w", mu=np.array([1.0, 0.0, -1.0]), cov=v * COV3)
    pm.Normal("y", X @ w, pt.sqrt(v), observed=REAL)


def _nig_wide() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    w = pm.Normal("w", 0, 2 * pt.sqrt(v), shape=20)
    pm.Normal("y", WIDE @ w, pt.sqrt(v), observed=REAL[:6])


def _nig_groups() -> None:
    v = pm.InverseGamma("v", 3.0, [2.0, 1.0, 0.5], dims="group")
    mu = pm.Normal("mu", 1.0, 2 * pt.sqrt(v), dims="group")
    pm.Normal("y", mu[GROUP], pt.sqrt(v)[GROUP], observed=REAL)


def _nig_groups_answer() -> Answer:
    def one(g: int) -> Answer:
        y = REAL[g == GROUP]
        return scaled_answer(lambda q: q.observe(q.normal("mu", 1, 2), 1, y), "v", 3, [2.0, 1.0, 0.5][g])

    return stack("v", [one(g) for g in range(3)])


def _nig_missing() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    mu = pm.Normal("mu", 0, pt.sqrt(4 * v))
    pm.Normal("y", mu, pt.sqrt(v), observed=GAPS)


def _nig_missing_oracle(g: GaussianGraph) -> None:
    mu = g.normal("mu", 0, 2)
    g.normal("y_unobserved", mu, 1, (int(np.isnan(GAPS).sum()),))
    g.observe(mu, 1, GAPS)


def _nig_hierarchy() -> None:
    tau = pm.Gamma("tau", 3.0, 2.0)
    centre = pm.Normal("centre", 0, tau=tau / 25)
    group = pm.Normal("group_mean", centre, tau=tau / 4, dims="group")
    pm.Normal("y", group[GROUP], tau=tau, observed=REAL)


def _nig_hierarchy_oracle(g: GaussianGraph) -> None:
    group = g.normal("group_mean", g.normal("centre", 0, 5), 2, (3,))
    g.observe(group[GROUP], 1, REAL)


def _nig_two_instruments() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    mu = pm.Normal("mu", 1.0, 2 * pt.sqrt(v))
    pm.Normal("good", mu, pt.sqrt(v), observed=REAL[:5])
    pm.Normal("bad", mu, 3 * pt.sqrt(v), observed=REAL[5:])


def _nig_two_instruments_oracle(g: GaussianGraph) -> None:
    mu = g.normal("mu", 1, 2)
    g.observe(mu, 1, REAL[:5])
    g.observe(mu, 3, REAL[5:])


def _nig_lognormal() -> None:
    tau = pm.Gamma("tau", 3.0, 2.0)
    mu = pm.Normal("mu", 1.0, tau=tau / 4)
    pm.LogNormal("y", mu, tau=tau, observed=POSITIVE)


def _nig_gp() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    f = pm.MvNormal("f", np.zeros(10), cov=v * kernel())
    pm.Normal("y", f, 0.2 * pt.sqrt(v), observed=SERIES)


def _nig_extreme(scale: float) -> Callable[[], Any]:
    def body() -> None:
        v = pm.InverseGamma("v", 3.0, scale)
        mu = pm.Normal("mu", 0, 2 * pt.sqrt(v))
        pm.Normal("y", mu, pt.sqrt(v), observed=REAL * math.sqrt(scale))

    return body


def _nig_extreme_answer(scale: float) -> Answer:
    y = REAL * math.sqrt(scale)
    return scaled_answer(lambda g: g.observe(g.normal("mu", 0, 2), 1, y), "v", 3, scale)


def _nig_million() -> None:
    x, y = million_line()
    v = pm.InverseGamma("v", 3.0, 2.0)
    w = pm.Normal("w", 0, 10 * pt.sqrt(v), shape=2)
    pm.Normal("y", w[0] + w[1] * x, pt.sqrt(v), observed=y)


def _nig_million_answer() -> Answer:
    gram, cross, square = million_line_sums()
    precision = exact(gram) + exact(np.eye(2)) / 100
    cov = inverse(precision)
    mean = cov @ exact(cross)
    a, b = mpf(3), mpf(2)
    a_n, b_n = a + mpf(MILLION) / 2, b + (mpf(square) - mean @ precision @ mean) / 2
    log_z = a * mp.log(b) - a_n * mp.log(b_n) + mp.loggamma(a_n) - mp.loggamma(a) - half_log_2pi(MILLION)
    log_z -= (log_det(precision) + 2 * mp.log(100)) / 2
    variance = b_n / (a_n - 1)
    return Answer(
        log_z,
        {
            "w": (mean.astype(float), elementwise(lambda c: mp.sqrt(c * variance), np.diagonal(cov)).astype(float)),
            "v": (np.array(float(variance)), np.array(float(variance / mp.sqrt(a_n - 2)))),
        },
    )


NORMAL_INVERSE_GAMMA = (
    Case(
        "normal inverse gamma",
        "mean and variance, sigma = sqrt(v)",
        _nig_variance,
        lambda: scaled_answer(_nig_oracle, "v", 3, 2),
    ),
    Case(
        "normal inverse gamma",
        "mean and precision, tau",
        _nig_precision,
        lambda: scaled_answer(_nig_oracle, "tau", 3, 2, precision=True),
    ),
    Case(
        "normal inverse gamma",
        "precision by mu and sigma, Deterministic sd",
        _nig_precision_sd,
        lambda: scaled_answer(_nig_oracle, "tau", mpf(1.5) ** 2, 1.5, precision=True),
    ),
    Case(
        "normal inverse gamma",
        "variance by mu and sigma, kappa from pm.Data, Deterministic",
        _nig_kappa,
        lambda: scaled_answer(_nig_oracle, "v", 6, 10),
    ),
    Case(
        "normal inverse gamma",
        "Exponential precision",
        _nig_exponential,
        lambda: scaled_answer(_nig_oracle, "tau", 1, 2, precision=True),
    ),
    Case(
        "normal inverse gamma",
        "ChiSquared precision",
        _nig_chi_squared,
        lambda: scaled_answer(_nig_oracle, "tau", 2.5, 0.5, precision=True),
    ),
    Case(
        "normal inverse gamma",
        "regression, variance, pm.Data, dims",
        _nig_regression,
        lambda: scaled_answer(lambda g: g.observe(X @ g.normal("w", 0, 10, (3,)), 1, REAL), "v", 3, 2),
        {"feature": ["a", "b", "c"]},
    ),
    Case(
        "normal inverse gamma",
        "regression, precision, separate intercept",
        _nig_regression_intercept,
        lambda: scaled_answer(_nig_regression_intercept_oracle, "tau", 2, 1, precision=True),
    ),
    Case(
        "normal inverse gamma",
        "regression, MvNormal prior",
        _nig_mvnormal,
        lambda: scaled_answer(
            lambda g: g.observe(X @ g.mvnormal("w", np.array([1.0, 0.0, -1.0]), COV3), 1, REAL), "v", 3, 2
        ),
    ),
    Case(
        "normal inverse gamma",
        "regression, more weights than rows",
        _nig_wide,
        lambda: scaled_answer(lambda g: g.observe(WIDE @ g.normal("w", 0, 2, (20,)), 1, REAL[:6]), "v", 3, 2),
    ),
    Case("normal inverse gamma", "regression, a million rows", _nig_million, _nig_million_answer),
    Case("normal inverse gamma", "independent groups, dims", _nig_groups, _nig_groups_answer, {"group": GROUPS}),
    Case(
        "normal inverse gamma",
        "missing values",
        _nig_missing,
        lambda: scaled_answer(_nig_missing_oracle, "v", 3, 2),
    ),
    Case(
        "normal inverse gamma",
        "hierarchical means, every variance scaled",
        _nig_hierarchy,
        lambda: scaled_answer(_nig_hierarchy_oracle, "tau", 3, 2, precision=True),
        {"group": GROUPS},
    ),
    Case(
        "normal inverse gamma",
        "two likelihoods with a known ratio of variances",
        _nig_two_instruments,
        lambda: scaled_answer(_nig_two_instruments_oracle, "v", 3, 2),
    ),
    Case(
        "normal inverse gamma",
        "LogNormal data",
        _nig_lognormal,
        lambda: scaled_answer(
            lambda g: g.observe(g.normal("mu", 1, 2), 1, elementwise(mp.log, POSITIVE)), "tau", 3, 2, precision=True
        ).shift(-sum_log(POSITIVE)),
    ),
    Case(
        "normal inverse gamma",
        "Gaussian process of unknown amplitude",
        _nig_gp,
        lambda: scaled_answer(lambda g: g.observe(g.mvnormal("f", 0, kernel()), 0.2, SERIES), "v", 3, 2),
    ),
    Case("normal inverse gamma", "variance 1e-12", _nig_extreme(1e-12), lambda: _nig_extreme_answer(1e-12)),
    Case("normal inverse gamma", "variance 1e12", _nig_extreme(1e12), lambda: _nig_extreme_answer(1e12)),
)
