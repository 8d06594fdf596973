"""The exact answer: every variable has a closed form, and the evidence is a sum over the hypotheses of finite ones.

    log p(y) = log Σ_z p(y, z),    log p(y, z) = log p(y, θ, z) − log p(θ | y, z) at any θ.

Draws go back the way the variables went: scales, Gaussian blocks given them, the states that were summed out, and what
no data depend on. The certificate is held before anything is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pymc as pm
from scipy import special

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify, certify_states, require_resolved
from bayeskit.elimination.check_points import points_away
from bayeskit.elimination.conjugate_posterior import Component, hypotheses, solve_posterior
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.elimination.recovery import draw_the_rest, state_marginals
from bayeskit.errors import CertificateError, InferenceError, UnanswerableError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.closed_form_marginals import Closed, finite_marginals, mixed_marginals, part_marginals
from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.conventions import stated
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.left_out import bound_of_sums
from bayeskit.results.marginals import LaterMarginals, Marginal, labels_of
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.results.tree import build_tree
from bayeskit.types import Point

__all__ = ["answer", "obstacle", "solved"]

POINTS = 4  # posterior draws, and as many prior draws, at which the certificate is evaluated
MANY_HYPOTHESES = 64  # above which each is certified at one of each: they share one closed form
MANY_THREADS = 1_000_000  # numbers in the data from which an answer is computed on several threads
LARGE = 10_000_000  # numbers in the data above which one of each is enough


def obstacle(analysis: Analysis) -> str:
    """Variables without a closed form, each with its reason."""
    return f"no exact answer: {'; '.join(map(str, analysis.plan.refusals))}" if analysis.plan.remaining else ""


def answer(request: Request) -> Posterior:
    """The posterior and log evidence in closed form.

    An improper posterior, or impossible data, end the ladder: no sampler mends that.
    """
    many = request.analysis.joint.data_size >= MANY_THREADS
    with lightly(), nullcontext() if many else on_one_thread():
        try:
            return _answer(request)
        except CertificateError:
            raise
        except InferenceError as error:
            raise UnanswerableError(str(error)) from error


def solved(analysis: Analysis) -> tuple[Evaluator, list[Component]]:
    """The closed form with the data that the model has now, a component for each hypothesis; not yet certified."""
    evaluator: Evaluator = analysis.remembered("evaluator", lambda: Evaluator(analysis))
    return evaluator, [solve_posterior(analysis, evaluator, fixed) for fixed in hypotheses(analysis)]


def _answer(request: Request) -> Posterior:
    model, analysis, random_seed = request.model, request.analysis, request.random_seed
    draws = request.draws or POINTS
    rng = np.random.default_rng(random_seed)
    evaluator, components = solved(analysis)
    log_weights = np.array([float(c.log_evidence) for c in components])
    log_evidence = float(special.logsumexp(log_weights))
    if log_evidence == -np.inf:
        raise UnanswerableError("the data are impossible whatever the variables are: check them against the model")
    weights = np.exp(log_weights - log_evidence)
    values = _draw(components, weights, rng, draws)
    few = analysis.joint.data_size > LARGE or len(components) > MANY_HYPOTHESES
    away = points_away(analysis, 1 if few else POINTS, random_seed)
    possible = [c for c in components if np.isfinite(c.log_evidence)]
    spreads = np.array([certify(evaluator, c, _check_points(c, away, random_seed)) for c in possible])
    values = draw_the_rest(analysis, values, draws, rng)
    certificate = max(np.max(spreads), of_states := certify_states(analysis, values, random_seed))
    values |= deterministics(analysis.original, values, draws)
    most = components[int(np.argmax(log_weights))]
    parameters = {p.scale.name: p.parameters for p in most.parts if p.scale is not None}
    rounding = evaluator.rounding(most.log_evidence, most.centre, parameters)
    # Of points far from the posterior, where large numbers are rounded, the evidence knows nothing.
    error = float(max(np.max(spreads[:, : len(away)]), of_states, rounding))
    error += require_resolved(most) + bound_of_sums(model, values)
    evidence = stated(LogEvidence(log_evidence, error, "exact"), (), request.audit)
    marginals = _marginals(model, analysis, components, weights)
    return request.posterior(evidence, build_tree(model, values, request.draws), float(certificate), marginals)


def _draw(components: list[Component], weights: np.ndarray, rng: np.random.Generator, draws: int) -> dict[str, Any]:
    if len(components) == 1:
        return components[0].draw(rng, draws)
    chosen = rng.choice(len(components), size=draws, p=weights / weights.sum())
    result: dict[str, np.ndarray] = {}
    for k in np.unique(chosen):
        rows = np.flatnonzero(chosen == k)
        for name, value in components[k].draw(rng, len(rows)).items():
            if name not in result:
                result[name] = np.empty((draws, *value.shape[1:]), dtype=value.dtype)
            result[name][rows] = value
    return result


def _check_points(component: Component, away: list[Point], random_seed: int) -> Iterator[Point]:
    drawn = component.draw(np.random.default_rng([random_seed, 1]), len(away))
    for k in range(len(away)):
        yield {n: v[k] for n, v in drawn.items()}
    for point in away:
        yield {**point, **component.fixed}


def _marginals(
    model: pm.Model, analysis: Analysis, components: list[Component], weights: np.ndarray
) -> Mapping[str, Marginal]:
    # Where other variables have a part in its sum, its marginal is a mixture.
    summed = state_marginals(analysis, {}, np.ones(1))
    states: dict[str, Closed] = {n: (density, "categorical", None, True) for n, density in summed.items()}
    labels = {n: labels_of(n, model) for n in analysis.original.names}

    def make() -> dict[str, Marginal]:
        if len(components) == 1:
            closed = {n: c for p in components[0].parts for n, c in part_marginals(p).items()}
        else:
            closed = mixed_marginals(components, weights)
        closed |= finite_marginals(analysis, components, weights) | states
        return {
            n: Marginal(n, dist, family, *label, joint=joint, elementwise=elementwise)
            for n, label in labels.items()
            if n in closed
            for dist, family, joint, elementwise in [closed[n]]
        }

    # SciPy's distributions write their own documentation, which takes longer than the numbers. The data are read above.
    return LaterMarginals(make)
