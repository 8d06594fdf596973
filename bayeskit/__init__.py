"""bayeskit: exact posteriors and log evidence of plain PyMC models, wherever a closed form exists.

Heavy imports are lazy: ``import bayeskit`` costs next to nothing, and ``bayeskit --help`` never imports PyMC.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayeskit.errors import BayeskitError

if TYPE_CHECKING:
    from bayeskit.comparison.agreement import SecondOpinion
    from bayeskit.comparison.comparison import Comparison
    from bayeskit.comparison.cross_validation import CrossValidation, cross_validate
    from bayeskit.comparison.evidence_table import compare
    from bayeskit.comparison.information_criteria import InformationCriteria, information_criteria
    from bayeskit.comparison.order_hypotheses import OrderHypothesis, hypothesis
    from bayeskit.comparison.point_null import PointNull, savage_dickey
    from bayeskit.comparison.prequential_scores import Sequential, sequential
    from bayeskit.comparison.prior_sensitivity import Sensitivity, sensitivity
    from bayeskit.comparison.robustness_curve import Robustness, robustness
    from bayeskit.comparison.second_opinion import evidence
    from bayeskit.comparison.subsets.choice import select
    from bayeskit.comparison.subsets.selection import Selection
    from bayeskit.elimination.collapsed_model import collapse, recover
    from bayeskit.inference.ladder import explain, infer
    from bayeskit.marginal_likelihood.relabelling import relabel
    from bayeskit.point_estimates.em import EMResult, em
    from bayeskit.point_estimates.point_estimate import PointEstimate, map_estimate, maximize_evidence
    from bayeskit.queries.classification import classify
    from bayeskit.queries.states import states
    from bayeskit.reporting import Section, report, report_section
    from bayeskit.reporting.index_page import report_index
    from bayeskit.reporting.saved import load
    from bayeskit.results.diagnostics import Diagnostics
    from bayeskit.results.records import LogEvidence, Plan, Posterior, Refusal
    from bayeskit.streams.combination import combine
    from bayeskit.streams.stream import Stream
    from bayeskit.validation import (
        Calibration,
        ReferencePosterior,
        Validation,
        calibrate,
        reference_posteriors,
        validate,
    )
    from bayeskit.validation.predictive_checks.against_prior import prior_check
    from bayeskit.validation.predictive_checks.against_replicated import posterior_check
    from bayeskit.validation.predictive_checks.predictive_check import PredictiveCheck
    from bayeskit.validation.predictive_checks.prior_record import PriorCheck
    from bayeskit.validation.trials.scoreboard import Trial
    from bayeskit.validation.trials.trial_of_samplers import trial

__all__ = [
    "BayeskitError",
    "Calibration",
    "Comparison",
    "CrossValidation",
    "Diagnostics",
    "EMResult",
    "InformationCriteria",
    "LogEvidence",
    "OrderHypothesis",
    "Plan",
    "PointEstimate",
    "PointNull",
    "Posterior",
    "PredictiveCheck",
    "PriorCheck",
    "ReferencePosterior",
    "Refusal",
    "Robustness",
    "SecondOpinion",
    "Section",
    "Selection",
    "Sensitivity",
    "Sequential",
    "Stream",
    "Trial",
    "Validation",
    "__version__",
    "calibrate",
    "classify",
    "collapse",
    "combine",
    "compare",
    "cross_validate",
    "em",
    "evidence",
    "explain",
    "hypothesis",
    "infer",
    "information_criteria",
    "load",
    "map_estimate",
    "maximize_evidence",
    "posterior_check",
    "prior_check",
    "recover",
    "reference_posteriors",
    "relabel",
    "report",
    "report_index",
    "report_section",
    "robustness",
    "savage_dickey",
    "select",
    "sensitivity",
    "sequential",
    "states",
    "trial",
    "validate",
]

__version__ = "0.1.0"

_NAMES = {
    "comparison.agreement": ("SecondOpinion",),
    "comparison.comparison": ("Comparison",),
    "comparison.cross_validation": ("CrossValidation", "cross_validate"),
    "comparison.evidence_table": ("compare",),
    "comparison.information_criteria": ("InformationCriteria", "information_criteria"),
    "comparison.order_hypotheses": ("OrderHypothesis", "hypothesis"),
    "comparison.point_null": ("PointNull", "savage_dickey"),
    "comparison.prequential_scores": ("Sequential", "sequential"),
    "comparison.prior_sensitivity": ("Sensitivity", "sensitivity"),
    "comparison.robustness_curve": ("Robustness", "robustness"),
    "comparison.second_opinion": ("evidence",),
    "comparison.subsets.choice": ("select",),
    "comparison.subsets.selection": ("Selection",),
    "elimination.collapsed_model": ("collapse", "recover"),
    "inference.ladder": ("explain", "infer"),
    "marginal_likelihood.relabelling": ("relabel",),
    "point_estimates.em": ("EMResult", "em"),
    "point_estimates.point_estimate": ("PointEstimate", "map_estimate", "maximize_evidence"),
    "queries.classification": ("classify",),
    "queries.states": ("states",),
    "reporting": ("Section", "report", "report_section"),
    "reporting.index_page": ("report_index",),
    "reporting.saved": ("load",),
    "results.diagnostics": ("Diagnostics",),
    "results.records": ("LogEvidence", "Plan", "Posterior", "Refusal"),
    "streams.combination": ("combine",),
    "streams.stream": ("Stream",),
    "validation": ("Calibration", "ReferencePosterior", "Validation", "calibrate", "reference_posteriors", "validate"),
    "validation.predictive_checks.against_prior": ("prior_check",),
    "validation.predictive_checks.against_replicated": ("posterior_check",),
    "validation.predictive_checks.predictive_check": ("PredictiveCheck",),
    "validation.predictive_checks.prior_record": ("PriorCheck",),
    "validation.trials.scoreboard": ("Trial",),
    "validation.trials.trial_of_samplers": ("trial",),
}
_HOMES = {name: f"bayeskit.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        collects = gc.isenabled()
        gc.disable()  # what modules make stays: the walks through it find nothing, and take a third of a second
        try:
            # From here: it reads the source of every frame between, a second from far within.
            import_module("arviz_base")
            value = getattr(import_module(_HOMES[name]), name)
        finally:
            if collects:
                gc.enable()
        setattr(sys.modules[__name__], name, value)
        return value
    raise AttributeError(f"module 'bayeskit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
