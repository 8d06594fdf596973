r"""Gaussian approximations of a latent vector given φ, at its conditional modes, and log p(y, φ) by Laplace's method.

With x̂ the mode of f(φ, x) in x, found by Newton's method, and Λ = −∇²f(φ, x̂),

.. math:: x \mid \phi, y \approx N(\hat x, \Lambda^{-1}), \qquad
   \log p(y, \phi) \approx f(\phi, \hat x) + \tfrac{D}{2} \log 2\pi - \tfrac12 \log |\Lambda|.

Sources: Tierney and Kadane (1986), Journal of the American Statistical Association 81, 82-86; Shephard and Pitt (1997),
Biometrika 84, 653-667.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayeskit.gaussian.factorisation import Precision
from bayeskit.gaussian.many_precisions import log_determinants, solve_each
from bayeskit.latent.split_density import SplitDensity

__all__ = ["Approximations", "Start", "approximations", "start_at"]

STEPS, HALVED = 40, 12  # of Newton's method; times that one of them is halved
NEAR, CLOSE = 1e-2, 1e-12  # squared length of the last step in sds, for a proposal and for a density
ASIDE = 0.05  # of an entry of φ, by which the slope of the mode is told


@dataclass(frozen=True, eq=False)
class Approximations:
    """For each φ: mode, precision and log density by Laplace's method; no precision where there is no mode."""

    mode: np.ndarray  # (N, D)
    precision: list[Precision | None]
    log_density: np.ndarray  # (N,), −∞ where there is no mode


@dataclass(frozen=True, eq=False)
class Start:
    """Where the search begins: the mode at one φ, and how it moves with φ."""

    phi: np.ndarray
    mode: np.ndarray
    slope: np.ndarray  # (d, D)

    def at(self, phi: np.ndarray) -> np.ndarray:
        """(N, D)."""
        moved: np.ndarray = self.mode + np.clip(phi - self.phi, -1.0, 1.0) @ self.slope
        return moved


def start_at(density: SplitDensity, phi: np.ndarray, near: Start) -> Start:
    """The mode at one φ, found from a start near it."""
    steps = np.concatenate([np.zeros((1, len(phi))), ASIDE * np.eye(len(phi))])
    found = approximations(density, phi + steps, near, close=True)
    slope = (found.mode[1:] - found.mode[0]) / ASIDE
    usable = np.isfinite(found.log_density[1:])[:, None] & np.all(np.isfinite(slope), axis=1, keepdims=True)
    return Start(phi, found.mode[0], np.where(usable, slope, 0.0))


def approximations(density: SplitDensity, phi: np.ndarray, start: Start, *, close: bool = False) -> Approximations:
    """At φ of shape (N, d). Each depends on its own φ only, not on the others that it is computed with."""
    number, near = len(phi), CLOSE if close else NEAR
    either = np.stack([start.at(phi), np.broadcast_to(start.mode, (number, density.size))], axis=1)
    heights = np.nan_to_num(density.values(phi, either), nan=-np.inf)
    higher = np.argmax(heights, axis=1)
    mode, height = either[np.arange(number), higher], heights[np.arange(number), higher]
    precision: list[Precision | None] = [None] * number
    left = np.flatnonzero(np.isfinite(height))
    for _ in range(STEPS):
        if not len(left):
            break
        points = density.joined(phi[left], mode[left])
        slopes = density.value_and_gradient(points)[1]
        factors = density.precisions(points)
        steps = solve_each(factors, slopes)
        lengths = np.sum(steps * slopes, axis=1)
        steps = np.where(np.isnan(lengths)[:, None], 0.0, steps)
        for k, factor in enumerate(factors):
            precision[left[k]] = factor
        moved, reached = _stepped(density, phi[left], mode[left], height[left], steps, lengths)
        mode[left], height[left] = moved, np.where(np.isnan(lengths), -np.inf, reached)
        left = left[lengths > near]  # not where there is no number
    height[left] = -np.inf  # no end in sight
    volume = 0.5 * (density.size * math.log(2 * math.pi) - log_determinants(precision))
    return Approximations(mode, precision, np.where(np.isnan(volume), -np.inf, height + volume))


def _stepped(
    density: SplitDensity, phi: np.ndarray, x: np.ndarray, height: np.ndarray, step: np.ndarray, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """x and f after Newton's steps, halved where f would fall by more than rounding."""
    share, waiting = np.ones(len(x)), ~np.isnan(length)
    reached = height.copy()
    for _ in range(HALVED):
        some = np.flatnonzero(waiting)
        if not len(some):
            break
        there = x[some] + share[some, None] * step[some]
        now = np.nan_to_num(density.values(phi[some], there[:, None])[:, 0], nan=-np.inf)
        taken = now >= height[some] - 1e-9 * (1 + np.abs(height[some]))
        reached[some] = np.where(taken, now, reached[some])
        share[some] = np.where(taken, share[some], share[some] / 2)
        waiting[some] = ~taken
    return x + np.where(waiting, 0.0, share)[:, None] * step, reached
