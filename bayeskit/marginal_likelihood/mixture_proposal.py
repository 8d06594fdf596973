"""A mixture of Student t's fitted to draws, for densities that one t is far from.

By EM from clusters, for one to a few components; draws that none of the mixtures has seen choose the number: the one
under which they are most likely, or what else is asked for. A broad t guards the tails of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.cluster.vq import kmeans2

from bayeskit.marginal_likelihood.proposal import Array, Proposal, fitted, proposal_of

__all__ = ["MixtureProposal", "fitted_mixture", "thickened"]

COMPONENTS = (1, 2, 4, 8)  # of mixtures that are tried
STEPS = 15  # of EM
DEGREES, WIDER = 5.0, 1.15  # of freedom of a component of a mixture, and its scale in that of its points
ADDED, MUCH = 8, 50.0  # components at most, about draws whose weight is so many times that of most
DIAGONAL = 0.1  # share that the variances have in the scatter of the draws nearest to one
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


def fitted_mixture(
    first: Array, second: Array, rng: np.random.Generator, loss: Callable[[MixtureProposal], float] | None = None
) -> MixtureProposal:
    """Fitted to draws (n, D), each number of components to the first of two parts, and the best of them to both.

    The best has the least ``loss``; by default the second part is most likely under it.
    """
    made = _mixtures(first, rng)
    of = loss or (lambda mixture: -float(mixture.log_density(second).mean()))
    best = min(made, key=lambda number: of(made[number]))
    return _mixtures(np.concatenate([first, second]), rng, (best,)).get(best, made[best])


def thickened(
    mixture: MixtureProposal, draws: Array, looked_at: Array, log_weights: Callable[[MixtureProposal], Array]
) -> MixtureProposal:
    """With a t about the draw of the largest weight f/q among those ``looked_at``, until none is far above most.

    Each has the spread of the ``draws`` nearest to it, and the share of q that these have of the draws.
    """
    number = 4 * draws.shape[1] + 20
    if len(draws) < (ADDED + 1) * number:
        return mixture
    whole, now = proposal_of(draws), log_weights(mixture)
    for _ in range(ADDED):
        if not now.max() > np.median(now) + np.log(MUCH):
            break
        centre = looked_at[np.argmax(now)]
        distances = Proposal(centre, whole.root).squares(draws)
        off = draws[np.argpartition(distances, number)[:number]] - centre
        scatter = off.T @ off / number
        scatter = (1 - DIAGONAL) * scatter + DIAGONAL * np.diag(np.diag(scatter))
        one = Proposal(centre, np.linalg.cholesky(scatter), DEGREES)
        share = number / len(draws)
        # 1 / weight is q / f, and so a sum over components.
        alone = log_weights(MixtureProposal(np.ones(1), (one,)))
        now = -np.logaddexp(np.log1p(-share) - now, np.log(share) - alone)
        mixture = MixtureProposal(np.append((1 - share) * mixture.weights, share), (*mixture.components, one))
    return mixture


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
