r"""Leave-one-out scores from draws: Pareto-smoothed importance sampling, or the mean over draws that had not seen it.

.. math::
    \log p(y_i \mid y_{-i}) \approx \log \sum_s w_s \, p(y_i \mid \theta_s), \qquad
    \log p(y_i \mid y_B) \approx \log \frac1S \sum_s p(y_i \mid \theta_s), \; \theta_s \sim p(\theta \mid y_B)

**Error.** What draw s adds to a score is its influence :math:`S w_s (p(y_i \mid \theta_s) / \hat p - 1)`, and the error
that of its mean, by the effective number of draws for just that: chains that are nearly independent in θ need not be in
weights that a few of their excursions carry. A sum of scores has the sum of influences. Of the largest M weights, which
hold the share T of all, a generalised Pareto distribution has taken the place. Its mean, of the most likely parameters,
has the relative variance

.. math:: \frac{(1 + k) (1 - k + 2 k^2)}{(1 - k)^2 M}

and where T² times it is above the variance of T by the smoothed weights, as for k near 0.5, influences are widened by
the difference. The k of M weights is uncertain itself, by (1 + k) / √M: where that does not leave it clearly below the
one from which on ArviZ calls a score unreliable, the score may be far above the truth, and is ``doubtful``.

Sources: Vehtari, Gelman, Gabry (2017), "Practical Bayesian model evaluation using leave-one-out cross-validation and
WAIC", Statistics and Computing 27; Smith (1987), "Estimating tails of probability distributions", Annals of Statistics
15, for the covariance of the most likely parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats

from bayeskit.results.moments import heaviest_with_mean

__all__ = ["Smoothed", "error_of_draws", "mean_over_draws", "smoothed_loo"]

SAME = 1e-12  # relative spread below which a term is the same at every draw
CLEARLY = 3.0  # standard errors of Pareto k


@dataclass(frozen=True)
class Smoothed:
    """log p(y_i | the others) of each observation i, and Pareto k."""

    elpd: np.ndarray
    k: np.ndarray  # −∞ where there is no tail: the term, or the largest weight, is the same at many draws
    good_k: float  # above which a term is not reliable
    influence: np.ndarray  # of shape (chains, draws, observations): of each draw on a term
    reff: float | None

    @cached_property
    def error(self) -> np.ndarray:
        """Of each term."""
        return np.where(np.isnan(self.elpd), np.nan, error_of_draws(self.influence, self.reff))

    def error_of(self, kept: np.ndarray) -> float:
        """The Monte Carlo standard error of a sum of terms: they rest on the same draws, and err together."""
        return float(error_of_draws(self.influence[..., kept].sum(axis=-1), self.reff))

    @property
    def high(self) -> np.ndarray:
        return self.k > self.good_k

    @property
    def doubtful(self) -> np.ndarray:
        """Where Pareto k may be high, as far as is known from its draws."""
        return self.k + CLEARLY * (1 + self.k) / math.sqrt(_tail(self.influence[..., 0].size)) > self.good_k

    def without(self, unseen: np.ndarray) -> Smoothed:
        """The same with no number for some observations, whose Pareto k is infinite."""
        return replace(self, elpd=np.where(unseen, np.nan, self.elpd), k=np.where(unseen, np.inf, self.k))


def smoothed_loo(pointwise: np.ndarray, draws: xr.Dataset, reff: float | None) -> Smoothed:
    """From log likelihoods of shape (chains, draws, observations); ``reff`` is what share of the draws counts.

    Where it is none, ArviZ finds it from the draws of the parameters.
    """
    elpd = pointwise[0, 0].copy()
    k, good, influence = np.full(elpd.size, -np.inf), 0.7, np.zeros(pointwise.shape)
    # A term that is the same at every draw has no tail to smooth, and is the same without its observation, too.
    varies = np.ptp(pointwise, axis=(0, 1)) > SAME * np.maximum(1.0, np.abs(elpd))
    log_weights = -pointwise
    if (smooth := varies & ~_tied(pointwise)).any():
        # What arviz.loo does, but for the scores, which are had from the weights below.
        worth = _share_that_counts(draws) if reff is None else reff
        smoothed, k[smooth] = array_stats.psislw(pointwise[..., smooth], r_eff=worth, axis=(0, 1))
        log_weights[..., smooth] = np.moveaxis(smoothed, 0, -1)
        good = heaviest_with_mean(pointwise[..., 0].size)
    if varies.any():
        varying, log_weights = pointwise[..., varies], log_weights[..., varies]
        log_weights -= _log_sum(log_weights)
        elpd[varies] = _log_sum(log_weights + varying)
        # Of Σ w p / Σ w, with p relative to its mean: w (p − 1).
        weights = np.exp(log_weights)
        own = weights * np.expm1(varying - elpd[varies])
        widened = np.sqrt(1 + _more_of_tail(weights, k[varies]) / np.sum(own**2, axis=(0, 1)))
        influence[..., varies] = pointwise[..., 0].size * widened * own
    return Smoothed(elpd, k, good, influence, reff)


def _share_that_counts(draws: xr.Dataset) -> float:
    """The mean effective number of draws of the parameters, as a share of all, as ArviZ has it."""
    if draws.sizes["chain"] == 1:
        return 1.0
    worth = draws.azstats.ess(method="mean")
    each = np.concatenate([np.ravel(worth[name]) for name in worth.data_vars])
    return float(each.mean() / (draws.sizes["chain"] * draws.sizes["draw"]))


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log Σ exp over chains and draws of finite numbers: SciPy, which allows for others, passes six times over them."""
    largest = values.max(axis=(0, 1))
    return np.asarray(largest + np.log(np.sum(np.exp(values - largest), axis=(0, 1))))


