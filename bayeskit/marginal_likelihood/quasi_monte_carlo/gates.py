"""What importance sampling is not trusted for: each gate raises NoProposal with the reason."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from scipy import special

from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal, pareto_k
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import HeavyTails, NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.skewed_coordinates import SkewedCoordinates
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighed import Weighed, weighed
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighted_mixture import SobolPoints
from bayeskit.types import Array, ArrayFunction

__all__ = ["require_no_edge", "require_no_longer_tails", "require_seen_wider", "trusted_pareto_k"]

LEAST = 0.02  # share of the points that is effective
DOMINATES = 0.25  # of all scramblings' spread and mean
ENDS, HALVED, CUT = 200, 30, 2e-4  # ends of the density that are looked at, how closely, and what they may cut off
BEYOND, FAR = 17, 5  # steps beyond the points of a line, and the last of them, by which its tail is judged
ALONG = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 18), np.geomspace(1.0, 1e4, BEYOND + 1)[1:]])  # in its reach
LONGER = 0.01  # standard errors of the integral that a tail without variance may hold
WIDER, WIDER_DEGREES = 1.6, 3.0  # log of the second proposal's volume in that of the first, and its tails
OTHERS, POWER = 16, 7  # its scramblings, and the power of two of points of each
ALIKE = 2e-5  # nats
DIFFERENT, SMALL = 6.0, 0.02  # standard errors, and standard deviations of a coordinate, that moments may differ by


def trusted_pareto_k(found: Weighed, draws: int, most: float) -> float:
    """Pareto k of the weights; NoProposal where they are too uneven."""
    logs = found.log_weights.ravel()
    if not math.isfinite(logs.max()):
        raise NoProposal("the density is infinite, or zero at every point")
    pareto = pareto_k(logs)
    if not pareto <= most:
        raise HeavyTails(f"the importance weights have too heavy a tail (Pareto k {pareto:.2f}, at most {most})")
    if found.effective < LEAST * logs.size:
        raise HeavyTails(f"only {found.effective:.0f} of {logs.size:,} points carry the importance weight")
    if found.relative.max() > DOMINATES * len(found.relative):
        raise HeavyTails("one scrambling of the points decides the integral")
    if not found.enough_for(draws):
        raise NoProposal(f"{logs.size:,} points are too few for {draws:,} draws")
    return pareto


def require_no_edge(density: ArrayFunction, proposal: MixtureProposal, found: Weighed) -> None:
    """That where the density ends next to nothing is cut off.

    A Beta(0.1, 0.1) on an interval to three has 1.2 % of its mass where its value is three to rounding, and may have no
    density there. Beyond the end it is taken to be as high as there.
    """
    beyond = found.points[np.isneginf(found.log_weights)]
    if not len(beyond):
        return
    some = beyond[:: -(-len(beyond) // ENDS)]
    inside, outside = np.zeros((len(some), 1)), np.ones((len(some), 1))
    for _ in range(HALVED):
        middle = (inside + outside) / 2
        ended = np.isneginf(density(middle * some))[:, None]
        inside, outside = np.where(ended, inside, middle), np.where(ended, middle, outside)
    heights = density(inside * some) - proposal.log_density(some) - found.mean
    lost = float(np.exp(special.logsumexp(heights))) / len(some) * len(beyond) / found.log_weights.size
    if not lost < CUT:
        raise NoProposal("the density ends abruptly, where it is not small: rounding or an edge cuts it off")


def require_seen_wider(density: ArrayFunction, proposal: MixtureProposal, one: Weighed, rng: Generator) -> None:
    """That a wider proposal of heavier tails finds the same integral and moments."""
    size = one.points.shape[-1]
    # In many dimensions a shell a little farther out has many times the volume.
    factor, degrees = math.exp(WIDER / size), max(WIDER_DEGREES, size / 2)
    parts = tuple(Proposal(c.centre, factor * c.root, min(c.degrees, degrees)) for c in proposal.components)
    wider = MixtureProposal(proposal.weights, parts)
    other = weighed(density, [SobolPoints(wider, rng) for _ in range(OTHERS)], POWER)
    error = math.hypot(one.error, other.error)
    if not abs(math.expm1(other.mean - one.mean)) < DIFFERENT * error + ALIKE:
        raise HeavyTails(f"a wider proposal finds an integral that differs by {other.mean - one.mean:.2g} nats")
    (mean, off), (mean_there, off_there) = one.moments(), other.moments()
    spread = np.sqrt(np.maximum(mean[size:] - mean[:size] ** 2, 0))
    scale = np.concatenate([spread, 2 * spread * np.sqrt(mean[size:])])
    if np.any(np.abs(mean - mean_there) > DIFFERENT * np.hypot(off, off_there) + SMALL * scale):
        raise HeavyTails("a wider proposal finds other moments")


def require_no_longer_tails(
    log_density: ArrayFunction, coordinates: SkewedCoordinates, proposal: MixtureProposal, points: Array, error: float
) -> None:
    """That no line through the mode, along axes of either kind, has a tail that leaves the weights without variance.

    Weights tell of a tail no more than the points in it do. Of five independent t's of two degrees, a t in all
    directions reaches too little along the axes: the integral was low by two to six standard errors where, for one seed
    in eight, the weights' own tail looked like one of finite variance. On a line at r from the mode their square has
    the mean of f² / q, which must fall faster than 1 / r, unless next to nothing lies beyond the ``points``, (n, D), in
    standard errors of the integral.
    """
    off = points - coordinates.mode
    for axes, places in ((np.eye(off.shape[1]), off), (coordinates.root.T, off @ coordinates.inverse.T)):
        at = np.stack([places.max(axis=0), places.min(axis=0)])[..., None] * ALONG  # (2, D, steps), signed
        lines = (coordinates.mode + at[..., None] * axes[:, None]).reshape(-1, off.shape[1])
        z = coordinates.backward(lines)
        values = (log_density(lines) + coordinates.forward(z)[1]).reshape(at.shape)
        values = np.where(np.isfinite(values), values, -np.inf)
        with np.errstate(invalid="ignore"):
            squares = 2 * values - proposal.log_density(z).reshape(at.shape)
            falls = (squares[..., -1] - squares[..., -FAR]) / math.log(ALONG[-1] / ALONG[-FAR])
        heights = np.exp(values - np.where(np.isfinite(top := values.max()), top, 0.0))
        pieces = np.abs(np.diff(at)) * (heights[..., 1:] + heights[..., :-1]) / 2
        share = pieces[..., -BEYOND:].sum(axis=-1) / np.maximum(pieces.sum(axis=(0, 2)), np.finfo(float).tiny)
        missed = float(share[falls > -1].sum())
        if missed > LONGER * error:
            raise HeavyTails(f"tails along single numbers hold {missed:.1g} of the mass, or more, beyond all points")
