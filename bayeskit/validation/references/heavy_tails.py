"""Posteriors of which draws far out are right: Student's t, Cauchy, and scales without a variance."""

from __future__ import annotations

import pymc as pm

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["HEAVY_TAILS"]


def _student_of_two_degrees() -> pm.Model:
    """A mean whose posterior is Student's t of two degrees of freedom, which has no variance."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 0.5, 0.5)
        mean = pm.Normal("mean", 0.0, pm.math.sqrt(variance))
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=[1.5])
    return model


def _student_of_five_degrees() -> pm.Model:
    """Two means whose posterior is a Student's t of five degrees of freedom."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 1.5, 1.0)
        mean = pm.Normal("mean", 0.0, 3.0 * pm.math.sqrt(variance), shape=2)
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=[1.5, -0.5])
    return model


def _cauchy_prior_far_from_data() -> pm.Model:
    """A Cauchy prior that hardly minds, and a measurement twenty away."""
    with pm.Model() as model:
        location = pm.Cauchy("location", 0.0, 1.0)
        pm.Normal("y", location, 5.0, observed=20.0)
    return model


def _cauchy_location() -> pm.Model:
    """The location of five numbers with Cauchy errors, one of them far out."""
    with pm.Model() as model:
        location = pm.Normal("location", 0.0, 10.0)
        pm.Cauchy("y", location, 1.0, observed=[0.3, -0.8, 1.1, 0.2, 14.0])
    return model


def _student_errors() -> pm.Model:
    """Location and scale of nine numbers with Student errors of four degrees of freedom."""
    with pm.Model() as model:
        location = pm.Normal("location", 0.0, 5.0)
        scale = pm.HalfNormal("scale", 3.0)
        pm.StudentT("y", nu=4, mu=location, sigma=scale, observed=[2.1, 2.9, 1.4, 2.6, 9.0, 2.2, 3.1, 1.9, 2.4])
    return model


def _variance_without_variance() -> pm.Model:
    """A variance whose posterior has a mean and no second moment."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 0.7, 1.0)
        pm.Normal("y", 0.0, pm.math.sqrt(variance), observed=[0.9])
    return model


def _half_cauchy_scale() -> pm.Model:
    """The scale of two numbers, with a half-Cauchy prior."""
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 2.0)
        pm.Normal("y", 0.0, scale, observed=[0.5, -1.9])
    return model


def _one_horseshoe() -> pm.Model:
    """One coefficient under a horseshoe: a spike at zero and tails of a Cauchy."""
    with pm.Model() as model:
        local = pm.HalfCauchy("local", 1.0)
        weight = pm.Normal("weight", 0.0, local)
        pm.Normal("y", weight, 1.0, observed=1.8)
    return model


def _lognormal_rate() -> pm.Model:
    """A rate over orders of magnitude: one event, and a log-normal prior of sd 3."""
    with pm.Model() as model:
        rate = pm.LogNormal("rate", 0.0, 3.0)
        pm.Poisson("events", rate, observed=[1])
    return model


HEAVY_TAILS = references_of(
    "heavy tails",
    _student_of_two_degrees,
    _student_of_five_degrees,
    _cauchy_prior_far_from_data,
    _cauchy_location,
    _student_errors,
    _variance_without_variance,
    _half_cauchy_scale,
    _one_horseshoe,
    _lognormal_rate,
)
