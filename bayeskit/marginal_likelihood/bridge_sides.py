"""The two sides of a bridge: log of the density over the proposal, at draws of the one and of the other.

The proposal is fitted to one half of the draws (``fit``, some of which have log density ``fit_heights``) and met by the
other (``use``, of log density ``heights``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bayeskit.marginal_likelihood.mixture_proposal import fitted_mixture
from bayeskit.marginal_likelihood.one_labelling import Share, moved
from bayeskit.marginal_likelihood.permutations import Matrix
from bayeskit.marginal_likelihood.proposal import Array, BridgeSide, Refused, fitted, require_more_draws_than

__all__ = ["side_of_mixture", "side_of_t"]

FEWEST = 500  # proposals
MANY = 20_000  # from a mixture
INVARIANT = 1e-6  # nats, and a thousandth of it relative to the density: rounding

Density = Callable[[Array], Array]


def side_of_t(
    log_density: Density,
    fit: Array,
    use: Array,
    heights: Array,
    fit_heights: Array,
    symmetries: Sequence[Matrix],
    rng: np.random.Generator,
) -> BridgeSide:
    """f, symmetrised about the mean of the draws that are fitted to, against one t."""
    sample = fit.reshape(-1, fit.shape[-1])
    require_more_draws_than(sample)
    proposal = fitted(sample)
    share = Share(proposal, symmetries)
    shared = share.of(log_density)

    def log_ratio(points: Array, values: Array) -> tuple[Array, NDArray[np.bool_]]:
        both = np.stack([values, shared(2 * proposal.centre - points)])
        lost = np.isnan(both)
        if np.any(both == np.inf):
            raise Refused("the density is infinite somewhere")
        symmetric = np.logaddexp(*np.where(lost, -np.inf, both)) - math.log(2.0)
        return symmetric - proposal.log_density(points), lost.any(axis=0)

    points, values = _relabelled(log_density, share, use.reshape(-1, use.shape[-1]), heights.ravel(), rng)
    drawn, lost_draws = log_ratio(points, values)
    points = proposal.draw(rng, max(len(points), FEWEST))
    proposed, lost_proposals = log_ratio(points, shared(points))
    return BridgeSide(drawn.reshape(heights.shape), proposed, lost_draws.reshape(heights.shape), lost_proposals)


def side_of_mixture(
    log_density: Density,
    fit: Array,
    use: Array,
    heights: Array,
    fit_heights: Array,
    symmetries: Sequence[Matrix],
    rng: np.random.Generator,
) -> BridgeSide:
    """Against a mixture, which needs no symmetrised density: it is as skewed as the draws are."""
    sample = fit.reshape(-1, fit.shape[-1])
    require_more_draws_than(sample)
    proposal = fitted_mixture(sample[::2], sample[1::2], rng)
    share = Share(proposal, symmetries)
    points, values = _relabelled(log_density, share, use.reshape(-1, use.shape[-1]), heights.ravel(), rng)
    proposed = proposal.draw(rng, MANY)
    shared = share.of(log_density)
    new = shared(proposed)
    if np.any(new == np.inf):
        raise Refused("the density is infinite somewhere")
    lost = np.isnan(new)
    drawn = (values - proposal.log_density(points)).reshape(heights.shape)
    # Under any labels, for f₁ / q is the same.
    again = fit[:, :: -(-fit.shape[1] // fit_heights.shape[1])].reshape(-1, fit.shape[-1])
    at_fitted = fit_heights + (share.log(again) - proposal.log_density(again)).reshape(fit_heights.shape)
    ratio = np.where(lost, -np.inf, new) - proposal.log_density(proposed)
    sure = np.zeros(heights.shape, dtype=bool)
    return BridgeSide(drawn, ratio, sure, lost, at_fitted, lambda x: shared(x) - proposal.log_density(x))


def _relabelled(
    log_density: Density, share: Share, points: Array, heights: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of one labelling's share of f from draws of f, and log f₁ there."""
    if len(share.symmetries) < 2:
        return points, heights
    points = moved(points, share.symmetries, share.drawn(points, rng))
    again = np.asarray(log_density(points), dtype=float)
    if not np.all(np.abs(again - heights) <= INVARIANT * (1 + 1e-3 * np.abs(heights))):
        raise Refused("the density changes with the labels of its components at some draw")
    return points, again + share.log(points)
