"""Wishart precisions, and Normal–Wishart."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from oracles import (
    Answer,
    normal_wishart,
    wishart,
)

from table.case import Case
from table.data import (
    COV2,
    ROWS,
    X,
)


def _wishart_tau() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    pm.MvNormal("y", mu=np.array([1.0, -0.5]), tau=w, observed=ROWS)


def _wishart_cov() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    sigma = pm.Deterministic("sigma", pt.linalg.inv(w))
    pm.MvNormal("y", mu=np.array([1.0, -0.5]), cov=sigma, observed=ROWS)


def _wishart_two_likelihoods() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    pm.MvNormal("first", mu=np.array([1.0, -0.5]), tau=w, observed=ROWS[:5])
    pm.MvNormal("second", mu=np.array([1.0, -0.5]), tau=w, observed=ROWS[5:])


def _wishart_three() -> None:
    w = pm.Wishart("W", nu=6, V=np.eye(3) / 5)
    pm.MvNormal("y", mu=np.zeros(3), tau=w, observed=X)


def _wishart_small() -> None:
    w = pm.Wishart("W", nu=4, V=COV2 * 1e12)
    pm.MvNormal("y", mu=np.zeros(2), tau=w, observed=ROWS * 1e-6)


def _normal_wishart_tau() -> None:
    w = pm.Wishart("W", nu=4, V=COV2, dims=("axis", "axis_bis"))
    mu = pm.MvNormal("mu", mu=np.array([0.5, 0.0]), tau=2.0 * w, dims="axis")
    pm.MvNormal("y", mu=mu, tau=w, observed=ROWS, dims=("row", "axis"))


def _normal_wishart_cov() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    sigma = pt.linalg.inv(w)
    mu = pm.MvNormal("mu", mu=np.array([0.5, 0.0]), cov=sigma / 2.0)
    pm.MvNormal("y", mu=mu, cov=sigma, observed=ROWS)


def _normal_wishart_kappa() -> None:
    kappa = pm.Data("kappa", 0.1)
    w = pm.Wishart("W", nu=6, V=np.eye(3) / 6)
    tau = pm.Deterministic("tau_of_the_mean", kappa * w)
    mu = pm.MvNormal("mu", mu=np.zeros(3), tau=tau)
    pm.MvNormal("y", mu=mu, tau=w, observed=X)


def _wishart_answer() -> Answer:
    return wishart("W", 4, COV2, ROWS, np.array([1.0, -0.5]))


WISHART = (
    Case("wishart", "MvNormal, tau", _wishart_tau, _wishart_answer),
    Case("wishart", "MvNormal, cov = inverse, Deterministic", _wishart_cov, _wishart_answer),
    Case("wishart", "two likelihoods", _wishart_two_likelihoods, _wishart_answer),
    Case("wishart", "three dimensions", _wishart_three, lambda: wishart("W", 6, np.eye(3) / 5, X, np.zeros(3))),
    Case(
        "wishart",
        "covariance 1e-12",
        _wishart_small,
        lambda: wishart("W", 4, COV2 * 1e12, ROWS * 1e-6, np.zeros(2)),
    ),
    Case(
        "normal wishart",
        "tau, dims",
        _normal_wishart_tau,
        lambda: normal_wishart("mu", "W", 4, COV2, np.array([0.5, 0.0]), 2, ROWS),
        {"axis": ["x", "y"], "axis_bis": ["x", "y"], "row": range(9)},
    ),
    Case(
        "normal wishart",
        "cov = inverse",
        _normal_wishart_cov,
        lambda: normal_wishart("mu", "W", 4, COV2, np.array([0.5, 0.0]), 2, ROWS),
    ),
    Case(
        "normal wishart",
        "three dimensions, kappa from pm.Data, Deterministic",
        _normal_wishart_kappa,
        lambda: normal_wishart("mu", "W", 6, np.eye(3) / 6, np.zeros(3), 0.1, X),
    ),
)
