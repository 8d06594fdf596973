"""A latent Gaussian under other data, integrated by importance sampling from its Gaussian approximation.

Log volatilities of a series, the log rates behind counts, a Gaussian process behind yes and no: given a few shared
numbers, scales and persistences mostly, hundreds of latent numbers are Normal before data are seen. They are drawn from
their Gaussian approximation given the shared ones (:mod:`bayeskit.latent`), these by importance sampling at
quasi-random points; every pair has one weight, so that the log evidence is an estimate with a standard error, and draws
are independent. What would not be trusted is refused, and sampled by NUTS instead: a conditional density that may have
several modes, weights with too heavy a tail, components whose labels can be exchanged.
"""

from __future__ import annotations

import math

import numpy as np

from bayeskit.elimination.analysis import Analysis, size_of
from bayeskit.elimination.check_points import typical_points
from bayeskit.graphs.compile import has_loops
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.graphs.operation_costs import operations_counted
from bayeskit.inference.cost import seconds_of_evaluation, seconds_of_sampling
from bayeskit.inference.methods import Request
from bayeskit.inference.weighted_points import audited_evidence, weighted_posterior
from bayeskit.latent.gates import require_alike_when_wider, require_no_other_mode, require_one_mode
from bayeskit.latent.gaussian_prior import latent_gaussian
from bayeskit.latent.importance_weights import LatentWeights
from bayeskit.latent.shared_numbers import SharedNumbers
from bayeskit.latent.split_density import SplitDensity
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.integral import ImportanceIntegral, Wanted, importance_integral
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.shorter_model import shorter_model
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.plates.smoothness import why_not_smooth
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior
from bayeskit.types import ArrayFunction

__all__ = ["answer", "obstacle"]

SHARED, LATENT = 10, (10, 2_000)  # numbers: at most, and least and most
WORK = 2e7  # numbers that an approximation may compute with
EVALUATIONS = 12_000  # that an answer takes
LONGER = 2.0  # times as long as sampling, that searches may make it: chains of so many latent numbers mix slowly
COUNTED = 64  # evaluations by which the cost of one is counted
PRECISE, MANY, PRECISE_ENOUGH = 1e-3, 8_192, 1e-2  # errors of the evidence, and points from which on the larger will do
MOST = 65_536  # points
SHARED_PRIOR = "an improper prior that compared models share is not integrated this way"
DRAWN = 16  # latent vectors of the prior, from which other modes are looked for
FEWEST, LOOKED_AT = 200, 400  # draws that gates look at, and by which symmetries are looked for


def obstacle(analysis: Analysis) -> str:
    """No latent Gaussian, or too many numbers beside it."""
    if not analysis.plan.remaining:
        return "nothing remains to integrate: every variable has a closed form; use method='exact'"
    joint = analysis.original
    if whole := [n for n in joint.names if not joint.values[n].type.dtype.startswith("float")]:
        return f"no latent Gaussian is integrated beside {', '.join(whole)}, which is discrete; use method='nuts'"
    latent = latent_gaussian(analysis)
    for name in latent:
        data = [g for f, g in joint.factors.items() if f not in latent and name in joint.scopes[f]]
        if reason := why_not_smooth(data, joint.values[name]):
            return f"{name}: {reason}; use method='nuts'"
    if not any(n in analysis.plan.remaining for n in latent):
        return "no variable without a closed form is Normal given the others before data are seen; use method='nuts'"
    shared, size = (
        sum(size_of(analysis, n) for n in joint.names if (n in latent) is inside) for inside in (False, True)
    )
    if not (0 < shared <= SHARED and LATENT[0] <= size <= LATENT[1]):
        return (
            f"a latent Gaussian of {LATENT[0]} to {LATENT[1]:,} numbers is integrated beside one to {SHARED} others, "
            f"and {', '.join(latent)} has {size:,} beside {shared:,}; use method='nuts'"
        )
    return ""


