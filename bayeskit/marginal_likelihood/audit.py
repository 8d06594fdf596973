"""Whether a model has an evidence at all: every prior normalised, on the scale on which the sampler moves."""

from __future__ import annotations

from collections.abc import Mapping

import pymc as pm
import xarray as xr
from pymc.distributions.transforms import (
    Interval,
    LogExpM1,
    LogOddsTransform,
    LogTransform,
    SimplexTransform,
    ZeroSumTransform,
)

from bayeskit.elimination.analysis import Analysis
from bayeskit.marginal_likelihood.ordered_prior import Ordering

__all__ = ["audit", "audit_of_draws"]

# Transforms under which priors were found to integrate to one. Not among them: those of LKJCorr and LKJCholeskyCov,
# under which PyMC's densities integrate to another number (3.9 for LKJCorr of n = 3, eta = 2); the circular one, whose
# density is periodic on the whole line; ``ordered``, whose prior is a matter of its own.
NORMALISED = (Interval, LogExpM1, LogOddsTransform, LogTransform, SimplexTransform, ZeroSumTransform)
DIVERGENT = 0.01  # share of divergent transitions beyond which the draws are not trusted


def audit(analysis: Analysis, orderings: Mapping[str, Ordering]) -> str:
    """Why the model has no evidence; empty where it has."""
    joint = analysis.joint
    if joint.potentials:
        return f"the Potential {', '.join(joint.potentials)} has no normaliser"
    for name in joint.names:
        if name in orderings:
            if orderings[name].reason:
                return f"the prior of {name} is not known to be normalised ({orderings[name].reason})"
        elif not analysis.supports[name].normalised:
            return f"the prior of {name} is not known to be normalised ({analysis.supports[name].why})"
    return ""


def audit_of_draws(
    analysis: Analysis, model: pm.Model, orderings: Mapping[str, Ordering], sample_stats: xr.Dataset
) -> str:
    """Why draws of a sampled model give no evidence; empty where they may.

    Parameters
    ----------
    analysis : Analysis
        Of the model as the user wrote it.
    model : pymc.Model
        The model that was sampled: that one, or its collapsed form.
    orderings : mapping of str to Ordering
        Variables that PyMC's ``ordered`` restricts.
    sample_stats : xarray.Dataset
        ``diverging`` of the draws.
    """
    if reason := audit(analysis, orderings) or _unknown_transform(model, orderings):
        return reason
    if model.discrete_value_vars:
        names = ", ".join(str(v.name) for v in model.discrete_value_vars)
        return f"an estimate from draws is for continuous variables, and {names} is discrete"
    share = float(sample_stats["diverging"].mean()) if "diverging" in sample_stats else 0.0
    if share > DIVERGENT:
        return f"{share:.1%} of the transitions diverged, so the draws may miss a part of the posterior"
    return ""


def _unknown_transform(model: pm.Model, orderings: Mapping[str, Ordering]) -> str:
    for rv, transform in model.rvs_to_transforms.items():
        if transform is not None and rv.name not in orderings and not isinstance(transform, NORMALISED):
            name = type(transform).__name__
            return f"the density of {rv.name} under its transform {name} is not known to integrate to one"
    return ""
