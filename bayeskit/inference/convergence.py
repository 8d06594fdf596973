"""What a sampler's draws are worth is told with them: kept in the posterior, and logged where it is not enough."""

from __future__ import annotations

import logging
from dataclasses import replace

from bayeskit.marginal_likelihood.relabelling import under_one_labelling
from bayeskit.results.diagnostics import Diagnostics, diagnostics_of
from bayeskit.results.records import Posterior

__all__ = ["judged", "with_diagnostics"]


def with_diagnostics(post: Posterior) -> Posterior:
    """A sampled posterior with its diagnostics; each problem is a warning of the logger ``bayeskit``, as with PyMC."""
    post = judged(post)
    for problem in () if post.diagnostics is None else post.diagnostics.problems:
        logging.getLogger("bayeskit").warning("%s draws: %s", post.method.upper(), problem)
    return post


def judged(post: Posterior) -> Posterior:
    """A sampled posterior with its diagnostics.

    What the sampler moved is judged; what is recovered given its draws is exact.
    """
    names = post.plan.remaining
    if not names or "posterior" not in post.tree.children:
        return post
    found = diagnostics_of(post.tree, names, post.log_evidence.unvisited)
    if found.mixing:
        found = replace(found, relabelled=_under_one_labelling(post, found))
    return replace(post, diagnostics=found)


def _under_one_labelling(post: Posterior, found: Diagnostics) -> Diagnostics | None:
    """The diagnostics of relabelled draws, where labels were exchanged and that made them worse."""
    try:
        tree, exchanged = under_one_labelling(post)
    except (NotImplementedError, TypeError, ValueError, RuntimeError):
        return None  # a density that cannot be evaluated at many points shows no exchangeable components
    if not exchanged:
        return None
    relabelled = diagnostics_of(tree, [n for n in post.plan.remaining if n in tree["posterior"]])
    # Effects that are exchangeable but no components are relabelled, too, and little comes of it.
    better = relabelled.max_r_hat - 1 < 0.5 * (found.max_r_hat - 1)
    return relabelled if better or relabelled.min_ess_bulk > 2 * found.min_ess_bulk else None
