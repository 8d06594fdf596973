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

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.check_points import points_away
from bayeskit.elimination.conjugate_posterior import Component
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.elimination.recovery import Recovery, state_recovery
from bayeskit.errors import CertificateError, InferenceError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import inline
from bayeskit.plates.accuracy import differences
from bayeskit.plates.conditional import PlateRecovery
from bayeskit.types import Point

__all__ = ["RESOLVED", "certify", "certify_collapsed", "certify_states", "integrals_off", "require_resolved"]

type Compared = tuple[float, float, float]  # log p(y, θ, φ), log p(θ | φ, y), log p(y, φ)

NEAR = 1e4  # nats
ABSOLUTE = 1e-6  # a spread over this is an error, whatever the size of the terms
RELATIVE = 1e-9
NOWHERE = (
    "the certificate failed: the density is not finite at any point at which it was to be compared; use method='nuts', "
    "and please report the model"
)
ROUNDED = 2.0  # units in the last place by which a solution is off
CHECKED = 100  # posterior draws at which integrals over single entries are taken by a second rule
RESOLVED = 1e-5  # nats that such integrals, of all entries together, may be off
POINTS = 4  # posterior draws, and as many prior draws, at which a density is certified


def certify(evaluator: Evaluator, component: Component, points: Iterable[Point]) -> list[float]:
    """|log p(y, θ) − log p(θ | y) − log p(y)| at each point, in nats; a CertificateError if it is more than rounding.

    Points that rounding put outside the support are passed over: Beta(1.5, 0.05) gives 1.0 now and then.
    """
    # Of D Normal variables a draw's log density is D/2 below that of the centre: 12,500 nats with 25,000 of them.
    below = 0.5 * sum(np.size(v) for v in component.centre.values())
    level = component.log_evidence + component.log_density(component.centre) - below
    scales = [p.scale for p in component.parts if p.scale is not None]
    several = list(points)
    inside = [all(s.family.support.inside(np.asarray(p[s.name])) for s in scales) for p in several]
    if not any(inside):
        raise CertificateError(NOWHERE)
    joints = iter(evaluator.log_joints([p for p, possible in zip(several, inside, strict=True) if possible]))

    def spread(point: Point) -> float:
        return _require(next(joints), component.log_density(point), component.log_evidence, level)

    return [spread(point) if possible else 0.0 for point, possible in zip(several, inside, strict=True)]


def require_resolved(component: Component) -> float:
    """How far, in nats, log p(θ | y) at the posterior's centre may be off, as its Normal variables are rounded there.

    A CertificateError if they are no longer told apart: of data about 3·10¹⁵ with an sd of 1 all check points are the
    same number, and agree about anything.
    """
    moved, gaussians = dict(component.centre), [p.gaussian for p in component.parts if p.gaussian is not None]
    for name in [n for gaussian in gaussians for n in gaussian.slices]:
        moved[name] = moved[name] + ROUNDED * np.spacing(np.abs(moved[name]))
    off = abs(float(component.log_density(moved) - component.log_density(component.centre)))
    if not off <= ABSOLUTE:
        raise CertificateError(
            "the posterior is so narrow that rounding spoils it: its values are too large for its width; subtract a "
            "constant from the data"
        )
    return off


def certify_collapsed(recovery: Recovery, draws: Mapping[str, np.ndarray], random_seed: int) -> float:
    """The largest |log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ)| at posterior and prior draws, and that of the sums.

    A CertificateError if it is more than rounding.
    """
    collapsed = recovery.collapsed
    analysis = collapsed.analysis
    evaluator = analysis.remembered("evaluator", lambda: Evaluator(analysis))
    points, rng = _first(draws), np.random.default_rng([random_seed, 2])
    away = [{n: p[n] for n in collapsed.remaining} for p in points_away(analysis, len(points), random_seed)]

    def terms(point: Point) -> Compared:
        values = zip(collapsed.remaining, collapsed.inputs, strict=True)
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in values]
        with silently():
            return evaluator.log_joint(point), recovery.log_density(point), float(collapsed.log_density(*arguments))

    def recovered(remaining: Point) -> Compared:
        with silently():
            drawn = recovery.draw({n: v[None] for n, v in remaining.items()}, rng, leaves=False)
        return terms(_first(drawn)[0])

    found = _largest([*map(terms, points), *_where_numbers_suffice(recovered, away)])
    return max(found, certify_states(analysis, draws, random_seed))


