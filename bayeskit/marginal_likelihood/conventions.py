r"""Whether a model has an evidence at all, and what its integral is taken over: labellings, and orderings.

Two people can give different numbers for the evidence of the same mixture, and both be right: one of them integrated
over all K! labellings of its components, the other over those with increasing means, under PyMC's density or under one
normalised there. Here it is always all labellings, and a normalised prior; and it is said.

``transform=ordered`` restricts a vector to one of its K! orderings and leaves its density as it was, so that the prior
of the restricted vector integrates to P(ordered) instead of one. If the density of the vector given its parents does
not change when two entries are exchanged, all orderings are equally probable,

.. math:: P(x_1 < \dots < x_K) = 1 / K!,

whatever the parents, and the log evidence under the normalised restricted prior is that of PyMC's density plus log K!.
It is then the same as that of the model without the transform, whose K! labellings each hold the same share.

The exchange is tried on the prior factor alone, at draws from the prior. A prior that is not exchangeable is refused.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions import transforms
from pymc.logprob.transforms import ChainedTransform
from scipy import special

from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.environment import silently
from bayeskit.marginal_likelihood.permutations import Exchangeable, convention, unchanged
from bayeskit.model.forward_sampling import over_draws, prior_points
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import support_without_transform
from bayeskit.results.diagnostics import DIVERGENT
from bayeskit.results.records import LogEvidence

__all__ = ["INCREASING", "Ordering", "audit_of_draws", "ordering_of", "orderings_of", "stated"]

POINTS = 4  # draws from the prior at which two entries are exchanged
# Elementwise, and keeping the order.
INCREASING = (transforms.Interval, transforms.LogExpM1, transforms.LogOddsTransform, transforms.LogTransform)
# Transforms under which priors were found to integrate to one. Not among them: those of LKJCorr and LKJCholeskyCov,
# under which PyMC's densities integrate to another number (3.9 for LKJCorr of n = 3, eta = 2); the circular one, whose
# density is periodic on the whole line; ``ordered``, whose prior is a matter of its own.
NORMALISED = (*INCREASING, transforms.SimplexTransform, transforms.ZeroSumTransform)


@dataclass(frozen=True)
class Ordering:
    """A variable that its transform restricts to one ordering of its entries."""

    variable: str
    log_orderings: float = math.nan  # log K! for each row of K entries: what the log evidence of PyMC's density lacks
    reason: str = ""  # why that is not known
    convention: str = ""  # for a reader of the evidence


def ordering_of(joint: LogJoint, name: str) -> Ordering | None:
    """The restriction of one free variable of a model as its user wrote it; None where its transform orders nothing."""
    rv = joint.model[name]
    transform = _ordered(joint.model.rvs_to_transforms.get(rv), rv)
    if transform is None:
        return None
    support = support_without_transform(rv)
    if not support.normalised:
        return Ordering(name, reason=support.why)
    if transform.positive and support.kind not in ("positive", "unit"):
        return Ordering(name, reason="its transform Ordered also restricts it to positive values")
    try:
        with silently():
            points = list(prior_points(joint.model, POINTS, 0))
    except (NotImplementedError, np.linalg.LinAlgError):
        return Ordering(name, reason="its transform Ordered restricts it, and its prior cannot be drawn from")
    shape = np.shape(points[0][name])
    if not _exchangeable(joint, name, points):
        return Ordering(
            name,
            reason="its transform Ordered restricts it to one ordering, whose share of the prior is not 1/K! because "
            "the prior is not exchangeable in its entries",
        )
    rows, size = math.prod(shape[:-1]), shape[-1]
    times = f"{rows} log" if rows > 1 else "log"
    return Ordering(
        name,
        rows * float(special.gammaln(size + 1)),
        convention=f"ordered: {times} {size}! added for the restriction of the prior of {name}",
    )


def _ordered(transform: Any, rv: Any) -> transforms.Ordered | None:
    """The ordering in a transform that is one, alone or after the distribution's own elementwise transform."""
    if isinstance(transform, ChainedTransform) and len(transform.transform_list) == 2:
        first, transform = transform.transform_list
        if type(first) is not type(transforms._default_transform(rv.owner.op, rv)) or not isinstance(first, INCREASING):
            return None
        if isinstance(transform, transforms.Ordered) and transform.positive:
            return None
    return transform if isinstance(transform, transforms.Ordered) else None


def _exchangeable(joint: LogJoint, name: str, points: list[dict[str, np.ndarray]]) -> bool:
    """Whether the prior factor is unchanged when neighbours in a row are exchanged."""
    inputs = {n: joint.values[n] for n in sorted(joint.scopes[name])}
    density = over_draws([pt.sum(joint.factors[name])], inputs)
    draws = {n: np.stack([point[n] for point in points]) for n in inputs}
    level, values = density(draws, POINTS)[0], draws[name]
    for row in np.ndindex(values.shape[1:-1]):
        for i, j in itertools.pairwise(range(values.shape[-1])):
            swapped = values.copy()
            swapped[:, *row, [i, j]] = values[:, *row, [j, i]]
            if not np.all(unchanged(density({**draws, name: swapped}, POINTS)[0], level)):
                return False
    return True


def orderings_of(joint: LogJoint) -> dict[str, Ordering]:
    """The variables that PyMC's ``ordered`` transform restricts, by name."""
    orderings = {name: ordering_of(joint, name) for name in joint.names}
    return {name: ordering for name, ordering in orderings.items() if ordering is not None}


def stated(evidence: LogEvidence, groups: Sequence[Exchangeable], orderings: Iterable[Ordering]) -> LogEvidence:
    """The evidence under the normalised prior, with what it is taken over, from the integral of PyMC's density.

    The labellings of ``groups`` are all part of that integral; of ``orderings``, the shares of the prior are known.
    """
    if not math.isfinite(evidence.value):
        return evidence
    orderings = list(orderings)
    said = [*([convention(groups)] if groups else []), *(o.convention for o in orderings)]
    value = evidence.value + sum(o.log_orderings for o in orderings)
    return replace(evidence, value=value, convention="; ".join(said))


def audit_of_draws(
    analysis: Analysis, model: pm.Model, orderings: Mapping[str, Ordering], sample_stats: xr.Dataset
) -> str:
    """Why draws of the model of an analysis, or of its collapsed form, give no evidence; empty where they may."""
    joint = analysis.joint
    if joint.potentials:
        return f"the Potential {', '.join(joint.potentials)} has no normaliser"
    for name in joint.names:
        support = analysis.supports[name]
        why = "" if support.normalised else support.why
        if name in orderings:
            why = orderings[name].reason
        if why:
            return f"the prior of {name} is not known to be normalised ({why})"
    for rv, transform in model.rvs_to_transforms.items():
        if transform is not None and rv.name not in orderings and not isinstance(transform, NORMALISED):
            name = type(transform).__name__
            return f"the density of {rv.name} under its transform {name} is not known to integrate to one"
    if model.discrete_value_vars:
        names = ", ".join(str(v.name) for v in model.discrete_value_vars)
        return f"an estimate from draws is for continuous variables, and {names} is discrete"
    share = float(sample_stats["diverging"].mean()) if "diverging" in sample_stats else 0.0
    if share > DIVERGENT:
        return f"{share:.1%} of the transitions diverged, so the draws may miss a part of the posterior"
    return ""
