"""What importance sampling makes of weighted points: an evidence that is audited, a posterior that says how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.conventions import audit_of_draws
from bayeskit.marginal_likelihood.proposal import Refused
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.integral import ImportanceIntegral
from bayeskit.marginal_likelihood.quasi_monte_carlo.one_of_images import IMAGES, OneOfImages, which_known
from bayeskit.marginal_likelihood.sampled import Drawn
from bayeskit.marginal_likelihood.symmetries import symmetries_of
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.moments import TAIL_INDEX
from bayeskit.results.records import Posterior
from bayeskit.results.tree import build_tree
from bayeskit.types import Array

__all__ = ["audited_evidence", "weighted_posterior"]


def audited_evidence(
    space: Unconstrained,
    draws: Array,
    request: Request,
    estimate: LogEvidence,
    why_improper: Callable[[], str],
    *,
    doubted: bool = True,
    images: OneOfImages | None = None,
) -> LogEvidence:
    """An estimate with what it is taken over; NoProposal where the density has images that it does not count.

    ``draws``, (4, n, D), show symmetries, and are of one of the ``images`` that are counted; where compared models
    share an improper prior, ``why_improper`` says why it is not integrated, if so; ``doubted`` estimates are held
    against what the draws do not show.
    """
    audited = request.audit
    parts = zip(space.variables, space.arguments(draws.reshape(-1, space.size)), strict=True)
    by_value = {str(v.name): np.reshape(part, (*draws.shape[:2], *np.shape(part)[1:])) for v, part in parts}
    try:
        symmetry = symmetries_of(space, draws, audited.one_ordering, by_value, request.random_seed)
    except Refused as error:
        raise NoProposal(str(error)) from error
    if images is not None:
        images.require_same_everywhere(draws.reshape(-1, space.size))
        symmetry = replace(symmetry, apart=())  # draws come from all images alike
    counted = () if images is None else images.share.symmetries
    if symmetry.space is not space or not all(which_known(space, counted, symmetry.maps)):
        raise NoProposal(IMAGES)
    if reason := audit_of_draws(space.model, audited, xr.Dataset()):
        return LogEvidence(np.nan, np.inf, "estimated", reason)
    if audited.shared and (reason := why_improper()):
        raise NoProposal(reason)
    drawn = Drawn(request.analysis, audited, symmetry, request.random_seed)
    try:
        return drawn.evidence(lambda _: estimate, doubted=doubted)
    except Refused as error:
        raise NoProposal(str(error)) from error


def weighted_posterior(
    request: Request,
    evidence: LogEvidence,
    values: Mapping[str, Any],
    found: ImportanceIntegral,
    certificate: float = np.nan,
    notes: Sequence[str] = (),
    tails: Mapping[str, np.ndarray] | None = None,
) -> Posterior:
    """Of independent draws, with how many points they were made of, how even their weights are, and more notes.

    ``tails`` are the indices that the density tells, where there is no variance.
    """
    number, share, pareto_k = len(found.log_weights), found.efficiency, found.pareto_k
    tree = build_tree(request.model, values, request.draws)
    if request.draws:
        facts = {"importance_points": number, "effective_share": share, "pareto_k": pareto_k}
        tree["posterior"].attrs.update(facts)
        for name, indices in (tails or {}).items():
            tree["posterior"][name].attrs[TAIL_INDEX] = indices.tolist()
    post = request.posterior(evidence, tree, certificate)
    said = f"importance sampling made {number:,} points, of which {share:.0%} are effective; Pareto k of their weights"
    said = f"{said} {pareto_k:.2f} (at most 0.5)"
    return replace(post, plan=replace(post.plan, notes=(*post.plan.notes, said, *notes)))
