r"""Counts over exposures, with a Gamma prior on the rate.

.. math::

   \lambda \sim \mathrm{Gamma}(\alpha, \beta), \qquad
   y_i \mid \lambda \sim \mathrm{Poisson}(\lambda\, t_i)

with shape :math:`\alpha`, rate :math:`\beta` and exposure :math:`t_i`: time at risk, area, or number of units. The
posterior is :math:`\mathrm{Gamma}(\alpha + \sum_i y_i,\ \beta + \sum_i t_i)` and the evidence is
:math:`\prod_i t_i^{y_i} / y_i! \cdot \Gamma(\alpha + \sum y_i) / \Gamma(\alpha) \cdot
\beta^\alpha / (\beta + \sum t_i)^{\alpha + \sum y_i}`. Without pooling each row has its own :math:`\lambda_i`, and the
same holds row by row: the counts are then negative binomial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "counts": Variable(kind="count", doc="number of events"),
    "exposure": Variable(kind="positive", required=False, doc="time, area or units at risk; 1 where not given"),
}

EXAMPLE = Example("horse_kicks", {"counts": "deaths"}, {"shape": 1.0, "rate": 1.0})


@model_builder(VARIABLES)
def build(data: xr.Dataset, *, shape: Positive = 1.0, rate: Positive = 1.0, pooled: bool = True) -> pm.Model:
    """Build the gamma-Poisson model.

    Parameters
    ----------
    data : xarray.Dataset
        ``counts`` and, if there are any, ``exposure``, both with dims ``("row",)``.
    shape : float
        Shape of the Gamma prior: as many events as the prior is worth.
    rate : float
        Rate of the Gamma prior: the exposure in which the prior has seen them, in units of ``exposure``.
    pooled : bool
        One rate for all rows; otherwise one for each row.

    Returns
    -------
    pymc.Model
        With the free variable ``rate`` (events per unit of exposure), a scalar or with dims ``("row",)``.
    """
    counts = data["counts"].to_numpy()
    exposures = data["exposure"].to_numpy() if "exposure" in data else np.ones(counts.shape)
    with pm.Model(coords=row_coords(data)) as model:
        exposure = pm.Data("exposure", exposures, dims="row")
        events_per_unit = pm.Gamma("rate", alpha=shape, beta=rate, dims=None if pooled else "row")
        pm.Poisson("counts", mu=events_per_unit * exposure, observed=counts, dims="row")
    return model
