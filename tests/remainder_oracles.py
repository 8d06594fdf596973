"""Evidence and posterior moments of φ by Gauss–Legendre panels over the textbook marginal likelihood.

Independent of bayeskit: SciPy densities on one side, NumPy's Gauss–Legendre nodes on the other. Positive variables are
integrated on the log scale, those of an interval on the logit scale, real ones on the arcsinh scale; the box holds all
points within 45 nats of the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from remainder_cases import REMAINDERS, Remainder
from scipy import special

__all__ = ["Integrated", "integrated"]

DROP = 45.0  # nats
PANELS = {1: 24, 2: 9, 3: 4}
NODES = {1: 24, 2: 18, 3: 13}


@dataclass(frozen=True)
class Integrated:
    """log p(y), and mean and sd of every scalar of φ."""

    log_evidence: float
    mean: np.ndarray
    sd: np.ndarray


def backward(prior: Any, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """φ(t) and log dφ/dt."""
    low, high = prior.support()
    if np.isinf(low):
        return np.sinh(t), np.log(np.cosh(t))
    if np.isinf(high):
        return low + np.exp(t), t
    p = special.expit(t)
    return low + (high - low) * p, np.log(high - low) + special.log_expit(t) + special.log_expit(-t)


def log_integrand(case: Remainder, points: np.ndarray) -> np.ndarray:
    """log p(y, φ(t)) dφ/dt at points of shape (n, k)."""
    assert case.log_marginal is not None
    phi, jacobian = zip(*(backward(p, points[:, j]) for j, p in enumerate(case.priors)), strict=True)
    total = sum(jacobian)
    with np.errstate(all="ignore"):
        total = total + sum(p.logpdf(f) for p, f in zip(case.priors, phi, strict=True))
        marginal = [
            case.log_marginal(*row) if np.isfinite(t) else -np.inf
            for row, t in zip(zip(*phi, strict=True), total, strict=True)
        ]
    return np.nan_to_num(total + np.array(marginal), nan=-np.inf)


@cache
def integrated(name: str) -> Integrated:
    """The answer for one case, computed once."""
    case = next(c for c in REMAINDERS if c.name == name)
    k = len(case.priors)
    edges = [(-42.0, 12.0) if np.isfinite(p.support()[0]) else (-12.0, 12.0) for p in case.priors]
    for count in (55, 31) if k < 3 else (19, 15):  # narrow the box twice, from a coarse look
        axes = [np.linspace(a, b, count) for a, b in edges]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, k)
        values = log_integrand(case, grid)
        inside = grid[values > values.max() - DROP]
        steps = [(b - a) / (count - 1) for a, b in edges]
        edges = [(inside[:, j].min() - 1.5 * steps[j], inside[:, j].max() + 1.5 * steps[j]) for j in range(k)]
    nodes, weights = zip(*(_panels(a, b, PANELS[k], NODES[k]) for a, b in edges), strict=True)
    grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, k)
    weight = np.prod(np.stack(np.meshgrid(*weights, indexing="ij"), axis=-1).reshape(-1, k), axis=1)
    values = log_integrand(case, grid)
    top = values.max()
    mass = weight * np.exp(values - top)
    phi = np.stack([backward(p, grid[:, j])[0] for j, p in enumerate(case.priors)], axis=1)
    share = mass / mass.sum()
    mean = share @ phi
    return Integrated(float(top + np.log(mass.sum())), mean, np.sqrt(share @ (phi - mean) ** 2))


def _panels(low: float, high: float, panels: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(nodes)
    cuts = np.linspace(low, high, panels + 1)
    half = 0.5 * np.diff(cuts)
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
