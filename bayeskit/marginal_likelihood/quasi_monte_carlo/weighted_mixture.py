r"""Mixtures of Student t's fitted to weighted points, and their points by scrambled Sobol sequences.

By EM on the points of all rounds with their weights (Cappé, Douc, Guillin, Marin and Robert 2008), for one to a few
components. Each covariance is drawn towards a sphere of equal trace by D against the effective number of its points,
because a singular one would never be left.

The weights of a mixture are in the ratios of powers of two: each component has a Sobol sequence of its own, of which a
power of two points are evenly spread. One sequence for all, whose first number chose the component, left ten times the
points to be made for the same error of the evidence of a logistic regression.

Source: Cappé, Douc, Guillin, Marin and Robert (2008), Statistics and Computing 18, 447-459.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from scipy import linalg, special
from scipy.cluster.vq import kmeans2
from scipy.stats import qmc

from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal, Refused
from bayeskit.types import Array

__all__ = ["SobolPoints", "balanced", "guarded", "lighter", "mixtures_of"]

COMPONENTS = (1, 2, 4, 8)
STEPS, FITTED = 15, 3_000  # of EM; points that a mixture is fitted to
DEGREES, LIGHT, WIDER = 8.0, 30.0, 1.1  # of freedom of a component, and its scale in that of its points
BROAD, BROAD_DEGREES, DEFENSIVE = 2.0, 4.0, 1 / 16  # what guards the tails: scale, degrees of freedom, share of q
LEAST, POWERS = 0.02, 5  # share of the weight that a component has; the least is this power of half the largest
OPEN = 1e-16  # uniform numbers lie this far inside the unit interval


def balanced(weights: Array, components: tuple[Proposal, ...]) -> MixtureProposal:
    """A mixture whose weights are in the ratios of powers of two."""
    powers = np.maximum(np.round(np.log2(weights / np.max(weights))), -POWERS)
    return MixtureProposal(2**powers / np.sum(2**powers), components)


def guarded(mixture: MixtureProposal) -> MixtureProposal:
    """With a broad t about each half of the components, and more."""
    largest = mixture.components[int(np.argmax(mixture.weights))]
    centre = mixture.weights @ np.stack([c.centre for c in mixture.components])
    off = [c.root @ c.root.T + np.outer(c.centre - centre, c.centre - centre) for c in mixture.components]
    spread = np.tensordot(mixture.weights, np.stack(off), axes=1)
    root = largest.root if len(off) == 1 else np.linalg.cholesky(spread)
    broad = Proposal(centre, BROAD * root, BROAD_DEGREES)
    return balanced(np.append(mixture.weights, DEFENSIVE), (*mixture.components, broad))


def lighter(mixture: MixtureProposal) -> MixtureProposal:
    """With lighter tails: in many dimensions a t of few degrees of freedom lies in another shell than a Normal."""
    return MixtureProposal(mixture.weights, tuple(Proposal(c.centre, c.root, LIGHT) for c in mixture.components))


class SobolPoints:
    """Points of a mixture: the quantile function of each component at a scrambled Sobol sequence of its own."""

    def __init__(self, mixture: MixtureProposal, rng: Generator) -> None:
        self.mixture = mixture
        size = len(mixture.components[0].centre)
        self._engines = [qmc.Sobol(size + 1, rng=rng) for _ in mixture.components]
        self._powers = np.round(np.log2(mixture.weights / np.max(mixture.weights))).astype(int)

    def next(self, power: int) -> Array:
        """The next points, 2^power of the component that weighs most: (n, D)."""
        made = []
        for component, engine, less in zip(self.mixture.components, self._engines, self._powers, strict=True):
            uniforms = engine.random_base2(max(power + less, 0)).clip(OPEN, 1 - 2 * OPEN)
            points, degrees = special.ndtri(uniforms[:, 1:]), component.degrees
            if math.isfinite(degrees):
                points *= np.sqrt(degrees / 2 / special.gammaincinv(degrees / 2, uniforms[:, :1]))
            made.append(component.centre + points @ component.root.T)
        return np.concatenate(made)


def mixtures_of(points: Array, weights: Array, rng: Generator) -> list[MixtureProposal]:
    """Mixtures of one to a few t's for points (n, D) with weights that sum to one."""
    if len(points) > FITTED:
        steps = np.cumsum(weights) * FITTED / weights.sum()
        which, counts = np.unique(
            np.searchsorted(steps, np.arange(FITTED) + rng.uniform()).clip(max=len(points) - 1), return_counts=True
        )
        points, weights = points[which], counts / counts.sum()
    effective, size = 1 / np.sum(weights**2), points.shape[1]
    found: list[MixtureProposal] = []
    for number in COMPONENTS:
        if number > 1 and effective < number * (2 * size + 10):
            break
        try:
            mixture = _by_em(points, weights, number, rng)
        except (np.linalg.LinAlgError, Refused):
            continue
        if mixture is not None:
            found.append(balanced(mixture.weights, tuple(map(_as_t, mixture.components))))
    return found


def _as_t(normal: Proposal) -> Proposal:
    return Proposal(normal.centre, WIDER * math.sqrt((DEGREES - 2) / DEGREES) * normal.root, DEGREES)


def _normal(points: Array, weights: Array) -> Proposal:
    """The Normal with the moments of weighted points, nearer to a sphere the fewer they are."""
    weights = weights / weights.sum()
    centre, size = weights @ points, points.shape[1]
    off = points - centre
    covariance = off.T @ (weights[:, None] * off)
    share = size / (size + 1 / np.sum(weights**2))
    covariance = (1 - share) * covariance + share * np.trace(covariance) / size * np.eye(size)
    return Proposal(centre, np.linalg.cholesky(covariance))


def _by_em(points: Array, weights: Array, number: int, rng: Generator) -> MixtureProposal | None:
    """A mixture of so many Normals, by EM from clusters; None where one of them has next to no weight."""
    whole = _normal(points, weights)
    mixture = MixtureProposal(np.ones(1), (whole,))
    if number == 1:
        return mixture
    white = linalg.solve_triangular(whole.root, (points - whole.centre).T, lower=True).T
    drawn = white[rng.choice(len(white), len(white), p=weights)]
    centres, _ = kmeans2(drawn, number, minit="++", rng=rng, missing="warn")
    nearest = np.argmin(np.sum((white[:, None] - centres) ** 2, axis=2), axis=1)
    shares = np.eye(number)[nearest].T
    for _ in range(STEPS):
        each = shares * weights
        counts = each.sum(axis=1)
        if not counts.min() > LEAST:
            return None
        mixture = MixtureProposal(counts / counts.sum(), tuple(_normal(points, row) for row in each))
        shares = special.softmax(mixture.each(points), axis=0)
    return mixture
