"""Fifty to a hundred numbers at once."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["HIGH_DIMENSION"]


def _hundred_normals() -> pm.Model:
    """A hundred independent Normals."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 1.0, shape=100)
        pm.Normal("y", mean, 1.0, observed=np.random.default_rng(61).normal(size=100))
    return model


def _hundred_scales() -> pm.Model:
    """A hundred independent Normals whose standard deviations go from 0.01 to 100."""
    sd = np.logspace(-2, 2, 100)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0 * sd, shape=100)
        pm.Normal("y", mean, sd, observed=sd * np.random.default_rng(62).normal(size=100))
    return model


def _hundred_neighbours() -> pm.Model:
    """A hundred Normals in a row, neighbours of correlation 0.99."""
    place = np.arange(100)
    covariance = 0.99 ** np.abs(place[:, None] - place)
    with pm.Model() as model:
        level = pm.MvNormal("level", np.zeros(100), covariance)
        pm.Normal("y", level, 0.5, observed=np.sin(place / 15.0))
    return model


def _hundred_rates() -> pm.Model:
    """A hundred Gamma posteriors, from shape 0.5 to shape 10."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.5, 0.5, shape=100)
        pm.Poisson("count", rate, observed=np.arange(100) % 10)
    return model


def _hundred_groups() -> pm.Model:
    """A hundred group means, their mean and their spread."""
    rng = np.random.default_rng(63)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.Gamma("tau", 2.0, 1.0)
        theta = pm.Normal("theta", mu, tau, shape=100)
        pm.Normal("y", theta, 1.0, observed=2.0 + rng.normal(size=100) + rng.normal(size=100))
    return model


def _fifty_weights() -> pm.Model:
    """A regression with fifty weights, a common variance, and eighty rows."""
    rng = np.random.default_rng(64)
    columns = rng.normal(size=(80, 50))
    y = columns[:, :5].sum(axis=1) + rng.normal(size=80)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        weight = pm.Normal("weight", 0.0, pm.math.sqrt(variance), shape=50)
        pm.Normal("y", pm.math.dot(columns, weight), pm.math.sqrt(variance), observed=y)
    return model


def _fifty_shares() -> pm.Model:
    """A Dirichlet posterior of fifty shares."""
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(50))
        pm.Multinomial("count", n=225, p=share, observed=np.arange(50) % 10)
    return model


HIGH_DIMENSION = references_of(
    "high dimension",
    _hundred_normals,
    _hundred_scales,
    _hundred_neighbours,
    _hundred_rates,
    _hundred_groups,
    _fifty_weights,
    _fifty_shares,
)
