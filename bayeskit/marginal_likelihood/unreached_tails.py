r"""Whether a coordinate has a tail that the chains of a sampler hardly reached, though they agree with each other.

Where the density of a slope falls like :math:`1/b^2`, up to a wide prior, the few excursions into the tail that chains
make hold most of the variance: the draws of BUGS' ``air`` have an sd of 0.04 where it is 0.096, and no diagnostic says
so. Importance sampling refuses such a posterior beforehand, since no t follows the tail. Here each coordinate is
followed outwards, its density by Laplace (:mod:`bayeskit.marginal_likelihood.profiles`), and points are made along it,

.. math:: z_j \sim \hat m, \qquad z_{-j} \sim t_5\bigl(z^*_{-j}(z_j), -\nabla^2_{-j} f^{-1}\bigr),

whose importance weights hold for any density. The chains are doubted where, beyond three standard errors of these, the
sd is half as large again as that of the draws, or so many draws as they are worth would hardly ever lie so seldom
beyond a distance.

A tail along no axis is missed, but for what it does to the axes. A Student t of three degrees is not doubted: of its
variance, draws miss what any independent ones miss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from scipy import special, stats

from bayeskit.graphs.compile import has_loops
from bayeskit.marginal_likelihood.profiles import BEYOND, Profile, Top
from bayeskit.model.unconstrained import Unconstrained, evaluations_counted
from bayeskit.types import Array

__all__ = ["unreached_tail"]

STREAM = 0x7A11
MOST, EVALUATIONS = 30, 16_000  # coordinates, at most, and evaluations of the density after which no other begins
DISTANCES = np.array([0, 0.7, 1.5, 2.5, 3.7, 5, 7, 10, 15, 22, 33, 50, 75, 110, 170, 250, 400, 600, 1000])
SEEN = 2  # distances up to which no tail begins
FAR, NEGLIGIBLE = 30.0, 20.0  # a distance, and nats below the centre at which nothing is left there
NOTHING = 16.0  # nats by which r m has fallen where it is followed no farther
POINTS, DEGREES, EVEN = 2048, 5.0, 0.1  # points, degrees of freedom, and share of points that all cells have alike
INNER = 0.75  # of what the draws hold on either side of the median, that the points must find there
ERRORS, WIDER = 3.0, 1.5  # standard errors, and factor of the sd
CHANCE, TIMES = 1e-5, 2.0  # of as few draws beyond a distance, and how often as many would be right
REACHED = "there is a tail that the chains hardly reached"
REMEDY = "its sd and outer quantiles are not to be relied on: give it a tighter prior, or raise draws tenfold"
QUARTILES = 1.349  # between those of a Normal, in its sd


@dataclass(frozen=True, eq=False)
class _Points:
    """Points along a coordinate, in units of the draws, with weights that sum to one."""

    places: Array
    weights: Array

    def mean(self, values: np.ndarray) -> tuple[float, float]:
        """Of a function of the points, with its standard error."""
        mean = float(self.weights @ values)
        return mean, math.sqrt(float(np.sum((self.weights * (values - mean)) ** 2)))


def unreached_tail(space: Unconstrained, draws: Array, random_seed: int) -> str:
    """The coordinate whose tail the draws, (chains, n, D), hardly reach, as a problem; empty if none was found."""
    if space.size > MOST or draws.shape[1] < 4 or has_loops([space.graph]):
        return ""
    rng = np.random.default_rng([random_seed, STREAM])
    flat = draws.reshape(-1, space.size)
    low, centre, high = np.quantile(flat, (0.25, 0.5, 0.75), axis=0)
    scale = (high - low) / QUARTILES
    if not np.all(scale > 0):
        return ""
    with evaluations_counted() as made:
        for j in np.argsort(-np.ptp(flat, axis=0) / scale):  # the longest tails first
            if made.number > EVALUATIONS:
                break
            if found := _doubt(Profile(space, centre, scale, j), (draws[..., j] - centre[j]) / scale[j], rng):
                name, places = next((n, p) for n, p in space.slices.items() if p.start <= j < p.stop)
                entry = f"entry {j - places.start} of {name}" if places.stop > places.start + 1 else name
                return f"far out in {entry} {REACHED}: {found}; {REMEDY}"
    return ""


def _doubt(profile: Profile, draws: Array, rng: np.random.Generator) -> str:
    """What the points along a coordinate find that its draws, in their own units, do not show; empty if nothing."""
    if not any(_reaches_far(profile, sign) for sign in (-1.0, 1.0)):
        return ""
    tops = {d: top for sign in (-1.0, 1.0) for d, top in _outwards(profile, sign).items()}
    points = _along(profile, tops, rng) if len(tops) > 2 else None
    if points is None:
        return ""
    for inner in ((-1, 0), (0, 1)):
        inside, error = points.mean((points.places > inner[0]) & (points.places < inner[1]))
        drawn = float(np.mean((draws > inner[0]) & (draws < inner[1])))
        if not inside + ERRORS * error > INNER * drawn or not error < inside:
            return ""  # the points miss what the chains found: their other shares are too large
    square, error = points.mean((points.places - points.mean(points.places)[0]) ** 2)
    if square - ERRORS * error > (WIDER * draws.std()) ** 2:
        return f"the sd is about {math.sqrt(square) / draws.std():.2g} times that of the draws"
    worth = int(array_stats.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)))
    for sign in (-1.0, 1.0):
        for distance in DISTANCES[SEEN:]:
            share, error = points.mean(sign * points.places > distance)
            drawn, least = float(np.mean(sign * draws > distance)), share - ERRORS * error
            if least > TIMES * drawn and stats.binom.cdf(round(worth * drawn), worth, least) < CHANCE:
                return f"{share:.2g} of the posterior lies where {drawn:.2g} of the draws do"
    return ""


def _reaches_far(profile: Profile, sign: float) -> bool:
    """Whether the density may be more than nothing far out, however much wider the others are there."""
    others = np.zeros(len(profile.centre) - 1)
    _, here = profile.climbed(0.0, others)
    _, there = profile.climbed(sign * FAR, others)
    return there > here - NEGLIGIBLE - len(others) * math.log(FAR)


def _outwards(profile: Profile, sign: float) -> dict[float, Top]:
    """The maxima at growing distances, up to where next to nothing is left."""
    found: dict[float, Top] = {}
    others, highest = np.zeros(len(profile.centre) - 1), -math.inf
    for distance in DISTANCES:
        top = profile.top(sign * distance, others)
        if top is None or top.factor is None or not top.height > BEYOND:
            break
        found[sign * distance], others = top, top.others
        level = top.height + top.log_volume
        highest = max(highest, level)
        if level + math.log(max(distance, 1.0)) < highest - NOTHING:
            break
    return found


def _along(profile: Profile, tops: dict[float, Top], rng: np.random.Generator) -> _Points | None:
    """Points between the maxima, with what is about these; None where the density is nowhere to be had."""
    places = np.array(sorted(tops))
    others, roots, heights = (
        np.stack([get(tops[place]) for place in places])
        for get in (lambda top: top.others, lambda top: top.root, lambda top: top.height + top.log_volume)
    )
    widths, size = np.diff(places), others.shape[1]
    shares = special.softmax(np.maximum(heights[1:], heights[:-1]) + np.log(widths))
    shares = (1 - EVEN) * shares + EVEN / len(shares)
    cell, along = rng.choice(len(shares), POINTS, p=shares), rng.uniform(size=POINTS)
    place = places[cell] + along * widths[cell]

    def between(values: Array) -> Array:
        part = along.reshape(-1, *np.ones(values.ndim - 1, dtype=int))
        return values[cell] * (1 - part) + values[cell + 1] * part

    root, noise = between(roots), rng.standard_normal((POINTS, size))
    noise *= np.sqrt(DEGREES / rng.chisquare(DEGREES, size=(POINTS, 1)))
    points = profile.joined(place, between(others) + np.einsum("nij,nj->ni", root, noise))
    log_proposal = np.log(shares[cell] / widths[cell]) - np.log(np.einsum("nii->ni", root)).sum(axis=1)
    log_proposal -= 0.5 * (DEGREES + size) * np.log1p(np.sum(noise**2, axis=1) / DEGREES)
    logs = profile.space.log_density(profile.at(points)) - log_proposal
    logs = np.where(np.isnan(logs), -np.inf, logs)
    return _Points(place, special.softmax(logs)) if np.isfinite(logs.max()) else None
