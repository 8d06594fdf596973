r"""Four tests of one scalar's draws against its exact marginal posterior, three of them in Monte Carlo standard errors.

With x the draws (chains × draws), F, μ, σ, κ the exact marginal's distribution function, mean, standard deviation and
kurtosis, and n_mean, n_sd, n_ecdf ArviZ's effective sample sizes of the draws for the mean, for the standard deviation,
and the smaller of its bulk and tail sizes (never above the number of draws):

.. math::
    z_{mean} = \frac{\bar x - \mu}{\sigma / \sqrt{n_{mean}}}, \qquad
    z_{sd} = \frac{s - \sigma}{\sigma \sqrt{(\kappa - 1) / (4 n_{sd})}}, \qquad
    D = \sup_x |\hat F(x) - F(x)| \text{ at size } n_{ecdf}.

The standard errors hold the *exact* σ and κ: with those of the draws, a skewed marginal's low sd comes with a low
standard error, and right draws are refused. Even so, the z-scores are close to normal only if the marginal is. Where it
is skewed or has heavy tails (skewness beyond 0.5, excess kurtosis beyond 1, or moments that do not exist, as for a
Student-t with few degrees of freedom) they are taken of the *normal scores* w = Φ⁻¹(F(x)), which are standard normal
exactly if x has the distribution F: same test, μ = 0, σ = 1, κ = 3. Where the variance is infinite there is no sd to
test, and z_sd is instead the mean of the *folded* scores v = Φ⁻¹(|2F(x) − 1|), again standard normal: it sees a change
of spread, with more power in heavy tails than the sd of w. A discrete marginal has F drawn uniformly within its jump
(the randomised probability integral transform).

Where F has no closed form (an element of a Wishart matrix, a Deterministic), x is compared with M independent exact
draws: normal scores of the ranks in the pooled sample, and both standard errors: 1/n becomes 1/n + 1/M, and the ECDF
test has size n M / (n + M).

An effective size is itself an estimate, of few draws a poor one: of autoregressive chains its square root varies like
that of χ²_ν/ν with ν = n/5. The p-values of the z-scores are therefore those of Student's t with ν degrees of freedom,
and that of D, 2 exp(−2 n D²), becomes 2 (1 + 4 n D² / ν)^(−ν/2): five effective draws prove nothing.

The fourth test needs no effective size. Of N draws, however dependent, one with F(x) or 1 − F(x) below p/2N comes with
probability p at most: draws from before a chain found the posterior, or tails that are too heavy, are seen by it where
autocorrelation hides them from the others.

Sources: Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), "Rank-normalization, folding, and localization: an
improved R-hat", Bayesian Analysis 16; Säilynoja, Bürkner, Vehtari (2022), "Graphical test for discrete uniformity",
Statistics and Computing 32 (the use of the ECDF of the transform).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy import special, stats

from bayeskit.types import Array

__all__ = ["ScalarTests", "compare_with_distribution", "compare_with_draws", "holm", "kolmogorov_distance"]

NEAR_NORMAL_SKEWNESS = 0.5
NEAR_NORMAL_EXCESS_KURTOSIS = 1.0
# Scores beyond this many standard deviations carry no more information than "impossible".
LARGEST_SCORE = 8.0
BEYOND = "all draws lie where the exact posterior has next to no mass"
DRAWS_A_DEGREE = 5.0  # effective draws that make a degree of freedom of their own estimated number


@dataclass(frozen=True)
class ScalarTests:
    """The statistics of one scalar.

    ``scale`` says what the z-scores were taken of: ``draws``, ``normal scores``, ``folded scores`` (z_sd only; z_mean
    is of the normal scores), ``ranks`` (against exact draws), or ``constant`` (nothing to test). ``problem`` says why
    there are no statistics: draws all equal, not finite, outside the support; the most extreme draw may be known.
    """

    z_mean: float = np.nan
    z_sd: float = np.nan
    p_ecdf: float = np.nan
    ess: float = np.nan
    rhat: float = np.nan
    scale: str = ""
    problem: str = ""
    p_extreme: float = np.nan
    ess_bulk: float = np.nan
    ess_tail: float = np.nan

    @property
    def p_values(self) -> dict[str, float]:
        """Two-sided p-values by test; empty where there is no test."""
        extreme = {} if np.isnan(self.p_extreme) else {"extreme": self.p_extreme}
        if self.problem:
            return extreme
        freedom = self.ess / DRAWS_A_DEGREE
        return {
            "mean": float(2 * stats.t.sf(abs(self.z_mean), freedom)),
            "sd": float(2 * stats.t.sf(abs(self.z_sd), freedom)),
            "ecdf": _at_estimated_size(self.p_ecdf, freedom),
            **extreme,
        }


def compare_with_distribution(draws: Array, probability: Array, moments: Sequence[float]) -> ScalarTests:
    """Draws (chains, draws) against a closed-form marginal.

    ``probability`` is F(draws), randomised within the jumps of a discrete marginal; the moments are the exact mean,
    standard deviation, skewness and excess kurtosis, NaN or infinite where they do not exist.
    """
    scores = _normal_scores(probability)
    mean, sd, skewness, excess = moments
    near_normal = np.isfinite(moments).all() and sd > 0
    near_normal &= abs(skewness) <= NEAR_NORMAL_SKEWNESS and abs(excess) <= NEAR_NORMAL_EXCESS_KURTOSIS
    judged, kurtosis = ((draws - mean) / sd, 3 + excess) if near_normal else (scores, 3.0)
    sizes = _effective_sizes(judged, scores)
    # It holds however dependent draws are: of those that are all equal, too.
    p_extreme = min(1.0, 2 * draws.size * float(min(probability.min(), 1 - probability.max())))
    if isinstance(sizes, str):
        beyond = np.ptp(draws) > 0 and np.ptp(judged) == 0
        return ScalarTests(problem=BEYOND if beyond else sizes, p_extreme=p_extreme)
    n_mean, n_sd, bulk, tail, rhat = sizes
    n_ecdf = min(bulk, tail)
    if np.isfinite(sd):
        z_sd = (judged.std(ddof=1) - 1) / np.sqrt((kurtosis - 1) / (4 * n_sd))
        scale = "draws" if near_normal else "normal scores"
    else:
        folded = _normal_scores(np.abs(2 * probability - 1))
        z_sd = folded.mean() * np.sqrt(float(array_stats.ess(folded, method="mean")))
        scale = "folded scores"
    distance = kolmogorov_distance(probability.ravel())
    z_mean, p_ecdf = float(judged.mean() * np.sqrt(n_mean)), _kolmogorov_p(distance, min(n_ecdf, draws.size))
    return ScalarTests(z_mean, float(z_sd), p_ecdf, n_ecdf, rhat, scale, "", p_extreme, bulk, tail)


def compare_with_draws(draws: Array, exact: Array, rng: np.random.Generator) -> ScalarTests:
    """Draws (chains, draws) against independent exact draws (M,); ties of discrete variables are broken at random."""
    pooled = np.concatenate([draws.ravel(), exact])
    order = np.lexsort((rng.random(pooled.size), pooled))
    rank = np.empty(pooled.size)
    rank[order] = np.arange(pooled.size)
    probability = (rank + 0.5) / pooled.size
    scores = _normal_scores(probability)
    own, other = scores[: draws.size].reshape(draws.shape), scores[draws.size :]
    sizes = _effective_sizes(own if np.ptp(draws) > 0 else np.zeros_like(draws), own)
    if isinstance(sizes, str):
        return ScalarTests(problem=sizes)
    n_mean, n_sd, bulk, tail, rhat = sizes
    n_ecdf = min(bulk, tail)
    n_ecdf_capped, m = min(n_ecdf, draws.size), exact.size
    distance = stats.ks_2samp(probability[: draws.size], probability[draws.size :], method="asymp").statistic
    z_mean = (own.mean() - other.mean()) / np.sqrt(1 / n_mean + 1 / m)
    z_sd = (own.std(ddof=1) - other.std(ddof=1)) / np.sqrt((1 / n_sd + 1 / m) / 2)
    p_ecdf = _kolmogorov_p(float(distance), n_ecdf_capped * m / (n_ecdf_capped + m))
    return ScalarTests(float(z_mean), float(z_sd), p_ecdf, n_ecdf, rhat, "ranks", ess_bulk=bulk, ess_tail=tail)


def _normal_scores(probability: Array) -> Array:
    tiny = special.ndtr(-LARGEST_SCORE)
    return special.ndtri(np.clip(probability, tiny, 1 - tiny))


def _effective_sizes(judged: Array, scores: Array) -> tuple[float, float, float, float, float] | str:
    """ESS for the mean and the sd, of bulk and tail, and R-hat (NaN for one chain); or why they do not exist."""
    if judged.shape[1] < 4:
        return f"{judged.shape[1]} draws a chain: at least 4 are needed"
    if np.ptp(judged) == 0:
        return "all draws are equal"
    # A chain that never moves has no variance within; the ratio is then infinite, which is the right answer.
    with np.errstate(divide="ignore", invalid="ignore"):
        n_mean = float(array_stats.ess(judged, method="mean"))
        n_sd = float(array_stats.ess(judged, method="sd"))
        bulk = float(array_stats.ess(scores, method="bulk"))
        tail = float(array_stats.ess(scores, method="tail", prob=(0.05, 0.95)))
        rhat = float(array_stats.rhat(scores)) if judged.shape[0] > 1 else np.nan
    if not np.isfinite([n_mean, n_sd, bulk, tail]).all():
        return "the effective sample size is not finite"
    return n_mean, n_sd, bulk, tail, rhat


def kolmogorov_distance(values: Array) -> float:
    """Kolmogorov's D of values in [0, 1]; :func:`scipy.stats.ks_1samp` takes a fifth of the time of all four tests."""
    steps = np.arange(values.size + 1) / values.size
    in_order = np.sort(values)
    return float(max((steps[1:] - in_order).max(), (in_order - steps[:-1]).max()))


def _kolmogorov_p(distance: float, size: float) -> float:
    """p-value of Kolmogorov's distance at an effective sample size, by the exact distribution at the size below."""
    return float(stats.kstwo.sf(distance, max(int(size), 1)))


def _at_estimated_size(p_value: float, freedom: float) -> float:
    """Kolmogorov's p-value, averaged over what the effective size may be."""
    if p_value <= 0:
        return 0.0
    return float(min(1.0, 2 * (1 + 2 * np.log(2 / p_value) / freedom) ** (-freedom / 2)))


def holm(p_values: Array, alpha: float) -> NDArray[np.bool_]:
    """Holm's step-down correction: which of the tests fail at the family-wise level ``alpha``.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎, the tests 1 … i fail where p₍ⱼ₎ ≤ α / (m − j + 1) for every j ≤ i. It controls the
    probability of any false alarm at α under any dependence between the tests, and is never weaker than Bonferroni.
    """
    order = np.argsort(p_values, kind="stable")
    m = p_values.size
    fails = np.logical_and.accumulate(p_values[order] <= alpha / (m - np.arange(m)))
    result = np.zeros(m, dtype=bool)
    result[order] = fails
    return result