def certify_states(analysis: Analysis, draws: Mapping[str, np.ndarray], random_seed: int) -> float:
    """The largest |log p(y, z, φ) − log p(z | φ, y) − log p(y, φ)| over posterior and prior draws, in nats.

    The first is PyMC's own density, the last the sum over z, or the integral where its entries are real numbers; the
    leaves that are drawn forward have no part in either. A CertificateError if it is more than rounding.
    """
    if not analysis.summed and not analysis.plates:
        return 0.0
    inputs = analysis.original.values
    totals = []
    for joint in (analysis.original, analysis.joint):
        factors = [pt.sum(g) for f, g in joint.factors.items() if f not in analysis.ancestral]
        totals.append(compile_small(list(inputs.values()), inline([pt.add(*factors, pt.constant(0.0))])[0]))
    states, plates = state_recovery(analysis), [PlateRecovery(plate) for plate in analysis.plates]
    given_states = Recovery(analysis.given_states) if analysis.given_states else None

    def terms(point: Point) -> Compared:
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in inputs.items()]
        with silently():
            joint, summed = (float(t(*arguments)) for t in totals)
            # Outside the support there is no conditional distribution.
            inside = np.isfinite(joint) or np.isfinite(summed)
            known = (r.log_probability(point) for r in states.values()), (p.log_density(point) for p in plates)
            of_the_rest = given_states.log_density(point) if given_states and inside else 0.0
            return joint, of_the_rest + sum(chain(*known)) if inside else np.nan, summed

    # Integrals are as good as they are where the posterior is; far from it, no answer rests on them.
    far = [] if plates else points_away(analysis, POINTS, random_seed)
    spread = _largest([*map(terms, _first(draws)), *_where_numbers_suffice(terms, far)])
    return spread + certify_integrals(analysis, draws)


def certify_integrals(analysis: Analysis, draws: Mapping[str, np.ndarray]) -> float:
    """How far, in nats, integrals over single entries are off at the worst of some posterior draws.

    An InferenceError where it is more than an evidence may be.
    """
    total = 0.0
    for plate, off in zip(analysis.plates, integrals_off(analysis, draws), strict=True):
        if not np.max(off) <= RESOLVED:
            raise InferenceError(
                f"the integrals over the entries of {plate.name!r} cannot be bounded (two rules differ by "
                f"{np.max(off):.1g} nats): the integrand has an edge, a kink, a narrow peak aside, or tails without end"
            )
        total += float(np.max(off))
    return total


def integrals_off(analysis: Analysis, draws: Mapping[str, np.ndarray], most: int = CHECKED) -> list[np.ndarray]:
    """For each variable that is integrated entry by entry, how far its integrals are off at some draws of the rest."""
    number = len(next(iter(draws.values())))
    chosen = np.unique(np.linspace(0, number - 1, min(number, most)).astype(int))
    return [
        differences(plate, [np.asarray(draws[n], dtype=float)[chosen] for n in plate.given], len(chosen))
        for plate in analysis.plates
    ]


def _first(draws: Mapping[str, np.ndarray]) -> list[Point]:
    """A few draws, each as a point."""
    number = min(POINTS, len(next(iter(draws.values()))))
    return [{n: v[k] for n, v in draws.items()} for k in range(number)]


def _where_numbers_suffice(terms: Callable[[Point], Compared], points: Iterable[Point]) -> Iterator[Compared]:
    """The terms at points far from the posterior, without those where a matrix or a number is beyond computing with."""
    for point in points:
        with suppress(ArithmeticError, ValueError):
            found = terms(point)
            if not np.any(np.isnan(np.asarray(found, dtype=float))):
                yield found


def _largest(terms: Iterable[Compared]) -> float:
    """The largest |log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ)| over points; the first is taken for a typical one.

    Points outside the support, where both sides are −∞, or at an end of it, where rounding put a draw from
    Beta(1e-3, 0.1) and both are infinite, are passed over. A CertificateError if that leaves none.
    """
    spread, level = 0.0, None
    for joint, conditional, marginal in terms:
        if not np.isfinite(joint) and (not np.isfinite(marginal) or (np.isinf(joint) and conditional == joint)):
            continue
        level = joint if level is None else level
        spread = max(spread, _require(joint, conditional, marginal, level))
    if level is None:
        raise CertificateError(NOWHERE)
    return spread


def _require(log_joint: Any, log_posterior: Any, log_evidence: Any, level: Any) -> float:
    """|log p(y, θ) − log p(θ | y) − log p(y)| at one point; zero where it is too far below a typical ``level``."""
    difference = float(abs(log_joint - log_posterior - log_evidence))
    size = float(max(1.0, abs(level), abs(log_evidence), abs(log_joint), abs(log_posterior)))
    if not difference <= max(ABSOLUTE, RELATIVE * size):
        raise CertificateError(
            f"the certificate failed: log p(y, θ) − log p(θ | y) differs by {difference:.3g} nats between "
            "two points, so the closed form is not proved; use method='nuts', and please report the model"
        )
    return difference if abs(log_joint - level) <= NEAR else 0.0
