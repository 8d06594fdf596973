"""NUTS on the model as written, where nothing can be integrated out or the closed form is not to be used."""

from __future__ import annotations

from bayeskit.elimination.analysis import Analysis
from bayeskit.inference.methods import Request
from bayeskit.inference.nuts import sampled_with_evidence
from bayeskit.results.records import Posterior

__all__ = ["answer", "obstacle"]


def obstacle(analysis: Analysis) -> str:
    """None, if there is a variable to sample."""
    return "" if analysis.original.names else "there is no free variable to sample; use method='exact'"


def answer(request: Request) -> Posterior:
    """Draws by NUTS, and the log evidence by bridge sampling where it can be trusted."""
    tree, evidence = sampled_with_evidence(request, request.model)
    return request.posterior(evidence, tree)
