r"""Leave-one-out scores from draws: Pareto-smoothed importance sampling, or the mean over draws that had not seen it.

.. math::
    \log p(y_i \mid y_{-i}) \approx \log \sum_s w_s \, p(y_i \mid \theta_s), \qquad
    \log p(y_i \mid y_B) \approx \log \frac1S \sum_s p(y_i \mid \theta_s), \; \theta_s \sim p(\theta \mid y_B)

Source: Vehtari, Gelman, Gabry (2017), "Practical Bayesian model evaluation using leave-one-out cross-validation and
WAIC", Statistics and Computing 27, with the Monte Carlo error of a self-normalised mean.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import arviz as az
import numpy as np
import xarray as xr
from scipy import special

__all__ = ["Smoothed", "mean_over_draws", "smoothed_loo"]

SAME = 1e-12  # relative spread below which a term is the same at every draw


@dataclass(frozen=True)
class Smoothed:
    """log p(y_i | the others) of each observation i, its Monte Carlo standard error, and Pareto k."""

    elpd: np.ndarray
    error: np.ndarray
    k: np.ndarray  # −∞ where there is no tail: the term, or the largest weight, is the same at many draws
    good_k: float  # above which a term is not reliable
    shares: np.ndarray  # of shape (draws, observations): what each draw adds to a term's error, whose square is theirs

    def error_of(self, kept: np.ndarray) -> float:
        """The Monte Carlo standard error of a sum of terms: they rest on the same draws, and err together."""
        return float(np.sqrt(np.sum(self.shares[:, kept].sum(axis=1) ** 2)))

    @property
    def high(self) -> np.ndarray:
        return self.k > self.good_k

    def without(self, unseen: np.ndarray) -> Smoothed:
        """The same with no number for some observations, whose Pareto k is infinite."""
        elpd, error = (np.where(unseen, np.nan, of) for of in (self.elpd, self.error))
        return replace(self, elpd=elpd, error=error, k=np.where(unseen, np.inf, self.k))


def smoothed_loo(pointwise: np.ndarray, draws: xr.Dataset, reff: float | None) -> Smoothed:
    """From log likelihoods of shape (chains, draws, observations); ``reff`` is what share of the draws counts.

    Where it is none, ArviZ finds it from the draws of the parameters.
    """
    elpd = pointwise[0, 0].copy()
    k, good, shares = np.full(elpd.size, -np.inf), 0.7, np.zeros((pointwise[..., 0].size, elpd.size))
    # A term that is the same at every draw has no tail to smooth, and is the same without its observation, too.
    varies = np.ptp(pointwise, axis=(0, 1)) > SAME * np.maximum(1.0, np.abs(elpd))
    log_weights = -pointwise
    if (smooth := varies & ~_tied(pointwise)).any():
        tree = xr.DataTree.from_dict({"posterior": draws})
        terms = (("chain", "draw", "observation"), pointwise[..., smooth])
        tree["log_likelihood"] = xr.DataTree(xr.Dataset({"pointwise": terms}))
        # ArviZ warns of high Pareto k, which are counted here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = az.loo(tree, pointwise=True, reff=reff)
        k[smooth], good = result.pareto_k, float(result.good_k)
        log_weights[..., smooth] = result.log_weights.transpose("chain", "draw", "observation").to_numpy()
    if varies.any():
        varying, log_weights = pointwise[..., varies], log_weights[..., varies]
        log_weights -= special.logsumexp(log_weights, axis=(0, 1))
        elpd[varies] = special.logsumexp(log_weights + varying, axis=(0, 1))
        # Of Σ w p / Σ w, with p relative to its mean: w (p − 1), each draw counting for its share.
        parts = np.exp(log_weights) * np.expm1(varying - elpd[varies])
        shares[:, varies] = (parts / np.sqrt(_share(varying, reff))).reshape(-1, int(varies.sum()))
    return Smoothed(elpd, np.sqrt(np.sum(shares**2, axis=0)), k, good, shares)


def _tied(pointwise: np.ndarray) -> np.ndarray:
    """Whether the largest weight is that of a whole tail of the draws, as of finitely many hypotheses: it has no k."""
    least = pointwise.min(axis=(0, 1))
    count = np.sum(pointwise <= least + SAME * np.maximum(1.0, np.abs(least)), axis=(0, 1))
    return np.asarray(count >= math.sqrt(pointwise[..., 0].size))


def mean_over_draws(pointwise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log of the mean over (chains, draws, …) of exp(pointwise), its Monte Carlo standard error, and how many count.

    These are the draws that carry the mean, (Σp)² / Σp²: of few of them the error is not known either.
    """
    largest = pointwise.max(axis=(0, 1))
    likelihood = np.exp(pointwise - largest)
    mean, number = likelihood.mean(axis=(0, 1)), likelihood[..., 0].size
    error = likelihood.std(axis=(0, 1)) / (mean * np.sqrt(number * _share(likelihood, None)))
    return largest + np.log(mean), error, number * mean**2 / np.mean(likelihood**2, axis=(0, 1))


def _share(terms: np.ndarray, known: float | None) -> np.ndarray | float:
    """Which share of the draws counts for the mean of each term, at most one."""
    if known is not None:
        return known
    effective = az.ess(xr.Dataset({"terms": (("chain", "draw", "observation"), terms)}), method="mean")["terms"]
    share = effective.to_numpy() / terms[..., 0].size
    return np.clip(np.where(np.isfinite(share), share, 1.0), 1 / terms[..., 0].size, 1.0)
