r"""A neural network with one hidden layer: a smooth curve of the features, made of steps whose places are learnt.

.. math::

   y_i \mid b, v, c, W, \sigma \sim \mathrm{Normal}\Bigl(b + \sum_{h=1}^H v_h \tanh(c_h + z_i^\top W_h),\ \sigma^2\Bigr)

with :math:`z` the features, standardised or as they are, and the priors of Neal (1996), chapter 2:

.. math::

   b \sim \mathrm{Normal}(m_b, s_b^2), \quad v_h \sim \mathrm{Normal}(0, s^2 / H), \quad
   c_h \sim \mathrm{Normal}(0, s_c^2), \quad W_{kh} \sim \mathrm{Normal}(0, s_w^2),

and a half-Normal, half-Cauchy or exponential prior of :math:`\sigma`. The variance of the output weights falls with the
number H of hidden units, so that the prior of the curve does not depend on it much; for many units it is that of a
Gaussian process. Priors of the response's scale that are not given are in sds of the response about its mean.

Given the hidden layer the model is a linear regression: intercept and output weights are integrated out exactly, so
that :math:`H (p + 1) + 1` numbers remain of a network with p features, for importance sampling or NUTS. The posterior
is the same when hidden units change places, and when :math:`W_h`, :math:`c_h` and :math:`v_h` change their signs
together, tanh being odd: :math:`2^H H!` images of each mode, which the evidence is over. What single units do means
nothing, then; the curve does, and so does its error.

The free variables are ``input_weights`` of dims ``("feature", "unit")``, ``thresholds`` (:math:`c`) and
``output_weights`` of dims ``("unit",)``, ``intercept`` and ``sigma``.

The example are the yearly volumes of the Nile at Aswan, which fell in 1899.

Source: Neal (1996), Bayesian Learning for Neural Networks, Springer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, half_prior, model_builder, row_coords
from bayeskit.catalogue.linear_predictor import column_mean_and_scale, features
from bayeskit.datasets.schema import Example, Positive, Range, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the response"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example("nile", {"y": "volume", "x": ("year",), "row": "year"}, {"units": 3})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    units: Annotated[int, Range(1, 20)] = 2,
    standardise: bool = True,
    weight_scale: Positive = 1.0,
    threshold_scale: Positive = 1.0,
    output_scale: Positive | None = None,
    intercept_mean: float | None = None,
    intercept_scale: Positive | None = None,
    noise: Literal["half_normal", "half_cauchy", "exponential"] = "half_normal",
    noise_scale: Positive | None = None,
) -> pm.Model:
    """Build the network of ``y``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
    units : int
        Number H of hidden units.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    weight_scale, threshold_scale : float
        Prior sds of the weights into a hidden unit, for each unit of the feature as seen by the model, and of what is
        added to them: a unit is a step of about the width of one over its weight.
    output_scale : float or None
        Prior sd of the curve, in units of y: that of each output weight times the root of H; the sd of y where not
        given.
    intercept_mean, intercept_scale : float or None
        Prior mean and sd of the intercept, in units of y. Where not given, the mean of y and its sd.
    noise : {"half_normal", "half_cauchy", "exponential"}
        The prior of the sd of the noise.
    noise_scale : float or None
        Its scale (of an exponential: mean), in units of y; the sd of y where not given.
    """
    y = data["y"].to_numpy()
    (centre,), (unit,) = column_mean_and_scale(y[:, None])
    with pm.Model(coords={**column_coords(data, "x"), "unit": np.arange(units), **row_coords(data)}) as model:
        z = features(data, standardise)
        weights = pm.Normal("input_weights", 0.0, weight_scale, dims=("feature", "unit"))
        hidden = pm.math.tanh(pm.Normal("thresholds", 0.0, threshold_scale, dims="unit") + z @ weights)
        output = pm.Normal("output_weights", 0.0, (output_scale or unit) / np.sqrt(units), dims="unit")
        intercept = pm.Normal(
            "intercept", centre if intercept_mean is None else intercept_mean, intercept_scale or unit
        )
        sigma = half_prior("sigma", noise, noise_scale or unit)
        pm.Normal("y", intercept + hidden @ output, sigma, observed=y, dims="row")
    return model
