r"""The density of the shared numbers φ, the latent vector integrated out by Laplace's method: where a search looks.

It has no noise and nearly the shape of p(y, φ): modes, curvature and slabs are looked for in it, and what is found is
corrected by weights (:mod:`.importance_weights`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskit.latent.approximation import Start, approximations, start_at
from bayeskit.latent.split_density import SplitDensity
from bayeskit.model.part import NotApart, part_of
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["SharedNumbers"]

STEP = 2e-3  # of differences, by which the gradient is taken
AT_ONCE = 300_000  # numbers in the modes that are looked for together


class SharedNumbers:
    """log p(y, φ) by Laplace's method, as a function on R^d."""

    def __init__(self, density: SplitDensity) -> None:
        self.density = density

    @property
    def size(self) -> int:
        """d."""
        return len(self.density.shared)

    @cached_property
    def start(self) -> np.ndarray:
        """PyMC's starting point."""
        return np.asarray(self.density.space.start[self.density.shared])

    @cached_property
    def _first(self) -> Start:
        """The mode of x at the starting point."""
        density = self.density
        nowhere = np.zeros((self.size, density.size))
        return start_at(density, self.start, Start(self.start, density.space.start[density.latent], nowhere))

    def near(self, point: np.ndarray) -> Start:
        """The mode of x at some φ."""
        return start_at(self.density, point, self._first)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """log p(y, φ) of points (n, d)."""
        return self._log_density(np.atleast_2d(np.asarray(points, dtype=float)), self._first)

    def _log_density(self, points: np.ndarray, start: Start) -> np.ndarray:
        step = max(1, AT_ONCE // self.density.size)
        parts = [points[k : k + step] for k in range(0, len(points), step)]
        found = [approximations(self.density, part, start, close=True).log_density for part in parts]
        return np.concatenate([np.empty(0), *found])

    def value_and_gradient(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """log p(y, φ) at one point, and its gradient by fourth-order differences."""
        middle = approximations(self.density, point[None], self._first, close=True)
        start = Start(point, middle.mode[0], np.zeros((self.size, self.density.size)))
        steps = STEP * np.eye(self.size)
        values = self._log_density(point + np.concatenate([steps, -steps, 2 * steps, -2 * steps]), start)
        near, back, far, farther = values.reshape(4, self.size)
        with np.errstate(all="ignore"):
            slope = (8 * (near - back) - (far - farther)) / (12 * STEP)
        return float(middle.log_density[0]), slope

    def prior_draws(self, number: int, random_seed: int) -> np.ndarray:
        """Draws from the prior, (n, d)."""
        space, shared = self.density.space, self.density.shared
        names = [n for n, places in space.slices.items() if np.isin(np.arange(places.start, places.stop), shared).all()]
        try:
            # By themselves: of a long series, draws take long.
            return Unconstrained(part_of(space.model, names), None).prior_draws(number, random_seed)
        except NotApart:
            return space.prior_draws(number, random_seed)[:, shared]
