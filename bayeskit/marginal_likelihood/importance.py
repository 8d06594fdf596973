r"""Importance sampling from a mixture of Student t's that was fitted to draws.

With q fitted to draws and :math:`x_i` independent points from q,

.. math:: \hat Z = \frac1n \sum_i w_i, \qquad w_i = \frac{f(x_i)}{\frac1{|G|} \sum_\pi q(T_\pi x_i)}

for the :math:`|G|` symmetries of f (:mod:`bayeskit.marginal_likelihood.one_labelling`), is unbiased whatever q is, and
its weights are independent.

**Control variates** (Owen and Zhou 2000). With :math:`q = \sum_k \alpha_k q_k`, the share :math:`\alpha_k q_k / q` that
a component has in a point is known to be :math:`\alpha_k` on average. The weights are regressed on the shares less
:math:`\alpha_k`, and log Z is the log of the intercept. What it does to the mean weight that more or fewer points than
should fell far out, where weights are next to nothing, is taken out of it; the mean by itself is many standard errors
off too often, for with few such points both it and its error are wrong. The standard error is that of the intercept,
whatever the variance at each point, by residuals over one less their leverage (MacKinnon and White 1985).

**Two halves.** Mixtures of one to a few components are fitted to the first by EM; the second, which none of them has
seen, chooses the number of components with the least mean of :math:`f/q` over it, which is the variance of the weights
but for a constant; and that mixture is fitted to all draws: the points are new ones. The mixture under which the second
half is most likely is another one where a small share of the draws lies far from most: one t, which the four components
of a mixture of irises are far more precise than. Where a draw has a much larger :math:`f/q` than most, a t is added
about it, of the spread of the draws nearest to it, time and again (Raftery and Bao 2010): a draw in a hundred that no
point comes near makes an estimate too low nearly always, its error too small with it, and is seldom far too high. As
many points are made as a standard error of two hundredths takes, up to 600,000. Draws then say where q is too thin: one
at which f/q is far above any weight lies where no proposal fell.

**Refusals.** Where the weights' tail has no variance (Pareto k above 0.7; Vehtari, Simpson, Gelman, Yao and Gabry
2024), or a few points carry the sum, the error would itself be a guess.

**Cost.** One evaluation of f for each point, and some hundred at draws; with symmetries q is evaluated once for each.

Sources: Owen and Zhou (2000), Journal of the American Statistical Association 95, 135-143; MacKinnon and White (1985),
Journal of Econometrics 29, 305-325; Raftery and Bao (2010), Biometrics 66, 1162-1173; Vehtari, Simpson,
Gelman, Yao and Gabry (2024), Journal of Machine Learning Research 25 (72).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayeskit.graphs.environment import on_one_thread, silently
from bayeskit.marginal_likelihood.estimators import PRECISE, Target, refused
from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal, fitted_mixture, thickened
from bayeskit.marginal_likelihood.one_labelling import labelling
from bayeskit.marginal_likelihood.proposal import (
    Array,
    Refused,
    Unvisited,
    pareto_k,
    require_more_draws_than,
)
from bayeskit.results.records import LogEvidence

__all__ = ["estimate", "obstacle"]

STREAM = 0x13907
MOST, MARGIN = 600_000, 1.3  # points, and how many more are made than seem to be needed
MISSED = 0.01  # share of the draws that may
LOOKED_AT = 2_000  # draws that may lie where no proposal does
PARETO_K = 0.7
RANK, LEVERAGE = 1e-10, 0.01  # of the regression on shares: its least singular value, one less a point's most leverage
BLOCKS = 4  # pieces of each chain in either half
FEWEST = 100  # effective points below which a few decide
THIN, SHARE = 5.0, 0.05  # times the largest weight, and share of all, of a draw where proposals are missing


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
    # The points are new ones: the draws that choose are free to be fitted to as well.
    draws = np.concatenate([first, second])
    seen, unseen = (half[rng.permutation(len(half))[:LOOKED_AT]] for half in (first, second))
    looked_at = np.concatenate([seen, unseen])
    heights = target.space.log_density(looked_at)

    def variance(mixture: MixtureProposal) -> float:
        return float(special.logsumexp(_weighed(target, mixture, unseen, heights[len(seen) :]).log_weights))

    def log_weights(mixture: MixtureProposal) -> Array:
        return _weighed(target, mixture, looked_at, heights).log_weights

    mixture = thickened(fitted_mixture(first, second, rng, variance), draws, looked_at, log_weights)
    at_draws = log_weights(mixture)
    weighed = _weighed(target, mixture, mixture.draw(rng, target.points))
    # Again where the first few thousand have missed the heaviest weights and said that fewer were enough.
    while (wanted := weighed.error_with(at_draws) / PRECISE) > 1 and (made := weighed.log_weights.size) < MOST:
        more = math.ceil(min(MARGIN * wanted**2 * made, MOST)) - made
        weighed = weighed.with_more(_weighed(target, mixture, mixture.draw(rng, more)))
    return _judged(weighed, at_draws)


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Points from a mixture, the density at them over that of the mixture, and what each component has of that."""

    log_weights: Array  # (n,)
    shares: Array  # (K, n), summing to one over the components
    alpha: Array  # (K,), their means

    def with_more(self, other: _Weighed) -> _Weighed:
        """With other points from the same mixture."""
        log_weights = np.append(self.log_weights, other.log_weights)
        return _Weighed(log_weights, np.concatenate([self.shares, other.shares], axis=1), self.alpha)

    def error_with(self, seen: Array) -> float:
        """Standard error of the log of the mean weight, with the share that is missed of those at draws."""
        value, error = self.mean(float(self.log_weights.max()))
        return error / value + self.missed(seen)

    def missed(self, seen: Array) -> float:
        """The share of the draws whose weight, would it fall to a point, were far above all others."""
        largest = float(self.log_weights.max())
        together = float(np.exp(self.log_weights - largest).sum())
        return float(np.mean(seen - largest > math.log(max(THIN, SHARE * together))))

    def mean(self, unit: float) -> tuple[float, float]:
        """The mean of exp(log weight - unit), by its regression on the shares, and its standard error."""
        # The shares sum to one: one of them follows from the others.
        design = np.column_stack([np.ones(len(self.log_weights)), (self.shares - self.alpha[:, None])[1:].T])
        basis, singular, turn = np.linalg.svd(design, full_matrices=False)
        kept = singular > RANK * singular[0]
        basis = basis[:, kept]
        weights = np.exp(self.log_weights - unit)
        at_zero = basis @ (turn[kept, 0] / singular[kept])  # the intercept's weight of each weight
        residuals = (weights - basis @ (basis.T @ weights)) / (1 - np.sum(basis**2, axis=1)).clip(min=LEVERAGE)
        return float(at_zero @ weights), float(np.linalg.norm(at_zero * residuals))


