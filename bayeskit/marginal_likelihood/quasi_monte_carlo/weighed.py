"""Points of independent scramblings with their importance weights, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayeskit.marginal_likelihood.quasi_monte_carlo.weighted_mixture import SobolPoints
from bayeskit.types import Array, ArrayFunction

__all__ = ["Weighed", "weighed"]

EACH_DRAW, ROOM = 4.0, 4.0  # effective points for a draw that is resampled; standard errors of how many are kept


@dataclass(frozen=True, eq=False)
class Weighed:
    """Points of some scramblings in z, (R, n, D), and their log weights, (R, n)."""

    points: Array
    log_weights: Array

    def with_more(self, other: Weighed) -> Weighed:
        """With the next points of each scrambling."""
        points = np.concatenate([self.points, other.points], axis=1)
        return Weighed(points, np.concatenate([self.log_weights, other.log_weights], axis=1))

    @property
    def mean(self) -> float:
        """log of the mean weight."""
        return float(special.logsumexp(self.log_weights)) - math.log(self.log_weights.size)

    @property
    def relative(self) -> Array:
        """The integral of each scrambling over that of all."""
        return np.asarray(np.exp(special.logsumexp(self.log_weights, axis=1) - self.mean) / self.log_weights.shape[1])

    @property
    def error(self) -> float:
        return float(self.relative.std(ddof=1)) / math.sqrt(len(self.relative))

    @property
    def effective(self) -> float:
        return float(np.exp(2 * special.logsumexp(self.log_weights) - special.logsumexp(2 * self.log_weights)))

    def enough_for(self, draws: int) -> bool:
        """Whether so many draws can be made of the points."""
        kept = float(np.exp(special.logsumexp(self.log_weights) - self.log_weights.max()))
        return kept > draws + ROOM * math.sqrt(draws) or self.effective > EACH_DRAW * draws

    def moments(self) -> tuple[Array, Array]:
        """Means of z and of z², each (2 D,), and their standard errors by the jackknife over scramblings."""
        weights = np.exp(self.log_weights - self.mean)[..., None]
        both = np.concatenate([self.points, self.points**2], axis=2)
        sums, mass = np.sum(weights * both, axis=1), np.sum(weights, axis=1)
        without = (sums.sum(axis=0) - sums) / (mass.sum(axis=0) - mass)
        number = len(sums)
        return sums.sum(axis=0) / mass.sum(axis=0), without.std(axis=0) * math.sqrt(number - 1)


def weighed(density: ArrayFunction, scramblings: Sequence[SobolPoints], power: int) -> Weighed:
    """The next points of each scrambling."""
    points = np.stack([scrambling.next(power) for scrambling in scramblings])
    flat = points.reshape(-1, points.shape[-1])
    return Weighed(points, (density(flat) - scramblings[0].mixture.log_density(flat)).reshape(points.shape[:2]))
