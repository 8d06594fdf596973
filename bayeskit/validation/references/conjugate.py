"""Textbook posteriors of one to three numbers, each of a family that has a name."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["CONJUGATE"]


def _coin() -> pm.Model:
    """A Beta posterior: seven heads in ten tosses."""
    with pm.Model() as model:
        chance = pm.Beta("chance", 2.0, 3.0)
        pm.Binomial("heads", n=10, p=chance, observed=7)
    return model


def _horse_kicks() -> pm.Model:
    """A Gamma posterior: deaths by horse kicks in the Prussian army (Bortkiewicz 1898)."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 2.0)
        pm.Poisson("deaths", rate, observed=np.repeat([0, 1, 2, 3, 4], [109, 65, 22, 3, 1]))
    return model


def _waiting_times() -> pm.Model:
    """A skewed Gamma posterior: three waiting times."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.5, 0.1)
        pm.Exponential("waits", rate, observed=[0.4, 2.1, 0.9])
    return model


def _failures_before_success() -> pm.Model:
    """A Beta posterior from geometric counts."""
    with pm.Model() as model:
        chance = pm.Beta("chance", 1.0, 1.0)
        pm.Geometric("trials", chance, observed=[3, 1, 7, 2])
    return model


def _normal_mean() -> pm.Model:
    """A Normal posterior: the mean of five numbers of known standard deviation."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 10.0)
        pm.Normal("y", mean, 2.0, observed=[3.1, 5.2, 4.4, 1.9, 6.0])
    return model


def _normal_variance() -> pm.Model:
    """An inverse Gamma posterior: the variance of eight numbers of known mean."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        pm.Normal("y", 1.0, pm.math.sqrt(variance), observed=[0.2, 1.9, 1.1, -0.4, 2.2, 0.8, 1.7, 0.3])
    return model


def _normal_precision() -> pm.Model:
    """A Gamma posterior: the precision of six numbers of known mean."""
    with pm.Model() as model:
        precision = pm.Gamma("precision", 1.0, 1.0)
        pm.Normal("y", 0.0, tau=precision, observed=[0.7, -1.2, 0.3, 2.0, -0.5, 0.1])
    return model


def _normal_mean_and_variance() -> pm.Model:
    """A Normal inverse Gamma posterior: Darwin's differences in height of fifteen pairs of plants (1876)."""
    differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 1000.0)
        mean = pm.Normal("mean", 0.0, pm.math.sqrt(10.0 * variance))
        pm.Normal("difference", mean, pm.math.sqrt(variance), observed=differences)
    return model


def _stopping_distances() -> pm.Model:
    """A conjugate regression: the distance that cars of the 1920s needed to stop, by their speed (Ezekiel 1930)."""
    speed = np.array([4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 24, 25])
    distance = np.array([2, 4, 16, 10, 26, 28, 20, 34, 36, 26, 40, 50, 76, 46, 48, 66, 93, 85])
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 100.0)
        weights = pm.Normal("weights", 0.0, pm.math.sqrt(variance), shape=2)
        mean = weights[0] + weights[1] * (speed - 15.0)
        pm.Normal("distance", mean, pm.math.sqrt(variance), observed=distance)
    return model


def _direction() -> pm.Model:
    """A posterior on the circle: the mean direction of six headings, von Mises."""
    with pm.Model() as model:
        towards = pm.VonMises("towards", 0.5, 1.5)
        pm.VonMises("heading", towards, 2.0, observed=[0.4, 1.3, -0.2, 0.9, 2.6, 1.1])
    return model


def _two_groups() -> pm.Model:
    """Two means and one variance: a comparison of sleep under two drugs (Student 1908)."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 1.0, 1.0)
        mean = pm.Normal("mean", 0.0, 2.0 * pm.math.sqrt(variance), shape=2)
        pm.Normal("hours", mean[np.repeat([0, 1], 10)], pm.math.sqrt(variance), observed=first + second)
    return model


CONJUGATE = references_of(
    "conjugate",
    _coin,
    _horse_kicks,
    _waiting_times,
    _failures_before_success,
    _normal_mean,
    _normal_variance,
    _normal_precision,
    _normal_mean_and_variance,
    _stopping_distances,
    _direction,
    _two_groups,
)
