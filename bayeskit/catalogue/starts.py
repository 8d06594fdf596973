"""Where models with hidden allocations start from: the rows of a table in groups, by k-means.

All chains of a sampler then start in one labelling of the components. The groups are numbered along the direction in
which the table varies most, so that equal data give equal numbers.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2

__all__ = ["group_rows", "group_steps", "location_and_scale"]

STARTS = 10
SEED = 20260101
SHARE = 0.1  # of the steps that a window spans, over which categories are counted, for each state


def location_and_scale(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column's entries that are there; a column that is constant up to rounding has sd 1."""
    sd = np.nanstd(table, axis=0)
    return np.nanmean(table, axis=0), np.where(sd > 1e-12 * np.nanmax(np.abs(table), axis=0, initial=0.0), sd, 1.0)


def group_rows(table: np.ndarray, groups: int) -> np.ndarray:
    """The group of each row, from 0: the k-means solution of least within-group squares of several starts.

    Parameters
    ----------
    table : ndarray of shape (rows, columns)
        Without missing entries.
    groups : int
        K, at most the number of rows.

    Returns
    -------
    ndarray of int64, shape (rows,)
        No group is empty: where the rows are too alike for that, they are cut into K equal parts along the first
        principal axis.
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
    """The group of each step of a sequence of categories: k-means of how often each is seen around the step.

    Parameters
    ----------
    codes : ndarray of int, shape (steps,)
    categories : int
    groups : int
        K, at most the number of steps.

    Returns
    -------
    ndarray of int64, shape (steps,)
    """
    width = max(1, round(SHARE * len(codes) / groups))
    seen = np.cumsum(np.vstack([np.zeros(categories), np.eye(categories)[codes]]), axis=0)
    first = np.clip(np.arange(len(codes)) - width, 0, None)
    last = np.clip(np.arange(len(codes)) + width + 1, None, len(codes))
    return group_rows((seen[last] - seen[first]) / (last - first)[:, None], groups)
