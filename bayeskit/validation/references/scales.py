"""Parameters of 1e-6 and of 1e6, alone and in one model."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["SCALES"]


def _micrometres() -> pm.Model:
    """A mean of a few millionths, known to a tenth of that."""
    with pm.Model() as model:
        width = pm.Normal("width", 0.0, 1e-5)
        pm.Normal("measured", width, 1e-6, observed=np.array([3.2, 4.1, 2.7, 3.9]) * 1e-6)
    return model


def _megametres() -> pm.Model:
    """A mean of a few millions, known to some hundred thousands."""
    with pm.Model() as model:
        distance = pm.Normal("distance", 0.0, 1e7)
        pm.Normal("measured", distance, 1e6, observed=np.array([3.2, 4.1, 2.7, 3.9]) * 1e6)
    return model


def _millions_to_a_thousandth() -> pm.Model:
    """A mean of a million, known to a thousandth: nine digits are the same in all draws."""
    with pm.Model() as model:
        level = pm.Normal("level", 1e6, 10.0)
        pm.Normal("measured", level, 2e-3, observed=1e6 + np.array([1.003, 1.001, 0.998, 1.002]))
    return model


def _all_scales_at_once() -> pm.Model:
    """Thirteen independent numbers whose standard deviations go from 1e-6 to 1e6."""
    sd = 10.0 ** np.arange(-6, 7)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0 * sd, shape=13)
        pm.Normal("measured", mean, sd, observed=sd * np.resize([0.4, -1.1, 2.0, 0.1], 13))
    return model


def _columns_of_all_units() -> pm.Model:
    """A regression whose three columns are in units a million apart."""
    rng = np.random.default_rng(11)
    columns = rng.normal(size=(25, 3)) * [1e-6, 1.0, 1e6]
    weights = np.array([1e6, -2.0, 1e-6])
    measured = columns @ weights + 0.5 * rng.normal(size=25)
    with pm.Model() as model:
        weight = pm.Normal("weight", 0.0, 5.0 * np.array([1e6, 1.0, 1e-6]), shape=3)
        pm.Normal("measured", pm.math.dot(columns, weight), 0.5, observed=measured)
    return model


def _variance_of_a_trillionth() -> pm.Model:
    """A variance near 1e-12."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.5, 1e-12)
        pm.Normal("y", 0.0, pm.math.sqrt(variance), observed=np.array([0.7, -1.2, 0.3, 2.0, -0.5]) * 1e-6)
    return model


def _rate_of_a_million() -> pm.Model:
    """A rate near a million events."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1.0, 1e-6)
        pm.Poisson("events", rate, observed=[998_712, 1_001_340, 1_000_233])
    return model


def _one_in_a_million() -> pm.Model:
    """A chance near a millionth: two cases in a million, and a Beta prior."""
    with pm.Model() as model:
        chance = pm.Beta("chance", 0.5, 0.5)
        pm.Binomial("cases", n=1_000_000, p=chance, observed=2)
    return model


SCALES = references_of(
    "scales",
    _micrometres,
    _megametres,
    _millions_to_a_thousandth,
    _all_scales_at_once,
    _columns_of_all_units,
    _variance_of_a_trillionth,
    _rate_of_a_million,
    _one_in_a_million,
)
