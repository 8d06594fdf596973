r"""The modes of a density that climbs find: from where the model starts, and from points that no known mode explains.

Points are drawn from the prior and from far around the mode found first. At a point x the known modes :math:`m_k`, with
Hessians :math:`H_k` of -f, lead to expect at most

.. math:: \max_k \Bigl[ f(m_k) - \frac{\nu + D}{2} \log \bigl( 1 + (x - m_k)^T H_k (x - m_k) / \nu \bigr) \Bigr],

a Student t. Where f is highest above that the next climb starts, until nothing is, or climbs find nothing new.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.skewed_coordinates import axes_of
from bayeskit.model.ascent import climb
from bayeskit.model.step_scales import step_scales
from bayeskit.model.unconstrained import in_coordinates, negative_hessian
from bayeskit.types import Array

__all__ = ["FLAT", "LocalMode", "SearchedDensity", "highest_mode", "modes_of"]

STEPS = 500  # of a climb
FLAT, FURTHER = 1e-2, 3  # the largest slope at a mode, in nats for a standard deviation; climbs towards a steeper one
DRAWN = 300  # points from the prior, and from around
EXCESS, DEGREES = 3.0, 4.0  # nats above what is expected from which on a climb starts; of freedom
ON_LINE = 121  # points of a line along an axis
MOST, HIGH = 20, (6, 8.0)  # modes; and those no farther below the highest than so many nats
AROUND, AROUND_DEGREES = 6.0, 3.0  # how far around the mode is looked, in its standard deviations
STALE = 6  # climbs in a row that end in known modes, after which no more are made
SHALLOW = 1e-3  # nats of a valley that is none
NEVER = 1e299  # what a climb that never saw a finite density returns
FEW = 3  # draws from the prior that are climbed from, where one mode will do
STEP, ROUNDS = 1e-3, 2  # of differences, in standard deviations; how often these are told from the curvature
JOLT = 0.1  # of the start, by which it leaves a saddle


class SearchedDensity(Protocol):
    """A log density f on R^D in which modes are looked for."""

    @property
    def size(self) -> int:
        """D."""

    @property
    def start(self) -> Array:
        """Where it is known to be above zero."""

    def log_density(self, points: Array) -> Array:
        """f at points of shape (n, D)."""

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """f and its gradient at one point."""

    def prior_draws(self, number: int, random_seed: int) -> Array:
        """Draws from a prior, as points of f; none where none can be made."""


@dataclass(frozen=True, eq=False)
class LocalMode:
    """Where a climb ended, how high that is, and the Hessian of -f there."""

    point: Array
    height: float
    hessian: Array


def modes_of(space: SearchedDensity, rng: Generator) -> list[LocalMode]:
    """The highest first, each once."""
    found: list[LocalMode] = []
    scale = step_scales(space.log_density, space.start)
    for start in (_jolted(space, scale, rng), space.start):
        _climb(space, start, scale, found)
    drawn = space.prior_draws(DRAWN, int(rng.integers(2**31)))
    looked = [_around(space, mode, rng) for mode in _highest(found)] + [_mirrored(space, mode) for mode in found]
    points, values = _valued(space, [drawn, *looked])
    through, stale, turn = -math.inf, 0, True  # the height of the mode that lines were drawn through
    while stale < STALE:
        if len(found) > MOST:
            raise NoProposal(f"the density has more than {MOST} modes")
        for mode in _highest(found):
            if len(drawn) and mode.height > through + SHALLOW:
                through, more = mode.height, _valued(space, [_along_axes(space, mode, drawn)])
                points, values = np.concatenate([points, more[0]]), np.append(values, more[1])
        excess = values - _expected(found, points)
        if not np.max(excess, initial=0.0) > EXCESS:
            break
        # In turn: a narrow mode is far above what is expected, and one that holds much is high.
        by, turn = (values if turn else excess), not turn
        highest = int(np.argmax(np.where(excess > EXCESS, by, -np.inf)))
        stale = 0 if _climb(space, points[highest], scale, found) else stale + 1
        points, values = np.delete(points, highest, axis=0), np.delete(values, highest)
    found.sort(key=lambda mode: -mode.height)
    # The more of them there are, the more are missed: of a likelihood of the sines of four numbers, which has modes in
    # rows, half of the mass.
    if len(found) > HIGH[0] and found[HIGH[0]].height > found[0].height - HIGH[1]:
        raise NoProposal(f"the density has more than {HIGH[0]} modes that count, and may have others")
    return found


def highest_mode(space: SearchedDensity, rng: Generator) -> LocalMode | None:
    """The highest of those that a few climbs find, from the start and from the highest of draws from the prior."""
    found: list[LocalMode] = []
    scale = step_scales(space.log_density, space.start)
    points, values = _valued(space, [space.prior_draws(DRAWN, int(rng.integers(2**31)))])
    for start in (_jolted(space, scale, rng), *points[np.argsort(-values)[:FEW]]):
        _climb(space, start, scale, found)
    return next(iter(_highest(found)), None)


def _jolted(space: SearchedDensity, scale: Array, rng: Generator) -> Array:
    """The start, moved off a saddle."""
    return np.asarray(space.start + JOLT * np.minimum(scale, 1.0) * rng.standard_normal(space.size))


def _valued(space: SearchedDensity, points: list[Array]) -> tuple[Array, Array]:
    """Points at which the density is above zero, and its logarithm."""
    together = np.concatenate(points)
    values = space.log_density(together) if len(together) else np.empty(0)
    kept = np.isfinite(values)
    return together[kept], values[kept]


def _climb(space: SearchedDensity, start: Array, scale: Array, found: list[LocalMode]) -> bool:
    """Whether a climb, by steps of these scales, ends in a mode that was not known, which is added."""
    scaled = in_coordinates(space.value_and_gradient, start, np.diag(scale))
    moved, height = climb(scaled, np.zeros(space.size), steps=STEPS)
    point = start + scale * moved
    if not (math.isfinite(height) and abs(height) < NEVER):
        return False
    known = next((i for i, mode in enumerate(found) if _same(space, point, height, mode)), None)
    if known is None:
        found.append(_local_mode(space, point, height, scale))
    elif height > found[known].height + SHALLOW:  # a saddle, or a climb that did not end
        found[known] = _local_mode(space, point, height, scale)
    return known is None


def _local_mode(space: SearchedDensity, point: Array, height: float, scale: Array) -> LocalMode:
    """The mode near the end of a climb, which goes on, where it had not ended, in coordinates that the curvature tells.

    Along the axes alone it is slow where numbers are correlated.
    """
    hessian = _hessian(space, point, scale)
    for _ in range(FURTHER):
        axes = axes_of(hessian)
        if axes is None or not np.abs(space.value_and_gradient(point)[1] @ axes[0]).max() >= FLAT:
            break
        round_there = in_coordinates(space.value_and_gradient, point, axes[0])
        moved, higher = climb(round_there, np.zeros(space.size), steps=STEPS)
        if not (math.isfinite(higher) and higher >= height):
            break
        point, height = point + axes[0] @ moved, higher
        hessian = _hessian(space, point, scale)
    return LocalMode(point, height, hessian)


def _expected(found: list[LocalMode], points: Array) -> Array:
    """What known modes lead to expect at points."""
    expected = np.full(len(points), -np.inf)
    for mode in found:
        off = points - mode.point
        square = np.einsum("ni,ij,nj->n", off, mode.hessian, off).clip(min=0)
        t = mode.height - 0.5 * (DEGREES + points.shape[1]) * np.log1p(square / DEGREES)
        expected = np.maximum(expected, np.where(np.isnan(t), -np.inf, t))
    return expected


def _hessian(space: SearchedDensity, point: Array, scale: Array) -> Array:
    """By differences over steps that are small beside the curvature along each axis, or these scales to begin with."""
    for _ in range(ROUNDS):
        scaled = in_coordinates(space.value_and_gradient, point, np.diag(scale))
        hessian = negative_hessian(scaled, np.zeros(space.size), STEP) / np.outer(scale, scale)
        curvature = np.diag(hessian)
        if not np.all(np.isfinite(curvature) & (curvature > 0)):
            break
        scale = 1 / np.sqrt(curvature)
    return hessian


def _highest(found: list[LocalMode]) -> list[LocalMode]:
    """The highest mode, if there is one."""
    return sorted(found, key=lambda mode: -mode.height)[:1]


def _around(space: SearchedDensity, mode: LocalMode, rng: Generator) -> Array:
    """Points far around a mode; none where it has no curvature on every side."""
    axes = axes_of(mode.hessian)
    if axes is None:
        return np.empty((0, space.size))
    wide = Proposal(np.zeros(space.size), AROUND * np.eye(space.size), AROUND_DEGREES)
    return np.asarray(mode.point + wide.draw(rng, DRAWN) @ axes[0].T)


def _mirrored(space: SearchedDensity, mode: LocalMode) -> Array:
    """A mode with the sign changed of each number that may have either, of each variable, and of all of them.

    Of y ~ Normal(|x|, 0.02), x a walk of twelve steps, the mode of the other sign holds a third of the mass, and no
    draw from the prior comes near it.
    """
    real = ~np.asarray(getattr(space, "bounded", np.zeros(space.size, dtype=bool)))
    places = np.arange(space.size)
    parts = [places == k for k in places]
    parts += [(places >= s.start) & (places < s.stop) for s in getattr(space, "slices", {}).values()]
    turned = np.unique([part & real for part in [*parts, np.ones(space.size, dtype=bool)]], axis=0)
    return np.where(turned[turned.any(axis=1)], -mode.point, mode.point)


def _along_axes(space: SearchedDensity, mode: LocalMode, drawn: Array) -> Array:
    """Tops of the density on lines through a mode along each axis, twice as far as draws from the prior go.

    A phase has a mode at every turn, which few draws from the prior come near in all other numbers, too.
    """
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    lines = np.linspace(low - (high - low) / 2, high + (high - low) / 2, ON_LINE)  # (ON_LINE, D)
    points = np.repeat(mode.point[None], space.size * ON_LINE, axis=0).reshape(space.size, ON_LINE, space.size)
    axis = np.arange(space.size)
    points[axis, :, axis] = lines.T
    values = space.log_density(points.reshape(-1, space.size)).reshape(space.size, ON_LINE)
    values = np.where(np.isnan(values), -np.inf, values)
    top = (values[:, 1:-1] > values[:, :-2]) & (values[:, 1:-1] >= values[:, 2:]) & np.isfinite(values[:, 1:-1])
    return np.asarray(points[:, 1:-1][top])


def _same(space: SearchedDensity, point: Array, height: float, known: LocalMode) -> bool:
    """Whether no valley separates two ends of climbs on the straight line."""
    line = point + np.linspace(0.0, 1.0, 26)[1:-1, None] * (known.point - point)
    return bool(np.all(space.log_density(line) > min(height, known.height) - SHALLOW))
