r"""A mode so narrow that no chain steps into it, though it lies among the draws: a spike upon a slab.

A prior that is a mixture of a Normal of sd 1e-5 and one of sd 10 may leave nearly all of the posterior in the former.
Chains that start outside never meet it, and no search far away from the draws does. But a draw from the prior falls
into each component as often as it weighs, and the numbers that the model names are where likelihoods and Potentials
have theirs. So in some posterior draws one entry at a time is given values from the prior and from the model: where
the density is higher there than close by on either side, there is a needle. From points with one, with all, and with
one more than in the heaviest mode so far, climbs in units of the density's own scale end at modes :math:`x^*` of
negative Hessians H. With q the Normal of Laplace's approximation and :math:`E` the ellipsoid that holds most of it,

.. math:: \frac 1Z \int_E f = \frac 1Z \mathrm E_q\left[\frac{f(x)}{q(x)} 1\{x \in E\}\right]

is to be the share of the draws in E, whatever the shape of f: no number here rests on Laplace's approximation. Images
under symmetries count as one region.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.graph.traversal import ancestors
from scipy import stats

from bayeskit.errors import InferenceError
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.symmetries import Symmetric
from bayeskit.model.forward_sampling import sampler_given
from bayeskit.model.maximum import Maximum, maximum_near
from bayeskit.model.unconstrained import Unconstrained, in_coordinates, negative_hessian

__all__ = ["Narrow", "narrow_mass"]

STREAM = 0x5B1CE
BASES = 3  # posterior draws that are changed, besides the highest
EVALUATIONS = 8_000  # of the density, in search of needles
LEAST, DRAWN = 4, 24  # values tried for an entry at least, and of these draws from the prior
CLOSE_BY = (1.0, 0.1, 2e-3)  # in conditional sds of an entry, at which a needle is held against what is around it
NAMED = 40  # numbers of the model
NEEDLE = 2.0  # nats that it stands out
CLIMBS, HIGHEST = 16, 2  # from needles, and from points that a whole variable was drawn for
STALE = 5  # climbs in a row to where the draws have been, after which no more are made
INSIDE, POINTS = 0.99, 400  # share of the Normal in the ellipsoid, and points at which f is integrated over it
KEPT = 2_000  # draws that are counted
SEEN_APART = 20  # draws that count for one: chains step in and out of a needle seldom
CLEARLY, NEGLIGIBLE = 5.0, 1e-4  # standard errors; share of the evidence
HARDLY = 3.0  # times as much as the draws have there, at least
TURNS, RIDGE = 4, 1e-10  # to the coordinates of a mode's own scale, and share of the largest curvature in each
FAR_NARROWER = 0.1  # than the draws, where a mode is said to be narrow


@dataclass(frozen=True)
class Narrow:
    """What narrow modes hold that the draws do not, relative to the evidence, and where the heaviest lies."""

    mass: float = 0.0
    error: float = 0.0
    where: str = ""


def narrow_mass(
    symmetry: Symmetric, numbers: Sequence[np.ndarray], log_z: float, enough: float, random_seed: int
) -> Narrow:
    """What the draws lack of the narrow modes that are found, relative to exp(log_z).

    ``numbers`` are those that the model names. The search ends once ``enough`` is missing.
    """
    space = symmetry.space
    named = _moved(space, numbers)
    rng = np.random.default_rng([random_seed, STREAM])
    flat = symmetry.draws.reshape(-1, space.size)
    flat = flat[:: max(1, len(flat) // KEPT)]
    found, seen, barren = Narrow(), list[Proposal](), 0
    for mode in _modes(space, flat, named, rng, random_seed):
        if found.mass > enough or barren >= STALE:
            break
        barren += 1
        normal = _normal(space, mode) if mode.regular else None
        if normal is None or any(_same(normal, other) for other in seen):
            continue
        seen.append(normal)
        share, error, visited = _shares(symmetry, normal, flat, log_z, rng)
        spread = math.sqrt(max(visited * (1 - visited), 0.0) * SEEN_APART / len(flat))
        hardly = HARDLY * visited < share or share - visited > CLEARLY * math.hypot(spread, error)
        if hardly and share - visited > NEGLIGIBLE + CLEARLY * error:
            where = found.where if found.mass > share - visited else _place(space, normal, flat)
            found, barren = Narrow(found.mass + share - visited, math.hypot(found.error, error), where), 0
    return found


def _moved(space: Unconstrained, numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Points all of whose entries are one number, on the unconstrained scale; of small arrays first."""
    every = np.array(list(dict.fromkeys(float(n) for array in numbers for n in _some(array))))[:NAMED]
    if not len(every):
        return np.empty((0, space.size))
    shapes = {n: v.shape for n, v in space.at(space.start).items()}
    return space.forward_over({n: np.multiply.outer(every, np.ones(s)) for n, s in shapes.items()}, len(every))


