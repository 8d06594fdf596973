r"""One image's share of a density that is the same under a group of linear maps: labels exchanged, signs changed.

The posterior of a neural network with H hidden units has :math:`2^H H!` images of every mode: its units can be
exchanged, and the weights into and out of each change their signs together. A proposal at all of them is not needed.
With q a Student t at one mode and G the group,

.. math:: f_1(x) = f(x) \, \frac{|G| \, q(x)}{\sum_{\pi \in G} q(T_\pi x)}                                     (1)

has the integral of f, whatever q is, because each :math:`\pi` has the same share of it
(:mod:`bayeskit.marginal_likelihood.one_labelling`); it is as high as f at that mode, smooth, and next to nothing at
the images. It is what is integrated; of a draw x of :math:`f_1`, :math:`T_\pi x` is a draw of f for :math:`\pi` at
random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy import sparse, special

from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.marginal_likelihood.one_labelling import Share, moved
from bayeskit.marginal_likelihood.permutations import (
    LABELLINGS,
    Coordinates,
    Exchangeable,
    Matrix,
    labellings,
    number_of_labellings,
    unchanged,
)
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.modes import LocalMode, highest_mode
from bayeskit.marginal_likelihood.quasi_monte_carlo.skewed_coordinates import axes_of
from bayeskit.marginal_likelihood.reflections import reflections
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.types import Array

__all__ = ["IMAGES", "OneOfImages", "one_of_images", "which_known"]

IMAGES = "the posterior has modes that are mirror images of each other"
NEAR = 25  # points in each of four rows, by which maps are looked for beforehand
APART = 1.0  # standard deviations, as curvature has them, between a mode and an image that is another mode
# Of q, its scale in that of the mode, and its degrees of freedom. The wider it is the smoother its share where images
# overlap: of a mixture of three on sixty overlapping numbers 62 % of the points were effective, and 19 % with 1 and 8.
WIDER, DEGREES = 2.0, 2.0
CLEAR = 0.99  # share of one image at a draw, and of the draws, from which on images do not overlap
CHECKED = 10  # draws at which f must be the same under every map


@dataclass(frozen=True, eq=False)
class OneOfImages:
    """log f₁ of (1) for a density and the maps under which it is the same, the identity first."""

    space: Unconstrained
    share: Share[Proposal]
    groups: tuple[Exchangeable, ...]  # whose labels are exchanged
    mirrored: tuple[str, ...]  # variables of which signs are changed

    def drawn(self, points: Array, rng: Generator) -> tuple[Array, tuple[str, ...]]:
        """Draws for a posterior from those of f₁ (n, D), and notes on what they mean, for a reader of their summary.

        Of labellings that are apart the draws stay at one, as a sampler's do: a state of a hidden Markov model then is
        the same state in all of them. Where they overlap there is no one of them, and each draw is put at any of them;
        as it is where signs change, since what asks for all labellings of draws knows nothing of signs. Where all of
        them are at one place (schools with the same data) nothing need be said.
        """
        q = self.share.proposal
        if not np.any(q.squares(self._images_of(q.centre[None])[:, 0]) > APART**2):
            return self.at_random(points, rng), ()
        log_share = self.share.log(points) - np.log(len(self.share.symmetries))
        if not self.mirrored and np.mean(log_share < np.log(CLEAR)) <= 1 - CLEAR:
            return points, (f"the draws are at one of {self._images}, which are alike: the posterior has them all",)
        remedy = "; summarise bk.relabel(posterior), or give the components an order"
        if self.mirrored:
            remedy = ", and predictions are the same at all"
        return self.at_random(points, rng), (
            f"the draws are at each of {self._images} equally often: means and intervals of single ones say "
            f"nothing{remedy}",
        )

    @property
    def _images(self) -> str:
        labels = [f"labellings of {group}" for group in self.groups]
        signs = [f"signs of {', '.join(self.mirrored)}"] if self.mirrored else []
        return f"{len(self.share.symmetries)} {' and '.join([*labels, *signs])}"

    @property
    def size(self) -> int:
        """D."""
        return self.space.size

    @property
    def start(self) -> Array:
        """The mode that q is at."""
        return self.share.proposal.centre

    @property
    def bounded(self) -> Array:
        """Which numbers cannot have either sign."""
        return self.space.bounded

    @property
    def slices(self) -> dict[str, slice]:
        """Which numbers a variable has."""
        return self.space.slices

    @cached_property
    def _stacked(self) -> Matrix:
        return sparse.vstack(self.share.symmetries, format="csr")

    def _images_of(self, points: Array) -> Array:
        """Of points (n, D), under each map: (|G|, n, D)."""
        return np.reshape(self._stacked @ points.T, (-1, self.size, len(points))).swapaxes(1, 2)

    def log_density(self, points: Array) -> Array:
        """At points (n, D)."""
        return self.share.of(self.space.log_density)(np.atleast_2d(points))

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """log f₁ and its gradient at one point."""
        value, gradient = self.space.value_and_gradient(point)
        q = self.share.proposal
        images = self._images_of(point[None])[:, 0]
        logs = q.log_density(images)
        slopes = q.gradient(images)
        slope = slopes[0] - self._stacked.T @ (special.softmax(logs)[:, None] * slopes).ravel()
        return value + float(logs[0] - special.logsumexp(logs) + np.log(len(images))), gradient + slope

    def prior_draws(self, number: int, random_seed: int) -> Array:
        """Draws from the prior, each as the image that is nearest."""
        points = self.space.prior_draws(number, random_seed)
        return self.share.applied(points[None])[0] if len(points) else points

    def at_random(self, points: Array, rng: Generator) -> Array:
        """Draws of f, from those of f₁ (n, D)."""
        maps = self.share.symmetries
        return moved(points, maps, rng.integers(len(maps), size=len(points)))

    def require_same_everywhere(self, draws: Array) -> None:
        """That f is the same at draws (n, D) and all their images; NoProposal where it is not."""
        images = self._images_of(draws[:: -(-len(draws) // CHECKED)])
        values = self.space.log_density(images.reshape(-1, self.size)).reshape(images.shape[:2])
        if not np.all(unchanged(values, values[0])):
            raise NoProposal("what seemed to be mirror images of the density are not the same where the mass is")


def one_of_images(space: Unconstrained, rng: Generator, random_seed: int) -> OneOfImages | None:
    """The share of one image; None where no map takes the highest mode that climbs find to another place.

    NoProposal where there are more images than are summed over, or labels can be exchanged and the mode is no peak.
    """
    near = space.start + np.random.default_rng(random_seed).standard_normal((4, NEAR, space.size))
    groups = [g for g in exchangeable_in(space, near, random_seed=random_seed) if g.complete]
    if number_of_labellings(groups) > LABELLINGS:
        raise NoProposal(IMAGES)
    images = reflections(space, near, random_seed=random_seed)
    if not groups and not images:
        return None
    mode = highest_mode(space, rng)
    if mode is None or (axes := axes_of(mode.hessian)) is None:
        if groups:
            raise NoProposal(IMAGES)
        return None  # no peak, of which there could be images
    exchanges = labellings(space, groups)
    moving = [(image, names) for image, names in images if _apart(mode, image)]
    known = which_known(space, exchanges, [image for image, _ in moving])
    counted = [each for each, is_exchange in zip(moving, known, strict=True) if not is_exchange]
    if not groups and not counted:
        return None
    maps = labellings(space, groups, [image for image, _ in counted]) if counted else exchanges
    if len(maps) > LABELLINGS:
        raise NoProposal(f"the density has more than {LABELLINGS} mirror images")
    # The image that is nearest to the start, where a sampler would begin: initial values say which label is which.
    to = maps[int(np.argmin([np.sum((each @ mode.point - space.start) ** 2) for each in maps]))]
    axes_there = to @ axes[0]
    root = WIDER * np.linalg.cholesky(axes_there @ axes_there.T)
    mirrored = tuple(dict.fromkeys(names for _, names in counted))
    return OneOfImages(space, Share(Proposal(to @ mode.point, root, DEGREES), maps), tuple(groups), mirrored)


def _apart(mode: LocalMode, image: Matrix) -> bool:
    off = image @ mode.point - mode.point
    return bool(off @ mode.hessian @ off > APART**2)


def which_known(space: Unconstrained, known: Sequence[Matrix], maps: Sequence[Matrix]) -> list[bool]:
    """Which of some maps are known, or the identity."""
    probe = Coordinates(space).probes[0]
    at = np.stack([probe, *(each @ probe for each in known)])
    return [bool(np.any(np.all(np.isclose(at, each @ probe), axis=1))) for each in maps]
