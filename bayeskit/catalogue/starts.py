r"""Where models with hidden allocations or latent components start from.

Allocations start from the rows of a table in groups, by k-means. All chains of a sampler then start in one labelling
of the components. The groups are numbered along the direction in which the table varies most, so that equal data give
equal numbers.

Components start from the maximum likelihood of a linear-Gaussian factor model. Rows are
:math:`\mathrm{Normal}(\mu, W W^\top + \Psi)` with :math:`\Psi = \sigma^2 I` (probabilistic PCA) or any diagonal (factor
analysis). Missing entries are completed by expectation: EM over the entries that are missing, with the maximisation
over :math:`W` and :math:`\Psi` from the completed covariance. Complete data take one step, which for probabilistic PCA
is the closed form of Tipping and Bishop (1999).
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from scipy.cluster.vq import kmeans2

__all__ = ["fit_factors", "group_rows", "group_steps", "location_and_scale"]

STARTS = 10
SEED = 20260101
SHARE = 0.1  # of the steps that a window spans, over which categories are counted, for each state
FLOOR = 1e-3  # least noise variance, as a share of the column's own: at zero the likelihood has no maximum
STEPS, TOLERANCE = 100, 1e-5  # of EM over missing entries: a start need not be sharp
NOISE_STEPS, NOISE_TOLERANCE = 2000, 1e-8  # of the noise of each column, given the covariance


def location_and_scale(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column's entries that are there; a column that is constant up to rounding has sd 1."""
    sd = np.nanstd(table, axis=0)
    return np.nanmean(table, axis=0), np.where(sd > 1e-12 * np.nanmax(np.abs(table), axis=0, initial=0.0), sd, 1.0)


def group_rows(table: np.ndarray, groups: int) -> np.ndarray:
    """The group of each row, from 0: the k-means solution of least within-group squares of several starts.

    No group is empty: where the rows are too alike for that, they are cut into equal parts along the first principal
    axis.
    """
    location, scale = location_and_scale(table)
    scaled = (table - location) / scale
    position = scaled @ np.linalg.svd(scaled, full_matrices=False)[2][0]
    if position @ scaled[:, 0] < 0:  # the sign of an axis is arbitrary
        position = -position
    rng = np.random.default_rng(SEED)
    best, least = None, np.inf
    for _ in range(STARTS if groups > 1 else 0):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # an empty group: judged below
            try:
                centres, labels = kmeans2(scaled, groups, minit="++", rng=rng, iter=50)
            except ValueError:  # fewer different rows than groups
                continue
        spread = float(np.sum((scaled - centres[labels]) ** 2))
        if np.all(np.bincount(labels, minlength=groups)) and spread < least * (1 - 1e-9):
            best, least = labels, spread
    if best is None:
        order = np.argsort(position, kind="stable")
        best = np.empty(len(table), dtype=np.int64)
        best[order] = np.arange(len(table)) * groups // len(table)
    means = np.bincount(best, position) / np.bincount(best)
    rank = np.empty(groups, dtype=np.int64)
    rank[np.argsort(means, kind="stable")] = np.arange(groups)
    return rank[best]


def group_steps(codes: np.ndarray, categories: int, groups: int) -> np.ndarray:
    """The group of each step of a sequence of categories: k-means of how often each is seen around the step."""
    width = max(1, round(SHARE * len(codes) / groups))
    around = pd.DataFrame(np.eye(categories)[codes]).rolling(2 * width + 1, center=True, min_periods=1)
    return group_rows(around.mean().to_numpy(), groups)


