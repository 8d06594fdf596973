"""Points at which densities are compared and conditions tried; none of them decides what the answer is.

Draws from the prior are the farthest from the posterior, and say the most of a closed form. But a prior as vague as
Gamma(1e-3, 1e-3) gives zeros and infinities, InverseGamma(1e-3, 1e-3) divides by them, and Flat gives nothing at all:
there, generic values inside the support take their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.families import support_kinds
from bayeskit.model.forward_sampling import prior_points, prior_sampler
from bayeskit.model.transforms import Natural
from bayeskit.types import Point

__all__ = ["points_away", "typical_points"]

LARGEST = 1e100  # of a usable number, and its inverse the smallest of a positive one: squares and products are finite
SPREAD = 0.5  # sd of points about the model's start, on the unconstrained scale


def points_away(analysis: Analysis, number: int, random_seed: int) -> list[Point]:
    """Values of every variable of the model as written: draws from the prior, and typical ones where it has no usable.

    What is compared there may be beyond floating-point numbers all the same, and is then passed over.
    """
    names = analysis.original.names
    sampler = analysis.remembered("prior", lambda: prior_sampler(analysis.original.model))
    found = list(_usable(analysis, names, sampler(number, random_seed)))
    return [*found, *typical_points(analysis, number - len(found), random_seed, names)]


def typical_points(
    analysis: Analysis, number: int, random_seed: int = 0, names: Iterable[str] | None = None
) -> list[Point]:
    """Generic values of variables inside their supports, those that are not summed out if not named: no zeros, no ties.

    Prior draws are taken where nothing else is known of a support: they fail where a covariance in the prior is not
    positive definite.
    """
    rng = np.random.default_rng(random_seed)
    kinds = {n: analysis.supports[n].kind for n in (analysis.joint.names if names is None else names)}
    known = support_kinds()
    unknown = [n for n, kind in kinds.items() if kind not in ("real", *known)]
    others = _others(analysis, unknown, number, random_seed) if unknown and number else [{}] * number

    def value(name: str, other: Mapping[str, np.ndarray]) -> np.ndarray:
        kind, shape = kinds[name], analysis.shapes[name]
        if kind in known:
            return np.asarray(known[kind].typical(shape, rng))
        return np.asarray(rng.normal(scale=SPREAD, size=shape) if kind == "real" else other[name])

    return [{name: value(name, other) for name in kinds} for other in others]


def _others(analysis: Analysis, names: list[str], number: int, random_seed: int) -> list[Point]:
    """Draws from the prior, and where it gives none points about the start of the model."""
    found = list(_usable(analysis, names, prior_points(analysis.joint.model, number, random_seed)))
    if len(found) == number:
        return found
    model = analysis.joint.model
    natural = Natural(model, [str(rv.name) for rv in model.free_RVs if rv.dtype.startswith("float")])
    rng = np.random.default_rng([random_seed, 3])
    moved = [natural.at(natural.start + rng.normal(scale=SPREAD, size=natural.size)) for _ in range(len(found), number)]
    discrete = {n: np.asarray(v) for n, v in model.initial_point(0).items() if n in names}
    return [*found, *({**discrete, **point} for point in moved)]


def _usable(analysis: Analysis, names: Iterable[str], points: Iterator[Point]) -> Iterator[Point]:
    """The points before the first that cannot be drawn, without those with numbers that overflow when they are used."""
    inside = {n: known.inside for n in names if (known := support_kinds().get(analysis.supports[n].kind))}
    with suppress(NotImplementedError):
        for point in points:
            values = {n: np.asarray(point[n], dtype=float) for n in names}
            small = all(np.all(np.abs(v) < LARGEST) for v in values.values())
            if small and all(test(values[n]) and test(values[n] - 1 / LARGEST) for n, test in inside.items()):
                yield point
