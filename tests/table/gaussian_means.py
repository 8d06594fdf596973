"""Linear-Gaussian graphs: means, shared, indexed and hierarchical, with known variances."""

from __future__ import annotations

import numpy as np
import pymc as pm
from mpmath import mp, mpf
from oracles import (
    Answer,
    GaussianGraph,
    elementwise,
    sum_log,
)

from table.case import Case
from table.data import (
    GROUP,
    GROUPS,
    POSITIVE,
    REAL,
)
from table.describe import graph_answer, one_mean


def _mean_deterministic() -> None:
    mu = pm.Normal("mu", 0, 15)
    celsius = pm.Deterministic("celsius", (mu - 32.0) / 1.8)
    pm.Normal("y", celsius, 0.3, observed=REAL)


def _mean_deterministic_oracle(g: GaussianGraph) -> None:
    mu = g.normal("mu", 0, 15)
    g.observe((mu - 32.0) * (1 / mpf(1.8)), 0.3, REAL)


def _three_levels() -> None:
    grand = pm.Normal("grand", 0, 5)
    region = pm.Normal("region_mean", grand, 2.0, dims="region")
    group = pm.Normal("group_mean", region[np.array([0, 1, 1])], 1.5, dims="group")
    pm.Normal("y", group[GROUP], 0.8, observed=REAL)


def _three_levels_non_centred() -> None:
    grand = pm.Normal("grand", 0, 5)
    z = pm.Normal("z", 0, 1, shape=2)
    region = pm.Deterministic("region", grand + 2.0 * z)
    group = pm.Normal("group_mean", region[np.array([0, 1, 1])], tau=1 / 1.5**2, shape=3)
    pm.Normal("y", group[GROUP], 0.8, observed=REAL)


def _three_levels_oracle(g: GaussianGraph) -> None:
    grand = g.normal("grand", 0, 5)
    region = g.normal("region_mean", grand, 2, (2,))
    group = g.normal("group_mean", region[np.array([0, 1, 1])], 1.5, (3,))
    g.observe(group[GROUP], 0.8, REAL)


def _three_levels_non_centred_oracle(g: GaussianGraph) -> None:
    grand = g.normal("grand", 0, 5)
    region = grand + 2.0 * g.normal("z", 0, 1, (2,))
    group = g.normal("group_mean", region[np.array([0, 1, 1])], 1 / mp.sqrt(mpf(1 / 1.5**2)), (3,))
    g.observe(group[GROUP], 0.8, REAL)


def _two_likelihoods() -> None:
    mu = pm.Normal("mu", 0, 3)
    pm.Normal("fine", mu, 0.5, observed=REAL[:4])
    pm.Normal("coarse", 2 * mu + 1, 4.0, observed=REAL[4:])
    pm.LogNormal("log", mu, 1.0, observed=POSITIVE)


def _potential_quadratic() -> None:
    mu = pm.Normal("mu", [0.0, 1.0, 2.0], 2.0, shape=3)
    pm.Normal("y", mu[GROUP], 0.8, observed=REAL)
    pm.Potential("closeness", -0.5 * ((mu[1:] - mu[:-1]) ** 2).sum() / 0.25)


def _potential_oracle() -> Answer:
    graph = GaussianGraph()
    mu = graph.normal("mu", np.array([0.0, 1.0, 2.0]), 2, (3,))
    graph.observe(mu[GROUP], 0.8, REAL)
    # exp(−d² / (2 · 0.25)) is an observation d = 0 with sd 0.5, less its normaliser
    graph.observe(mu[1:] - mu[:-1], 0.5, np.zeros(2))
    return graph.answer().shift(mp.log(2 * mp.pi) + 2 * mp.log(mpf(0.5)))


def _dag() -> None:
    a = pm.Normal("a", 1.0, 2.0)
    b = pm.Normal("b", 0.5 * a, 1.0)
    c = pm.Normal("c", a - 2 * b + 0.25, 0.5, shape=2)
    pm.Normal("y", c.sum() + a, 0.3, observed=REAL)
    pm.Normal("z", b, 2.0, observed=0.7)


def _dag_oracle(g: GaussianGraph) -> None:
    a = g.normal("a", 1, 2)
    b = g.normal("b", 0.5 * a, 1)
    c = g.normal("c", a + -2.0 * b + 0.25, 0.5, (2,))
    g.observe(c[0] + c[1] + a, 0.3, REAL)
    g.observe(b, 2, np.array(0.7))


