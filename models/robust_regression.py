r"""Regression with Student-t noise: rows that lie far from the line pull it less.

.. math::

   y_i \mid b, w, \sigma, \nu \sim \mathrm{StudentT}_\nu(b + z_i^\top w,\ \sigma), \qquad
   b \sim \mathrm{Normal}(m_b, s_b^2), \qquad w_k \sim \mathrm{Normal}(0, s^2)

with :math:`z` the features, standardised or as they are, and a half-Normal, half-Cauchy or exponential prior of the
scale :math:`\sigma`, which is not the sd of the noise: that is :math:`\sigma \sqrt{\nu / (\nu - 2)}`. The degrees of
freedom :math:`\nu` are given, or have the prior :math:`\mathrm{Gamma}(2, 0.1)` of Juárez and Steel (2010); with many of
them the noise is Normal. Written with a precision of its own for each row,
:math:`\lambda_i \sim \mathrm{Gamma}(\nu/2, \nu/2)` and :math:`y_i \sim \mathrm{Normal}(b + z_i^\top w, \sigma^2 /
\lambda_i)`, the rows of small :math:`\lambda_i` are the outliers:
:math:`\mathrm{E}[\lambda_i \mid y_i, b, w, \sigma] = (\nu + 1) / (\nu + r_i^2)` with
:math:`r_i = (y_i - b - z_i^\top w) / \sigma`.

Priors that are not given are in sds of the response about its mean, so that they suit any unit.

There is no closed form: the posterior and the evidence are integrals over intercept, weights, :math:`\sigma` and
:math:`\nu`, by quadrature for up to three of them, by importance sampling for more.

The free variables are ``intercept``, ``weights`` of dims ``("feature",)``, ``sigma`` and, where it is learnt, ``nu``.

The example is Brownlee's stack loss data: 21 days of a plant, of which four do not follow the others (days 1, 3, 4 and
21 by most robust methods).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pymc as pm

from bayeskit.catalogue.builder import column_coords, half_prior, model_builder, row_coords
from bayeskit.catalogue.linear_predictor import column_mean_and_scale, linear_predictor
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the response"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example(
    "stack_loss",
    {"y": "loss", "x": ("air_flow", "water_temperature", "acid_concentration"), "row": "day"},
    {"intercept_mean": 20.0, "intercept_scale": 10.0, "prior_scale": 10.0, "noise_scale": 5.0},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    freedom: Positive | None = None,
    standardise: bool = True,
    intercept_mean: float | None = None,
    intercept_scale: Positive | None = None,
    prior_scale: Positive | None = None,
    noise: Literal["half_normal", "half_cauchy", "exponential"] = "half_normal",
    noise_scale: Positive | None = None,
) -> pm.Model:
    """Build the robust regression of ``y``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
    freedom : float or None
        Degrees of freedom of the noise; learnt from the data where not given.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    intercept_mean, intercept_scale : float or None
        Prior mean and sd of the intercept, in units of y: of the response at the mean of standardised features. Where
        not given, the mean of y and ten times its sd.
    prior_scale : float or None
        Prior sd of each weight, in units of y for each unit of the feature as seen by the model; 2.5 times the sd of y
        where not given.
    noise : {"half_normal", "half_cauchy", "exponential"}
        The prior of the scale of the noise.
    noise_scale : float or None
        Its scale (of an exponential: mean), in units of y; the sd of y where not given.
    """
    y = data["y"].to_numpy()
    (centre,), (unit,) = column_mean_and_scale(y[:, None])
    base = (centre if intercept_mean is None else intercept_mean, intercept_scale or 10 * unit)
    with pm.Model(coords={**column_coords(data, "x"), **row_coords(data)}) as model:
        line = linear_predictor(data, standardise, base, prior_scale or 2.5 * unit)
        sigma = half_prior("sigma", noise, noise_scale or unit)
        nu = pm.Gamma("nu", 2.0, 0.1) if freedom is None else freedom
        pm.StudentT("y", nu=nu, mu=line, sigma=sigma, observed=y, dims="row")
    return model
