r"""Narrow bumps on a density of one variable, too low to be modes that a grid of points would resolve.

A component of sd 1e-3 and weight 1e-6 beside one of sd 100 adds a tenth to the density, over a thousandth of the width
of a posterior: 1e-4 of its mass, which no lattice made for the rest sees, nor its spectrum. But the points at which
modes are sought hold one in it: a constant of the model, or a draw from the prior. There

.. math:: D(h) = f(x) - \tfrac12 \bigl(f(x - h) + f(x + h)\bigr)

falls as h² where the density is smooth, and stays what it is where h is wider than a bump.
"""

from __future__ import annotations

import numpy as np

from bayeskit.quadrature.counted_density import CountedDensity, safe

__all__ = ["low_bumps"]

POINTS = (40, 150)  # that are looked at, by the budget
SHARE = 100  # of the budget, what looking takes
NEAR_TOP = 14.0  # nats below the top, down to which it is worth it
DISTANCES = 10.0 ** np.arange(-0.5, -7, -0.5)  # h, in widths of the density
# Nats of a bump; share of D at the next farther, or that after it, that D(h) is: a tenth or a hundredth where it is
# smooth. The former alone vanishes near a point of inflection.
LOWEST, STAYS = 1e-6, 0.35
FINER = 10.0 ** np.linspace(0.0, -7.0, 57)  # h at which the width of a bump is read
HALF, APART = 1.18, 3.0  # sds at which a Normal is half as high; between points that are of two bumps


def low_bumps(f: CountedDensity, x: np.ndarray, top: float, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places among x at which there are bumps, the log density there, and their sds."""
    x = np.unique(x)
    value = safe(f(x[:, None]))
    x, value = x[value > top - NEAR_TOP], value[value > top - NEAR_TOP]
    most = int(np.clip(f.budget // (SHARE * 2 * len(DISTANCES)), *POINTS))
    some = np.unique(np.linspace(0, max(len(x) - 1, 0), min(most, len(x))).astype(int))
    x, value = x[some], value[some]
    excess = _excess(f, x, value, width * DISTANCES)
    lowest = np.maximum(LOWEST, 1e-11 * np.abs(value))[:, None]
    farther = np.maximum(np.abs(excess[:, 1:-1]), np.abs(excess[:, :-2]))
    stays = (excess[:, 2:] > lowest) & (excess[:, 2:] > STAYS * farther)
    found = np.flatnonzero(stays.any(axis=1))
    excess = _excess(f, x[found], value[found], width * FINER)
    least = DISTANCES[2 + np.argmax(stays[found], axis=1)]
    sds = np.empty(len(found))
    for i, (each, plateau) in enumerate(zip(excess, least, strict=True)):
        height = each[np.argmin(np.abs(FINER - plateau))]
        within = (plateau >= FINER) & (each < height / 2)
        sds[i] = width * (FINER[np.argmax(within)] if within.any() else FINER[-1]) / HALF
    keep = list[int]()
    for k in map(int, np.argsort(sds)):
        if all(abs(x[found[k]] - x[found[j]]) > APART * (sds[k] + sds[j]) for j in keep):
            keep.append(k)
    at = found[keep]
    return x[at], value[at], sds[keep]


def _excess(f: CountedDensity, x: np.ndarray, value: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """D(h) at every x and every distance, of shape (x, h)."""
    beside = x[:, None, None] + np.array([-1.0, 1.0])[:, None] * distances
    return value[:, None] - safe(f(beside.reshape(-1, 1))).reshape(beside.shape).mean(axis=1)
