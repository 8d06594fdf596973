"""Posteriors that bend, or have several modes, in one to three numbers."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["CURVES"]


def _two_modes() -> pm.Model:
    """A number of which only the square was measured: two modes, four standard deviations apart."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 2.0)
        pm.Normal("y", x**2, 1.0, observed=1.5)
    return model


def _two_modes_far_apart() -> pm.Model:
    """A number of which only the square was measured, and well: forty standard deviations of nothing between."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.5, 2.0)
        pm.Normal("y", x**2, 0.4, observed=4.0)
    return model


def _two_clusters_of_cauchy() -> pm.Model:
    """The location of two clusters of numbers with Cauchy errors: two modes of different weight."""
    with pm.Model() as model:
        location = pm.Normal("location", 0.0, 5.0)
        pm.Cauchy("y", location, 0.7, observed=[-3.2, -2.8, 3.1, 2.5, 2.9])
    return model


def _waves() -> pm.Model:
    """An angle of which only the sine was measured: five modes."""
    with pm.Model() as model:
        angle = pm.Normal("angle", 0.0, 4.0)
        pm.Normal("y", pm.math.sin(angle), 0.5, observed=0.8)
    return model


def _banana() -> pm.Model:
    """A banana: a number, and another near its square."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0)
        b = pm.Normal("b", a**2, 0.5)
        pm.Normal("y", b, 1.0, observed=1.0)
    return model


def _rosenbrock() -> pm.Model:
    """Rosenbrock's banana, thin and long."""
    with pm.Model() as model:
        a = pm.Normal("a", 1.0, 2.0)
        b = pm.Normal("b", a**2, 0.1)
        pm.Normal("y", b, 10.0, observed=1.0)
    return model


def _ring() -> pm.Model:
    """Two numbers of which only the distance from zero was measured: a ring."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 2.0)
        y = pm.Normal("y", 0.0, 2.0)
        pm.Normal("distance", pm.math.sqrt(x**2 + y**2), 0.3, observed=2.5)
    return model


def _product_of_two() -> pm.Model:
    """Two numbers of which only the product was measured: four arms of a hyperbola."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.5)
        b = pm.Normal("b", 0.0, 1.5)
        pm.Normal("y", a * b, 0.5, observed=1.0)
    return model


def _logistic_slope() -> pm.Model:
    """Deaths of insects by dose of a poison (Bliss 1935), logistic."""
    dose = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 5.0)
        slope = pm.Normal("slope", 0.0, 50.0)
        logit = intercept + slope * (dose - 1.8)
        insects = np.array([59, 60, 62, 56, 63, 59, 62, 60])
        pm.Binomial("dead", n=insects, logit_p=logit, observed=[6, 13, 18, 28, 52, 53, 61, 60])
    return model


def _separated_classes() -> pm.Model:
    """A logistic slope of classes that a line separates: the likelihood has no maximum."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 10.0)
        pm.Bernoulli("y", logit_p=slope * np.array([-1.5, -0.7, -0.2, 0.3, 0.9, 1.4]), observed=[0, 0, 0, 1, 1, 1])
    return model


def _counts_over_time() -> pm.Model:
    """A log-linear rate: deaths from AIDS in Australia, fourteen quarters from 1983 (Dobson 1990)."""
    deaths = [0, 1, 2, 3, 1, 4, 9, 18, 23, 31, 20, 25, 37, 45]
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 3.0)
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Poisson("deaths", pm.math.exp(intercept + slope * (np.arange(14) - 7.0)), observed=deaths)
    return model


def _decay() -> pm.Model:
    """A curve that decays: two weights, and a rate that they hang upon."""
    rng = np.random.default_rng(21)
    time = np.linspace(0.0, 3.0, 20)
    measured = 1.0 + 2.0 * np.exp(-0.8 * time) + 0.4 * rng.normal(size=20)
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", 1.0)
        weight = pm.Normal("weight", 0.0, 2.0, shape=2)
        pm.Normal("measured", weight[0] + weight[1] * pm.math.exp(-rate * time), 0.4, observed=measured)
    return model


CURVES = references_of(
    "curves",
    _two_modes,
    _two_modes_far_apart,
    _two_clusters_of_cauchy,
    _waves,
    _banana,
    _rosenbrock,
    _ring,
    _product_of_two,
    _logistic_slope,
    _separated_classes,
    _counts_over_time,
    _decay,
)
