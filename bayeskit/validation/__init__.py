"""Proof that the numbers are right: samplers judged against closed forms, and closed forms against themselves.

* :func:`validate` samples a model with NUTS and judges the draws against its closed form.
* :func:`assert_matches_exact` does the same, in a test, for the draws of any sampler.
* :func:`judge` judges draws against a posterior that is already there.
* :func:`calibrate` repeats a method on data sets drawn from the model: simulation-based calibration.
* :func:`one_step_ahead` gives the terms of the prequential identity.
"""

from bayeskit.validation.against_exact import assert_matches_exact, judge, validate
from bayeskit.validation.calibration.record import Calibration
from bayeskit.validation.calibration.simulation_based import calibrate
from bayeskit.validation.prequential import one_step_ahead
from bayeskit.validation.record import Validation

__all__ = ["Calibration", "Validation", "assert_matches_exact", "calibrate", "judge", "one_step_ahead", "validate"]
