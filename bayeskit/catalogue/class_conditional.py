"""Distributions of features given an observed class, which several models share, inside a ``pm.Model`` context.

Each takes the class of every row as ``label``, an observed variable or codes: the graph then says itself how a row of
any class is distributed, and its class can be turned round by Bayes' rule. ``dims`` are those of the classes, the rows
and the columns. A ``prior`` is in the units of :func:`feature_units`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.starts import location_and_scale

__all__ = ["bernoulli_features", "class_prior", "feature_units", "normal_features", "poisson_features"]


def feature_units(values: np.ndarray, prior: Literal["data", "given"]) -> tuple[np.ndarray, np.ndarray]:
    """Where a prior of columns is centred and in which units it is: as the data have them, or zero and one."""
    columns = values.shape[1]
    return location_and_scale(values) if prior == "data" else (np.zeros(columns), np.ones(columns))


def class_prior(name: str, observed: str, codes: np.ndarray, concentration: float, dims: tuple[str, str]) -> Any:
    """The observed variable of the classes of rows, and their Dirichlet probabilities ``name``."""
    count = len(pm.modelcontext(None).coords[dims[0]])
    probability = pm.Dirichlet(name, a=np.full(count, concentration), dims=dims[0])
    return pm.Categorical(observed, p=probability, observed=codes, dims=dims[1])


def normal_features(
    name: str,
    values: np.ndarray,
    label: Any,
    *,
    prior: Literal["data", "given"],
    mean: float,
    mean_weight: float,
    degrees_of_freedom: float,
    sd: float,
    variance: Literal["each", "feature", "class"] = "each",
    dims: tuple[str, str, str] = ("class", "row", "feature"),
) -> pm.Distribution:
    """Independent Normal features given the class, with a normal-gamma prior of each mean and precision.

    ``precision`` ~ Gamma(nu / 2, rate nu sd² / 2), so that its prior mean is 1 / sd², for each class and feature or for
    each of one of them; the mean of a class is Normal with precision ``mean_weight * precision`` about ``mean``.
    """
    of_class, row, feature = dims
    location, unit = feature_units(values, prior)
    over = {"each": (of_class, feature), "feature": (feature,), "class": (of_class,)}[variance]
    half = degrees_of_freedom / 2
    precision = pm.Gamma("precision", alpha=half, beta=half * sd**2, dims=over)
    by_class = precision[:, None] if variance == "class" else precision
    by_row = precision if variance == "feature" else by_class[label]
    centre = location + mean * unit
    mu = pm.Normal("mu", centre, unit / pt.sqrt(mean_weight * by_class), dims=(of_class, feature))
    return pm.Normal(name, mu[label], unit / pt.sqrt(by_row), observed=values, dims=(row, feature))


def bernoulli_features(
    name: str,
    values: np.ndarray,
    label: Any,
    *,
    ones: float,
    zeros: float,
    dims: tuple[str, str, str] = ("class", "row", "indicator"),
) -> pm.Distribution:
    """Independent zeros and ones given the class, with Beta(ones, zeros) probabilities ``name_probability``."""
    of_class, row, feature = dims
    probability = pm.Beta(f"{name}_probability", alpha=ones, beta=zeros, dims=(of_class, feature))
    return pm.Bernoulli(name, p=probability[label], observed=values, dims=(row, feature))


def poisson_features(
    name: str,
    values: np.ndarray,
    label: Any,
    *,
    prior: Literal["data", "given"],
    shape: float,
    mean: float,
    dims: tuple[str, str, str] = ("class", "row", "item"),
) -> pm.Distribution:
    """Independent Poisson counts given the class; their rates are Gamma with this shape and mean.

    With ``prior="data"`` the unit of ``mean`` is each column's mean over all rows (one, where that is zero).
    """
    of_class, row, feature = dims
    unit = values.mean(axis=0) if prior == "data" else np.ones(values.shape[1])
    inverse_scale = shape / (mean * np.where(unit > 0, unit, 1.0))
    rate = pm.Gamma("rate", alpha=shape, beta=inverse_scale, dims=(of_class, feature))
    return pm.Poisson(name, mu=rate[label], observed=values, dims=(row, feature))
