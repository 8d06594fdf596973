"""The proposal of bridge sampling, and the bridge identity as an equation in log Z with the errors of its solution.

The proposal is a multivariate Normal or Student t fitted to draws. The identity is (1) of
:mod:`bayeskit.marginal_likelihood.bridge`, both sides of which are monotone in log Z: it is solved by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy import linalg, optimize, special
from scipy.linalg import lapack

from bayeskit.types import Array

__all__ = [
    "Array",
    "BridgeSide",
    "BridgeSolution",
    "Proposal",
    "Refused",
    "Unvisited",
    "beyond_error",
    "effective_number",
    "error_of_mean",
    "finds_more",
    "fitted",
    "pareto_k",
    "proposal_of",
    "require_more_draws_than",
]

DEGREES = (30.0, 10.0, 5.0, 3.0, 2.0)  # of freedom of the proposal, after the Normal's, which are infinite
NEGLIGIBLE, CLEARLY = 1e-6, 5.0  # nats; standard errors between two estimates of the same number


class Refused(Exception):
    """There is no estimate that could be trusted; the message says why."""


class Unvisited(Refused):
    """The draws lack a mode, which is a fault of theirs and not of the estimate alone."""


def require_more_draws_than(sample: Array) -> None:
    size = sample.shape[1]
    if len(sample) < 2 * size + 10:
        raise Refused(f"there are too few draws for {size} dimensions; ask for more draws")


@dataclass(frozen=True)
class Proposal:
    """A multivariate Student t by its centre and the Cholesky factor of its scatter; a Normal of infinite degrees."""

    centre: Array
    root: Array
    degrees: float = math.inf

    def squares(self, points: Array) -> Array:
        """Squared distances of points (n, D) from the centre, in units of the scatter."""
        # LAPACK itself: what solve_triangular does before it costs more than a thousand points in a few dimensions.
        root, away = np.asarray_chkfinite(self.root), np.asarray_chkfinite(points - self.centre)
        scaled, info = lapack.dtrtrs(root.T, away.T, lower=0, trans=1)
        if info:
            raise Refused("the draws lie on a subspace: their covariance is singular")
        return np.asarray(np.sum(scaled**2, axis=0))

    def log_density(self, points: Array) -> Array:
        """log q at points of shape (n, D)."""
        size, degrees, square = len(self.centre), self.degrees, self.squares(points)
        constant = -float(np.log(np.diag(self.root)).sum())
        if not math.isfinite(degrees):
            return constant - 0.5 * size * math.log(2 * math.pi) - 0.5 * square
        constant += special.gammaln((degrees + size) / 2) - special.gammaln(degrees / 2)
        constant -= 0.5 * size * math.log(degrees * math.pi)
        return np.asarray(constant - 0.5 * (degrees + size) * np.log1p(square / degrees))

    def gradient(self, points: Array) -> Array:
        """Of log q at points of shape (n, D)."""
        off = points - self.centre
        slope = -linalg.cho_solve((self.root, True), off.T).T
        if not math.isfinite(self.degrees):
            return np.asarray(slope)
        square = -np.einsum("ni,ni->n", off, slope)
        return np.asarray(slope * ((self.degrees + len(self.centre)) / (self.degrees + square))[:, None])

    def draw(self, rng: np.random.Generator, number: int) -> Array:
        """Independent draws, of shape (number, D)."""
        z = rng.standard_normal((number, len(self.centre)))
        if math.isfinite(self.degrees):
            z *= np.sqrt(self.degrees / rng.chisquare(self.degrees, size=(number, 1)))
        return self.centre + z @ self.root.T


def proposal_of(sample: Array, degrees: float = math.inf) -> Proposal:
    """The proposal of some degrees of freedom that is most likely for a sample, by EM steps; the Normal's moments."""
    result = Proposal(sample.mean(axis=0), _root(np.atleast_2d(np.cov(sample, rowvar=False))), degrees)
    for _ in range(10 if math.isfinite(degrees) else 0):
        weight = (degrees + sample.shape[1]) / (degrees + result.squares(sample))
        centre = weight @ sample / weight.sum()
        scatter = (sample - centre).T @ (weight[:, None] * (sample - centre)) / len(sample)
        result = Proposal(centre, _root(scatter), degrees)
    return result


