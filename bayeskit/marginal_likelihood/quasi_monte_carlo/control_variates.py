r"""The mean of importance weights with what an expansion of the density explains of them taken off.

With a Normal density N(z; m, S) of the moments of the weighted points, Hermite polynomials :math:`H_k` of
:math:`u = S^{-1/2}(z - m)`, and points of the proposal q,

.. math:: \frac{f(z)}{q(z)} = c_0 \frac{N(z)}{q(z)} + \sum_{k \ne 0} c_k \frac{H_k(u) N(z)}{q(z)} + r(z),
    \qquad E_q \frac{H_k N}{q} = \int H_k N \, dz = [k = 0],

so that the integral is :math:`c_0 + E_q r` whatever the coefficients are: they are fitted by least squares, and the
mean is taken of r alone. Of a density that is nearly Normal little is left: the log evidence of a logistic regression
of 532 rows and five weights has a standard error of 6e-5 instead of 7e-4, without one more evaluation. Each part of the
scramblings has coefficients from the other parts, so that its mean is unbiased, and the spread between scramblings is
the error as before.

Source: Oates, Girolami and Chopin (2017), Journal of the Royal Statistical Society B 79, 695-718 (control variates of a
regression); Hickernell, Lemieux and Owen (2005), Statistical Science 20, 1-31 (with quasi-Monte Carlo).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy import linalg

from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal, pareto_k
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighed import Weighed
from bayeskit.types import Array

__all__ = ["controlled_mean"]

PARTS = 4  # of the scramblings, each with the coefficients of the others
DEGREES = (2, 4, 6, 8)  # of the polynomials in all variables together
MOST, EACH = 250, 6  # polynomials; points for a coefficient, at least
FITTED = 6_000  # points that coefficients are fitted to, at most
LEFT, PARETO_K = 0.3, 0.7  # of a mean weight, that a point may be off by, and how heavy the tail of that may be
UNSEEN = 0.25  # points whose share of the integral may have been passed over between all points
GAIN = 2.0  # factor by which the error has to be smaller


def controlled_mean(found: Weighed, proposal: MixtureProposal) -> tuple[float, float]:
    """log of the mean weight and its standard error; those of the weights themselves where these are no larger.

    A region of high density that few points are in, or none, is not seen in what is left: where points with much of the
    integral are left, or ever more with ever less, the mean is that of the weights; and the error is never smaller than
    what a quarter of a point holds. A bump with 1e-4 of the mass four sds away is passed over by half of all samples of
    8,000 points.
    """
    weights = np.exp(found.log_weights - found.mean)
    size = found.points.shape[-1]
    log_q = proposal.log_density(found.points.reshape(-1, size)).reshape(weights.shape)
    best, floor = (found.mean, found.error * GAIN), UNSEEN / weights.size
    for degree in DEGREES:
        exponents = _exponents(size, degree)
        if len(exponents) > MOST or len(exponents) * EACH > min(FITTED, weights.size // PARTS * (PARTS - 1)):
            break
        rest, integrals = _rest(found.points, weights, log_q, exponents)
        largest = float(np.abs(rest).max())
        if largest > LEFT or not pareto_k(np.log(np.abs(rest)).ravel()) < PARETO_K:
            continue
        means = integrals + rest.mean(axis=1)
        spread = float(means.std(ddof=1)) / math.sqrt(len(means))
        error = math.hypot(spread, max(largest, UNSEEN) / weights.size) / float(means.mean())
        if GAIN * error < best[1]:
            best = found.mean + math.log(means.mean()), error
        if spread < floor:
            break
    return best if best[1] < found.error else (found.mean, found.error)


def _rest(points: Array, weights: Array, log_q: Array, exponents: list[tuple[int, ...]]) -> tuple[Array, Array]:
    """What expansions leave of the weights, (R, n), and the integral of that of each scrambling."""
    scramblings, number = weights.shape
    rest, integrals = np.empty_like(weights), np.empty(scramblings)
    for part in range(PARTS):
        own = np.arange(scramblings) % PARTS == part
        some = np.arange(number) < math.ceil(FITTED / np.sum(~own))
        others = [a[~own][:, some] for a in (points, weights, log_q)]
        expansion = _Expansion.fitted(others[0], others[1], others[2], exponents)
        rest[own] = weights[own] - expansion.ratio(points[own], log_q[own])
        integrals[own] = expansion.integral
    return rest, integrals


def _exponents(size: int, degree: int) -> list[tuple[int, ...]]:
    """The variables of each polynomial, as often as their degrees in it; the constant first."""
    return [c for total in range(degree + 1) for c in combinations_with_replacement(range(size), total)]


@dataclass(frozen=True, eq=False)
class _Expansion:
    """A Normal times a polynomial."""

    normal: Proposal
    exponents: list[tuple[int, ...]]
    coefficients: Array

    @classmethod
    def fitted(cls, points: Array, weights: Array, log_q: Array, exponents: list[tuple[int, ...]]) -> _Expansion:
        """To weights f/q, (R, n), at points (R, n, D)."""
        flat, share = points.reshape(-1, points.shape[-1]), weights.ravel() / weights.sum()
        centre = share @ flat
        off = flat - centre
        normal = Proposal(centre, np.linalg.cholesky(off.T @ (share[:, None] * off)))
        terms = _terms(normal, exponents, flat, log_q.ravel())
        return cls(normal, exponents, linalg.lstsq(terms, weights.ravel(), lapack_driver="gelsy")[0])

    @property
    def integral(self) -> float:
        """Of the Normal times the polynomial."""
        return float(self.coefficients[0])

    def ratio(self, points: Array, log_q: Array) -> Array:
        """Over q, (R, n), at points (R, n, D)."""
        terms = _terms(self.normal, self.exponents, points.reshape(-1, points.shape[-1]), log_q.ravel())
        return np.asarray((terms @ self.coefficients).reshape(log_q.shape))


def _terms(normal: Proposal, exponents: list[tuple[int, ...]], points: Array, log_q: Array) -> Array:
    """H_k(u) N/q at points (n, D), a column for each polynomial; Hermite polynomials of variance one."""
    u = linalg.solve_triangular(normal.root, (points - normal.centre).T, lower=True)
    degree = len(exponents[-1])
    powers = [np.ones_like(u), u]
    for k in range(1, degree):
        powers.append((u * powers[-1] - math.sqrt(k) * powers[-2]) / math.sqrt(k + 1))
    ratio = np.exp(normal.log_density(points) - log_q)
    terms = np.empty((len(exponents), len(points)))
    for term, variables in zip(terms, exponents, strict=True):
        term[:] = ratio
        for variable in dict.fromkeys(variables):
            term *= powers[variables.count(variable)][variable]
    return terms.T
