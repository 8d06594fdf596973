r"""Whether a model has an evidence at all, and what its integral is taken over: one audit for every method.

Two people can give different numbers for the evidence of the same mixture, and both be right: one of them integrated
over all K! labellings of its components, the other over those with increasing means, under PyMC's density or under one
normalised there. Here it is always all labellings, and a normalised prior; and it is said. A method gives the integral
of PyMC's density as the model has it; what the priors integrate to (:mod:`bayeskit.marginal_likelihood.prior_mass`) is
divided out here and nowhere else. Where one is not known there is no evidence, whatever the method.

A Potential is taken as it is written, part of the joint density that is integrated: nothing tells whether it is a
likelihood or a part of the prior without its normaliser. That is said too, and such models are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pymc as pm
import xarray as xr
from pymc.distributions import transforms

from bayeskit.elimination.analysis import Analysis
from bayeskit.marginal_likelihood.permutations import Exchangeable, convention
from bayeskit.marginal_likelihood.prior_integral import INCREASING
from bayeskit.marginal_likelihood.prior_mass import PriorMass, likelihood_mass, prior_mass
from bayeskit.results.diagnostics import DIVERGENT
from bayeskit.results.records import LogEvidence, Plan

__all__ = ["ARBITRARY", "Audit", "audit", "audit_of_draws", "stated", "why_not_estimated"]

# Transforms under which priors were found to integrate to one. Not among them: those of LKJCorr and LKJCholeskyCov,
# whose priors have masses of their own; the circular one, whose density is periodic on the whole line.
NORMALISED = (*INCREASING, transforms.SimplexTransform, transforms.ZeroSumTransform)


ARBITRARY = "up to an arbitrary constant"
NO_DATA = "the model has no observed variable: the posterior is the prior, and the evidence is one"


@dataclass(frozen=True)
class Audit:
    """What stands between the integral of PyMC's density of a model and its evidence."""

    masses: tuple[PriorMass, ...]  # of the priors that are not normalised by their distribution
    potentials: tuple[str, ...] = ()
    no_data: bool = False
    shared: tuple[str, ...] = ()  # improper priors that compared models share, with their constant
    likelihoods: tuple[PriorMass, ...] = ()  # of the observed variables whose density leaves out a constant

    @property
    def reason(self) -> str:
        """Why there is no evidence; empty where there is one."""
        of = [*(("prior", m) for m in self.masses), *(("density", m) for m in self.likelihoods)]
        for what, mass in of:
            if mass.improper:
                return f"the {what} of {mass.variable} has no normaliser: {mass.reason}"
            if mass.reason:
                return f"the {what} of {mass.variable} is not known to be normalised ({mass.reason})"
        return ""

    @property
    def conventions(self) -> list[str]:
        """What the evidence is taken under, for its reader."""
        written = f"of the joint density as written: the Potential {', '.join(self.potentials)} has no normaliser"
        of = ", ".join(self.shared)
        constant = f"{ARBITRARY}, that of the improper priors of {of}: only differences mean something"
        said = [*([written] if self.potentials else []), *(m.convention for m in self.divided_out if m.convention)]
        return [*said, *([constant] if self.shared else [])]

    @property
    def divided_out(self) -> tuple[PriorMass, ...]:
        """All that PyMC's density has to be divided by."""
        return (*self.masses, *self.likelihoods)

    def log_mass_of_priors(self, model: pm.Model) -> float:
        """What the priors of a model's free variables integrate to: those of a collapsed one are fewer.

        Draws from a prior are of the normalised one, whatever PyMC's density of it integrates to. The share that an
        order leaves is not part of it.
        """
        free = {str(rv.name) for rv in model.free_RVs}
        return sum(m.log_mass for m in self.masses if not m.exchangeable and m.variable in free)

    @property
    def one_ordering(self) -> dict[str, PriorMass]:
        """The variables of which a transform leaves one of equal orderings."""
        return {m.variable: m for m in self.masses if m.exchangeable}

    def noted(self, plan: Plan) -> Plan:
        """A plan that says what becomes of the evidence."""
        of_potentials = 1 if self.potentials else 0  # the plan says it already
        said = [f"the log evidence is {convention}" for convention in self.conventions[of_potentials:]]
        said += [NO_DATA] if self.no_data else []
        return replace(plan, notes=(*plan.notes, *([f"no log evidence: {self.reason}"] if self.reason else said)))


def audit(analysis: Analysis) -> Audit:
    """Look at every prior of a model, before any number is computed."""
    joint = analysis.original
    masses = (prior_mass(joint, name) for name in joint.names if name not in joint.shared)
    likelihoods = (likelihood_mass(joint, str(rv.name)) for rv in joint.model.observed_RVs)
    no_data = not joint.model.observed_RVs and not joint.model.potentials
    known = (tuple(m for m in found if m is not None) for found in (masses, likelihoods))
    return Audit(next(known), joint.loose_potentials, no_data, joint.shared, next(known))


def stated(evidence: LogEvidence, groups: Sequence[Exchangeable], audit: Audit) -> LogEvidence:
    """The evidence under normalised priors, with what it is taken over, from the integral of PyMC's density.

    The labellings of ``groups`` are all part of that integral.
    """
    if audit.reason:
        return replace(evidence, value=math.nan, error=math.inf, reason=audit.reason)
    if not math.isfinite(evidence.value):
        return evidence
    value = evidence.value - sum(m.log_mass for m in audit.divided_out)
    error = evidence.error + sum(m.error for m in audit.divided_out)
    said = [*([convention(groups)] if groups else []), *audit.conventions]
    return replace(evidence, value=value, error=error, convention="; ".join(said))


def why_not_estimated(sampled: Sequence[Any], model: pm.Model, audit: Audit) -> str:
    """Why draws of some random variables of a model can give no evidence, whatever they are; empty where they can."""
    known = {m.variable for m in audit.masses}
    for rv in sampled:
        transform = model.rvs_to_transforms.get(rv)
        if transform is not None and rv.name not in known and not isinstance(transform, NORMALISED):
            name = type(transform).__name__
            return f"the density of {rv.name} under its transform {name} is not known to integrate to one"
    names = [str(rv.name) for rv in sampled if not rv.dtype.startswith("float")]
    discrete = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} discrete"
    return f"an estimate from draws is for continuous variables, and {discrete}" if names else ""


def audit_of_draws(model: pm.Model, audit: Audit, sample_stats: xr.Dataset) -> str:
    """Why draws of the model of an analysis, or of its collapsed form, give no evidence; empty where they may."""
    if reason := audit.reason or why_not_estimated(model.free_RVs, model, audit):
        return reason
    share = float(sample_stats["diverging"].mean()) if "diverging" in sample_stats else 0.0
    if share > DIVERGENT:
        return f"{share:.1%} of the transitions diverged, so the draws may miss a part of the posterior"
    return ""