def _prior_only() -> None:
    mu = pm.Normal("mu", 0, 3)
    pm.Normal("bystander", mu + 1.0, 0.5, shape=2)
    pm.Normal("y", mu, 0.5, observed=REAL)


def _prior_only_oracle(g: GaussianGraph) -> None:
    mu = g.normal("mu", 0, 3)
    g.normal("bystander", mu + 1.0, 0.5, (2,))
    g.observe(mu, 0.5, REAL)


def _two_likelihoods_answer() -> Answer:
    graph = GaussianGraph()
    mu = graph.normal("mu", 0, 3)
    graph.observe(mu, 0.5, REAL[:4])
    graph.observe(2.0 * mu + 1.0, 4, REAL[4:])
    graph.observe(mu, 1, elementwise(mp.log, POSITIVE))
    return graph.answer().shift(-sum_log(POSITIVE))


GAUSSIAN_MEANS = (
    Case(
        "normal",
        "one mean, sd",
        lambda: pm.Normal("y", pm.Normal("mu", 0, 15), 2, observed=REAL),
        lambda: one_mean(0, 15, 2, REAL),
    ),
    Case(
        "normal",
        "one mean, tau",
        lambda: pm.Normal("y", pm.Normal("mu", 1, tau=0.04), tau=0.3, observed=REAL),
        lambda: one_mean(1, 1 / mp.sqrt(mpf(0.04)), 1 / mp.sqrt(mpf(0.3)), REAL),
    ),
    Case("normal", "one mean, Deterministic", _mean_deterministic, lambda: graph_answer(_mean_deterministic_oracle)),
    Case(
        "normal",
        "one row",
        lambda: pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=3.0),
        lambda: one_mean(0, 1, 1, np.array(3.0)),
    ),
    Case(
        "normal",
        "means by index, dims",
        lambda: pm.Normal("y", pm.Normal("mu", [0.0, 1.0, 2.0], 2.0, dims="group")[GROUP], 0.8, observed=REAL),
        lambda: graph_answer(lambda g: g.observe(g.normal("mu", np.array([0.0, 1.0, 2.0]), 2, (3,))[GROUP], 0.8, REAL)),
        {"group": GROUPS},
    ),
    Case(
        "normal",
        "three levels",
        _three_levels,
        lambda: graph_answer(_three_levels_oracle),
        {"group": GROUPS, "region": ["coast", "hills"]},
    ),
    Case(
        "normal",
        "three levels, non-centred",
        _three_levels_non_centred,
        lambda: graph_answer(_three_levels_non_centred_oracle),
    ),
    Case(
        "normal",
        "variance 1e-12",
        lambda: pm.Normal("y", pm.Normal("mu", 0, 1e-6), 1e-6, observed=REAL * 1e-6),
        lambda: one_mean(0, 1e-6, 1e-6, REAL * 1e-6),
    ),
    Case(
        "normal",
        "variance 1e12",
        lambda: pm.Normal("y", pm.Normal("mu", 0, 1e6), 1e6, observed=REAL * 1e6),
        lambda: one_mean(0, 1e6, 1e6, REAL * 1e6),
    ),
    Case(
        "normal",
        "prior variance 1e12, noise variance 1e-12",
        lambda: pm.Normal("y", pm.Normal("mu", 0, 1e6), 1e-6, observed=1.0 + REAL * 1e-6),
        lambda: one_mean(0, 1e6, 1e-6, 1.0 + REAL * 1e-6),
    ),
    Case(
        "lognormal",
        "one mean",
        lambda: pm.LogNormal("y", pm.Normal("mu", 0, 15), 0.7, observed=POSITIVE),
        lambda: one_mean(0, 15, 0.7, elementwise(mp.log, POSITIVE)).shift(-sum_log(POSITIVE)),
    ),
    Case(
        "lognormal",
        "groups by index, tau",
        lambda: pm.LogNormal("y", pm.Normal("mu", 0, 2, shape=3)[GROUP], tau=4.0, observed=POSITIVE),
        lambda: graph_answer(
            lambda g: g.observe(g.normal("mu", 0, 2, (3,))[GROUP], 0.5, elementwise(mp.log, POSITIVE))
        ).shift(-sum_log(POSITIVE)),
    ),
    Case("normal", "a directed graph", _dag, lambda: graph_answer(_dag_oracle)),
    Case("normal", "three likelihoods share the mean", _two_likelihoods, lambda: _two_likelihoods_answer()),
    Case("normal", "a variable that no data reach", _prior_only, lambda: graph_answer(_prior_only_oracle)),
    Case("normal", "a quadratic Potential", _potential_quadratic, _potential_oracle),
)
