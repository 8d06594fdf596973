r"""Measurements of one quantity: a Normal with unknown mean and variance.

.. math::

   \sigma^2 \sim \mathrm{InverseGamma}(a_0, b_0), \qquad
   \mu \mid \sigma^2 \sim \mathrm{Normal}(m_0, \sigma^2 / \kappa_0), \qquad
   y_i \mid \mu, \sigma^2 \sim \mathrm{Normal}(\mu, \sigma^2)

This is the normal-inverse-gamma prior. With :math:`n` measurements of mean :math:`\bar y`, the posterior has
:math:`\kappa_n = \kappa_0 + n`, :math:`m_n = (\kappa_0 m_0 + n \bar y) / \kappa_n`, :math:`a_n = a_0 + n/2` and
:math:`b_n = b_0 + \frac12 \sum (y_i - \bar y)^2 + \frac12 \kappa_0 n (\bar y - m_0)^2 / \kappa_n`; the mean's marginal
is a Student-t with :math:`2 a_n` degrees of freedom. The evidence is
:math:`(2\pi)^{-n/2} \sqrt{\kappa_0 / \kappa_n} \cdot \Gamma(a_n) / \Gamma(a_0) \cdot b_0^{a_0} / b_n^{a_n}`.
In the precision :math:`\tau = 1 / \sigma^2` the same prior is :math:`\tau \sim \mathrm{Gamma}(a_0, b_0)`; the
evidence does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {"y": Variable(doc="the measurements")}

EXAMPLE = Example("cavendish", {"y": "density"}, {"mean": 5.0, "mean_weight": 0.1, "shape": 2.0, "rate": 0.1})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    mean: float = 0.0,
    mean_weight: Positive = 0.01,
    shape: Positive = 1.0,
    rate: Positive = 1.0,
    parametrisation: Literal["variance", "precision"] = "variance",
) -> pm.Model:
    """Build the Normal model with unknown mean and variance.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` with dims ``("row",)``.
    mean : float
        Prior mean m0 of the mean, in units of y.
    mean_weight : float
        As many measurements kappa0 as the prior mean is worth.
    shape : float
        Shape a0 of the inverse-gamma prior of the variance: half as many measurements as it is worth.
    rate : float
        Scale b0 of the inverse-gamma prior (the rate of the precision's Gamma), in squared units of y; the prior mode
        of the variance is b0 / (a0 + 1).
    parametrisation : {"variance", "precision"}
        The variable that the graph is written in; the model is the same.

    Returns
    -------
    pymc.Model
        With the free scalars ``mu`` and ``variance`` or ``precision``.
    """
    y = data["y"].to_numpy()
    with pm.Model(coords={"row": np.arange(y.size), **row_coords(data)}) as model:
        if parametrisation == "variance":
            variance = pm.InverseGamma("variance", alpha=shape, beta=rate)
            mu = pm.Normal("mu", mean, sigma=pm.math.sqrt(variance / mean_weight))
            pm.Normal("y", mu, sigma=pm.math.sqrt(variance), observed=y, dims="row")
        else:
            precision = pm.Gamma("precision", alpha=shape, beta=rate)
            mu = pm.Normal("mu", mean, tau=mean_weight * precision)
            pm.Normal("y", mu, tau=precision, observed=y, dims="row")
    return model
