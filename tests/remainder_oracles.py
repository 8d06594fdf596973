"""Evidence and posterior moments of φ by Gauss–Legendre panels over the textbook marginal likelihood.

Independent of bayeskit: SciPy densities on one side, NumPy's Gauss–Legendre nodes on the other. Positive variables are
integrated on the log scale, those of an interval on the logit scale, real ones on the arcsinh scale; the box holds all
points within some 30 nats of the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from remainder_cases import REMAINDERS, Remainder
from scipy import special

__all__ = ["Integrated", "integrated"]

DROP = {1: 32.0, 2: 32.0, 3: 25.0}  # nats
PANELS = {1: 24, 2: 10, 3: 1}
NODES = {1: 24, 2: 16, 3: 32}


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
        if case.batched:
            parts = 1 + len(points) // 20_000  # as much as memory is there for
            marginal = [case.log_marginal(*part) for part in zip(*[np.array_split(f, parts) for f in phi], strict=True)]
            return np.nan_to_num(total + np.concatenate(marginal), nan=-np.inf)
        marginal = [
            _or_nothing(case, row) if np.isfinite(t) else -np.inf
            for row, t in zip(zip(*phi, strict=True), total, strict=True)
        ]
    return np.nan_to_num(total + np.array(marginal), nan=-np.inf)


def _or_nothing(case: Remainder, phi: tuple[float, ...]) -> float:
    """Far out a covariance is singular to working precision, and the density nothing."""
    assert case.log_marginal is not None
    try:
        return case.log_marginal(*phi)
    except (np.linalg.LinAlgError, ValueError):
        return -np.inf


@cache
def integrated(name: str) -> Integrated:
    """The answer for one case, computed once."""
    case = next(c for c in REMAINDERS if c.name == name)
    k = len(case.priors)
    edges = [(-32.0, 12.0 if np.isinf(p.support()[1]) else 32.0) for p in case.priors]
    edges = [(-12.0, 12.0) if np.isinf(p.support()[0]) else e for p, e in zip(case.priors, edges, strict=True)]
    for count in (81, 31) if k < 3 else (23, 15):  # narrow the box twice, from a coarse look
        axes = [np.linspace(a, b, count) for a, b in edges]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, k)
        values = log_integrand(case, grid)
        inside = grid[values > values.max() - DROP[k]]
        steps = [(b - a) / (count - 1) for a, b in edges]
        edges = [(inside[:, j].min() - 1.5 * steps[j], inside[:, j].max() + 1.5 * steps[j]) for j in range(k)]
    peak = grid[np.argmax(values)]
    panels = PANELS[k] + (1 if case.batched else 0)
    nodes, weights = zip(*(_panels(*e, c, panels, NODES[k]) for e, c in zip(edges, peak, strict=True)), strict=True)
    grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, k)
    weight = np.prod(np.stack(np.meshgrid(*weights, indexing="ij"), axis=-1).reshape(-1, k), axis=1)
    values = log_integrand(case, grid)
    top = values.max()
    mass = weight * np.exp(values - top)
    phi = np.stack([backward(p, grid[:, j])[0] for j, p in enumerate(case.priors)], axis=1)
    share = mass / mass.sum()
    mean = share @ phi
    return Integrated(float(top + np.log(mass.sum())), mean, np.sqrt(share @ (phi - mean) ** 2))


def _panels(low: float, high: float, peak: float, panels: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre panels that get wider away from the peak: t = peak + sinh(s) / 2."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    cuts = np.linspace(np.arcsinh(2 * (low - peak)), np.arcsinh(2 * (high - peak)), panels + 1)
    half = 0.5 * np.diff(cuts)[:, None]
    s = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * x
    return (peak + 0.5 * np.sinh(s)).ravel(), (half * w * 0.5 * np.cosh(s)).ravel()