def fit_factors(y: np.ndarray, components: int, *, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    r"""The loadings, (columns, K) up to rotation, and noise sds of greatest likelihood; missing entries are NaN.

    A column that is missing throughout gets no loadings, and the noise variance 1. With :math:`V_n` the covariance of
    :math:`z_n` given the observed entries of row n, a missing entry has the mean :math:`\mu_p + w_p^\top E z_n` and,
    with another, the covariance :math:`w_p^\top V_n w_q + \delta_{pq} \psi_p`. A step costs O(N P² K).
    """
    observed = ~np.isnan(y)
    known = observed.any(axis=0)
    mean = np.where(known, np.where(observed, y, 0.0).sum(axis=0) / observed.sum(axis=0).clip(1), 0.0)
    filled = np.where(observed, y - mean, 0.0)
    variance = np.where(known, (filled**2).sum(axis=0) / observed.sum(axis=0).clip(1), 1.0)
    floor = FLOOR * np.where(variance > 0, variance, 1.0)
    if observed.all():
        return _maximise(filled.T @ filled / len(y), components, shared, floor, variance / 2)
    y = np.where(observed, y, 0.0)
    # Missing entries at their column's mean and variance: the correlations come out too small, never inconsistent.
    covariance = filled.T @ filled / len(y) + np.diag(variance * (1 - observed.mean(axis=0)))
    loadings, sd = _maximise(covariance, components, shared, floor, variance / 2)
    for _ in range(STEPS):
        before = loadings @ loadings.T + np.diag(sd**2)
        mean, covariance = _completed(y, observed, mean, loadings, sd**2)
        loadings, sd = _maximise(covariance, components, shared, floor, sd**2, steps=10)
        change = np.abs(loadings @ loadings.T + np.diag(sd**2) - before)
        if np.max(change / np.sqrt(np.outer(variance + floor, variance + floor))) < TOLERANCE:
            break
    return loadings, sd


def _completed(
    y: np.ndarray, observed: np.ndarray, mean: np.ndarray, loadings: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the rows, with the missing entries replaced by their conditional distribution."""
    weighted = loadings / noise[:, None]
    inner = np.eye(loadings.shape[1]) + np.einsum("np,pk,pl->nkl", observed, weighted, loadings, optimize=True)
    covariance = np.linalg.inv(inner)
    z = np.einsum("nkl,nl->nk", covariance, np.where(observed, y - mean, 0.0) @ weighted)
    filled = np.where(observed, y, mean + z @ loadings.T)
    mean = filled.mean(axis=0)
    # Σ_n (w_p V_n w_q) over the rows in which p and q are both missing, as the product of one matrix with itself.
    half = np.einsum("np,pk,nkl->pnl", ~observed, loadings, np.linalg.cholesky(covariance), optimize=True)
    half = half.reshape(len(mean), -1)
    residual = filled - mean
    total = residual.T @ residual + half @ half.T + np.diag(noise * (~observed).sum(axis=0))
    return mean, total / len(y)


def _maximise(
    covariance: np.ndarray,
    components: int,
    shared: bool,
    floor: np.ndarray,
    noise: np.ndarray,
    steps: int = NOISE_STEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """W and noise sds that maximise the likelihood of rows with this covariance (divided by N)."""
    if shared:
        vectors, values, _ = np.linalg.svd(covariance, hermitian=True)
        sigma = max(float(np.mean(values[components:])), float(floor.min()))
        scales = np.sqrt(np.maximum(values[:components] - sigma, 0.0))
        return vectors[:, :components] * scales, np.full(len(covariance), np.sqrt(sigma))
    noise = np.maximum(noise, floor)
    loadings = np.zeros((len(covariance), components))
    for _ in range(steps):
        # Given Ψ, W is in closed form in units of the noise; given W, Ψ is what W leaves of each variance.
        root = np.sqrt(noise)
        vectors, values, _ = np.linalg.svd(covariance / np.outer(root, root), hermitian=True)
        loadings = root[:, None] * vectors[:, :components] * np.sqrt(np.maximum(values[:components] - 1.0, 0.0))
        before, noise = noise, np.maximum(np.diag(covariance) - np.sum(loadings**2, axis=1), floor)
        if np.max(np.abs(noise / before - 1.0)) < NOISE_TOLERANCE:
            break
    return loadings, np.sqrt(noise)
