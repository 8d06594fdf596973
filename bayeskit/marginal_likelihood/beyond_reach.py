r"""The mass beyond the reach of the draws, by importance sampling from the modes that were found there.

A mode away from the draws that holds a hundredth of the evidence is no reason to refuse the rest, but it is missing
from it, by more than the standard error: a component of a mixture that is empty, its location free under a wide prior,
holds that much easily. With q a mixture of Student t's at the modes and at the draws, and f the density, of which
:math:`|G|` labellings are alike,

.. math:: \int_{\text{beyond}} f = \mathrm E_q\left[\frac{|G| f(x)}{\sum_\pi q(T_\pi x)}
    1\{x \text{ beyond}\}\right],

of which the share of the draws that lie there is no part. The t's are fitted again to the weighted points, since such
a region is seldom near a Normal (population Monte Carlo; Cappé, Guillin, Marin and Robert 2004).

Source: Cappé, Guillin, Marin and Robert (2004), Journal of Computational and Graphical Statistics 13, 907-929.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from bayeskit.marginal_likelihood.one_labelling import Share
from bayeskit.marginal_likelihood.permutations import Matrix
from bayeskit.marginal_likelihood.proposal import Proposal

__all__ = ["mass_beyond"]

ROUNDS, POINTS = 4, 1_000  # of which all but the last fit the proposals; of each proposal in a round
DEGREES, WIDER = 3.0, 1.3  # of freedom, and scale, of a t at a mode
ENOUGH = 4  # effective points for each coordinate to fit a t again


def mass_beyond(
    log_density: Callable[[np.ndarray], np.ndarray],
    symmetries: Sequence[Matrix],
    beyond: Callable[[np.ndarray], np.ndarray],
    proposals: Sequence[Proposal],
    log_z: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The integral of exp f where ``beyond``, relative to exp(log_z), and its standard error.

    ``beyond`` is the same under all symmetries. The first proposal is that of the draws, and stays.
    """
    proposals = [Proposal(p.centre, WIDER * p.root, DEGREES) for p in proposals]
    for turn in range(ROUNDS):
        points = [p.draw(rng, POINTS) for p in proposals]
        log_weights = [_log_weights(log_density, symmetries, proposals, x) - log_z for x in points]
        weights = [
            np.where(beyond(x) & np.isfinite(w), np.exp(np.minimum(w, 300.0)), 0.0)
            for x, w in zip(points, log_weights, strict=True)
        ]
        if turn < ROUNDS - 1:
            proposals[1:] = [_refitted(*each) for each in zip(proposals[1:], points[1:], weights[1:], strict=True)]
    # As many points of each, rather than of one at random: the variance is that within each.
    mean = float(np.mean([w.mean() for w in weights]))
    variance = sum(float(w.var(ddof=1)) / POINTS for w in weights) / len(weights) ** 2
    return mean, math.sqrt(variance)


def _log_weights(
    log_density: Callable[[np.ndarray], np.ndarray],
    symmetries: Sequence[Matrix],
    proposals: Sequence[Proposal],
    points: np.ndarray,
) -> np.ndarray:
    """log f over the mixture of all proposals under all labellings."""
    total = np.full(len(points), -np.inf)
    for proposal in proposals:
        for value in Share(proposal, symmetries).each(points):
            total = np.logaddexp(total, value)
    values = np.asarray(log_density(points), dtype=float)
    return np.asarray(values - total + math.log(len(proposals)) + math.log(len(symmetries)))


def _refitted(proposal: Proposal, points: np.ndarray, weights: np.ndarray) -> Proposal:
    """The same with the moments of the weighted points, if enough of them count."""
    weights = np.minimum(weights, 0.05 * weights.sum())  # one point makes no moment
    if not weights.sum() > 0 or weights.sum() ** 2 / np.sum(weights**2) < ENOUGH * points.shape[1]:
        return proposal
    weights = weights / weights.sum()
    centre = weights @ points
    off = points - centre
    try:
        root = np.linalg.cholesky(off.T @ (weights[:, None] * off))
    except np.linalg.LinAlgError:
        return proposal
    return Proposal(centre, WIDER * root, proposal.degrees)
