"""The finite variables that a plan sums out: the way back to them, and the certificate of the sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_terms
from bayeskit.finite.conditional import StateRecovery
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import prior_points

__all__ = ["certify_states", "state_recovery"]

POINTS = 4  # posterior draws, and as many prior draws, at which the sum is certified


def state_recovery(analysis: Analysis) -> dict[str, StateRecovery]:
    """For each variable summed out, the way back; in the order in which they come back."""
    inputs, shapes = analysis.original.values, analysis.shapes
    return {s.name: StateRecovery(s, inputs, shapes) for s in reversed(analysis.summed)}


def certify_states(analysis: Analysis, draws: Mapping[str, np.ndarray], random_seed: int) -> float:
    """The spread of log p(y, z, φ) − log p(z | φ, y) − log p(y, φ) over posterior and prior draws, in nats.

    The first is PyMC's own density, the last the sum; the leaves that are drawn forward have no part in either.

    Parameters
    ----------
    analysis : Analysis
    draws : mapping of str to array
        Posterior draws of every variable.
    random_seed : int
        Of the draws from the prior.

    Raises
    ------
    InferenceError
        If it is more than rounding.
    """
    if not analysis.summed:
        return 0.0
    inputs = analysis.original.values
    totals = []
    for joint in (analysis.original, analysis.joint):
        factors = [pt.sum(g) for f, g in joint.factors.items() if f not in analysis.ancestral]
        totals.append(compile_small(list(inputs.values()), inline([pt.add(*factors, pt.constant(0.0))])[0]))
    recoveries = state_recovery(analysis)
    number = min(POINTS, len(next(iter(draws.values()))))
    points = [{n: v[k] for n, v in draws.items()} for k in range(number)]
    points += list(prior_points(analysis.original.model, POINTS, random_seed))

    def terms(point: Mapping[str, np.ndarray]) -> tuple[float, float, float]:
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in inputs.items()]
        with silently():
            joint, summed = (float(t(*arguments)) for t in totals)
            # Outside the support there is no conditional distribution.
            inside = np.isfinite(joint) or np.isfinite(summed)
            return joint, sum(r.log_probability(point) for r in recoveries.values()) if inside else np.nan, summed

    return certify_terms(map(terms, points))
