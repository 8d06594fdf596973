r"""Residuals (y − m) / s of each of several data sets, with the moments m and s that an entry has over the others.

The observed data set is one of them, and none is told apart from the rest: statistics of exchangeable data sets are
exchangeable. Were a replicated data set one of those that its own mean is of, its residuals would be smaller than
observed ones: by a twentieth of 40 data sets. Of a hundred thousand rows and 208 data sets that called a right model
overdispersed.
"""

from __future__ import annotations

import numpy as np

__all__ = ["IN_CACHE", "moments_over", "observed_residuals", "replicated_residuals"]

IN_CACHE = 200_000  # numbers that are worked on at once: of ten times as many, most time is that of memory


def moments_over(replicated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each entry over data sets (first axis); one where all values are the same."""
    # Compared, not computed: the deviation of equal values is small by rounding, and seldom zero.
    same = replicated.min(axis=0) == replicated.max(axis=0)
    return np.where(same, replicated[0], replicated.mean(axis=0)), np.where(same, 1.0, replicated.std(axis=0))


def observed_residuals(observed: np.ndarray, replicated: np.ndarray) -> np.ndarray:
    """Of the observed data set against all replicated ones."""
    mean, spread = moments_over(replicated)
    return (observed - mean) / spread


def replicated_residuals(observed: np.ndarray, replicated: np.ndarray) -> np.ndarray:
    """Of each replicated data set against the observed and all other ones."""
    mean, number = replicated.mean(axis=0), len(replicated)
    own, deviations = observed - mean, replicated - mean
    squares = np.einsum("drk,drk->rk", deviations, deviations) + own**2
    for part in np.array_split(deviations, max(1, deviations.size // IN_CACHE)):
        centers = (own - part) / number
        spread = np.sqrt(np.maximum((squares - part * part) / number - centers * centers, 0.0))
        part -= centers
        np.divide(part, spread, out=part, where=spread > 0)
    # Where all others are the same (censored at one bound, or all zero), their spread above is what rounding left.
    differs = replicated != observed
    lone = differs.sum(axis=0) <= 1
    deviations[:, lone & ~differs.any(axis=0)] = 0.0
    lone = differs & lone
    deviations[lone] = replicated[lone] - np.broadcast_to(observed, replicated.shape)[lone]
    return deviations
