r"""A proposal that is adapted to a density: rounds of points, all weighted together, to which a mixture is fitted.

All rounds so far count as one sample from the mixture of their proposals (Cornuet, Marin, Mira and Robert 2012). Of the
mixtures fitted to it that of least

.. math:: \chi^2(q) + 1 = \frac{1}{Z} \int \frac{f}{q} \, \frac{f}{Z} \approx \sum_i W_i \frac{f(x_i)}{q(x_i) Z}

makes the next points; its inverse is the share of independent draws that a point from q is worth.

Source: Cornuet, Marin, Mira and Robert (2012), Scandinavian Journal of Statistics 39, 798-812.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy import special

from bayeskit.errors import BayeskitError
from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighted_mixture import (
    SobolPoints,
    guarded,
    lighter,
    mixtures_of,
)
from bayeskit.types import Array, ArrayFunction

__all__ = ["PROPOSALS", "HeavyTails", "NoProposal", "adapted"]

ROUNDS, FEWEST, EACH, MOST = 6, 9, 30, 12  # rounds; points of one, for each dimension; powers of two
PROPOSALS = 3  # that are made, each to better the tails of the one before
FURTHER, MORE = 4, 1  # rounds for the tails, and the powers of two by which they have more points
GOOD, BETTER = 0.8, 1.1  # efficiency at which there is no more to win; factor by which a round has to
HOPELESS = 0.01  # efficiency with which no better one is looked for
ALIKE = 0.85  # of the best efficiency, at which a proposal of fewer components is as good: sums converge faster


class NoProposal(BayeskitError):
    """No proposal was found, or not one that could be trusted; the message says why."""


class HeavyTails(NoProposal):
    """The density has more mass far out than a proposal covers; a sampler may not reach it either."""

    heavy_tails: bool = True


@dataclass(frozen=True, eq=False)
class _Sample:
    """Points of all rounds, the log density at them, and log q of each proposal that they are from."""

    points: Array
    values: Array
    proposals: tuple[MixtureProposal, ...]
    logs: Array  # (proposals, n)

    def with_more(self, points: Array, values: Array, proposal: MixtureProposal) -> _Sample:
        """With the points of a round."""
        together = np.concatenate([self.points, points])
        old = [q.log_density(points) for q in self.proposals]
        logs = np.concatenate([self.logs, np.reshape(old, (-1, len(points)))], axis=1)
        logs = np.concatenate([logs, proposal.log_density(together)[None]])
        return _Sample(together, np.append(self.values, values), (*self.proposals, proposal), logs)

    @property
    def log_weights(self) -> Array:
        """As points of the mixture of all proposals, normalised."""
        logs = self.values - special.logsumexp(self.logs, axis=0)
        if np.any(logs == np.inf) or not np.any(np.isfinite(logs)):
            raise NoProposal("the density is infinite, or zero wherever it was looked at")
        return np.asarray(logs - special.logsumexp(logs))

    def moments(self, candidates: Sequence[MixtureProposal], power: int) -> Array:
        """log of the mean under the posterior of (f/q)^power for each candidate, to a common constant."""
        known = {id(q): log for q, log in zip(self.proposals, self.logs, strict=True)}
        logs = [known[id(q)] if id(q) in known else q.log_density(self.points) for q in candidates]
        return np.array([special.logsumexp(self.log_weights + power * (self.values - log)) for log in logs])


def adapted(log_density: ArrayFunction, first: MixtureProposal, size: int, rng: Generator) -> Iterator[MixtureProposal]:
    """Proposals that a few rounds find for a density over ``size`` numbers: the simplest good one, with more tails ...

    The last has been adapted further, to where the weights are largest.
    """
    power = min(max(FEWEST, math.ceil(math.log2(EACH * size))), MOST)
    sample = _Sample(np.empty((0, size)), np.empty(0), (), np.empty((0, 0)))
    proposal, reached = guarded(first), list[float]()

    def candidates() -> list[MixtureProposal]:
        return [first, *mixtures_of(sample.points, np.exp(sample.log_weights), rng)]

    for _ in range(ROUNDS):
        points = SobolPoints(proposal, rng).next(power)
        values = log_density(points)
        sample = sample.with_more(points, values, proposal)
        own = values - sample.logs[-1, -len(points) :]
        reached.append(float(np.exp(2 * special.logsumexp(own) - special.logsumexp(2 * own))) / len(own))
        simple = candidates()
        tried = [lighter(first), *simple, *map(guarded, simple), *sample.proposals]
        spread = sample.moments(tried, 1)
        proposal = tried[int(np.argmax(spread < np.nanmin(spread) - math.log(ALIKE)))]
        if reached[-1] > GOOD or (len(reached) > 2 and reached[-1] < BETTER * min(reached[-3:-1])):
            break
    if reached[-1] < HOPELESS:
        raise HeavyTails(f"only {reached[-1]:.1%} of the points of a fitted proposal carry the importance weight")
    yield proposal
    yield guarded(proposal)
    for _ in range(FURTHER):
        tried = [*map(guarded, candidates()), *sample.proposals]
        proposal = tried[int(np.nanargmin(sample.moments(tried, 2)))]
        points = SobolPoints(proposal, rng).next(power + MORE)
        sample = sample.with_more(points, log_density(points), proposal)
    tried = [*map(guarded, candidates()), *sample.proposals]
    yield tried[int(np.nanargmin(sample.moments(tried, 2)))]
