r"""The linear predictor of a regression, :math:`\eta_i = b + \sum_k w_k z_{ik}`, with Normal or Flat priors.

The features are a data container, so that a model predicts at new rows; :math:`z` are the features as they are, or
shifted and divided by the mean and sd of the data that the model was built with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["column_mean_and_scale", "feature_terms", "features", "linear_predictor"]


def linear_predictor(
    data: xr.Dataset, standardise: bool, intercept: tuple[float, float] | None, weight_scale: float | None
) -> Any:
    """The linear predictor of each row; the model gets ``weights``, ``intercept`` and the data container ``x``.

    Parameters
    ----------
    data : xarray.Dataset
        With ``x`` of dims ``("row", "feature")``; ``feature`` is a coordinate of the model.
    standardise : bool
        Whether the features are shifted and scaled by the mean and sd of these data.
    intercept : tuple of float or None
        Prior mean and sd of the intercept, at the mean of standardised features; None for a Flat prior.
    weight_scale : float or None
        Prior sd of each weight; None for Flat priors.
    """
    terms = feature_terms(data, standardise, weight_scale)
    base = pm.Flat("intercept") if intercept is None else pm.Normal("intercept", *intercept)
    return base + terms


def feature_terms(data: xr.Dataset, standardise: bool, weight_scale: float | None, *dims: str) -> Any:
    """What the features add to each row: the predictor without its intercept.

    With ``dims`` there are weights for each entry along them, and a term for each: rows first.
    """
    z = features(data, standardise)
    over = ("feature", *dims)
    weights = (
        pm.Flat("weights", dims=over) if weight_scale is None else pm.Normal("weights", 0.0, weight_scale, dims=over)
    )
    return pt.dot(z, weights)


def features(data: xr.Dataset, standardise: bool) -> Any:
    """The features as the model sees them, of dims ``("row", "feature")``: it gets the data container ``x``."""
    x = data["x"].to_numpy()
    z = pm.Data("x", x, dims=("row", "feature"))
    if not standardise:
        return z
    shift, stretch = column_mean_and_scale(x)
    return (z - shift) / stretch


def column_mean_and_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column; a column that is constant up to rounding has scale 1."""
    # Relative to the largest entry, so that neither the squares nor the sum can overflow.
    largest = np.max(np.abs(x), axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    ratio = x / unit
    sd = ratio.std(axis=0)
    constant = sd <= 1e-12
    return ratio.mean(axis=0) * unit, np.where(constant, 1.0, sd * unit)
