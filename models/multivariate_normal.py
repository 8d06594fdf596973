r"""Measurements of several quantities at once: a multivariate Normal with unknown mean and precision.

.. math::

   \Lambda \sim \mathrm{Wishart}(\nu_0, V_0), \qquad
   \mu \mid \Lambda \sim \mathrm{Normal}(m_0, (\kappa_0 \Lambda)^{-1}), \qquad
   y_i \mid \mu, \Lambda \sim \mathrm{Normal}(\mu, \Lambda^{-1})

This is the Normal-Wishart prior on :math:`D` features. With :math:`n` rows of mean :math:`\bar y` and scatter
:math:`S = \sum_i (y_i - \bar y)(y_i - \bar y)^\top` the posterior has :math:`\kappa_n = \kappa_0 + n`,
:math:`m_n = (\kappa_0 m_0 + n \bar y) / \kappa_n`, :math:`\nu_n = \nu_0 + n` and
:math:`V_n^{-1} = V_0^{-1} + S + \kappa_0 n (\bar y - m_0)(\bar y - m_0)^\top / \kappa_n`; the mean's marginal is a
multivariate Student-t with :math:`\nu_n - D + 1` degrees of freedom. The evidence is
:math:`\pi^{-nD/2} (\kappa_0 / \kappa_n)^{D/2} \cdot \Gamma_D(\nu_n / 2) / \Gamma_D(\nu_0 / 2) \cdot
|V_n|^{\nu_n/2} / |V_0|^{\nu_0/2}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.options import option_error
from bayeskit.datasets.schema import Example, Positive, Range, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {"y": Variable(("row", "feature"), doc="the measurements, one column a feature")}

EXAMPLE = Example(
    "iris_setosa",
    {"y": ("sepal_length", "sepal_width", "petal_length", "petal_width")},
    {"mean": 3.0, "mean_weight": 0.1, "sd": 0.5},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    mean: float = 0.0,
    mean_weight: Positive = 0.01,
    degrees_of_freedom: Annotated[int, Range(low=1)] | None = None,
    sd: Positive = 1.0,
) -> pm.Model:
    """Build the multivariate Normal model with unknown mean and precision.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` with dims ``("row", "feature")``, D features.
    mean : float
        Prior mean m0 of each feature's mean, in units of y.
    mean_weight : float
        As many rows kappa0 as the prior mean is worth.
    degrees_of_freedom : int or None
        Degrees of freedom nu0 of the Wishart prior, a whole number above D - 1; D + 2 where not given.
    sd : float
        Prior guess of each feature's standard deviation, in units of y: the prior mean of the precision is the unit
        matrix over its square, so V0 = I / (nu0 sd²).

    Returns
    -------
    pymc.Model
        With the free variables ``mu``, of dims ``("feature",)``, and ``precision``, of dims
        ``("feature", "other_feature")``.

    Raises
    ------
    OptionError
        If ``degrees_of_freedom`` is not above D - 1: the prior would be improper.
    """
    y = data["y"].to_numpy()
    rows, features = y.shape
    nu = features + 2 if degrees_of_freedom is None else degrees_of_freedom
    if nu <= features - 1:
        raise option_error("degrees_of_freedom", nu, f"above {features - 1}, the number of features less one")
    feature = column_coords(data, "y")["feature"]
    coords = {"row": np.arange(rows), "feature": feature, "other_feature": feature, **row_coords(data)}
    with pm.Model(coords=coords) as model:
        precision = pm.Wishart(
            "precision", nu=nu, scale_chol=np.eye(features) / (sd * np.sqrt(nu)), dims=("feature", "other_feature")
        )
        mu = pm.MvNormal("mu", np.full(features, mean), tau=mean_weight * precision, dims="feature")
        pm.MvNormal("y", mu, tau=precision, observed=y, dims=("row", "feature"))
    return model