def _some(array: np.ndarray) -> np.ndarray:
    return array if len(array) <= NAMED else array[np.linspace(0, len(array) - 1, NAMED).astype(int)]


def _shares(
    symmetry: Symmetric, normal: Proposal, draws: np.ndarray, log_z: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Share of the posterior in the ellipsoid and its images, its standard error, and the share of the draws."""
    points = normal.draw(rng, POINTS)
    alike = _images(symmetry, normal, points)
    heights = symmetry.space.log_density(points) - normal.log_density(points) - log_z
    weights = np.where(_inside(normal, points) & np.isfinite(heights), np.exp(np.minimum(heights, 300.0)), 0.0)
    weights *= len(symmetry.maps) / np.maximum(alike, 1)
    visited = float(np.mean(_images(symmetry, normal, draws) > 0))
    return float(weights.mean()), float(weights.std()) / math.sqrt(POINTS), visited


def _inside(normal: Proposal, points: np.ndarray) -> np.ndarray:
    return np.asarray(normal.squares(points) < stats.chi2(len(normal.centre)).ppf(INSIDE))


def _same(one: Proposal, other: Proposal) -> bool:
    """Whether each holds the other's centre: a spike in all entries lies within a spike in one of them."""
    return bool(_inside(one, other.centre[None])[0] and _inside(other, one.centre[None])[0])


def _images(symmetry: Symmetric, normal: Proposal, points: np.ndarray) -> np.ndarray:
    """In how many images of the ellipsoid each point lies."""
    return np.sum([_inside(normal, (image @ points.T).T) for image in symmetry.maps], axis=0)


def _normal(space: Unconstrained, mode: Maximum) -> Proposal | None:
    """Laplace's approximation; None where the point is no mode.

    Curvatures along a ridge are 1e-12 of those across: they are found by differences in coordinates in which all are
    about one, in a few turns.
    """
    centre, root, hessian = mode.x, np.diag(mode.units), mode.hessian
    try:
        for _ in range(TURNS):
            values, axes = np.linalg.eigh(hessian)
            root = root @ (axes / np.sqrt(np.maximum(values, RIDGE * values.max())))
            value, slope = space.value_and_gradient(centre)
            hessian = negative_hessian(in_coordinates(space.value_and_gradient, centre, root), np.zeros(len(centre)))
            step = root @ np.linalg.solve(hessian, root.T @ slope)
            if space.log_density((centre + step)[None])[0] > value:
                centre = centre + step
        return Proposal(centre, np.linalg.cholesky(root @ np.linalg.inv(hessian) @ root.T))
    except np.linalg.LinAlgError:
        return None


def _modes(
    space: Unconstrained, draws: np.ndarray, named: np.ndarray, rng: np.random.Generator, random_seed: int
) -> Iterator[Maximum]:
    """Where climbs end from a draw with needles in it."""
    heaviest = draws[int(np.nanargmax(space.log_density(draws)))]
    deviations = 1 / np.sqrt(np.diag(np.linalg.pinv(np.atleast_2d(np.cov(draws, rowvar=False)))))
    bases = np.concatenate([heaviest[None], draws[rng.integers(len(draws), size=BASES)]])
    given = _given_the_rest(space)
    values = _values(space, named, given, random_seed)

    def climbed(start: np.ndarray, changed: Mapping[int, float]) -> Maximum | None:
        units, start = deviations.copy(), start.copy()
        for entry, value in changed.items():
            start[entry], units[entry] = value, CLOSE_BY[-1] * deviations[entry]
        try:
            return maximum_near(space.value_and_gradient, space, start, units)
        except (InferenceError, ValueError, np.linalg.LinAlgError):
            return None

    # Several entries of a spike that moves are in it together, and where it moves to is not where this draw has it.
    for start in _redrawn(space, draws, given, random_seed):
        if (mode := climbed(start, dict(enumerate(start)))) is not None:
            yield mode
    climbs, height = 0, -math.inf
    while climbs < CLIMBS:
        needles = _needles(space, bases, deviations, values)
        one_each = {entry: value for entry, value in reversed(needles)}
        tried = [] if climbs or len(one_each) < 2 else [one_each]
        tried += [{entry: value} for entry, value in needles]
        before, bases = height, bases[:1]
        for changed in tried[: CLIMBS - climbs]:
            climbs += 1
            if (mode := climbed(heaviest, changed)) is None or not mode.regular:
                continue
            yield mode
            if (mass := mode.value + mode.log_gauss()) > height:
                height, bases = mass, mode.x[None]
        if not height > before + NEEDLE:
            return
        heaviest = bases[0]


type _Values = Callable[[np.ndarray], np.ndarray]  # at a point, points (n, k) whose entries are tried one at a time
type _Given = Mapping[str, Callable[..., dict[str, np.ndarray]]]


def _given_the_rest(space: Unconstrained) -> _Given:
    """For each mixture whose components other variables move, its prior given these, to draw from."""
    samplers = {}
    for rv in space.rvs:
        above = [str(o.name) for o in space.rvs if o is not rv and o in set(ancestors([rv]))]
        if above and isinstance(rv.owner.op, SymbolicRandomVariable):
            samplers[str(rv.name)] = sampler_given(space.model, [str(rv.name)], above)
    return samplers


def _values(space: Unconstrained, named: np.ndarray, given: _Given, random_seed: int) -> _Values:
    """Numbers of the model, and draws from the prior; where that moves, given the point."""
    drawn = space.prior_draws(DRAWN, random_seed)

    def values(point: np.ndarray) -> np.ndarray:
        if not given or not len(drawn):
            return np.concatenate([named, drawn])
        at = {n: np.repeat(v, len(drawn), axis=0) for n, v in space.backward(point[None]).items()}
        rng, natural = np.random.default_rng(random_seed), space.backward(drawn)
        for sampler in given.values():
            natural |= sampler(at, rng, len(drawn))
        return np.concatenate([named, space.forward_over(natural, len(drawn))])

    return values


def _redrawn(space: Unconstrained, draws: np.ndarray, given: _Given, random_seed: int) -> np.ndarray:
    """The highest points among draws in which a mixture has values from its own prior."""
    rng, natural, found = np.random.default_rng(random_seed), space.backward(draws), [np.empty((0, space.size))]
    for sampler in given.values():
        points = space.forward_over(natural | sampler(natural, rng, len(draws)), len(draws))
        heights = space.log_density(points)
        order = np.argsort(-np.where(np.isnan(heights), -np.inf, heights))
        found.append(points[order[:HIGHEST]])
    return np.concatenate(found)


def _needles(
    space: Unconstrained, bases: np.ndarray, deviations: np.ndarray, values: _Values
) -> list[tuple[int, float]]:
    """Entries, and values of theirs at which the density is higher than close by; those that stand out most first."""
    offsets = np.array([0.0, *(sign * c for c in CLOSE_BY for sign in (-1, 1))])
    most = max(LEAST, EVALUATIONS // (len(offsets) * space.size * len(bases)))
    found: list[tuple[float, int, float]] = []
    for base in bases:
        tried = values(base)
        tried = tried[np.unique(np.linspace(0, len(tried) - 1, most).astype(int))]
        for entry in range(space.size):
            at = np.unique(tried[np.isfinite(tried[:, entry]), entry])
            points = np.tile(base, (len(at), len(offsets), 1))
            points[..., entry] = at[:, None] + deviations[entry] * offsets
            height = space.log_density(points.reshape(-1, space.size)).reshape(points.shape[:2])
            height = np.where(np.isnan(height), -np.inf, height)
            around = height[:, 1:].reshape(len(at), -1, 2).max(axis=-1).min(axis=-1)
            out = height[:, 0] > around + NEEDLE
            found += [(h - a, entry, x) for h, a, x in zip(height[out, 0], around[out], at[out], strict=True)]
    kept: list[tuple[int, float]] = []  # a spike is hit by many draws
    for _, entry, x in sorted(found, reverse=True):
        if all(entry != e or abs(x - other) > CLOSE_BY[1] * deviations[entry] for e, other in kept):
            kept.append((entry, float(x)))
    return kept


def _place(space: Unconstrained, normal: Proposal, draws: np.ndarray) -> str:
    """The entries in which a mode is narrowest, in words: those far narrower than the draws."""
    narrow = np.sqrt(np.sum(normal.root**2, axis=1)) / (draws.std(axis=0) + 1e-300)
    values, said = space.at(normal.centre), []
    for name in space.names:
        block = narrow[space.slices[name]]
        if len(block) != np.size(values[name]) or not np.any(block < FAR_NARROWER):
            continue
        least = int(np.argmin(block))
        index = np.unravel_index(least, np.shape(values[name]))
        said.append(f"{name}{list(map(int, index)) if index else ''} = {np.ravel(values[name])[least]:.4g}")
    return " and ".join(said[:2])
