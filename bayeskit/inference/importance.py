"""Importance sampling over what remains, up to some forty real numbers, given which everything else has a closed form.

Points are quasi-random, of a proposal that is adapted to the density: see
:mod:`bayeskit.marginal_likelihood.quasi_monte_carlo`. The log evidence comes with the standard error between
independent randomisations, draws are independent, and the eliminated variables come back exactly. What would not be
trusted is refused, and sampled by NUTS instead: weights with too heavy a tail, modes that the proposal does not cover.
Of modes that are images of each other, by labels exchanged or signs changed, one is integrated over, for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.compile import has_loops
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.inference.cost import seconds_of_evaluation, seconds_of_sampling
from bayeskit.inference.methods import Request
from bayeskit.inference.remaining import obstacle_to
from bayeskit.inference.smooth_entries import require_smooth_entries
from bayeskit.inference.weighted_points import audited_evidence, weighted_posterior
from bayeskit.marginal_likelihood.endless_tails import endless_tail
from bayeskit.marginal_likelihood.infinite_moments import tail_indices
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.integral import ImportanceIntegral, Wanted, importance_integral
from bayeskit.marginal_likelihood.quasi_monte_carlo.one_of_images import OneOfImages, one_of_images
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.left_out import bound_of_left_out, bound_of_sums
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior

__all__ = ["answer", "obstacle", "too_dear"]

NUMBERS = 40  # real numbers that remain, at most
LEAST, MOST = 25_000, 1_000_000  # evaluations that an answer takes, and that are made at most
WORK, MANY = 1.6e8, (4_096, 100_000)  # numbers computed with, and points, from which a larger error than 1e-3 will do
# Seconds, as counted, beyond which entries are not integrated: a Gaussian approximation of 100 of them under 2,000 rows
# took half as long.
LONGEST = 12.0
NODE = 4  # numbers that one at a node of an integral over an entry counts for
FEWEST = 4  # draws at which the certificate is evaluated where none are asked for
LOOKED_AT = 2_000  # draws by which symmetries and other modes are looked for


def obstacle(analysis: Analysis) -> str:
    """Nothing remains, or too many numbers do."""
    return obstacle_to("importance sampling", analysis, NUMBERS, f"at most {NUMBERS}")


def too_dear(analysis: Analysis) -> str:
    """That there would be too few evaluations in the time that sampling takes; else empty."""
    try:
        with on_one_thread(), silently():
            _wanted(_space(collapsed_density(analysis)), analysis, 0, 1)
    except NoProposal as error:
        return str(error)
    return ""


def _space(collapsed: Collapsed) -> Unconstrained:
    return Unconstrained(collapsed_model(collapsed, open_circles=True), collapsed.weight, held=collapsed.held)


def answer(request: Request) -> Posterior:
    """Independent draws, exact recovery of the rest, and the log evidence with its standard error."""
    analysis, random_seed = request.analysis, request.random_seed
    rng = np.random.default_rng(random_seed)
    with lightly(), on_one_thread(), silently():
        collapsed = collapsed_density(analysis)
        space = _space(collapsed)
        recovery = Recovery(collapsed)
        if analysis.plates:
            require_smooth_entries(analysis, space, recovery)
        wanted = _wanted(space, analysis, request.draws, request.among)
        images = one_of_images(space, rng, random_seed)
        found = importance_integral(images or space, wanted, rng)
        evidence = _evidence(space, images, found, request, rng)
        points = found.draw(rng, request.draws or FEWEST)
        points, notes = (points, ()) if images is None else images.drawn(points, rng)
        values = recovery.draw(space.backward(points), rng)
        certificate = certify_collapsed(recovery, values, random_seed)
        tails = tail_indices(space, points) if request.draws else {}
        values |= deterministics(analysis.original, values)
    if np.isfinite(evidence.value):
        error = evidence.error + certificate + bound_of_left_out(space, points) + bound_of_sums(request.model, values)
        evidence = replace(evidence, error=error)
    return weighted_posterior(request, evidence, values, found, certificate, notes, tails)


def _wanted(space: Unconstrained, analysis: Analysis, draws: int, among: int) -> Wanted:
    """No more evaluations than take as long as sampling; NoProposal where these are too few."""
    if has_loops([space.graph]):
        raise NoProposal("the density has a loop, and cannot be evaluated at many points at once")
    seconds = seconds_of_evaluation(space)
    if analysis.plates and LEAST * seconds > LONGEST:
        raise NoProposal("the integrals over single entries would take too long")
    most = seconds_of_sampling(seconds, space.size, space.weight, among) / seconds
    if most < LEAST:
        raise NoProposal(f"over {space.size} real numbers it would take longer than sampling")
    # By the size of the density and not by its time, which would make other draws of the same seed.
    work = space.weight + (NODE - 1) * sum(plate.weight for plate in analysis.plates)
    many = int(np.clip(WORK / work, *MANY))
    return Wanted(max(draws, LOOKED_AT), int(min(most, MOST)), many=many)


def _evidence(
    space: Unconstrained,
    images: OneOfImages | None,
    found: ImportanceIntegral,
    request: Request,
    rng: np.random.Generator,
) -> LogEvidence:
    """With what it is taken over; NoProposal where the posterior has modes that the proposal does not know of."""
    draws = found.draw(rng, LOOKED_AT).reshape(4, -1, space.size)
    estimate = LogEvidence(found.value, found.error_with_tail, "estimated")
    return audited_evidence(space, draws, request, estimate, lambda: endless_tail(space, draws), images=images)
