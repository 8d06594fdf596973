"""InverseGamma priors: variances and scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mp, mpf
from oracles import (
    Answer,
    elementwise,
    exact,
    group_sum,
    inverse,
    inverse_gamma,
    log_det,
    sum_log,
    total,
)

from table.case import Case
from table.data import (
    COV3,
    GROUP,
    GROUPS,
    POSITIVE,
    REAL,
    X,
    half_log_2pi,
    half_squares,
)


def _variance_answer(a: Any, b: Any, y: Any, mean: float = 0.0) -> Answer:
    return inverse_gamma("v", a, b, mpf(np.size(y)) / 2, half_squares(y, mean), -half_log_2pi(np.size(y)))


def _variance_groups() -> None:
    v = pm.InverseGamma("v", [3.0, 4.0, 2.5], 2.0, dims="group")
    sd = pm.Deterministic("sd", pt.sqrt(v), dims="group")
    pm.Normal("y", 1.0, sd[GROUP], observed=REAL)


def _variance_cov() -> None:
    pm.MvNormal("y", np.zeros(3), cov=pm.InverseGamma("v", 3.0, 2.0) * COV3, observed=X)


def _mv_variance_answer() -> Answer:
    rows = exact(X)
    half = total((rows @ inverse(COV3)) * rows) / 2
    base = -half_log_2pi(X.size) - len(X) * log_det(COV3) / 2
    return inverse_gamma("v", 3, 2, mpf(X.size) / 2, half, base)


INVERSE_GAMMA = (
    Case(
        "inverse gamma",
        "Normal variance, sigma = sqrt(v)",
        lambda: pm.Normal("y", 1.0, pt.sqrt(pm.InverseGamma("v", 3.0, 2.0)), observed=REAL),
        lambda: _variance_answer(3, 2, REAL, 1.0),
    ),
    Case(
        "inverse gamma",
        "Normal variance, tau = 1 / v",
        lambda: pm.Normal("y", 1.0, tau=1 / pm.InverseGamma("v", 3.0, 2.0), observed=REAL),
        lambda: _variance_answer(3, 2, REAL, 1.0),
    ),
    Case(
        "inverse gamma",
        "Normal variance, mu and sigma",
        lambda: pm.Normal("y", 1.0, pm.InverseGamma("v", mu=2.0, sigma=1.5) ** 0.5, observed=REAL),
        lambda: _variance_answer(2 + (mpf(2) / 1.5) ** 2, 2 * (1 + (mpf(2) / 1.5) ** 2), REAL, 1.0),
    ),
    Case(
        "inverse gamma",
        "Normal variance, groups by index, Deterministic, dims",
        _variance_groups,
        lambda: inverse_gamma(
            "v",
            [3.0, 4.0, 2.5],
            2,
            exact(np.bincount(GROUP)) / 2,
            group_sum((exact(REAL) - 1) ** 2, GROUP, 3) / 2,
            -half_log_2pi(len(REAL)),
        ),
        {"group": GROUPS},
    ),
    Case(
        "inverse gamma",
        "Normal variance 1e-12",
        lambda: pm.Normal("y", 0.0, pt.sqrt(pm.InverseGamma("v", 3.0, 1e-12)), observed=REAL * 1e-6),
        lambda: _variance_answer(3, 1e-12, REAL * 1e-6),
    ),
    Case(
        "inverse gamma",
        "Normal variance 1e12",
        lambda: pm.Normal("y", 0.0, pt.sqrt(pm.InverseGamma("v", 3.0, 1e12)), observed=REAL * 1e6),
        lambda: _variance_answer(3, 1e12, REAL * 1e6),
    ),
    Case("inverse gamma", "MvNormal covariance up to a factor", _variance_cov, lambda: _mv_variance_answer()),
    Case(
        "inverse gamma",
        "LogNormal variance",
        lambda: pm.LogNormal("y", 0.5, pt.sqrt(pm.InverseGamma("v", 3.0, 2.0)), observed=POSITIVE),
        lambda: _variance_answer(3, 2, elementwise(mp.log, POSITIVE), 0.5).shift(-sum_log(POSITIVE)),
    ),
    Case(
        "inverse gamma",
        "Exponential scale",
        lambda: pm.Exponential("y", scale=pm.InverseGamma("v", 3.0, 2.0), observed=POSITIVE),
        lambda: inverse_gamma("v", 3, 2, len(POSITIVE), total(POSITIVE)),
    ),
    Case(
        "inverse gamma",
        "Exponential, lam = 1 / v",
        lambda: pm.Exponential("y", lam=1 / pm.InverseGamma("v", 3.0, 2.0), observed=POSITIVE),
        lambda: inverse_gamma("v", 3, 2, len(POSITIVE), total(POSITIVE)),
    ),
    Case(
        "inverse gamma",
        "Exponential scale, groups, mu and sigma",
        lambda: pm.Exponential("y", scale=pm.InverseGamma("v", mu=1.0, sigma=0.5, shape=3)[GROUP], observed=POSITIVE),
        lambda: inverse_gamma("v", 6, 5, np.bincount(GROUP), group_sum(POSITIVE, GROUP, 3)),
    ),
    Case(
        "inverse gamma",
        "Gamma data, known shape, beta = 1 / v",
        lambda: pm.Gamma("y", 2.5, 1 / pm.InverseGamma("v", 3.0, 2.0), observed=POSITIVE),
        lambda: inverse_gamma(
            "v",
            3,
            2,
            mpf(2.5) * len(POSITIVE),
            total(POSITIVE),
            mpf(1.5) * sum_log(POSITIVE) - len(POSITIVE) * mp.loggamma(2.5),
        ),
    ),
    Case(
        "inverse gamma",
        "Laplace scale",
        lambda: pm.Laplace("y", 0.5, pm.InverseGamma("v", 3.0, 2.0), observed=REAL),
        lambda: inverse_gamma("v", 3, 2, len(REAL), total(abs(exact(REAL) - mpf(0.5))), -len(REAL) * mp.log(2)),
    ),
    Case(
        "inverse gamma",
        "Weibull, beta = v ** (1 / alpha)",
        lambda: pm.Weibull("y", 2.0, pt.sqrt(pm.InverseGamma("v", 3.0, 2.0)), observed=POSITIVE),
        lambda: inverse_gamma(
            "v",
            3,
            2,
            len(POSITIVE),
            total(exact(POSITIVE) ** 2),
            len(POSITIVE) * mp.log(2) + sum_log(POSITIVE),
        ),
    ),
)
