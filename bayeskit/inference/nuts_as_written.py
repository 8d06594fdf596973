"""NUTS on the model as written, where nothing can be integrated out or the closed form is not to be used."""

from __future__ import annotations

from bayeskit.elimination.analysis import Analysis
from bayeskit.inference.methods import Request
from bayeskit.inference.nuts import sampled_with_evidence
from bayeskit.model.matrix_sizes import no_room_for
from bayeskit.results.records import Posterior

__all__ = ["answer", "obstacle"]


def obstacle(analysis: Analysis) -> str:
    """That there is no variable to sample, or that PyMC's density would make a matrix that there is no room for."""
    if not analysis.original.names:
        return "there is no free variable to sample; use method='exact'"
    too_large = no_room_for({str(rv.name): rv for rv in analysis.original.model.basic_RVs})
    return f"{too_large}, as the model is written; sample its collapsed form" if too_large else ""


def answer(request: Request) -> Posterior:
    """Draws by NUTS, and the log evidence by bridge sampling where it can be trusted."""
    tree, evidence = sampled_with_evidence(request, request.model)
    return request.posterior(evidence, tree)
