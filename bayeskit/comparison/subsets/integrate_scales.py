"""Which scales of a linear model integrate out of all submodels, and how: the way from a model to its submodels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayeskit.comparison.subsets.common_scale import CommonScale, GivenScale, common_scale, given_scale
from bayeskit.comparison.subsets.linear_model import LinearModel, require_centred
from bayeskit.comparison.subsets.populations import ListedSubsets
from bayeskit.comparison.subsets.scale_integral import ScaleIntegral, no_grid, scale_grid
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.comparison.subsets.unbounded import Line, line_of, peak, uphill
from bayeskit.errors import CertificateError, ModelError
from bayeskit.types import Point

__all__ = ["Integrated", "integrated"]

START = 0.3  # on the whole line: no number that a model treats apart
TRIALS, CLOSE = 4, 1e-9  # points at which the quadratic is held to the model's own density


@dataclass(frozen=True, eq=False)
class Integrated:
    """A linear model and its scales: the one that was integrated out in closed form, and the one on a grid."""

    linear: LinearModel
    integral: ScaleIntegral
    common: CommonScale | None
    grid: str


def integrated(linear: LinearModel) -> Integrated:
    """Integrate the scales out; a ModelError names the one that cannot be."""
    model, name = linear.joint.model, linear.name
    lines = {n: line_of(model, n) for n in linear.hyper}
    start = dict.fromkeys(lines, START)
    _require_definite(linear, _point(lines, start))
    linear.centre(_point(lines, start))
    places = _mode(linear, lines, start)
    point = _point(lines, places)
    linear.centre(point)
    require_centred(linear, point)
    require_centred(linear, _point(lines, {n: u + 0.7 for n, u in places.items()}))
    _certify(linear, point)
    found = ((n, common_scale(linear, lines[n], point)) for n in lines)
    common = next((scale for _, scale in found if scale is not None), None)
    rest = [n for n in lines if common is None or n != common.name]
    fixed = {n: v for n, v in point.items() if common is None or n != common.name}
    if len(rest) > 1:
        raise ModelError(
            f"select integrates over one scale besides a variance that scales all of the model, and {', '.join(rest)} "
            f"remain; give the variance of the data an InverseGamma prior (or Jeffreys': pm.HalfFlat and "
            f"pm.Potential of -log) and the prior of {name!r} its units, as in pm.Normal(0, tau * sigma)"
        )
    try:
        if not rest:
            return Integrated(linear, no_grid(linear, fixed, common), common, "")
        line = lines[rest[0]]
        at, spread = peak(lambda u: _over_scale(linear, fixed, common, line, u), places[line.name])
        return Integrated(linear, scale_grid(linear, fixed, common, line, at, spread), common, line.name)
    except NotDefinite:
        raise ModelError(
            f"the posterior of the scale {common.name if common else name!r} is improper in some submodel"
        ) from None


def _point(lines: Mapping[str, Line], places: Mapping[str, float]) -> Point:
    return {n: line.value(places[n]) for n, line in lines.items()}


def _require_definite(linear: LinearModel, point: Point) -> None:
    try:
        if not np.all(np.linalg.eigvalsh(linear.at(point).precision) > 0):
            raise NotDefinite(linear.size)
    except NotDefinite:
        require_centred(linear, point)
        raise ModelError(
            f"the precision of {', '.join(linear.coefficients)} is not positive definite: predictors are collinear, or "
            "a coefficient that every submodel has is not determined; leave one of them out, or give it a proper prior"
        ) from None


def _log_density(linear: LinearModel, lines: Mapping[str, Line], places: Mapping[str, float]) -> float:
    """log p(y, u) in the full model."""
    try:
        found = given_scale(linear, _point(lines, places), None)
    except (NotDefinite, OverflowError, ValueError):
        return -math.inf
    return _full(found) + sum(lines[n].log_slope(u) for n, u in places.items())


def _over_scale(linear: LinearModel, fixed: Point, common: CommonScale | None, line: Line, u: float) -> float:
    """log p(y, u) in the full model, without its common scale."""
    try:
        found = given_scale(linear, fixed | {line.name: line.value(u)}, common)
    except (NotDefinite, OverflowError, ValueError):
        return -math.inf
    return _full(found) + line.log_slope(u)


def _full(given: GivenScale) -> float:
    """log p(y) of the full model; −∞ where it has none."""
    whole = ListedSubsets(np.ones((1, len(given.quadratic.linear)), dtype=bool))
    try:
        logs, gain, _ = whole.parts(given.quadratic)
    except NotDefinite:
        return -math.inf
    value = float(given.log_evidence(logs, gain)[0])
    return value if math.isfinite(value) else -math.inf


def _mode(linear: LinearModel, lines: Mapping[str, Line], start: dict[str, float]) -> dict[str, float]:
    """About where the scales are most probable in the full model."""
    places = dict(start)
    for name in lines:

        def along(u: float, name: str = name) -> float:
            return _log_density(linear, lines, places | {name: u})

        found = uphill(along, places[name])
        if math.isnan(found):
            raise ModelError(f"the posterior of {name!r} has no mode: it is improper, or too wide to integrate over")
        places[name] = found
    return places


def _certify(linear: LinearModel, point: Point) -> None:
    """A CertificateError where the quadratic is not what the model's own density says at other coefficients."""
    total, slope = linear.whole(point)
    size = linear.theta.size
    root = np.linalg.cholesky(total)
    mean = linalg.cho_solve((root, True), slope)
    noise = np.random.default_rng(0).normal(size=(TRIALS, size))
    for direction in noise:
        delta = mean + linalg.solve_triangular(root.T, direction, lower=False)
        moved = linear.theta.split(delta)
        theta = {n: linear.origin[n] + moved[n] for n in linear.coefficients}
        terms = (linear.value(point), float(slope @ delta), -0.5 * float(delta @ total @ delta))
        direct = linear.joint.logp(point | theta)
        if not abs(math.fsum(terms) - direct) <= CLOSE * (1 + sum(map(abs, terms))):
            raise CertificateError(
                f"the quadratic form of {linear.name!r} is off by {math.fsum(terms) - direct:.1e} nats from the "
                "model's own density; please report the model"
            )
