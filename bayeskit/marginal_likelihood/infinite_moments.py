r"""Which remaining variables have no mean or no variance, as their density says far beyond all draws.

A tail that holds a hundredth of the posterior and falls off as :math:`1/x^2` has an infinite mean, which 4,000 draws do
not show: seven counts of zero whose log rates have a half-Cauchy sd. So the density is followed outwards, to distances
:math:`r` of :math:`e^{15}` times the farthest draw, with all else as in a draw. Where there

.. math:: \log p(x \mid \text{the rest}) \approx -(1 + \alpha) \log r, \qquad \alpha \le k,

the k-th moment of that slice is infinite, and by Fubini's theorem the posterior's. That no slice shows it proves
nothing: of what moves together no line through a draw may go that way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskit.graphs.environment import silently
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["tail_indices"]

SLICES = 8  # draws through which the density is followed
FAR, FARTHER = 15.0, 20.0  # logs of distances, in those of the farthest draw, between which a power is read
EXACT = 0.01  # by which a power of a slice may differ from that of its tail
VARIANCE = 2.0  # the moment of which the spread of draws is told


def tail_indices(space: Unconstrained, points: np.ndarray) -> dict[str, np.ndarray]:
    """1 / α of each entry of the variables that have no variance, zero where it has one; from draws x, (n, k)."""
    through = points[:: max(1, len(points) // SLICES)][:SLICES]
    found = {}
    for name, places in space.slices.items():
        kind = space.transform(name)
        if kind is not None and type(kind).__name__ != "LogTransform":
            continue  # between two bounds all moments are finite; above one that is not zero they are not looked at
        entries = range(places.start, places.stop)
        powers = [min(_powers(space, points, through, j, kind is None), default=np.inf) for j in entries]
        indices = np.array([1.0 / max(a - EXACT, EXACT) if a <= VARIANCE + EXACT else 0.0 for a in powers])
        if indices.any():
            found[name] = indices
    return found


def _powers(space: Unconstrained, points: np.ndarray, through: np.ndarray, j: int, real: bool) -> Iterator[float]:
    """α on either side of a real coordinate, or above the log of a positive one; nothing where it is not read."""
    farthest = np.max(np.abs(points[:, j])) if real else np.max(points[:, j])
    for sign in (-1.0, 1.0) if real else (1.0,):
        heights = []
        for log_distance in (FAR, FARTHER):
            moved = through.copy()
            moved[:, j] = sign * farthest * np.exp(log_distance) if real else farthest + log_distance
            with silently():
                heights.append(space.log_density(moved))
        with np.errstate(invalid="ignore"):
            slopes = (heights[1] - heights[0]) / (FARTHER - FAR) + real  # of the density of log r
        yield from (-slopes[np.isfinite(slopes)]).tolist()
