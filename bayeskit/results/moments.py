r"""Means and sds from draws, where a density that is known on a grid does not tell them.

A tail that falls off as a power of log x, seen on a grid of log x, may or may not have a mean. The draws are from the
same density. Where the tails of the draws, fitted by a generalised Pareto distribution, have a shape

.. math:: \hat k < 1/2

the variance exists as far as draws can tell, and their mean has a standard error. Elsewhere there is none to be had,
and the label says so.

Source: Vehtari, Simpson, Gelman, Yao and Gabry (2024), Journal of Machine Learning Research 25 (72).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

__all__ = ["moments_where_unknown"]

HEAVIEST = 0.5  # shape of a tail from which on there is no variance


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