def answer(request: Request) -> Posterior:
    """Independent draws of all variables, and the log evidence with its standard error."""
    analysis, random_seed = request.analysis, request.random_seed
    rng = np.random.default_rng(random_seed)
    with lightly(), on_one_thread(), silently(), operations_counted() as spent:
        point = typical_points(analysis, 1, names=analysis.original.names)[0]
        shorter = shorter_model(analysis.original, analysis.original.shapes(), point)
        space = Unconstrained(shorter or request.model, None)
        if has_loops([space.graph]):
            raise NoProposal("the density has a loop, and cannot be evaluated at many points at once")
        density = SplitDensity(space, latent_gaussian(analysis), random_seed)
        if density.work > WORK:
            raise NoProposal(
                f"over {density.size:,} latent numbers that are all coupled it would take longer than sampling"
            )
        shared = SharedNumbers(density)
        draws = max(request.draws, FEWEST)

        weights = LatentWeights(density, shared.near(shared.start), (random_seed,))
        density.spent, density.longest = spent, LONGER * _require_time(request, weights, space)

        def estimates(mode: np.ndarray) -> ArrayFunction:
            nonlocal weights
            weights = LatentWeights(density, shared.near(mode), (random_seed,))
            return weights.log_estimate

        # Of each φ there are several x: a φ that is drawn twice has another x in most cases.
        wanted = Wanted(draws // 2, MOST, PRECISE, MANY, PRECISE_ENOUGH)
        found = importance_integral(shared, wanted, rng, estimates)
        phi = found.draw(rng, draws)
        x = weights.draw(phi, rng)
        require_one_mode(weights, phi, rng)
        drawn = space.prior_draws(DRAWN, random_seed)[:, density.latent]
        require_no_other_mode(weights, phi, drawn, rng)
        require_alike_when_wider(weights, phi)
        points = density.joined(phi, x)
        looked_at = points[: min(len(points) // 4 * 4, LOOKED_AT)].reshape(4, -1, space.size)
        estimate = LogEvidence(found.value, _error(found), "estimated")
        evidence = audited_evidence(space, looked_at, request, estimate, lambda: SHARED_PRIOR, doubted=False)
        values = space.backward(points[: request.draws]) if request.draws else {}
        if request.draws:
            values |= deterministics(analysis.original, values)
    return weighted_posterior(request, evidence, values, found)


def outlook(analysis: Analysis) -> str:
    """What will be done, for the plan."""
    joint, latent = analysis.original, latent_gaussian(analysis)
    shared = ", ".join(n for n in joint.names if n not in latent)
    size = sum(size_of(analysis, n) for n in latent)
    return (
        f"{', '.join(latent)} ({size:,} numbers, Normal before the data are seen) will be integrated by importance "
        f"sampling from a Gaussian approximation given {shared}, and {shared} at quasi-random points. Should that be "
        "refused (for a density that may have several modes, weights that are too uneven, components that can be "
        "exchanged, or its cost), NUTS will sample. The log evidence is an estimate."
    )


def _require_time(request: Request, weights: LatentWeights, space: Unconstrained) -> float:
    """What sampling takes, in seconds; NoProposal where that is less. How long searches take shows as they go on."""
    near = weights.start.phi + 0.1 * np.random.default_rng(0).standard_normal((COUNTED, len(weights.start.phi)))
    weights.log_estimate(near[:1])  # compiled
    with operations_counted() as costs:
        weights.log_estimate(near)
    seconds = EVALUATIONS * 1e-9 * costs.nanoseconds / COUNTED
    sampling = seconds_of_sampling(seconds_of_evaluation(space), space.size, space.weight, request.among)
    longest = request.patience * sampling
    if seconds > longest:
        raise NoProposal(f"over {weights.density.size:,} latent numbers it would take longer than sampling")
    return longest


def _error(found: ImportanceIntegral) -> float:
    """With what one point more, as heavy as the heaviest, would add, and larger the heavier the tail of the weights.

    Those are estimates themselves. As the spread of scramblings has it, errors were too small: the mean square of z was
    2.2 for a volatility and 2.4 for counts, of 16 seeds each against exact evidence; so it is 1.1 and 0.9.
    """
    return math.hypot(found.error, found.heaviest) / (1 - min(max(found.pareto_k, 0.0), 0.5))
