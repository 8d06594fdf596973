"""NUTS on the model as written, where nothing can be integrated out or the closed form is not to be used."""

from __future__ import annotations

from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.environment import on_one_thread
from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.results.records import Posterior
from bayeskit.sampling.nuts import pop_unconstrained, sample_nuts

__all__ = ["answer", "obstacle"]


def obstacle(analysis: Analysis) -> str:
    """None: every model that PyMC can sample."""
    return ""


def answer(request: Request) -> Posterior:
    """Draws by NUTS, and the log evidence by bridge sampling where it can be trusted.

    Raises
    ------
    InferenceError
        If no chain could start.
    """
    model, analysis, random_seed = request.model, request.analysis, request.random_seed
    with on_one_thread():
        tree = sample_nuts(
            model,
            draws=request.draws,
            random_seed=random_seed,
            progressbar=request.progressbar,
            unconstrained=True,
        )
        unconstrained = pop_unconstrained(tree)
        statistics = tree["sample_stats"].to_dataset()
        evidence = evidence_of_draws(analysis, model, unconstrained, statistics, random_seed)
    return request.posterior(evidence, tree)
