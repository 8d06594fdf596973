r"""A mode that no chain has visited, sought by climbing from far away, and from components moved on purpose.

Chains that start alike may all stay in one mode and agree with each other: of two modes alike, four chains miss one in
an eighth of all runs. Besides its relabelled copies the posterior of a mixture often has modes that differ in earnest:
two components share one group of the data here, another group there. Of many points off the beaten track (draws in
which one component was put near another, draws from the prior, draws from far around the chains) the highest are where
this climbs from, to modes x*; each holds, by Laplace's estimate,

.. math:: \log Z^* = f(x^*) + \tfrac D2 \log 2\pi - \tfrac12 \log |-\nabla^2 f(x^*)| + \log |G|

with :math:`|G|` labellings. A mode counts as visited if under some labelling it is no farther from the draws, in their
own covariance, than nearly all of them.

What small modes hold is integrated, with all that lies as far out, by
:mod:`bayeskit.marginal_likelihood.beyond_reach`. No climb ends where a component is empty and
its prior is centred among the data: :mod:`bayeskit.marginal_likelihood.empty_component` says where that is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayeskit.marginal_likelihood.beyond_reach import mass_beyond
from bayeskit.marginal_likelihood.empty_component import with_an_empty_component
from bayeskit.marginal_likelihood.one_labelling import labelling
from bayeskit.marginal_likelihood.permutations import Coordinates
from bayeskit.marginal_likelihood.proposal import Proposal, Refused
from bayeskit.marginal_likelihood.symmetries import Symmetric
from bayeskit.model.ascent import climb
from bayeskit.model.unconstrained import Unconstrained, negative_hessian

__all__ = ["Away", "unvisited_mass"]

STREAM = 0x0DE5
MOVED, DRAWN = 1_200, 200  # candidates of either kind
CLIMBS = 6  # that are made, from the highest of them
STEPS = 100  # of a climb
FLAT = 1e-2  # the largest slope at a mode, in nats for each unit of x
WIDE, WIDE_DEGREES = 10.0, 3.0  # scale, in that of the draws, and degrees of freedom of points far away
KEPT = 1_000  # draws that a mode is held against
NEGLIGIBLE = 1e-4  # share of the evidence in the largest mode, below which nothing is added
AROUND, MAPS = 3, 120  # modes whose surroundings are integrated over, and labellings up to which they are
OUTERMOST, BEYOND = 0.99, 1.5  # quantile of the draws' squared distances, and what of it is still among them


@dataclass(frozen=True)
class Away:
    """What lies away from the draws, relative to the evidence: zeros where no mode was found there."""

    largest: float = 0.0  # of the modes, by Laplace's estimate
    mass: float = 0.0  # of all, less the share of the draws that lie as far out
    error: float = 0.0


def unvisited_mass(symmetry: Symmetric, log_z: float, random_seed: int) -> Away:
    """What the modes found away from the draws hold, relative to exp(log_z)."""
    space, draws = symmetry.space, symmetry.draws
    rng = np.random.default_rng([random_seed, STREAM])
    flat = draws.reshape(-1, space.size)[:: max(1, draws.shape[0] * draws.shape[1] // KEPT)]
    heights = space.log_density(flat)
    try:
        share = labelling(flat[None], heights[None], symmetry.maps)
    except Refused:
        return Away()

    def distance(points: np.ndarray) -> np.ndarray:
        """From the draws, under the most likely labelling."""
        return share.proposal.squares(share.applied(points[None])[0])

    reach = BEYOND * float(np.quantile(distance(flat), OUTERMOST))
    points, kinds = _candidates(symmetry, share.proposal, flat, rng, random_seed)
    far = distance(points) > reach
    found: list[tuple[float, Proposal]] = []
    seen = list[float]()
    for start in _highest(points[far], kinds[far], space.log_density(points[far])):
        mode, height = climb(space.value_and_gradient, start, steps=STEPS)
        if not height + 0.5 * space.size * math.log(2 * math.pi) > log_z - 50 or np.any(np.isclose(height, seen)):
            continue
        seen.append(height)
        if distance(mode[None])[0] > reach and (normal := _normal(space, mode)) is not None:
            log_volume = 0.5 * space.size * math.log(2 * math.pi) + float(np.log(np.diag(normal.root)).sum())
            found.append((height + log_volume + math.log(len(symmetry.maps)) - log_z, normal))
    largest = math.exp(min(max((mass for mass, _ in found), default=-math.inf), 700.0))
    found = sorted(found, key=lambda each: -each[0])[:AROUND] if largest >= NEGLIGIBLE else []
    normals = [normal for _, normal in found]
    if len(symmetry.maps) <= MAPS:
        best = flat[int(np.argmax(heights))]
        empty = (with_an_empty_component(space, group, best, random_seed) for group in symmetry.groups)
        normals += [normal for normal in empty if normal is not None]
    if not normals or len(symmetry.maps) > MAPS:
        return Away(largest)
    mass, error = mass_beyond(
        space.log_density,
        symmetry.maps,
        lambda x: distance(x) > reach,
        [share.proposal, *normals],
        log_z,
        rng,
    )
    outside = float(np.mean(distance(flat) > reach))  # few draws, from few visits
    return Away(largest, mass - outside, math.hypot(error, outside))


def _candidates(
    symmetry: Symmetric, proposal: Proposal, draws: np.ndarray, rng: np.random.Generator, random_seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws from the prior and from far away, and posterior draws with a component moved near another; which are of
    one kind."""
    coordinates = Coordinates(symmetry.space)
    spread = draws.std(axis=0)
    prior = symmetry.space.prior_draws(DRAWN, random_seed)
    if not symmetry.groups:
        around = Proposal(proposal.centre, WIDE * proposal.root, WIDE_DEGREES).draw(rng, DRAWN)
        return np.concatenate([prior, around]), np.repeat([-1, -2], [len(prior), DRAWN])
    pairs = [(group, *pair) for group in symmetry.groups for pair in itertools.permutations(group.labels, 2)]
    points = draws[rng.integers(len(draws), size=MOVED)].copy()
    kinds = rng.integers(len(pairs), size=MOVED)
    for point, kind in zip(points, kinds, strict=True):
        group, copied, lost = pairs[kind]
        for name, axes in group.axes.items():
            block = coordinates.space.slices[name]
            shape = coordinates.shape(name)
            if block.stop - block.start != math.prod(shape) or len(axes) > 1:
                continue  # weights: they follow
            values = np.moveaxis(point[block].reshape(shape), axes[0], 0)
            wide = np.moveaxis(spread[block].reshape(shape), axes[0], 0)[copied]
            wide = np.hypot(wide, 0.5 * (values[copied] - values[lost]))
            values[lost] = values[copied] + wide * rng.normal(size=np.shape(wide))
    return np.concatenate([prior, points]), np.concatenate([np.full(len(prior), -1), kinds])


def _highest(points: np.ndarray, kinds: np.ndarray, heights: np.ndarray) -> Iterator[np.ndarray]:
    """The highest points, as many of each kind as there is room for."""
    order = np.argsort(-np.where(np.isnan(heights), -np.inf, heights))
    each = -(-CLIMBS // max(1, len(np.unique(kinds))))
    rank = np.zeros(len(points), dtype=int)
    for kind in np.unique(kinds):
        mine = order[kinds[order] == kind]
        rank[mine] = np.arange(len(mine))
    yield from points[[k for k in order if rank[k] < each and np.isfinite(heights[k])][:CLIMBS]]


def _normal(space: Unconstrained, mode: np.ndarray) -> Proposal | None:
    """Laplace's approximation; None where the point is no mode."""
    height, slope = space.value_and_gradient(mode)
    if np.abs(slope).max() > max(FLAT, 1e-6 * abs(height)):
        return None
    try:
        return Proposal(mode, np.linalg.cholesky(np.linalg.inv(negative_hessian(space.value_and_gradient, mode))))
    except np.linalg.LinAlgError:
        return None
