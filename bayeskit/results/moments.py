r"""Means and sds from draws, and whether there are any.

Where the tails of the draws, fitted by a generalised Pareto distribution, have a shape

.. math:: \hat k < 1/2

the variance exists as far as draws can tell, and their mean has a standard error. From 1/2 on, the shape of 1/x³, there
is no variance to be had, and from min(1 − 1 / log10 S, 0.7) of S draws on no mean either: draws of a half-Cauchy have a
mean and an sd, of which every seed has others. The label says so.

A density that is known on a grid does not always tell its moments: a tail that falls off as a power of log x may or may
not have a mean. The draws are from the same density, and take its place.

Source: Vehtari, Simpson, Gelman, Yao and Gabry (2024), Journal of Machine Learning Research 25 (72).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["TAIL_INDEX", "heaviest_with_mean", "moments_from_draws", "moments_where_unknown", "unknown_moments"]

TAIL_INDEX = "tail_index"  # attribute of draws: of each entry, where its density tells that it has no variance
HEAVIEST = 0.5  # shape of a tail from which on there is no variance
LIGHT = 8.0  # distances between the quartiles, from the median, that no draw of 1/x³ among many stays within


def heaviest_with_mean(number: int) -> float:
    """The shape of a tail from which on so many draws tell no mean, min(1 − 1 / log10 S, 0.7)."""
    return min(1 - 1 / math.log10(number), 0.7)


def moments_from_draws(
    mean: np.ndarray, sd: np.ndarray, errors: np.ndarray, draws: xr.DataArray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Moments of draws without those that their tails do not tell, and the label of each entry."""
    mean, sd, errors = (np.ravel(v).astype(float) for v in (mean, sd, errors))
    labels = np.full(len(mean), "estimated", dtype=object)
    for k, (index, missing) in unknown_moments(draws).items():
        sd[k] = np.nan
        if missing != "sd":
            mean[k] = errors[k] = np.nan
        labels[k] = f"estimated; {missing} not known (tail index k = {index:.2f})"
    return mean, sd, errors, labels


def unknown_moments(draws: xr.DataArray) -> dict[int, tuple[float, str]]:
    """By the number of an entry, in C order: its tail index, and which moments the draws do not tell; few have any."""
    sample = draws.transpose("chain", "draw", ...).to_numpy()
    flat = sample.reshape(*sample.shape[:2], -1)
    if not flat.size or flat.dtype.kind != "f":
        return {}
    with np.errstate(invalid="ignore"):  # of draws that are infinite there is nothing to tell
        low, middle, high = np.quantile(flat, (0.25, 0.5, 0.75), axis=(0, 1))
        farthest = np.maximum(flat.max(axis=(0, 1)) - middle, middle - flat.min(axis=(0, 1)))
        far = np.isfinite(farthest) & (high > low) & (farthest > LIGHT * (high - low))
    from arviz_stats.base import array_stats

    number = flat.shape[0] * flat.shape[1]
    without_mean = heaviest_with_mean(max(number, 11))
    indices = {int(k): float(array_stats.pareto_khat(flat[..., k])) for k in np.flatnonzero(far)}
    for k, told in enumerate(np.ravel(draws.attrs.get(TAIL_INDEX, ()))):  # which so few draws need not show
        indices[k] = max(float(told), indices.get(k, 0.0))
    return {k: (i, "mean and sd" if i >= without_mean else "sd") for k, i in indices.items() if i >= HEAVIEST}


def moments_where_unknown(
    mean: Any, sd: Any, draws: xr.DataArray, label: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, sd, Monte Carlo error of the mean and label of each entry: from draws, where mean or sd is nan."""
    from arviz_stats.base import array_stats

    sample = draws.transpose("chain", "draw", ...).to_numpy()
    flat = sample.reshape(*sample.shape[:2], -1)
    size = flat.shape[2]
    moments = [np.broadcast_to(np.ravel(v), size).astype(float).copy() for v in (mean, sd)]
    errors, labels = np.zeros(size), np.full(size, label, dtype=object)
    for k in np.flatnonzero(np.isnan(moments[0]) | np.isnan(moments[1])):
        entry, known = flat[..., k], np.isnan(moments[0][k])
        if np.isinf(moments[1][k]):
            # Two heavy tails may leave no mean, and of 4,000 draws k̂ says so at one seed and not at another.
            labels[k] = f"{label}; the sd is infinite, the mean not known"
            continue
        if not np.all(np.isfinite(entry)) or not array_stats.pareto_khat(entry) < HEAVIEST:
            missing = "mean and sd" if known else "sd"
            labels[k] = f"{label}; {missing} not known, for the tail is too heavy"
            continue
        if known:
            moments[0][k], errors[k] = entry.mean(), array_stats.mcse(entry, method="mean")
        moments[1][k] = entry.std(ddof=1)
        labels[k] = f"{label} interval, estimated moments" if known else f"{label}, estimated sd"
    return moments[0], moments[1], errors, labels
