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
from bayeskit.comparison.subsets.scale_integral import Node, ScaleIntegral
from bayeskit.types import Point

__all__ = ["Averaged", "NodeShare", "averaged_moments", "shares_of_nodes"]


@dataclass(frozen=True, eq=False)
class Averaged:
    """Mean and second moments of θ − θ₀, ν first; and for each value of the scales its share of E[1/r | y]."""

    mean: np.ndarray
    covariance: np.ndarray
    variances: tuple[tuple[Point, float], ...]


@dataclass(frozen=True, eq=False)
class NodeShare:
    """Of submodels at one node: their posterior mass, E[1/r], and the first two moments of w, all times that mass."""

    weight: float
    spread: float
    mean: np.ndarray
    square: np.ndarray

    def __add__(self, other: NodeShare) -> NodeShare:
        both = self.weight + other.weight, self.spread + other.spread
        return NodeShare(*both, self.mean + other.mean, self.square + other.square)


def shares_of_nodes(integral: ScaleIntegral, population: Population, log_weights: np.ndarray) -> list[NodeShare]:
    """By each node a sweep of its own."""
    at, shares, finite = integral.each(population), [], True
    for k, node in enumerate(integral.nodes):
        weight, spread, total = _weights(node, *at(k)[:2], log_weights)
        finite &= math.isfinite(total)
        spread = spread if finite else np.zeros_like(weight)
        of_matrix, of_vector = population.moments(node.given.quadratic, -weight, spread)
        shares.append(NodeShare(float(weight.sum()), total, -0.5 * of_vector, of_matrix))
    return shares


def _weights(
    node: Node, logs: np.ndarray, gain: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Posterior probabilities at a node, these times E[1/r], and the sum of these."""
    weight = np.exp(node.given.log_evidence(logs, gain) + node.log_weight + log_weights)
    with np.errstate(invalid="ignore"):  # of a weight of zero, and a variance that is infinite
        spread = np.nan_to_num(weight * node.given.mean_variance(gain), nan=0.0, posinf=np.inf)
    return weight, spread, float(spread.sum())


def _by_one_sweep(
    integral: ScaleIntegral,
    ratios: list[tuple[float, float, float]],
    population: Population,
    log_weights: np.ndarray,
) -> tuple[list[float], NodeShare]:
    """E[1/r] at each node, and all of the moments at the first, of which the others are multiples."""
    at, totals = integral.each(population), []
    gains: dict[str, Any] = {"square": 0.0, "linear": 0.0, "log": 0.0}
    for k, node in enumerate(integral.nodes):
        weight, spread, total = _weights(node, *at(k)[:2], log_weights)
        totals.append(total)
        spread = spread if all(map(math.isfinite, totals)) else np.zeros_like(weight)
        precision, linear, _ = ratios[k]
        gains["square"] = gains["square"] - weight * (linear / precision) ** 2
        gains["linear"] = gains["linear"] + weight * (0.5 * linear / precision)
        gains["log"] = gains["log"] + spread / precision
    first = integral.nodes[0].given.quadratic
    _, mean = population.moments(first, gains["linear"], np.zeros(len(population.sizes)))
    square, _ = population.moments(first, gains["square"], gains["log"])
    return totals, NodeShare(1.0, _of_nuisance(list(zip(integral.nodes, totals, strict=True))), mean, square)


def averaged_moments(
    found: Integrated, population: Population, log_weights: np.ndarray, shares: list[NodeShare] | None = None
) -> Averaged:
    """``log_weights`` are log p(S) − log p(y) of the population's submodels, p(y) being their average.

    Where each node takes a sweep of its own, ``shares`` may be those of :func:`shares_of_nodes`, known already.
    """
    integral, size = found.integral, population.size
    ratios = integral.ratios
    if ratios is None:
        shares = shares_of_nodes(integral, population, log_weights) if shares is None else shares
        parts, totals = list(zip(integral.nodes, shares, strict=True)), [share.spread for share in shares]
    else:
        totals, share = _by_one_sweep(integral, ratios, population, log_weights)
        parts = [(integral.nodes[0], share)]
    whole = found.linear.theta.size
    mean, square = np.zeros(whole), np.zeros((whole, whole))
    for node, of in parts:
        one, two = _with_nuisance(node, of.weight, of.spread, of.mean, of.square, size)
        mean, square = mean + one, square + two
    finite = all(map(math.isfinite, totals))
    covariance = square - np.outer(mean, mean) if finite else np.full((whole, whole), np.inf)
    unit: Point = {} if found.common is None else {found.common.name: found.common.value(1.0)}
    variances = tuple((node.point | unit, total) for node, total in zip(integral.nodes, totals, strict=True))
    return Averaged(mean, covariance, variances)


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
