r"""Importance sampling from a mixture of Student t's that was fitted to draws.

With q fitted to half of the draws and :math:`x_i` independent draws of q,

.. math:: \hat Z = \frac1n \sum_i w_i, \qquad w_i = \frac{f(x_i)}{\frac1{|G|} \sum_\pi q(T_\pi x_i)}

for the :math:`|G|` symmetries of f (:mod:`bayeskit.marginal_likelihood.one_labelling`), is unbiased whatever q is, and
its weights are independent: the standard error of log Z is that of their mean, over the mean.

**Two halves.** The first fits mixtures of one to a few components by EM. The second, which none of them has seen,
chooses among them: the one under which it is most likely, which is the one nearest to the posterior. It then says
where q is too thin: a draw at which f/q is far above any weight lies where no proposal fell, and the estimate is
refused.

**Refusals.** Where the weights' tail has no variance (Pareto k above 0.7; Vehtari, Simpson, Gelman, Yao and Gabry
2024), or a few points carry the sum, the error would itself be a guess.

**Cost.** One evaluation of f for each proposal, and one for each draw of the second half that is looked at.

Source: Vehtari, Simpson, Gelman, Yao and Gabry (2024), Journal of Machine Learning Research 25 (72).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from scipy import special
from scipy.cluster.vq import kmeans2

from bayeskit.graphs.environment import on_one_thread, silently
from bayeskit.marginal_likelihood.estimators import Target, refused
from bayeskit.marginal_likelihood.one_labelling import labelling
from bayeskit.marginal_likelihood.proposal import (
    Array,
    Proposal,
    Refused,
    Unvisited,
    fitted,
    proposal_of,
    require_more_draws_than,
)
from bayeskit.results.records import LogEvidence

__all__ = ["estimate", "obstacle"]

STREAM = 0x13907
COMPONENTS = (2, 4, 8)  # of mixtures that are tried beside one t
STEPS = 15  # of EM
DEGREES, WIDER = 5.0, 1.15  # of freedom of a component of a mixture, and its scale in that of its points
LOOKED_AT = 500  # draws of the second half
PARETO_K = 0.7
FEWEST = 100  # effective points below which a few decide
THIN, SHARE = 5.0, 0.05  # times the largest weight, and share of all, of a draw where there should be proposals
BROAD, DEFENSIVE = 2.5, 0.05  # scale of what guards the tails, and its share of q


def obstacle(target: Target) -> str:
    """There are no draws to fit to."""
    return (
        ""
        if target.draws is not None
        else "importance sampling needs posterior draws to fit to; sample the model first"
    )


def estimate(target: Target) -> LogEvidence:
    """The log of the mean weight and its standard error."""
    rng = np.random.default_rng([target.random_seed, STREAM])
    try:
        with on_one_thread(), silently():
            return _estimate(target, rng)
    except Refused as reason:
        return refused(reason)


def _estimate(target: Target, rng: np.random.Generator) -> LogEvidence:
    first, second = _halves(target)
    mixture = max(_mixtures(first, rng), key=lambda q: float(q.log_density(second).mean()))
    points = mixture.draw(rng, target.points)
    log_weights = _log_weights(target, mixture, points)
    largest = float(log_weights.max())
    if not math.isfinite(largest):
        raise Refused("no proposal lies where the density is above zero, or it is infinite somewhere")
    seen = _log_weights(target, mixture, second[rng.permutation(len(second))[:LOOKED_AT]])
    weights = np.exp(log_weights - largest)
    mean, effective = float(weights.mean()), float(weights.sum() ** 2 / np.sum(weights**2))
    # ArviZ takes log likelihoods, of which the weights are the inverse.
    pareto = float(array_stats.psislw(np.minimum(largest - log_weights, 700.0))[1]) if np.ptp(weights) > 0 else 0.0
    if float(seen.max()) - largest > math.log(max(THIN, SHARE * mean * len(weights))):
        raise Unvisited("a draw lies where the proposals do not go: the posterior is not covered by what was fitted")
    if not pareto <= PARETO_K:
        raise Refused(f"the weights' tail is too heavy (Pareto k {pareto:.2f}, at most {PARETO_K})")
    if effective < FEWEST:
        raise Refused(f"only {effective:.0f} of {len(weights):,} points carry the weight")
    error = float(weights.std(ddof=1)) / mean / math.sqrt(len(weights))
    return LogEvidence(largest + math.log(mean), error, "estimated")


def _halves(target: Target) -> tuple[Array, Array]:
    """Draws under one labelling: to fit to, and to choose by; of every chain the first and the second half."""
    draws = np.asarray(target.draws, dtype=float)
    if not np.all(np.isfinite(draws)):
        raise Refused("a draw is not finite on the unconstrained scale")
    middle, size = draws.shape[1] // 2, draws.shape[-1]
    first, second = draws[:, :middle], draws[:, middle:]
    require_more_draws_than(first.reshape(-1, size))
    if len(target.symmetries) > 1:
        heights = target.space.log_density(first.reshape(-1, size)).reshape(first.shape[:2])
        share = labelling(first, heights, target.symmetries)
        first, second = share.applied(first), share.applied(second)
    return first.reshape(-1, size), second.reshape(-1, size)


def _log_weights(target: Target, mixture: MixtureProposal, points: Array) -> Array:
    """log of f over q, symmetrised over all labellings; zero density where f could not be evaluated."""
    if len(target.symmetries) > 1:
        total = np.full(len(points), -np.inf)
        for image in target.symmetries:
            total = np.logaddexp(total, mixture.log_density((image @ points.T).T))
        total -= math.log(len(target.symmetries))
    else:
        total = mixture.log_density(points)
    values = target.space.log_density(points)
    return np.where(np.isnan(values), -np.inf, values) - total


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
        """Independent draws, of shape (number, D)."""
        counts = rng.multinomial(number, self.weights)
        return np.concatenate([c.draw(rng, int(n)) for c, n in zip(self.components, counts, strict=True)])


def _mixtures(sample: Array, rng: np.random.Generator) -> list[MixtureProposal]:
    """One t, and mixtures by EM, each with a broad t that guards its tails."""
    whole = fitted(sample)
    if whole.degrees > DEGREES * 2:
        whole = Proposal(whole.centre, whole.root, DEGREES * 2)
    broad = proposal_of(sample, DEGREES)
    guard = Proposal(broad.centre, BROAD * broad.root, DEGREES)
    made = [MixtureProposal(np.ones(1), (whole,))]
    for number in COMPONENTS:
        if len(sample) >= number * (4 * sample.shape[1] + 20) and (mixture := _by_em(sample, number, rng)) is not None:
            made.append(mixture)
    return [MixtureProposal(np.append(m.weights * (1 - DEFENSIVE), DEFENSIVE), (*m.components, guard)) for m in made]


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
