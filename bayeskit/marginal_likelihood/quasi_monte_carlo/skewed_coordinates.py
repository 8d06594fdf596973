r"""Coordinates in which a density is about a standard Normal on each side of its mode.

With the mode m, scales S and :math:`-\nabla^2 f(m) = S^{-1} V \Lambda V^T S^{-1}`, and for each axis j a scale and a
skewness from how far the log density falls on either side,

.. math:: x = m + S V \Lambda^{-1/2} y, \qquad y_j = s_j \bigl( z_j + a_j (\sqrt{1 + z_j^2} - 1) \bigr),

with :math:`|a_j| < 1`, which has slopes :math:`s_j (1 \pm a_j)` far out, is smooth and one to one, and has an inverse
in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskit.types import Array, ArrayFunction

__all__ = ["SkewedCoordinates", "axes_of", "coordinates_at"]

LOOKED_AT = 2.0  # standard deviations from the mode at which a side's width is taken
NARROWEST, WIDEST, MOST_SKEWED = 0.3, 4.0, 0.8  # a side's width in that of the curvature; |a|
LEAST_CURVED = 1e-10  # of the largest curvature


@dataclass(frozen=True, eq=False)
class SkewedCoordinates:
    """z for points x of a density."""

    mode: Array
    root: Array  # S V Λ^(-1/2)
    inverse: Array
    scale: Array
    skewness: Array

    def forward(self, z: Array) -> tuple[Array, Array]:
        """x of points z (n, D), and the log of the volume there."""
        length = np.sqrt(1 + z**2)
        y = self.scale * (z + self.skewness * (length - 1))
        volume = np.log(self.slopes(z)).sum(axis=1) + float(np.linalg.slogdet(self.root)[1])
        return self.mode + y @ self.root.T, volume

    def backward(self, x: Array) -> Array:
        """z of points x (n, D)."""
        a = self.skewness
        shifted = ((x - self.mode) @ self.inverse.T) / self.scale + a
        return np.asarray((shifted - a * np.sqrt(shifted**2 + 1 - a**2)) / (1 - a**2))

    def slopes(self, z: Array) -> Array:
        """dy/dz along each axis."""
        return np.asarray(self.scale * (1 + self.skewness * z / np.sqrt(1 + z**2)))

    def root_at(self, x: Array, hessian: Array) -> Array:
        """The Cholesky factor in z of the Normal that has this Hessian of -f at x; LinAlgError where it is no mode."""
        jacobian = self.root * self.slopes(self.backward(x[None]))
        return np.linalg.cholesky(np.linalg.inv(jacobian.T @ hessian @ jacobian))


def axes_of(hessian: Array) -> tuple[Array, Array] | None:
    """A square root of the inverse Hessian and its inverse; None where it is not positive definite.

    Of numbers of like size: those of the model may differ by a factor of 10^12.
    """
    diagonal = np.diag(hessian)
    if not np.all(np.isfinite(hessian)) or not np.all(diagonal > 0):
        return None
    sd = 1 / np.sqrt(diagonal)
    curvature, axes = np.linalg.eigh(hessian * np.outer(sd, sd))
    if curvature[0] <= LEAST_CURVED * curvature[-1]:
        return None
    return sd[:, None] * axes / np.sqrt(curvature), (axes * np.sqrt(curvature)).T / sd


def coordinates_at(log_density: ArrayFunction, mode: Array, hessian: Array) -> SkewedCoordinates | None:
    """For a mode and the Hessian of -f there; None where that is not positive definite."""
    if (found := axes_of(hessian)) is None:
        return None
    root, inverse = found
    sides = mode + LOOKED_AT * np.concatenate([root.T, -root.T])
    fall = log_density(mode[None])[0] - log_density(sides).reshape(2, -1)
    with np.errstate(all="ignore"):
        width = LOOKED_AT / np.sqrt(2 * fall)
    upper, lower = np.where(np.isfinite(width), width, NARROWEST).clip(NARROWEST, WIDEST)
    skewness = ((upper - lower) / (upper + lower)).clip(-MOST_SKEWED, MOST_SKEWED)
    return SkewedCoordinates(mode, root, inverse, (upper + lower) / 2, skewness)
