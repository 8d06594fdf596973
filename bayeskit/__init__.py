"""bayeskit: exact posteriors and log evidence of plain PyMC models, wherever a closed form exists.

Heavy imports are lazy: ``import bayeskit`` costs next to nothing, and ``bayeskit --help`` never imports PyMC.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bayeskit.errors import BayeskitError

if TYPE_CHECKING:
    from bayeskit.classification import classify
    from bayeskit.collapse import collapse, recover
    from bayeskit.comparison import Comparison, compare
    from bayeskit.em import em
    from bayeskit.em_result import EMResult
    from bayeskit.infer import explain, infer
    from bayeskit.point_estimate import PointEstimate, map_estimate, maximize_evidence
    from bayeskit.relabelling import relabel
    from bayeskit.report import report
    from bayeskit.results import LogEvidence, Plan, Posterior, Refusal
    from bayeskit.states import states
    from bayeskit.validation import Validation, validate

__version__ = "0.1.0"

__all__ = [
    "BayeskitError",
    "Comparison",
    "EMResult",
    "LogEvidence",
    "Plan",
    "PointEstimate",
    "Posterior",
    "Refusal",
    "Validation",
    "classify",
    "collapse",
    "compare",
    "em",
    "explain",
    "infer",
    "map_estimate",
    "maximize_evidence",
    "recover",
    "relabel",
    "report",
    "states",
    "validate",
]

_HOMES = {
    "Comparison": "bayeskit.comparison",
    "EMResult": "bayeskit.em_result",
    "LogEvidence": "bayeskit.results",
    "Plan": "bayeskit.results",
    "PointEstimate": "bayeskit.point_estimate",
    "Posterior": "bayeskit.results",
    "Refusal": "bayeskit.results",
    "Validation": "bayeskit.validation",
    "classify": "bayeskit.classification",
    "collapse": "bayeskit.collapse",
    "compare": "bayeskit.comparison",
    "em": "bayeskit.em",
    "explain": "bayeskit.infer",
    "infer": "bayeskit.infer",
    "map_estimate": "bayeskit.point_estimate",
    "maximize_evidence": "bayeskit.point_estimate",
    "recover": "bayeskit.collapse",
    "relabel": "bayeskit.relabelling",
    "report": "bayeskit.report",
    "states": "bayeskit.states",
    "validate": "bayeskit.validation",
}


class _Package(ModuleType):
    """Keeps ``bayeskit.infer`` the function: importing the module of that name would otherwise bind the module here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        setattr(sys.modules[__name__], name, value)
        return value
    raise AttributeError(f"module 'bayeskit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
