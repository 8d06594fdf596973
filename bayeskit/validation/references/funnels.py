"""Funnels: a scale and what is drawn with it, narrow where the scale is small."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["FUNNELS"]


def _neal(size: int) -> pm.Model:
    with pm.Model() as model:
        log_variance = pm.Normal("log_variance", 0.0, 3.0)
        x = pm.Normal("x", 0.0, pm.math.exp(log_variance / 2), shape=size)
        pm.Normal("y", x, 20.0, observed=np.zeros(size))
    return model


def _funnel_of_2() -> pm.Model:
    """Neal's funnel: a log variance of sd 3 and a number of that variance, measured so badly that it stays."""
    return _neal(1)


def _funnel_of_5() -> pm.Model:
    """Neal's funnel: a log variance of sd 3 and four numbers of that variance, measured so badly that it stays."""
    return _neal(4)


def _funnel_of_10() -> pm.Model:
    """Neal's funnel: a log variance of sd 3 and nine numbers of that variance, measured so badly that it stays."""
    return _neal(9)


def _funnel_with_data() -> pm.Model:
    """Neal's funnel of nine numbers, each measured with an error of one."""
    with pm.Model() as model:
        log_variance = pm.Normal("log_variance", 0.0, 3.0)
        x = pm.Normal("x", 0.0, pm.math.exp(log_variance / 2), shape=9)
        pm.Normal("y", x, 1.0, observed=[0.3, -0.8, 1.1, 0.2, -0.5, 0.9, -1.3, 0.1, 0.4])
    return model


def _funnel_of_precision() -> pm.Model:
    """A funnel with a Gamma precision, which has a closed form."""
    with pm.Model() as model:
        precision = pm.Gamma("precision", 1.0, 1.0)
        x = pm.Normal("x", 0.0, tau=precision, shape=4)
        pm.Normal("y", x, tau=0.05 * precision, observed=np.array([1.0, -2.0, 0.5, 3.0]))
    return model


def _funnel_of_half_cauchy() -> pm.Model:
    """Five effects with a half-Cauchy scale, measured badly."""
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 1.0)
        effect = pm.Normal("effect", 0.0, scale, shape=5)
        pm.Normal("y", effect, 3.0, observed=[1.2, -0.4, 2.2, 0.3, -1.0])
    return model


def _funnel_without_a_neck() -> pm.Model:
    """Neal's funnel of nine numbers written by their standard scores, which has no neck."""
    with pm.Model() as model:
        log_variance = pm.Normal("log_variance", 0.0, 3.0)
        score = pm.Normal("score", 0.0, 1.0, shape=9)
        pm.Normal("y", score * pm.math.exp(log_variance / 2), 20.0, observed=np.zeros(9))
    return model


FUNNELS = references_of(
    "funnels",
    _funnel_of_2,
    _funnel_of_5,
    _funnel_of_10,
    _funnel_with_data,
    _funnel_of_precision,
    _funnel_of_half_cauchy,
    _funnel_without_a_neck,
)
