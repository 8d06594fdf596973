r"""The density of one coordinate with the others integrated by Laplace, followed outwards from the draws.

In units of the draws, :math:`x = c + s z`,

.. math:: \log m(z_j) \approx \max_{z_{-j}} f - \tfrac12 \log |-\nabla^2_{-j} f| + \tfrac{k-1}{2} \log 2\pi,

which is exact where the others are Normal given that one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayeskit.graphs.environment import silently
from bayeskit.model.ascent import climb
from bayeskit.model.unconstrained import Objective, Unconstrained, negative_hessian

__all__ = ["BEYOND", "Profile", "Top"]

BEYOND = -1e200  # a density that is zero, or overflows
STEPS, ARRIVED = 40, 1e-3  # of Newton's method after a climb, and nats that are left to climb


@dataclass(frozen=True, eq=False)
class Top:
    """Where the density is highest given one coordinate, in units of the draws: the others, and what is about them."""

    others: np.ndarray
    height: float
    factor: np.ndarray | None  # L with L Lᵀ = −∇²f; None where the density overflows

    @property
    def log_volume(self) -> float:
        """log of Laplace's integral over the others relative to the height, but for powers of 2π."""
        return 0.0 if self.factor is None else -float(np.sum(np.log(np.diag(self.factor))))

    @property
    def root(self) -> np.ndarray:
        """R with R Rᵀ the covariance of the others."""
        size = len(self.others)
        return np.asarray(linalg.solve_triangular(self.factor, np.eye(size), lower=True, trans="T"))


@dataclass(frozen=True, eq=False)
class Profile:
    """A density in units of draws, along one coordinate."""

    space: Unconstrained
    centre: np.ndarray
    scale: np.ndarray
    axis: int

    def at(self, points: np.ndarray) -> np.ndarray:
        """Points of x from such in units of the draws."""
        return self.centre + self.scale * points

    def joined(self, place: np.ndarray | float, others: np.ndarray) -> np.ndarray:
        """z from its coordinate and the others; of several points in rows."""
        return np.insert(others, self.axis, place, axis=-1)

    def given(self, place: float) -> Objective:
        """f and its gradient over the others at one value of the coordinate."""

        def value_and_gradient(others: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.space.value_and_gradient(self.at(self.joined(place, others)))
            return value, np.delete(gradient * self.scale, self.axis)

        return value_and_gradient

    def climbed(self, place: float, others: np.ndarray) -> tuple[np.ndarray, float]:
        """The others after a climb, and the height there."""
        objective = self.given(place)
        return climb(objective, others) if len(others) else (others, objective(others)[0])

    def top(self, place: float, others: np.ndarray) -> Top | None:
        """The maximum at one value of the coordinate; None if not found.

        By Newton's method with halved steps after a climb: in the neck of a funnel the curvature is that of another
        scale.
        """
        objective = self.given(place)
        at, _ = self.climbed(place, others)
        value, gradient = objective(at)
        for _ in range(STEPS):
            if not value > BEYOND or not len(at):
                return Top(at, value, np.eye(len(at)))
            with silently():
                hessian = negative_hessian(objective, at)
            if not np.all(np.isfinite(hessian)):
                return Top(at, -np.inf, None)
            try:
                factor = np.linalg.cholesky(hessian)
            except np.linalg.LinAlgError:
                return None
            step = np.linalg.solve(hessian, gradient)
            if 0.5 * gradient @ step < ARRIVED:
                return Top(at, value, factor)
            for shorter in 0.5 ** np.arange(12):
                new, slope = objective(at + shorter * step)
                if new > value:
                    at, value, gradient = at + shorter * step, new, slope
                    break
            else:
                return None
        return None