def _root(scatter: Array) -> Array:
    try:
        return np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        raise Refused("the draws lie on a subspace: their covariance is singular") from None


def fitted(sample: Array) -> Proposal:
    """The most likely proposal; degrees of freedom are tried until they do not make it more so."""
    best = proposal_of(sample)
    height = float(best.log_density(sample).mean())
    for degrees in DEGREES:
        proposal = proposal_of(sample, degrees)
        fit = float(proposal.log_density(sample).mean())
        if fit < height:
            break
        best, height = proposal, fit
    return best


@dataclass(frozen=True)
class BridgeSide:
    """One half of the draws against the proposal fitted to the other half: log f̃ − log q, f̃ the symmetrised density.

    Where f̃ could not be evaluated, at the point or at its mirror image, it is lost, and taken as zero.
    """

    draws: Array  # (chains, length)
    proposals: Array  # (n,)
    lost_draws: NDArray[np.bool_]
    lost_proposals: NDArray[np.bool_]
    at_fitted: Array | None = None  # the same at the draws that the proposal was fitted to, where that costs nothing
    at: Callable[[Array], Array] | None = None  # the same at any points (n, D), of a mixture

    def solve(self, s: float) -> BridgeSolution:
        """Solve the bridge identity with s₁ = s."""
        odds = math.log(s / (1 - s))
        # A proposal in the neck of a funnel may have a density like exp(-1e168), from where no root is found: the
        # lowest does not matter, for the identity is clearly short of its root below all draws and one proposal.
        largest = float(self.proposals.max())
        low, high = min(float(self.draws.min()), largest) - 50.0, max(float(self.draws.max()), largest) + 50.0
        if not math.isfinite(low):
            raise Refused("the proposal and the posterior do not overlap")

        def weights(log_z: float) -> tuple[Array, Array]:
            drawn = special.expit(log_z - self.draws - odds) / (1 - s)
            return drawn, special.expit(self.proposals - log_z + odds) / s

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
        again = None if self.at_fitted is None else special.expit(log_z - self.at_fitted - odds)
        return BridgeSolution(log_z, drawn / drawn.mean(), proposed / overlap, unknown, again)

    def covered(self, log_z: float, points: Array | None = None) -> Array:
        """How far the proposal stands for the density at draws, or points (n, D): 1 where it is as high, to 0."""
        ratio = self.draws if points is None or self.at is None else self.at(points)
        return np.minimum(1.0, 2 * special.expit(log_z - ratio))


@dataclass(frozen=True)
class BridgeSolution:
    """log Z from one side, with the weights of the identity at draws and at proposals, divided by their means."""

    log_z: float
    drawn: Array  # (chains, length)
    proposed: Array  # (n,)
    unknown: float = 0.0  # bound of the relative error from points where the density could not be evaluated
    at_fitted: Array | None = None  # weights, to a factor, at the draws that the proposal was fitted to

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
    """Standard error of the mean of dependent chains, by the effective number, which holds them against each other.

    The spread of four means of chains is above that by chance half of the time, and the larger of the two too large.
    """
    return float(series.std(ddof=1)) / math.sqrt(effective_number(series))


def pareto_k(log_weights: Array) -> float:
    """Of the tail of importance weights; zero where they are all alike."""
    if not np.ptp(log_weights) > 0:
        return 0.0
    # ArviZ takes log likelihoods, of which the weights are the inverse.
    return float(array_stats.psislw(np.minimum(log_weights.max() - log_weights, 700.0))[1])


def beyond_error(difference: float, error: float) -> bool:
    """Whether a number that should be zero is clearly above it."""
    return difference > NEGLIGIBLE + CLEARLY * error


def finds_more(log_weights: Array, error: float = 0.0) -> bool:
    """Whether importance weights, whose mean should be one with some error, find clearly more.

    Where importance sampling is poor its mean is too low, or its error as large as itself; it does not come out far
    above by chance.
    """
    weights = np.exp(np.where(np.isnan(log_weights), -np.inf, log_weights).clip(max=700))
    spread = float(weights.std(ddof=1)) / math.sqrt(len(weights))
    return beyond_error(float(weights.mean()) - 1, math.hypot(spread, error))
