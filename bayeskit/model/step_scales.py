r"""How far a density can be followed along each axis of the unconstrained scale before it has changed.

Along axis j the second difference :math:`q_j(h) = |f(x + h e_j) + f(x - h e_j) - 2 f(x)| / 2` is taken over steps h of
many magnitudes. Of a Normal it is one half at h = 1 sd. The scale is where it is, told from the longest step over which
it is no more: coefficients of predictors of scale 10⁴ and 10⁻⁴ have sds of 10⁻⁵ and 10³, and a step of one along the
first leaves what numbers can hold.
"""

from __future__ import annotations

import numpy as np

from bayeskit.types import Array, ArrayFunction

__all__ = ["step_scales"]

STEPS = np.geomspace(1e-12, 1e8, 21)
HALF = 0.5  # second difference at one sd
ALIKE = 1e-3, 1e3  # scales between which numbers are of like size: nothing is gained by others than one


def step_scales(log_density: ArrayFunction, point: Array) -> Array:
    """For each entry of a point at which the density is known, 1 or, where these are far apart, its scale."""
    size = len(point)
    shifts = (STEPS[:, None, None] * np.eye(size)).reshape(-1, size)
    values = log_density(np.concatenate([point[None], point + shifts, point - shifts]))
    with np.errstate(all="ignore"):
        there, back = values[1:].reshape(2, len(STEPS), size)
        second = np.abs(there + back - 2 * values[0]) / 2
        beyond = ~(second <= HALF)
        longest = np.where(beyond.any(axis=0), np.argmax(beyond, axis=0), len(STEPS)) - 1
        known = longest >= 0
        at = np.maximum(longest, 0)
        ratio = STEPS[1] / STEPS[0]
        scales = STEPS[at] * np.clip(np.sqrt(HALF / second[at, np.arange(size)]), 1.0, ratio)
    scales = np.where(known, scales, 1.0)
    return scales if np.any((scales < ALIKE[0]) | (scales > ALIKE[1])) else np.ones(size)
