"""Linear-Gaussian graphs: random walks, autoregressions and latent Gaussian processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mpf
from oracles import (
    Answer,
    GaussianGraph,
    cholesky,
    exact,
    normal_logp,
)

from table.case import Case
from table.data import (
    SERIES,
    TIMES,
    kernel,
)
from table.describe import graph_answer


def _random_walk() -> None:
    level = pm.GaussianRandomWalk("level", mu=0.1, sigma=0.5, init_dist=pm.Normal.dist(0, 2), steps=len(SERIES) - 1)
    pm.Normal("y", level, 0.3, observed=SERIES)


def _random_walk_oracle(g: GaussianGraph) -> None:
    when = np.arange(10)
    cov = 4.0 + exact(0.5) ** 2 * exact(np.minimum.outer(when, when))
    g.observe(g.mvnormal("level", exact(0.1) * exact(when), cov), 0.3, SERIES)


def _random_walk_by_hand() -> None:
    start = pm.Normal("start", 0, 2)
    step = pm.Normal("step", 0.1, 0.5, shape=9)
    level = pt.concatenate([start[None], start + pt.cumsum(step)])
    pm.Normal("y", pm.Deterministic("level", level), 0.3, observed=SERIES)


def _random_walk_by_hand_oracle(g: GaussianGraph) -> None:
    start, step = g.normal("start", 0, 2), g.normal("step", 0.1, 0.5, (9,))
    tril = np.vstack([np.zeros(9), np.tril(np.ones((9, 9)))])
    g.observe(tril @ step + start, 0.3, SERIES)


def _added_in_place() -> None:
    level, step = pm.Normal("level", 0, 2), pm.Normal("step", 0.1, 1)
    shock = pm.Normal("shock", 0, 0.7, shape=3)
    mean = pt.inc_subtensor((level + pt.zeros(10))[[2, 5, 5]], shock)
    pm.Normal("y", pt.inc_subtensor(mean[6:], step), 0.3, observed=SERIES)


def _added_in_place_oracle(g: GaussianGraph) -> None:
    level, step, shock = g.normal("level", 0, 2), g.normal("step", 0.1, 1), g.normal("shock", 0, 0.7, (3,))
    places = np.zeros((10, 3))
    places[[2, 5, 5], [0, 1, 2]] = 1.0
    g.observe(level + places @ shock + (np.arange(10) >= 6) * step, 0.3, SERIES)


def _autoregression() -> None:
    state = pm.AR(
        "state", rho=[0.2, 0.6, -0.3], constant=True, sigma=0.5, init_dist=pm.Normal.dist(0, 2, shape=2), steps=8
    )
    pm.Normal("y", state, 0.3, observed=SERIES)


def _autoregression_oracle(g: GaussianGraph) -> None:
    # x = e + constant + the two before it, written out: (I − B) x = c + e, so x = (I − B)⁻¹ (c + e)
    back = np.full((10, 10), mpf(0), dtype=object)
    for t in range(2, 10):
        back[t, t - 1], back[t, t - 2] = mpf(0.6), mpf(-0.3)
    power, total_response = exact(np.eye(10)), exact(np.eye(10))
    for _ in range(9):
        power = power @ back
        total_response = total_response + power
    sd = exact(np.array([2.0, 2.0] + [0.5] * 8))
    root = total_response * sd
    constant = exact(np.array([0.0, 0.0] + [0.2] * 8))
    g.observe(g.mvnormal("state", total_response @ constant, root @ root.T), 0.3, SERIES)


def _autoregression_coefficients() -> None:
    rho = pm.Normal("rho", 0.0, 0.5, shape=2)
    pm.AR("y", rho=rho, sigma=0.8, init_dist=pm.Normal.dist(0, 2, shape=2), observed=SERIES)


def _autoregression_coefficients_oracle() -> Answer:
    graph = GaussianGraph()
    rho = graph.normal("rho", 0, 0.5, (2,))
    graph.observe(np.column_stack([SERIES[1:-1], SERIES[:-2]]) @ rho, 0.8, SERIES[2:])
    return graph.answer().shift(normal_logp(SERIES[:2], 0, 2))


def _latent_gp(reparameterize: bool) -> Callable[[], Any]:
    def body() -> None:
        gp = pm.gp.Latent(cov_func=1.5**2 * pm.gp.cov.ExpQuad(1, ls=0.3))
        f = gp.prior("f", X=TIMES[:, None], reparameterize=reparameterize)
        pm.Normal("y", f, 0.2, observed=SERIES)

    return body


def _gp_by_hand() -> None:
    f = pm.MvNormal("f", mu=np.zeros(10), chol=np.linalg.cholesky(kernel()), dims="time")
    pm.Normal("y", f + 1.0, 0.2, observed=SERIES, dims="time")


def _gp_rotated_oracle(g: GaussianGraph) -> None:
    v = g.normal("f_rotated_", 0, 1, (10,))
    g.observe(cholesky(exact(kernel())) @ v, 0.2, SERIES)


GAUSSIAN_SERIES = (
    Case("normal", "GaussianRandomWalk", _random_walk, lambda: graph_answer(_random_walk_oracle)),
    Case("normal", "random walk by cumsum", _random_walk_by_hand, lambda: graph_answer(_random_walk_by_hand_oracle)),
    Case("normal", "shocks added in place", _added_in_place, lambda: graph_answer(_added_in_place_oracle)),
    Case("normal", "AR states with noise", _autoregression, lambda: graph_answer(_autoregression_oracle)),
    Case("normal", "AR coefficients", _autoregression_coefficients, _autoregression_coefficients_oracle),
    Case("normal", "latent GP, rotated", _latent_gp(True), lambda: graph_answer(_gp_rotated_oracle)),
    Case(
        "normal",
        "latent GP",
        _latent_gp(False),
        lambda: graph_answer(lambda g: g.observe(g.mvnormal("f", 0, kernel()), 0.2, SERIES)),
    ),
    Case(
        "normal",
        "latent GP as MvNormal, dims",
        _gp_by_hand,
        lambda: graph_answer(lambda g: g.observe(g.mvnormal("f", 0, kernel()) + 1.0, 0.2, SERIES)),
        {"time": TIMES},
    ),
)