def _more_of_tail(weights: np.ndarray, k: np.ndarray) -> np.ndarray:
    """By how much the variance of each term's fitted tail exceeds what its weights, which add up to one, say of it."""
    weights = weights.reshape(-1, weights.shape[-1])
    number = _tail(len(weights))
    tail = np.sort(weights, axis=0)[-number - 1 :]
    excess = tail[1:] - tail[0]
    shape = np.clip(k, 0.0, 0.95)
    relative = (1 + shape) * (1 - shape + 2 * shape**2) / ((1 - shape) ** 2 * number)
    more = relative * excess.sum(axis=0) ** 2 - np.sum((excess - excess.mean(axis=0)) ** 2, axis=0)
    return np.where(np.isfinite(k), np.maximum(more, 0.0), 0.0)


def _tail(number: int) -> int:
    """How many of the largest weights are smoothed."""
    return int(3 * math.sqrt(number)) if number > 225 else number // 5


def _tied(pointwise: np.ndarray) -> np.ndarray:
    """Whether the largest weight is that of a whole tail of the draws, as of finitely many hypotheses: it has no k."""
    least = pointwise.min(axis=(0, 1))
    count = np.sum(pointwise <= least + SAME * np.maximum(1.0, np.abs(least)), axis=(0, 1))
    return np.asarray(count >= math.sqrt(pointwise[..., 0].size))


def mean_over_draws(pointwise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log of the mean over (chains, draws) of exp(pointwise), the influence of each draw on it, and how many count.

    These are the draws that carry the mean, (Σp)² / Σp²: of few of them the error is not known either.
    """
    largest = pointwise.max(axis=(0, 1))
    likelihood = np.exp(pointwise - largest)
    mean, number = likelihood.mean(axis=(0, 1)), likelihood[..., 0].size
    return largest + np.log(mean), likelihood / mean - 1, number * mean**2 / np.mean(likelihood**2, axis=(0, 1))


def error_of_draws(influence: np.ndarray, reff: float | None = None) -> np.ndarray:
    """The Monte Carlo standard error of a mean over chains and draws; by ArviZ where it is not known how many count."""
    if reff is None:
        return np.asarray(array_stats.mcse(influence, chain_axis=0, draw_axis=1, method="mean"))
    return np.asarray(np.sqrt(np.mean(influence**2, axis=(0, 1)) / (reff * np.prod(influence.shape[:2]))))
