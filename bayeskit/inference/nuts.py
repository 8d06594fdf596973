"""NUTS on the collapsed model: what has a closed form is integrated out, the sampler moves the rest.

The eliminated variables come back exactly from their conditional distribution; the log evidence is estimated by bridge
sampling on the collapsed density, which has fewer dimensions and no funnels.
"""

from __future__ import annotations

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.forward_sampling import deterministics
from bayeskit.results.records import Posterior
from bayeskit.results.tree import build_tree, stacked_draws
from bayeskit.sampling.nuts import pop_unconstrained, sample_nuts

__all__ = ["answer", "obstacle"]


def obstacle(analysis: Analysis) -> str:
    """Nothing is integrated out, or nothing is left to sample."""
    if not analysis.plan.remaining:
        return "nothing remains to sample: every variable has a closed form; use method='exact'"
    return "" if analysis.plan.eliminated else "nothing can be integrated out: NUTS samples the model as written"


def answer(request: Request) -> Posterior:
    """Draws by NUTS on the collapsed density, exact recovery of the rest, and the log evidence by bridge sampling.

    Raises
    ------
    NotImplementedError
        If the closed form of some part cannot be written as a graph.
    CertificateError
        If the closed form failed its proof.
    """
    with on_one_thread():
        return _answer(request)


def _answer(request: Request) -> Posterior:
    model, analysis, random_seed = request.model, request.analysis, request.random_seed
    with lightly():
        collapsed = collapsed_density(analysis)
        small = collapsed_model(collapsed)
    sampled = sample_nuts(
        small,
        draws=request.draws,
        random_seed=random_seed,
        progressbar=request.progressbar,
        unconstrained=True,
    )
    unconstrained = pop_unconstrained(sampled)
    posterior = sampled["posterior"]
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    remaining = stacked_draws(posterior, collapsed.remaining)
    with lightly():
        recovery = Recovery(collapsed)
        values = recovery.draw(remaining, np.random.default_rng(random_seed))
        certificate = certify_collapsed(recovery, values, random_seed)
        values |= deterministics(analysis.original, values)
    statistics = sampled["sample_stats"].to_dataset()
    evidence = evidence_of_draws(analysis, small, unconstrained, statistics, random_seed, collapsed.weight)
    tree = build_tree(model, values, chains * length, chains=chains)
    tree["sample_stats"] = sampled["sample_stats"]
    tree["posterior"].attrs.update(sampled["posterior"].attrs)
    return request.posterior(evidence, tree, certificate)
