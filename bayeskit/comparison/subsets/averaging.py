r"""Mean and covariance of all coefficients of a linear model, averaged over submodels and scales.

.. math::
    E[w w^\top | y] = \sum_S \int p(S, t | y) \left( m_S m_S^\top + E[1/r | y, S, t] \, \Lambda_{SS}^{-1} \right) dt,

a coefficient being zero where it is not in S. Sums over S are derivatives of the sweep over all of them; the mean and
the covariance of ν follow from those of w, for ν given w is normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskit.comparison.subsets.integrate_scales import Integrated
from bayeskit.comparison.subsets.populations import Population
from bayeskit.comparison.subsets.scale_integral import Node
from bayeskit.types import Point

__all__ = ["Averaged", "averaged_moments"]


@dataclass(frozen=True, eq=False)
class Averaged:
    """Mean and second moments of θ − θ₀, ν first; and for each value of the scales its share of E[1/r | y]."""

    mean: np.ndarray
    covariance: np.ndarray
    variances: tuple[tuple[Point, float], ...]


def averaged_moments(found: Integrated, population: Population, log_weights: np.ndarray) -> Averaged:
    """``log_weights`` are log p(S) − log p(y) of the population's submodels, p(y) being their average."""
    integral, size = found.integral, population.size
    ratios, at = integral.ratios, integral.each(population)
    parts, variances = [], []
    unit: Point = {} if found.common is None else {found.common.name: found.common.value(1.0)}
    finite = True
    gains: dict[str, Any] = {"square": 0.0, "linear": 0.0, "log": 0.0}
    for k, node in enumerate(integral.nodes):
        logs, gain, _ = at(k)
        weight = np.exp(node.given.log_evidence(logs, gain) + node.log_weight + log_weights)
        with np.errstate(invalid="ignore"):  # of a weight of zero, and a variance that is infinite
            spread = np.nan_to_num(weight * node.given.mean_variance(gain), nan=0.0, posinf=np.inf)
        total = float(spread.sum())
        finite &= math.isfinite(total)
        spread = spread if finite else np.zeros_like(weight)
        variances.append((node.point | unit, total))
        if ratios is None:
            of_matrix, of_vector = population.moments(node.given.quadratic, -weight, spread)
            parts.append((node, float(weight.sum()), total, -0.5 * of_vector, of_matrix))
            continue
        precision, linear, _ = ratios[k]
        gains["square"] = gains["square"] - weight * (linear / precision) ** 2
        gains["linear"] = gains["linear"] + weight * (0.5 * linear / precision)
        gains["log"] = gains["log"] + spread / precision
    if ratios is not None:
        first = integral.nodes[0]
        _, mean = population.moments(first.given.quadratic, gains["linear"], np.zeros(len(population.sizes)))
        square, _ = population.moments(first.given.quadratic, gains["square"], gains["log"])
        total = _of_nuisance([(n, v) for n, (_, v) in zip(integral.nodes, variances, strict=True)])
        parts = [(first, 1.0, total, mean, square)]
    whole = found.linear.theta.size
    mean, square = np.zeros(whole), np.zeros((whole, whole))
    for part in parts:
        one, two = _with_nuisance(*part, size)
        mean, square = mean + one, square + two
    covariance = square - np.outer(mean, mean) if finite else np.full((whole, whole), np.inf)
    return Averaged(mean, covariance, tuple(variances))


def _of_nuisance(shares: list[tuple[Node, float]]) -> float:
    """Σ E[1/r | t] of the covariance of ν given w, in units of the one at the first node."""
    first = shares[0][0].given.quadratic.nuisance.covariance
    if not first.size:
        return 0.0
    scale = np.trace(first)
    return math.fsum(v * float(np.trace(n.given.quadratic.nuisance.covariance) / scale) for n, v in shares)


def _with_nuisance(
    node: Node, weight: float, spread: float, mean: np.ndarray, square: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """First and second moments of (ν, w) from those of w, with ν = a − B w + noise, all times a weight."""
    given = node.given.quadratic.nuisance
    a, b = given.at, given.slope
    cross = np.outer(a, mean) - b @ square
    inner = weight * np.outer(a, a) - np.outer(a, mean) @ b.T - b @ np.outer(mean, a) + b @ square @ b.T
    inner += spread * given.covariance
    first = np.concatenate([weight * a - b @ mean, mean])
    return first, np.block([[inner, cross], [cross.T, square]])
