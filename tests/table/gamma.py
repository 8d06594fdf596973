"""Gamma, Exponential and ChiSquared priors: rates, precisions and the known-shape families."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mp, mpf
from oracles import (
    Answer,
    elementwise,
    exact,
    gamma,
    group_sum,
    inverse,
    log_det,
    log_factorial,
    sum_log,
    total,
)

from table.case import Case
from table.data import (
    COUNTS,
    COV3,
    EXPOSURE,
    GROUP,
    GROUPS,
    MILLION,
    POSITIVE,
    REAL,
    X,
    grid,
    half_log_2pi,
    half_squares,
    million_counts,
    poisson_base,
)


def _poisson_log_link() -> None:
    rate = pm.Gamma("rate", mu=2.0, sigma=1.5)
    log_exposure = pm.Data("log_exposure", np.log(EXPOSURE))
    pm.Poisson("y", pt.exp(pt.log(rate) + log_exposure), observed=COUNTS)


def _poisson_groups() -> None:
    exposure = pm.Data("exposure", EXPOSURE)
    rate = pm.Gamma("rate", alpha=[1.0, 2.0, 3.5], beta=2.0, dims="group")
    pm.Deterministic("per_year", 12 * rate, dims="group")
    pm.Poisson("y", rate[GROUP] * exposure, observed=COUNTS)


def _gamma_shared() -> None:
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.Poisson("y", rate * EXPOSURE, observed=COUNTS)
    pm.Exponential("waits", rate, observed=POSITIVE)


def _pareto(name: str = "y") -> None:
    pm.Pareto(name, alpha=pm.Gamma("shape", 2.0, 1.0), m=0.01, observed=POSITIVE)


def _weibull() -> None:
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.Weibull("y", alpha=1.7, beta=rate ** (-1 / 1.7), observed=POSITIVE)


def _weibull_deterministic() -> None:
    rate = pm.Exponential("rate", 2.0)
    scale = pm.Deterministic("scale", pt.exp(-pt.log(rate) / 0.8))
    pm.Weibull("y", 0.8, scale, observed=POSITIVE)


def _gamma_mean_sd() -> None:
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.Gamma("y", mu=2.5 / rate, sigma=math.sqrt(2.5) / rate, observed=POSITIVE)


def _precision_matrix() -> None:
    tau = pm.Gamma("tau", 2.0, 3.0)
    pm.MvNormal("y", mu=np.zeros(3), tau=tau * np.linalg.inv(COV3), observed=X)


def _precision_cov() -> None:
    tau = pm.Gamma("tau", 2.0, 3.0)
    pm.MvNormal("y", mu=np.zeros(3), cov=COV3 / tau, observed=X)


def _mv_precision_answer() -> Answer:
    rows = exact(X)
    half = total((rows @ inverse(COV3)) * rows) / 2
    base = -half_log_2pi(X.size) - len(X) * log_det(COV3) / 2
    return gamma("tau", 2, 3, mpf(X.size) / 2, half, base)


def _weibull_answer(a: float, b: float, alpha: Any, name: str = "rate") -> Answer:
    logs = sum_log(POSITIVE)
    base = len(POSITIVE) * mp.log(alpha) + (mpf(alpha) - 1) * logs
    return gamma(name, a, b, len(POSITIVE), total(elementwise(lambda y: y ** mpf(alpha), POSITIVE)), base)


def _gamma_data_answer(shape: float, name: str = "rate") -> Answer:
    n = len(POSITIVE)
    base = (mpf(shape) - 1) * sum_log(POSITIVE) - n * mp.loggamma(mpf(shape))
    return gamma(name, 2, 1, n * mpf(shape), total(POSITIVE), base)


def _normal_precision_answer(a: float, b: float, y: Any, mean: float = 0.0) -> Answer:
    return gamma("tau", a, b, mpf(np.size(y)) / 2, half_squares(y, mean), -half_log_2pi(np.size(y)))


def _lognormal_precision_answer() -> Answer:
    logs = elementwise(mp.log, POSITIVE)
    base = -half_log_2pi(len(POSITIVE)) - total(logs)
    return gamma("tau", 2, 3, mpf(len(POSITIVE)) / 2, half_squares(logs, 0.5), base)


GAMMA = (
    Case(
        "gamma",
        "Poisson, alpha and beta",
        lambda: pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0), observed=COUNTS),
        lambda: gamma("rate", 2, 1, int(COUNTS.sum()), len(COUNTS), poisson_base(COUNTS)),
    ),
    Case(
        "gamma",
        "Poisson, exposures and groups by index, dims",
        _poisson_groups,
        lambda: gamma(
            "rate",
            [1.0, 2.0, 3.5],
            2,
            grid(COUNTS),
            group_sum(EXPOSURE, GROUP, 3),
            poisson_base(COUNTS, EXPOSURE),
        ),
        {"group": GROUPS},
    ),
    Case(
        "gamma",
        "Poisson, mu and sigma, log link",
        _poisson_log_link,
        lambda: gamma(
            "rate",
            (mpf(2) / 1.5) ** 2,
            mpf(2) / mpf(1.5) ** 2,
            int(COUNTS.sum()),
            total(elementwise(mp.exp, np.log(EXPOSURE))),
            total(exact(COUNTS) * exact(np.log(EXPOSURE))) - log_factorial(COUNTS),
        ),
    ),
    Case(
        "gamma",
        "Poisson, counts of a million",
        lambda: pm.Poisson("y", pm.Gamma("rate", 2.0, 1e-6), observed=[1_000_123, 998_001]),
        lambda: gamma("rate", 2, 1e-6, 1_998_124, 2, poisson_base([1_000_123, 998_001])),
    ),
    Case(
        "gamma",
        "Poisson, tiny rate and huge exposure",
        lambda: pm.Poisson("y", pm.Gamma("rate", 0.5, 1e9) * 1e12, observed=[1234]),
        lambda: gamma("rate", 0.5, 1e9, 1234, 1e12, poisson_base([1234], [1e12])),
    ),
    Case(
        "gamma",
        "Poisson, a million rows",
        lambda: pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0), observed=million_counts()),
        lambda: gamma("rate", 2, 1, int(million_counts().sum()), MILLION, _million_poisson_base()),
    ),
    Case(
        "exponential",
        "Poisson, lam",
        lambda: pm.Poisson("y", pm.Exponential("rate", 0.7) * EXPOSURE, observed=COUNTS),
        lambda: gamma("rate", 1, 0.7, int(COUNTS.sum()), total(EXPOSURE), poisson_base(COUNTS, EXPOSURE)),
    ),
    Case(
        "exponential",
        "Poisson, scale",
        lambda: pm.Poisson("y", pm.Exponential("rate", scale=3.0), observed=COUNTS),
        lambda: gamma("rate", 1, 1 / mpf(3), int(COUNTS.sum()), len(COUNTS), poisson_base(COUNTS)),
    ),
    Case(
        "exponential",
        "Exponential data",
        lambda: pm.Exponential("y", lam=pm.Exponential("rate", 2.0), observed=POSITIVE),
        lambda: gamma("rate", 1, 2, len(POSITIVE), total(POSITIVE)),
    ),
    Case(
        "chi squared",
        "Poisson",
        lambda: pm.Poisson("y", pm.ChiSquared("rate", nu=3), observed=COUNTS),
        lambda: gamma("rate", 1.5, 0.5, int(COUNTS.sum()), len(COUNTS), poisson_base(COUNTS)),
    ),
    Case(
        "chi squared",
        "Exponential data",
        lambda: pm.Exponential("y", scale=1 / pm.ChiSquared("rate", nu=4.5), observed=POSITIVE),
        lambda: gamma("rate", 2.25, 0.5, len(POSITIVE), total(POSITIVE)),
    ),
    Case(
        "chi squared",
        "Normal precision",
        lambda: pm.Normal("y", 1.0, tau=pm.ChiSquared("tau", nu=2.0), observed=REAL),
        lambda: _normal_precision_answer(1, 0.5, REAL, 1.0),
    ),
    Case(
        "gamma",
        "Exponential data, rate",
        lambda: pm.Exponential("y", pm.Gamma("rate", 2.0, 1.0), observed=POSITIVE),
        lambda: gamma("rate", 2, 1, len(POSITIVE), total(POSITIVE)),
    ),
    Case(
        "gamma",
        "Exponential data, scale = 1 / rate, groups",
        lambda: pm.Exponential("y", scale=1 / pm.Gamma("rate", 2.0, 1.0, shape=3)[GROUP], observed=POSITIVE),
        lambda: gamma("rate", 2, 1, np.bincount(GROUP), group_sum(POSITIVE, GROUP, 3)),
    ),
    Case("gamma", "Poisson and Exponential share the rate", _gamma_shared, lambda: _gamma_shared_answer()),
    Case(
        "gamma",
        "Gamma data, known shape",
        lambda: pm.Gamma("y", alpha=2.5, beta=pm.Gamma("rate", 2.0, 1.0), observed=POSITIVE),
        lambda: _gamma_data_answer(2.5),
    ),
    Case("gamma", "Gamma data, mu and sigma", _gamma_mean_sd, lambda: _gamma_mean_sd_answer()),
    Case(
        "gamma",
        "InverseGamma data, known shape",
        lambda: pm.InverseGamma("y", alpha=3.0, beta=pm.Gamma("rate", 2.0, 1.0), observed=POSITIVE),
        lambda: gamma(
            "rate",
            2,
            1,
            3 * len(POSITIVE),
            total(elementwise(lambda y: 1 / y, POSITIVE)),
            -4 * sum_log(POSITIVE) - len(POSITIVE) * mp.log(2),
        ),
    ),
    Case(
        "gamma",
        "Normal precision, tau",
        lambda: pm.Normal("y", 0.0, tau=pm.Gamma("tau", 2.0, 3.0), observed=REAL),
        lambda: _normal_precision_answer(2, 3, REAL),
    ),
    Case(
        "gamma",
        "Normal precision, sigma = 1 / sqrt(tau)",
        lambda: pm.Normal("y", 0.0, 1 / pt.sqrt(pm.Gamma("tau", 2.0, 3.0)), observed=REAL),
        lambda: _normal_precision_answer(2, 3, REAL),
    ),
    Case(
        "gamma",
        "Normal precision 1e24",
        lambda: pm.Normal("y", 0.0, tau=pm.Gamma("tau", 2.0, 1e-24), observed=REAL * 1e-12),
        lambda: _normal_precision_answer(2, 1e-24, REAL * 1e-12),
    ),
    Case(
        "gamma",
        "Normal precision 1e-24",
        lambda: pm.Normal("y", 0.0, tau=pm.Gamma("tau", 2.0, 1e24), observed=REAL * 1e12),
        lambda: _normal_precision_answer(2, 1e24, REAL * 1e12),
    ),
    Case("gamma", "MvNormal precision, tau", _precision_matrix, lambda: _mv_precision_answer()),
    Case("gamma", "MvNormal precision, cov / tau", _precision_cov, lambda: _mv_precision_answer()),
    Case(
        "gamma",
        "HalfNormal precision",
        lambda: pm.HalfNormal("y", tau=pm.Gamma("tau", 2.0, 3.0), observed=POSITIVE),
        lambda: gamma(
            "tau",
            2,
            3,
            mpf(len(POSITIVE)) / 2,
            half_squares(POSITIVE),
            len(POSITIVE) * mp.log(2) - half_log_2pi(len(POSITIVE)),
        ),
    ),
    Case(
        "gamma",
        "LogNormal precision, tau",
        lambda: pm.LogNormal("y", mu=0.5, tau=pm.Gamma("tau", 2.0, 3.0), observed=POSITIVE),
        _lognormal_precision_answer,
    ),
    Case(
        "gamma",
        "LogNormal precision, sigma = tau ** -0.5",
        lambda: pm.LogNormal("y", 0.5, pm.Gamma("tau", 2.0, 3.0) ** -0.5, observed=POSITIVE),
        _lognormal_precision_answer,
    ),
    Case(
        "gamma",
        "LogNormal precision, as a Normal of the logarithm",
        lambda: pm.Normal("y", 0.5, tau=pm.Gamma("tau", 2.0, 3.0), observed=np.log(POSITIVE)),
        lambda: _normal_precision_answer(2, 3, np.log(POSITIVE), 0.5),
    ),
    Case("gamma", "Weibull, known alpha", _weibull, lambda: _weibull_answer(2, 1, 1.7)),
    Case("exponential", "Weibull, Deterministic scale", _weibull_deterministic, lambda: _weibull_answer(1, 2, 0.8)),
    Case(
        "chi squared",
        "Weibull, alpha = 2",
        lambda: pm.Weibull("y", 2.0, 1 / pt.sqrt(pm.ChiSquared("rate", 3)), observed=POSITIVE),
        lambda: _weibull_answer(1.5, 0.5, 2.0),
    ),
    Case("gamma", "Pareto, known m", _pareto, lambda: _pareto_answer(2, 1, "shape")),
    Case(
        "exponential",
        "Pareto, known m",
        lambda: pm.Pareto("y", pm.Exponential("shape", scale=0.4), m=0.01, observed=POSITIVE),
        lambda: _pareto_answer(1, 1 / mpf(0.4), "shape"),
    ),
    Case(
        "gamma",
        "Pareto, Deterministic of the reciprocal",
        lambda: pm.Pareto(
            "y", 1 / pm.Deterministic("tail", 1 / pm.Gamma("shape", 2.0, 1.0)), m=0.01, observed=POSITIVE
        ),
        lambda: _pareto_answer(2, 1, "shape"),
    ),
    Case(
        "gamma",
        "Laplace, b = 1 / tau",
        lambda: pm.Laplace("y", 0.5, 1 / pm.Gamma("tau", 2.0, 3.0), observed=REAL),
        lambda: _laplace_answer(2, 3, 1.0),
    ),
    Case(
        "exponential",
        "Laplace, b = 2 / tau",
        lambda: pm.Laplace("y", mu=0.5, b=2 / pm.Exponential("tau", 3.0), observed=REAL),
        lambda: _laplace_answer(1, 3, 2.0),
    ),
    Case(
        "chi squared",
        "Laplace, b = exp(-log(tau))",
        lambda: pm.Laplace("y", mu=0.5, b=pt.exp(-pt.log(pm.ChiSquared("tau", 3.0))), observed=REAL),
        lambda: _laplace_answer(1.5, 0.5, 1.0),
    ),
)


@cache
def _million_poisson_base() -> Any:
    values, repeats = np.unique(million_counts(), return_counts=True)
    return -mp.fsum(int(r) * mp.loggamma(int(v) + 1) for v, r in zip(values, repeats, strict=True))


def _gamma_shared_answer() -> Answer:
    count = int(COUNTS.sum()) + len(POSITIVE)
    return gamma("rate", 2, 1, count, total(EXPOSURE) + total(POSITIVE), poisson_base(COUNTS, EXPOSURE))


def _gamma_mean_sd_answer() -> Answer:
    # PyMC turns mu and sigma into (mu / sigma)², with sigma = fl(sqrt(2.5)) / rate
    return _gamma_data_answer((mpf(2.5) / mpf(math.sqrt(2.5))) ** 2)


def _pareto_answer(a: float, b: Any, name: str) -> Answer:
    excess = sum_log(POSITIVE) - len(POSITIVE) * mp.log(mpf(0.01))
    return gamma(name, a, b, len(POSITIVE), excess, -sum_log(POSITIVE))


def _laplace_answer(a: float, b: float, factor: float) -> Answer:
    n = len(REAL)
    distance = total(abs(exact(REAL) - mpf(0.5))) / mpf(factor)
    return gamma("tau", a, b, n, distance, -n * mp.log(2 * mpf(factor)))
