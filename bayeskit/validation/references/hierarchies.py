"""Hierarchies: groups that share a mean and a spread, or the parameters of their prior."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["HIERARCHIES"]

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _eight_schools_centred() -> pm.Model:
    """Eight schools (Rubin 1981), centred: a funnel at no spread."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("effect", theta, ERROR, observed=EFFECT)
    return model


def _eight_schools_noncentred() -> pm.Model:
    """Eight schools (Rubin 1981), by their standard scores."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        score = pm.Normal("score", 0.0, 1.0, shape=8)
        theta = pm.Deterministic("theta", mu + tau * score)
        pm.Normal("effect", theta, ERROR, observed=EFFECT)
    return model


def _schools_all_alike() -> pm.Model:
    """Eight schools that differ less than their errors: the posterior of the spread touches zero."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfNormal("tau", 10.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("effect", theta, ERROR, observed=4.0 + 0.2 * np.arange(8))
    return model


def _batting_averages() -> pm.Model:
    """Eighteen batters of 1970 after 45 times at bat (Efron and Morris 1975), arc-sine scale."""
    hits = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
    score = np.sqrt(45) * np.arcsin(2 * hits / 45 - 1)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        tau = pm.HalfNormal("tau", 2.0)
        skill = pm.Normal("skill", mu, tau, shape=18)
        pm.Normal("score", skill, 1.0, observed=score)
    return model


def _rats() -> pm.Model:
    """Weights of rats at five ages: a line for all and an intercept for each, as in the rats of Gelfand (1990)."""
    rng = np.random.default_rng(41)
    rat, age = np.repeat(np.arange(10), 5), np.tile([-14.0, -7.0, 0.0, 7.0, 14.0], 10)
    weight = 243.0 + 14.0 * rng.normal(size=10)[rat] + 6.2 * age + 6.0 * rng.normal(size=50)
    with pm.Model() as model:
        mean = pm.Normal("mean", 240.0, 50.0)
        slope = pm.Normal("slope", 0.0, 10.0)
        spread = pm.HalfNormal("spread", 20.0)
        noise = pm.HalfNormal("noise", 10.0)
        intercept = pm.Normal("intercept", mean, spread, shape=10)
        pm.Normal("weight", intercept[rat] + slope * age, noise, observed=weight)
    return model


def _pumps() -> pm.Model:
    """Failures of ten pumps of a nuclear plant (Gaver and O'Muircheartaigh 1987)."""
    failures = [5, 1, 5, 14, 3, 19, 1, 1, 4, 22]
    hours = np.array([94.3, 15.7, 62.9, 125.8, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])
    with pm.Model() as model:
        shape = pm.Exponential("shape", 1.0)
        speed = pm.Gamma("speed", 0.1, 1.0)
        rate = pm.Gamma("rate", shape, speed, shape=10)
        pm.Poisson("failures", rate * hours, observed=failures)
    return model


def _tumours() -> pm.Model:
    """Tumours in twelve groups of rats (after Tarone 1982): chances with a common Beta prior."""
    tumours = [0, 0, 1, 2, 2, 4, 5, 3, 9, 6, 10, 15]
    rats = [20, 18, 20, 25, 20, 20, 24, 19, 48, 20, 48, 47]
    with pm.Model() as model:
        a = pm.Gamma("a", 2.0, 1.0)
        b = pm.Gamma("b", 2.0, 0.2)
        chance = pm.Beta("chance", a, b, shape=12)
        pm.Binomial("tumours", n=rats, p=chance, observed=tumours)
    return model


def _groups_of_known_ratio() -> pm.Model:
    """Six groups whose spread is half the noise: a hierarchy with a closed form."""
    rng = np.random.default_rng(42)
    group = np.repeat(np.arange(6), 4)
    y = 3.0 + 0.8 * rng.normal(size=6)[group] + 1.6 * rng.normal(size=24)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 2.0)
        mean = pm.Normal("mean", 0.0, 5.0 * pm.math.sqrt(variance))
        level = pm.Normal("level", mean, 0.5 * pm.math.sqrt(variance), shape=6)
        pm.Normal("y", level[group], pm.math.sqrt(variance), observed=y)
    return model


def _nested_groups() -> pm.Model:
    """Classes within schools, all spreads known: fifteen numbers on three levels."""
    rng = np.random.default_rng(43)
    school = np.repeat(np.arange(3), 4)
    y = rng.normal(size=12) + np.array([1.0, -1.0, 0.5])[school]
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 3.0)
        of_school = pm.Normal("of_school", mean, 1.0, shape=3)
        of_class = pm.Normal("of_class", of_school[school], 0.5, shape=12)
        pm.Normal("y", of_class, 1.0, observed=y)
    return model


HIERARCHIES = references_of(
    "hierarchies",
    _eight_schools_centred,
    _eight_schools_noncentred,
    _schools_all_alike,
    _batting_averages,
    _rats,
    _pumps,
    _tumours,
    _groups_of_known_ratio,
    _nested_groups,
)
