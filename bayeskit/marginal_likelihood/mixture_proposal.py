"""A mixture of Student t's fitted to draws, for densities that one t is far from.

By EM from clusters, for one to a few components; draws that none of the mixtures has seen choose the number under which
they are most likely, which is the mixture nearest to the posterior. A broad t guards the tails of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.cluster.vq import kmeans2

from bayeskit.marginal_likelihood.proposal import Array, Proposal, fitted, proposal_of

__all__ = ["MixtureProposal", "fitted_mixture"]

COMPONENTS = (1, 2, 4, 8)  # of mixtures that are tried
STEPS = 15  # of EM
DEGREES, WIDER = 5.0, 1.15  # of freedom of a component of a mixture, and its scale in that of its points
BROAD, DEFENSIVE = 2.5, 0.05  # scale of what guards the tails, and its share of q


@dataclass(frozen=True, eq=False)
class MixtureProposal:
    """Multivariate t's with weights."""

    weights: Array
    components: tuple[Proposal, ...]

    def each(self, points: Array) -> Array:
        """log of each component times its weight at points (n, D): (K, n)."""
        parts = (component.log_density(points) for component in self.components)
        return np.stack([np.log(w) + p for w, p in zip(self.weights, parts, strict=True)])

    def log_density(self, points: Array) -> Array:
        """log q at points of shape (n, D)."""
        return np.asarray(special.logsumexp(self.each(points), axis=0))

    def draw(self, rng: np.random.Generator, number: int) -> Array:
        """Draws of shape (number, D), as many from each component as it weighs; what is left over is at random."""
        expected = number * self.weights
        left = np.floor(np.append(0.0, np.cumsum(expected - np.floor(expected))) + rng.random())
        counts = np.floor(expected) + np.diff(left)
        return np.concatenate([c.draw(rng, int(n)) for c, n in zip(self.components, counts, strict=True)])


def fitted_mixture(first: Array, second: Array, rng: np.random.Generator) -> MixtureProposal:
    """Fitted to draws (n, D), the number of its components to the first and chosen by the second of two parts."""
    made = _mixtures(first, rng)
    best = max(made, key=lambda number: float(made[number].log_density(second).mean()))
    return _mixtures(np.concatenate([first, second]), rng, (best,)).get(best, made[best])


def _mixtures(
    sample: Array, rng: np.random.Generator, numbers: Sequence[int] = COMPONENTS
) -> dict[int, MixtureProposal]:
    """One t, and mixtures by EM, by their number of components; each with a broad t that guards its tails."""
    whole = fitted(sample)
    if whole.degrees > DEGREES * 2:
        whole = Proposal(whole.centre, whole.root, DEGREES * 2)
    broad = proposal_of(sample, DEGREES)
    guard = Proposal(broad.centre, BROAD * broad.root, DEGREES)
    made = {1: MixtureProposal(np.ones(1), (whole,))} if 1 in numbers else {}
    for number in numbers:
        if (
            number > 1
            and len(sample) >= number * (4 * sample.shape[1] + 20)
            and (mixture := _by_em(sample, number, rng)) is not None
        ):
            made[number] = mixture
    share = 1 - DEFENSIVE
    return {
        number: MixtureProposal(np.append(share * each.weights, DEFENSIVE), (*each.components, guard))
        for number, each in made.items()
    }


def _by_em(sample: Array, number: int, rng: np.random.Generator) -> MixtureProposal | None:
    """A mixture of so many Normals, by EM from clusters, its components made t's; None where one of them collapses."""
    centre, root = sample.mean(axis=0), proposal_of(sample).root
    white = np.linalg.solve(root, (sample - centre).T).T
    _, labels = kmeans2(white, number, minit="++", rng=rng, missing="warn")
    shares = np.eye(number)[labels].T
    ridge = 1e-3 * root @ root.T
    for _ in range(STEPS):
        counts = shares.sum(axis=1)
        if counts.min() < 2 * sample.shape[1] + 5:
            return None
        parts = []
        for share, count in zip(shares, counts, strict=True):
            middle = share @ sample / count
            off = sample - middle
            parts.append(Proposal(middle, np.linalg.cholesky(off.T @ (share[:, None] * off) / count + ridge)))
        mixture = MixtureProposal(counts / counts.sum(), tuple(parts))
        shares = special.softmax(mixture.each(sample), axis=0)
    return MixtureProposal(
        mixture.weights, tuple(Proposal(p.centre, WIDER * p.root, DEGREES) for p in mixture.components)
    )
