"""Proof that the numbers are right: samplers judged against closed forms, and closed forms against themselves.

* :func:`validate` samples a model with NUTS and judges the draws against its closed form.
* :func:`assert_matches_exact` does the same, in a test, for the draws of any sampler.
* :func:`judge` judges draws against a posterior that is already there.
* :func:`calibrate` repeats a method on data sets drawn from the model: simulation-based calibration.
* :func:`prior_check` says what a prior says of parameters and data.
* :func:`posterior_check` holds the data against data replicated from the posterior.
* :func:`reference_posteriors` are models whose posterior is known, for samplers to be tried on.
* :func:`trial` tries samplers on every reference posterior.
* :func:`one_step_ahead` gives the terms of the prequential identity.
"""

from bayeskit.validation.against_exact import assert_matches_exact, judge, validate
from bayeskit.validation.calibration.record import Calibration
from bayeskit.validation.calibration.simulation_based import calibrate
from bayeskit.validation.predictive_checks.against_prior import prior_check
from bayeskit.validation.predictive_checks.against_replicated import posterior_check
from bayeskit.validation.predictive_checks.predictive_check import PredictiveCheck
from bayeskit.validation.predictive_checks.prior_record import PriorCheck
from bayeskit.validation.prequential import one_step_ahead
from bayeskit.validation.record import Validation
from bayeskit.validation.references.collection import reference_posteriors
from bayeskit.validation.references.reference_posterior import ReferencePosterior
from bayeskit.validation.trials.scoreboard import Trial
from bayeskit.validation.trials.trial_of_samplers import trial

__all__ = [
    "Calibration",
    "PredictiveCheck",
    "PriorCheck",
    "ReferencePosterior",
    "Trial",
    "Validation",
    "assert_matches_exact",
    "calibrate",
    "judge",
    "one_step_ahead",
    "posterior_check",
    "prior_check",
    "reference_posteriors",
    "trial",
    "validate",
]