def _judged(weighed: _Weighed, seen: Array) -> LogEvidence:
    """The log of the mean weight; refused where few weights decide, or would at a draw (``seen``)."""
    log_weights = weighed.log_weights
    largest = float(log_weights.max())
    if not math.isfinite(largest):
        raise Refused("no proposal lies where the density is above zero, or it is infinite somewhere")
    weights = np.exp(log_weights - largest)
    effective = float(weights.sum() ** 2 / np.sum(weights**2))
    if (missed := weighed.missed(seen)) > MISSED:
        raise Unvisited(f"{missed:.1%} of the draws lie where the proposals do not go: it is too thin there")
    pareto = pareto_k(log_weights)
    if not pareto <= PARETO_K:
        raise Refused(f"the weights' tail is too heavy (Pareto k {pareto:.2f}, at most {PARETO_K})")
    if effective < FEWEST:
        raise Refused(f"only {effective:.0f} of {len(weights):,} points carry the weight")
    mean, error = weighed.mean(largest)
    return LogEvidence(largest + math.log(mean), error / mean + missed, "estimated")


def _halves(target: Target) -> tuple[Array, Array]:
    """Draws under one labelling: to fit to, and to choose by; of every chain long pieces in turn.

    A mode that a chain comes to late is in both.
    """
    draws = np.asarray(target.draws, dtype=float)
    if not np.all(np.isfinite(draws)):
        raise Refused("a draw is not finite on the unconstrained scale")
    size = draws.shape[-1]
    in_first = np.arange(draws.shape[1]) * 2 * BLOCKS // draws.shape[1] % 2 == 0
    first, second = draws[:, in_first], draws[:, ~in_first]
    require_more_draws_than(first.reshape(-1, size))
    if len(target.symmetries) > 1:
        heights = target.space.log_density(first.reshape(-1, size)).reshape(first.shape[:2])
        share = labelling(first, heights, target.symmetries)
        first, second = share.applied(first), share.applied(second)
    return first.reshape(-1, size), second.reshape(-1, size)


def _weighed(target: Target, mixture: MixtureProposal, points: Array, heights: Array | None = None) -> _Weighed:
    """f over q, symmetrised over all labellings; zero density where f could not be evaluated. ``heights`` is f."""
    parts = mixture.each(points)
    if len(target.symmetries) > 1:
        for image in target.symmetries[1:]:  # the identity comes first
            parts = np.logaddexp(parts, mixture.each((image @ points.T).T))
        parts -= math.log(len(target.symmetries))
    total = special.logsumexp(parts, axis=0)
    values = target.space.log_density(points) if heights is None else heights
    log_weights = np.where(np.isnan(values), -np.inf, values) - total
    return _Weighed(log_weights, np.exp(parts - total), mixture.weights)
