"""The certificate: log p(y, θ) − log p(θ | y) must be the same number, log p(y), at every θ.

log p(y, θ) is the graph that PyMC derives, its constants widened, evaluated in extended precision where the data are
small (:mod:`bayeskit.graphs.extended_precision`) at posterior and prior draws; the tests hold both the graph and the
arithmetic to ``model.compile_logp`` over every model with a known answer. PyMC's function itself is not made for each
answer: deriving it a second time is a quarter of the time of a small model. Where θ is so far out that the density is
10⁴ nats below the posterior's, rounding alone moves the difference by more than 1e-8; there agreement is asked for
relative to the size of the terms, and the point does not count in the reported spread. Where something remains, or
finite variables were summed out, the last term is a density itself, and the difference must be zero:

    log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ) = 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.conjugate_posterior import Component
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.elimination.recovery import Recovery, state_recovery
from bayeskit.errors import CertificateError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import prior_points, prior_sampler
from bayeskit.types import Point

__all__ = ["certify", "certify_collapsed", "certify_states"]

NEAR = 1e4  # nats
ABSOLUTE = 1e-6  # a spread over this is an error, whatever the size of the terms
RELATIVE = 1e-9
POINTS = 4  # posterior draws, and as many prior draws, at which a density is certified


def certify(evaluator: Evaluator, component: Component, points: Iterable[Mapping[str, np.ndarray]]) -> float:
    """The spread of log p(y, θ) − log p(θ | y) over points, in nats; a CertificateError if it is more than rounding.

    Points that rounding put outside the support are passed over: Beta(1.5, 0.05) gives 1.0 now and then.
    """
    # Of D Normal variables a draw's log density is D/2 below that of the centre: 12,500 nats with 25,000 of them.
    below = 0.5 * sum(np.size(v) for v in component.centre.values())
    level = component.log_evidence + component.log_density(component.centre) - below
    scales = [p.scale for p in component.parts if p.scale is not None]
    spread = 0.0
    for point in points:
        if all(s.family.support.inside(np.asarray(point[s.name])) for s in scales):
            terms = evaluator.log_joint(point), component.log_density(point), component.log_evidence
            spread = max(spread, _require(*terms, level))
    return spread


def certify_collapsed(recovery: Recovery, draws: Mapping[str, np.ndarray], random_seed: int) -> float:
    """The largest |log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ)| at posterior and prior draws, and that of the sums.

    A CertificateError if it is more than rounding.
    """
    collapsed = recovery.collapsed
    analysis = collapsed.analysis
    evaluator = analysis.remembered("evaluator", lambda: Evaluator(analysis))
    sampler = analysis.remembered("prior", lambda: prior_sampler(analysis.joint.model))
    points = _first(draws)
    prior = list(sampler(len(points), random_seed))
    away = {n: np.stack([p[n] for p in prior]) for n in collapsed.remaining}
    with silently():
        points += _first(recovery.draw(away, np.random.default_rng([random_seed, 2]), leaves=False))

    def terms(point: Point) -> tuple[float, float, float]:
        values = zip(collapsed.remaining, collapsed.inputs, strict=True)
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in values]
        with silently():
            return evaluator.log_joint(point), recovery.log_density(point), float(collapsed.log_density(*arguments))

    return max(_largest(map(terms, points)), certify_states(analysis, draws, random_seed))


def certify_states(analysis: Analysis, draws: Mapping[str, np.ndarray], random_seed: int) -> float:
    """The largest |log p(y, z, φ) − log p(z | φ, y) − log p(y, φ)| over posterior and prior draws, in nats.

    The first is PyMC's own density, the last the sum; the leaves that are drawn forward have no part in either. A
    CertificateError if it is more than rounding.
    """
    if not analysis.summed:
        return 0.0
    inputs = analysis.original.values
    totals = []
    for joint in (analysis.original, analysis.joint):
        factors = [pt.sum(g) for f, g in joint.factors.items() if f not in analysis.ancestral]
        totals.append(compile_small(list(inputs.values()), inline([pt.add(*factors, pt.constant(0.0))])[0]))
    recoveries = state_recovery(analysis)

    def terms(point: Point) -> tuple[float, float, float]:
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in inputs.items()]
        with silently():
            joint, summed = (float(t(*arguments)) for t in totals)
            # Outside the support there is no conditional distribution.
            inside = np.isfinite(joint) or np.isfinite(summed)
            return joint, sum(r.log_probability(point) for r in recoveries.values()) if inside else np.nan, summed

    return _largest(map(terms, [*_first(draws), *prior_points(analysis.original.model, POINTS, random_seed)]))


def _first(draws: Mapping[str, np.ndarray]) -> list[Point]:
    """A few draws, each as a point."""
    number = min(POINTS, len(next(iter(draws.values()))))
    return [{n: v[k] for n, v in draws.items()} for k in range(number)]


def _largest(terms: Iterable[tuple[float, float, float]]) -> float:
    """The largest |log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ)| over points; the first is taken for a typical one.

    A point outside the support, where both sides are −∞, is passed over.
    """
    spread, level = 0.0, None
    for joint, conditional, marginal in terms:
        if not np.isfinite(joint) and (not np.isfinite(marginal) or conditional == joint == -np.inf):
            continue
        level = joint if level is None else level
        spread = max(spread, _require(joint, conditional, marginal, level))
    return spread


def _require(log_joint: Any, log_posterior: Any, log_evidence: Any, level: Any) -> float:
    """|log p(y, θ) − log p(θ | y) − log p(y)| at one point; zero where it is too far below the level to count.

    The level is log p(y, θ) at a typical point of the posterior.
    """
    difference = float(abs(log_joint - log_posterior - log_evidence))
    size = float(max(1.0, abs(level), abs(log_evidence), abs(log_joint), abs(log_posterior)))
    if not difference <= max(ABSOLUTE, RELATIVE * size):
        raise CertificateError(
            f"the certificate failed: log p(y, θ) − log p(θ | y) differs by {difference:.3g} nats between "
            "two points, so the closed form is not proved; use method='nuts', and please report the model"
        )
    return difference if abs(log_joint - level) <= NEAR else 0.0
