"""Quadrature over what remains, one to three real numbers, given which everything else has a closed form.

The integral of the collapsed density comes with an error bound, draws from it are independent, and the eliminated
variables come back exactly from their conditional distribution. The certificate is part of the error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.inference.methods import Request
from bayeskit.inference.quadrature_marginals import quadrature_marginals, transforms_of
from bayeskit.inference.quadrature_probes import named_points, prior_probes
from bayeskit.marginal_likelihood.conventions import stated
from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.unconstrained import Unconstrained, calls_of
from bayeskit.quadrature.change_of_variable import OntoInterval
from bayeskit.quadrature.integrate import NotIntegrable, integrate
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.results.tree import build_tree

__all__ = ["answer", "obstacle"]

NUMBERS = 3  # real numbers that are integrated over, at most
FEWEST = 4  # draws at which the certificate is evaluated where none are asked for
TOLERANCE = {1: 1e-8, 2: 1e-8, 3: 1e-6}  # nats, by number of dimensions
WORK = 3e8  # numbers that quadrature may compute with; beyond it NUTS is quicker
CALL = 30  # numbers that handling one matrix by itself counts for
EVALUATIONS = (20_000, 2_000_000)
LEAST = 200_000  # evaluations that three dimensions take


def obstacle(analysis: Analysis) -> str:
    """Nothing remains, or more than three real numbers do."""
    remaining = analysis.plan.remaining
    if not remaining:
        return "quadrature has nothing to do: every variable has a closed form; use method='exact'"
    real = all(analysis.joint.values[n].type.dtype.startswith("float") for n in remaining)
    if real and sum(_free_numbers(analysis, n) for n in remaining) <= NUMBERS:
        return ""
    return f"no quadrature over {', '.join(remaining)}: it is for one to three real numbers; use method='nuts'"


def _free_numbers(analysis: Analysis, name: str) -> int:
    """How many real numbers PyMC moves for a variable."""
    shape = analysis.shapes[name]
    size = int(np.prod(shape, dtype=int))
    return size - size // shape[-1] if analysis.supports[name].kind == "simplex" and size else size


@dataclass(frozen=True, eq=False)
class _Integrand:
    """The collapsed density of a model, made once for all data that it can be made without."""

    space: Unconstrained
    recovery: Recovery
    probes: np.ndarray  # draws from the prior, at which other modes are looked for
    transforms: dict[str, OntoInterval]
    budget: int  # of evaluations

    @classmethod
    def of(cls, analysis: Analysis) -> _Integrand:
        """Everything that may read data is made here."""
        collapsed = collapsed_density(analysis)
        space = Unconstrained(collapsed_model(collapsed), collapsed.weight)
        work = space.weight + CALL * calls_of(collapsed.likelihood)
        with silently():
            probes = prior_probes(space)
        budget = int(np.clip(WORK / work, *EVALUATIONS))
        if space.size == 3 and budget < LEAST:
            raise NotIntegrable("in three dimensions it would take longer than sampling")
        return cls(space, Recovery(collapsed), probes, transforms_of(space, analysis.shapes), budget)


def answer(request: Request) -> Posterior:
    """The posterior and log evidence by quadrature over what remains."""
    model, analysis, random_seed = request.model, request.analysis, request.random_seed
    with lightly(), on_one_thread():
        made: _Integrand = analysis.remembered_unread("integrand", lambda: _Integrand.of(analysis))
        space, recovery = made.space, made.recovery
        tolerance, budget = TOLERANCE[min(space.size, 3)], made.budget
        # The values of data are read here: what is made above holds for all of them.
        probes = np.concatenate([made.probes, named_points(space, analysis.joint, made.transforms)])
        with silently():
            result = integrate(space.log_density, space.start, probes=probes, tolerance=tolerance, budget=budget)
        rng = np.random.default_rng(random_seed)
        points = result.draw(rng, request.draws or FEWEST)
        remaining = space.backward(points)
        values = recovery.draw(remaining, rng)
        certificate = certify_collapsed(recovery, values, random_seed)
        values |= deterministics(analysis.original, values)
        marginals = quadrature_marginals(request, recovery, space, made.transforms, result)
        evidence = LogEvidence(result.log_integral, result.error + certificate, "quadrature")
        groups = [g for g in exchangeable_in(space, points, random_seed=random_seed) if g.complete]
        evidence = stated(evidence, groups, request.audit)
    return request.posterior(evidence, build_tree(model, values, request.draws), certificate, marginals)
