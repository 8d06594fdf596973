r"""Leave-one-out scores from draws: Pareto-smoothed importance sampling, or the mean over draws that had not seen it.

.. math::
    \log p(y_i \mid y_{-i}) \approx \log \sum_s w_s \, p(y_i \mid \theta_s), \qquad
    \log p(y_i \mid y_B) \approx \log \frac1S \sum_s p(y_i \mid \theta_s), \; \theta_s \sim p(\theta \mid y_B)

Source: Vehtari, Gelman, Gabry (2017), "Practical Bayesian model evaluation using leave-one-out cross-validation and
WAIC", Statistics and Computing 27, with the Monte Carlo error of a self-normalised mean.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import arviz as az
import numpy as np
import xarray as xr

__all__ = ["Smoothed", "mean_over_draws", "smoothed_loo"]

SAME = 1e-12  # relative spread below which a term is the same at every draw


@dataclass(frozen=True)
class Smoothed:
    """log p(y_i | the others) of each observation i, its Monte Carlo standard error, and Pareto k."""

    elpd: np.ndarray
    error: np.ndarray
    k: np.ndarray  # −∞ where the term is the same at every draw
    good_k: float  # above which a term is not reliable

    @property
    def high(self) -> np.ndarray:
        return self.k > self.good_k


def smoothed_loo(pointwise: np.ndarray, draws: xr.Dataset, reff: float | None) -> Smoothed:
    """From log likelihoods of shape (chains, draws, observations); ``reff`` is what share of the draws counts.

    Where it is none, ArviZ finds it from the draws of the parameters.
    """
    elpd = pointwise[0, 0].copy()
    error, k, good = np.zeros(elpd.size), np.full(elpd.size, -np.inf), 0.7
    # A term that is the same at every draw has no tail to smooth, and is the same without its observation, too.
    varies = np.ptp(pointwise, axis=(0, 1)) > SAME * np.maximum(1.0, np.abs(elpd))
    if varies.any():
        tree = xr.DataTree.from_dict({"posterior": draws})
        terms = (("chain", "draw", "observation"), pointwise[..., varies])
        tree["log_likelihood"] = xr.DataTree(xr.Dataset({"pointwise": terms}))
        # ArviZ warns of high Pareto k, which are counted here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = az.loo(tree, pointwise=True, reff=reff)
        elpd[varies], k[varies], good = result.elpd_i, result.pareto_k, float(result.good_k)
        log_weights = result.log_weights.transpose("chain", "draw", "observation").to_numpy()
        # Of Σ w p / Σ w, with p relative to its mean: w (p − 1), each draw counting for its share.
        parts = np.exp(log_weights) * np.expm1(pointwise[..., varies] - elpd[varies])
        error[varies] = np.sqrt(np.sum(parts**2, axis=(0, 1)) / _share(pointwise[..., varies], reff))
    return Smoothed(elpd, error, k, good)


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
