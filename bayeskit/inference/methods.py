"""The methods of inference, in the order in which they are tried.

A method is a record here and a module with two functions: ``obstacle(analysis)`` says why the method cannot answer and
what to do instead, or is empty; ``answer(request)`` gives a posterior or raises. A third, ``too_dear(analysis)``, may
tell by a few evaluations that it would raise for its cost. The modules are imported when they are needed: the command
line reads the names before PyMC is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayeskit.terminal import let_alarms_through

if TYPE_CHECKING:
    import numpy as np
    import pymc as pm
    import xarray as xr

    from bayeskit.elimination.analysis import Analysis
    from bayeskit.jobs.work import Work
    from bayeskit.marginal_likelihood.conventions import Audit
    from bayeskit.results.marginals import Marginal
    from bayeskit.results.records import LogEvidence, Plan, Posterior

__all__ = ["METHODS", "Method", "Request", "ladder", "method_names"]

AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Request:
    """What a method is asked."""

    model: pm.Model
    analysis: Analysis  # its plan is the posterior's
    draws: int
    random_seed: int
    audit: Audit  # of what the priors integrate to
    progressbar: bool = False
    sampler: Mapping[str, Any] = field(default_factory=dict)  # options of whatever samples
    chains: Work | None = None  # where chains are made one by one, if they are
    among: int = 1  # independent blocks, of which this is one
    patience: float = 1.0  # times as long as sampling takes that a method may take
    heavy_tails: bool = False  # whether a method refused it for tails that it could not follow
    # Sets of modes that quadrature found and could not integrate over: rows, by variable on the unconstrained scale.
    modes: tuple[Mapping[str, np.ndarray], ...] = ()

    def posterior(
        self,
        log_evidence: LogEvidence,
        tree: xr.DataTree,
        certificate: float = math.nan,
        marginals: Mapping[str, Marginal] | None = None,
    ) -> Posterior:
        """The answer, with the plan that was carried out."""
        from bayeskit.results.records import Posterior

        plan, known = self.analysis.plan, {} if marginals is None else marginals
        return Posterior(self.model, plan, log_evidence, plan.method, certificate, tree, known, self.random_seed)


@dataclass(frozen=True)
class Method:
    """One method of inference."""

    name: str  # what ``infer(method=...)`` and ``--method`` call it; two rungs may share a name
    title: str  # what a sentence calls it
    home: str  # the module of its two functions
    account: str  # how the posterior was found, for the report
    # What will be done, for the plan: ``{0}`` are the variables that remain; the others follow where some do not. Where
    # it is empty, ``outlook(analysis)`` of the module says it, if there is one.
    outlook: str = ""
    remedy: str = ""  # what to do where it was forced and failed; empty where its own errors say so
    # Whether it rests on the closed form of what was eliminated; then it is no help where that failed its proof.
    closed_form: bool = True
    # Whether it takes integrals over single entries, where these leave fewer numbers, for closed forms.
    entrywise: bool = False
    samples: bool = False  # by chains: they take long, may not converge, and have options
    by: str = ""  # how a plan says that a block is answered, where not "by" its title

    def seen(self, analysis: Analysis) -> Analysis:
        """The analysis that the method goes by: with integrals over single entries, where it takes them."""
        if self.entrywise:
            from bayeskit.elimination.entrywise import with_plates

            return with_plates(analysis) or analysis
        plain = analysis.without_plates
        return analysis if plain is None else replace(plain, snapshot=analysis.snapshot)

    @property
    def way(self) -> str:
        """How a plan says that a block is answered."""
        return self.by or f"by {self.title}"

    def obstacle(self, analysis: Analysis) -> str:
        """Why the method cannot answer, and what to do instead; empty where it can."""
        return str(import_module(self.home).obstacle(analysis))

    def too_dear(self, analysis: Analysis) -> str:
        """Why the method would refuse for its cost, as counted at a few points; empty where it is not known to."""
        try:
            return str(getattr(import_module(self.home), "too_dear", lambda _: "")(analysis))
        except Exception as error:  # whatever it is, the answer will say it
            let_alarms_through(error)
            return ""

    def answer(self, request: Request) -> Posterior:
        """The posterior, or an exception of any type."""
        posterior: Posterior = import_module(self.home).answer(request)
        return posterior

    def planned(self, analysis: Analysis, audit: Audit) -> Plan:
        """The plan of a model, as seen by this method, that it carries out, with what becomes of the evidence."""
        from bayeskit.model.index_range import counted_from_the_end
        from bayeskit.model.matern_normal import distances_not_softened

        (model, factors), plan = (analysis.original.model, analysis.original.factors), analysis.plan
        if not self.closed_form:
            plan = replace(plan, eliminated=(), remaining=analysis.original.names)
        plan, reason = audit.noted(plan), audit.reason
        said = (*counted_from_the_end(model), *distances_not_softened(model, factors))
        plan = replace(plan, notes=(*plan.notes, *said))
        them = "them" if len(plan.remaining) > 1 else "it"
        rest = (f", everything else {plan.how} given {them}", "; what has a closed form is recovered exactly")
        whole = [n for n in plan.remaining if n in model.named_vars and not model[n].dtype.startswith("float")]
        steps = " (whole numbers, by Metropolis or Gibbs steps)" * self.samples
        named = ", ".join(n + steps * (n in whole) for n in plan.remaining)
        outlook = self.outlook.format(named, *(rest if plan.eliminated else ("", "")))
        outlook = outlook or getattr(import_module(self.home), "outlook", lambda _: "")(analysis)
        if self.samples and not reason:
            from bayeskit.marginal_likelihood.conventions import why_not_estimated

            reason = why_not_estimated([rv for rv in model.free_RVs if rv.name in plan.remaining], model, audit)
            plan = replace(plan, notes=(*plan.notes, *([f"no log evidence: {reason}"] if reason else [])))
        estimated = " The log evidence will be estimated, if the draws pass their checks."
        return replace(plan, method=self.name, outlook=outlook + estimated * (self.samples and not reason))


_SAMPLED = "NUTS will sample {0}{2}."

METHODS: tuple[Method, ...] = (
    Method(
        "exact",
        "the closed form",
        "bayeskit.inference.exact",
        "The posterior is known in closed form; its draws are independent and its moments are exact.",
        by="in closed form",
    ),
    Method(
        "quadrature",
        "quadrature",
        "bayeskit.inference.quadrature",
        "What has a closed form was integrated out, the rest by quadrature; the draws are independent.",
        "{0} will be integrated by quadrature{1}. Should that be refused (for an edge or a kink of the density, tails "
        "that fall off too slowly, or its cost), NUTS will sample {0}.",
        "use method='nuts'",
        entrywise=True,
    ),
    Method(
        "importance",
        "importance sampling",
        "bayeskit.inference.importance",
        "What has no closed form was integrated by importance sampling at quasi-random points; the draws are "
        "independent.",
        "{0} will be integrated by importance sampling at quasi-random points{1}. Should that be refused (for weights "
        "that are too uneven, other modes, or its cost), NUTS will sample {0}. The log evidence is an estimate.",
        "use method='nuts'",
    ),
    Method(
        "importance",
        "importance sampling with entries integrated",
        "bayeskit.inference.importance_entrywise",
        "Entries that are independent given the other variables were integrated one by one, and these by importance "
        "sampling at quasi-random points; the draws are independent.",
        "{0} will be integrated by importance sampling at quasi-random points{1}. Should that be refused (for weights "
        "that are too uneven, other modes, or its cost), NUTS will sample {0}. The log evidence is an estimate.",
        "use method='nuts'",
        entrywise=True,
    ),
    Method(
        "importance",
        "importance sampling of a latent Gaussian",
        "bayeskit.inference.latent",
        "A latent Gaussian was integrated by importance sampling from its Gaussian approximation given the other "
        "variables, and these by importance sampling at quasi-random points; the draws are independent.",
        remedy="use method='nuts'",
        closed_form=False,
    ),
    Method(
        "nuts",
        "NUTS on the collapsed model",
        "bayeskit.inference.nuts",
        "What has a closed form was integrated out; NUTS drew the rest.",
        _SAMPLED,
        by="by NUTS",
        samples=True,
    ),
    Method(
        "nuts",
        "NUTS on the model as written",
        "bayeskit.inference.nuts_as_written",
        "NUTS drew from the posterior of the model as written; no variable was integrated out.",
        _SAMPLED,
        by="by NUTS",
        closed_form=False,
        samples=True,
    ),
)


def method_names() -> tuple[str, ...]:
    """What ``method`` may be: ``auto``, and each name of the ladder once."""
    return (AUTO, *dict.fromkeys(method.name for method in METHODS))


def ladder(name: str = AUTO) -> tuple[Method, ...]:
    """The methods that are tried, in order: all, or those of one name."""
    return tuple(method for method in METHODS if name in (AUTO, method.name))
