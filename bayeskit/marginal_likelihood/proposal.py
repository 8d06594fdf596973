r"""The proposal of bridge sampling, and the bridge identity as an equation in log Z with the errors of its solution.

The proposal is a multivariate Normal or Student t fitted to draws. The identity is

.. math::

    \mathrm{E}_q \frac{f/Z}{s_1 f/Z + s_2 q} = \mathrm{E}_p \frac{q}{s_1 f/Z + s_2 q}

Both sides are monotone in log Z, so that it is solved by bisection. See :mod:`bayeskit.marginal_likelihood.bridge`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy import linalg, optimize, special

from bayeskit.types import Array

__all__ = [
    "Array",
    "BridgeSide",
    "BridgeSolution",
    "Refused",
    "effective_number",
    "error_of_mean",
    "fitted",
    "log_spherical",
    "require_more_draws_than",
    "root_of",
    "scatter_of",
]

DEGREES = (math.inf, 30.0, 10.0, 5.0, 3.0, 2.0)  # of freedom of the proposal


class Refused(Exception):
    """There is no estimate that could be trusted; the message says why."""


def require_more_draws_than(sample: Array) -> None:
    size = sample.shape[1]
    if len(sample) < 2 * size + 10:
        raise Refused(f"there are too few draws for {size} dimensions; ask for more draws")


def root_of(scatter: Array) -> Array:
    try:
        return np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        raise Refused("the draws lie on a subspace: their covariance is singular") from None


def fitted(sample: Array) -> tuple[Array, Array, float]:
    """Centre, Cholesky factor and degrees of freedom of the most likely proposal."""
    best: tuple[float, Array, Array, float] | None = None
    for degrees in DEGREES:
        centre, scatter = scatter_of(sample, degrees)
        root = root_of(scatter)
        z = linalg.solve_triangular(root, (sample - centre).T, lower=True).T
        fit = float((log_spherical(z, degrees) - np.log(np.diag(root)).sum()).mean())
        if best is not None and fit < best[0]:
            break
        best = (fit, centre, root, degrees)
    assert best is not None
    return best[1:]


def scatter_of(sample: Array, degrees: float) -> tuple[Array, Array]:
    """Location and scatter of a multivariate t, by its EM steps; of a Normal, the moments."""
    size = sample.shape[1]
    centre, scatter = sample.mean(axis=0), np.atleast_2d(np.cov(sample, rowvar=False))
    if not math.isfinite(degrees):
        return centre, scatter
    for _ in range(10):
        distance = np.einsum("ij,ij->i", sample - centre, np.linalg.solve(scatter, (sample - centre).T).T)
        weight = (degrees + size) / (degrees + distance)
        centre = weight @ sample / weight.sum()
        scatter = (sample - centre).T @ (weight[:, None] * (sample - centre)) / len(sample)
    return centre, scatter


def log_spherical(z: Array, degrees: float) -> Array:
    """Log density of a standard spherical Normal or Student t."""
    size, square = z.shape[-1], np.sum(z**2, axis=-1)
    if not math.isfinite(degrees):
        return np.asarray(-0.5 * square - 0.5 * size * math.log(2 * math.pi))
    constant = special.gammaln((degrees + size) / 2) - special.gammaln(degrees / 2)
    constant -= 0.5 * size * math.log(degrees * math.pi)
    return np.asarray(constant - 0.5 * (degrees + size) * np.log1p(square / degrees))


@dataclass(frozen=True)
class BridgeSide:
    """One half of the draws against the proposal fitted to the other half.

    Attributes
    ----------
    draws : array (chains, length)
        log f̃ − log q at the draws, f̃ the symmetrised density.
    proposals : array (n,)
        The same at draws from q.
    lost_draws, lost_proposals : array of bool
        Where the density could not be evaluated, at the point or at its mirror image, and was taken as zero.
    """

    draws: Array
    proposals: Array
    lost_draws: NDArray[np.bool_]
    lost_proposals: NDArray[np.bool_]

    def solve(self, s: float) -> BridgeSolution:
        """Solve the bridge identity with s₁ = s."""
        odds = math.log(s / (1 - s))
        finite = np.concatenate([self.draws.ravel(), self.proposals[np.isfinite(self.proposals)]])
        low, high = float(finite.min()) - 50.0, float(finite.max()) + 50.0

        def weights(log_z: float) -> tuple[Array, Array]:
            drawn = special.expit(log_z - self.draws - odds) / (1 - s)
            proposed = special.expit(self.proposals - log_z + odds) / s
            return drawn, proposed

        def excess(log_z: float) -> float:
            drawn, proposed = weights(log_z)
            return float(proposed.mean() - drawn.mean())

        if not excess(low) > 0 > excess(high):
            raise Refused("the proposal and the posterior do not overlap")
        log_z = float(optimize.brentq(excess, low, high, xtol=1e-12))
        drawn, proposed = weights(log_z)
        overlap = float(proposed.mean())
        # Had the density been known, a draw's weight would be smaller, and that of a proposal at most 1 / s.
        unknown = float((drawn * self.lost_draws).mean() + self.lost_proposals.mean() / s) / overlap
        return BridgeSolution(log_z, drawn / drawn.mean(), proposed / overlap, unknown)


@dataclass(frozen=True)
class BridgeSolution:
    """log Z from one side, with what its error is made of.

    Attributes
    ----------
    log_z : float
    drawn : array (chains, length)
        The weights of the identity at the draws, divided by their mean.
    proposed : array (n,)
        The same at the proposals.
    unknown : float
        Bound of the relative error from points where the density could not be evaluated.
    """

    log_z: float
    drawn: Array
    proposed: Array
    unknown: float = 0.0

    @property
    def error_of_proposals(self) -> float:
        return float(self.proposed.std(ddof=1)) / math.sqrt(self.proposed.size)

    @property
    def error(self) -> float:
        return math.hypot(error_of_mean(self.drawn), self.error_of_proposals)

    @property
    def contributing(self) -> float:
        """The least effective number of draws, or of proposals, that share the weight."""
        return min(w.size / float(np.mean(w**2)) for w in (self.drawn, self.proposed))


def effective_number(series: Array) -> float:
    """Effective number of draws for the mean of one series, at most the number there are."""
    if np.ptp(series) == 0:
        return float(series.size)
    return min(float(array_stats.ess(series, method="mean")), float(series.size))


def error_of_mean(series: Array) -> float:
    """Standard error of the mean of autocorrelated chains: by the effective number, or the spread of the chains."""
    within = float(series.std(ddof=1)) / math.sqrt(effective_number(series))
    if len(series) < 2:
        return within
    return max(within, float(series.mean(axis=1).std(ddof=1)) / math.sqrt(len(series)))
