"""Posteriors along a line: correlations up to 0.9999."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["CORRELATION"]


def _sum_of_two() -> pm.Model:
    """Two numbers of which only the sum was measured: a correlation of -0.9999."""
    with pm.Model() as model:
        part = pm.Normal("part", 0.0, 1.0, shape=2)
        pm.Normal("total", part[0] + part[1], 0.01, observed=0.6)
    return model


def _sum_of_ten() -> pm.Model:
    """Ten numbers of which only the sum was measured: free along nine directions, tied along one."""
    with pm.Model() as model:
        part = pm.Normal("part", 0.0, 1.0, shape=10)
        pm.Normal("total", part.sum(), 0.05, observed=3.0)
    return model


def _pair_of_gaussians() -> pm.Model:
    """Two numbers of prior correlation 0.9999, each measured."""
    with pm.Model() as model:
        pair = pm.MvNormal("pair", np.zeros(2), np.array([[1.0, 0.9999], [0.9999, 1.0]]))
        pm.Normal("measured", pair, 2.0, observed=[0.3, 0.9])
    return model


def _all_pairs_alike() -> pm.Model:
    """Eight numbers, each pair of prior correlation 0.99, in different units."""
    sd = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0])
    covariance = np.outer(sd, sd) * (0.99 + 0.01 * np.eye(8))
    with pm.Model() as model:
        values = pm.MvNormal("values", np.zeros(8), covariance)
        pm.Normal("measured", values, sd, observed=sd * np.array([0.2, -0.1, 0.6, 0.4, 1.2, -0.3, 0.5, 0.0]))
    return model


def _two_columns_nearly_alike() -> pm.Model:
    """A regression on two columns that differ by a thousandth."""
    rng = np.random.default_rng(5)
    first = rng.normal(size=20)
    columns = np.column_stack([first, first + 1e-3 * rng.normal(size=20)])
    measured = columns.sum(axis=1) + 0.3 * rng.normal(size=20)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 0.5)
        weight = pm.Normal("weight", 0.0, 3.0 * pm.math.sqrt(variance), shape=2)
        pm.Normal("measured", pm.math.dot(columns, weight), pm.math.sqrt(variance), observed=measured)
    return model


def _years_not_centred() -> pm.Model:
    """Intercept and slope over the years 1990 to 2009, which nobody has centred."""
    rng = np.random.default_rng(6)
    year = np.arange(1990, 2010)
    warmth = 14.0 + 0.02 * (year - 2000) + 0.1 * rng.normal(size=20)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 100.0)
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("warmth", intercept + slope * year, 0.1, observed=warmth)
    return model


def _raw_powers() -> pm.Model:
    """A polynomial of degree four in raw powers."""
    rng = np.random.default_rng(7)
    x = np.linspace(0.0, 1.0, 30)
    powers = np.vander(x, 5, increasing=True)
    measured = np.sin(3 * x) + 0.1 * rng.normal(size=30)
    with pm.Model() as model:
        weight = pm.Normal("weight", 0.0, 10.0, shape=5)
        pm.Normal("measured", pm.math.dot(powers, weight), 0.1, observed=measured)
    return model


CORRELATION = references_of(
    "correlation",
    _sum_of_two,
    _sum_of_ten,
    _pair_of_gaussians,
    _all_pairs_alike,
    _two_columns_nearly_alike,
    _years_not_centred,
    _raw_powers,
)
