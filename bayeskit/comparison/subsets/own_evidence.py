"""The full submodel is the model itself: its log evidence must be the one that the ladder finds."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.comparison.subsets.integrate_scales import Integrated
from bayeskit.comparison.subsets.populations import ListedSubsets
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, CertificateError
from bayeskit.inference.ladder import answer
from bayeskit.model.support import is_improper

__all__ = ["require_own_evidence"]

CLOSE = 1e-8  # nats, beside the errors of both


def require_own_evidence(model: pm.Model, found: Integrated) -> list[str]:
    """A CertificateError where they differ; a note where the model has no evidence, or none but from draws."""
    joint = found.linear.joint
    parts = [p for p in joint.potentials if found.linear.name in joint.scopes[p]]
    improper = [str(rv.name) for rv in model.free_RVs if is_improper(rv)]
    others = [p for p in joint.potentials if p not in parts]
    taken = [
        f"the Potential {p} depends on {found.linear.name}: it is taken for a part of the likelihood" for p in parts
    ]
    if improper or joint.potentials:
        shared = [*(f"the improper prior of {n}" for n in improper), *(f"the Potential {n}" for n in others)]
        if not shared:
            return taken
        return [
            *taken,
            f"shared by all submodels: {', '.join(shared)}; the log evidences have one arbitrary constant, their "
            "differences have none",
        ]
    full = found.integral.log_evidence(ListedSubsets(np.ones((1, found.linear.size), dtype=bool)))
    try:
        analysis = analyse(model)
        own = answer(analysis, "quadrature" if analysis.plan.remaining else "exact").log_evidence
    except CertificateError:
        raise
    except BayeskitError as error:
        return [f"the log evidence of the full submodel was not checked against bayeskit.infer ({error})"]
    if not np.isfinite(own.value):
        return [f"the log evidence of the full submodel was not checked against bayeskit.infer ({own})"]
    off = abs(float(full.value[0]) - own.value)
    if not off <= float(full.error[0]) + own.error + CLOSE * (1 + abs(own.value) / 1e4):
        raise CertificateError(
            f"the full submodel's log evidence is {full.value[0]:.10g} from its cross products and {own} by "
            "bayeskit.infer; please report the model"
        )
    return []
