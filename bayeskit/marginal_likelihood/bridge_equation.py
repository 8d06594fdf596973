r"""The bridge identity as an equation in log Z, and the errors of its solution.

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
from scipy import optimize, special

from bayeskit.marginal_likelihood.proposal import Array, Refused

__all__ = ["BridgeSide", "BridgeSolution", "effective_number", "error_of_mean"]


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
