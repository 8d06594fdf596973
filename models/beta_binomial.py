r"""Successes out of trials, with a Beta prior on the chance of a success.

.. math::

   \theta \sim \mathrm{Beta}(\alpha, \beta), \qquad
   y_i \mid \theta \sim \mathrm{Binomial}(n_i, \theta)

The posterior is :math:`\mathrm{Beta}(\alpha + \sum_i y_i,\ \beta + \sum_i (n_i - y_i))` and the evidence is
:math:`\prod_i \binom{n_i}{y_i} \cdot B(\alpha + \sum y_i, \beta + \sum (n_i - y_i)) / B(\alpha, \beta)`. Without
pooling each row has its own :math:`\theta_i`, and the same holds row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymc as pm

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "successes": Variable(kind="count", at_most="trials", doc="number of successes"),
    "trials": Variable(kind="count", doc="number of trials"),
}

# Gelman et al. match the mean and sd of the 70 earlier experiments with the prior Beta(1.4, 8.6).
EXAMPLE = Example(
    "rat_tumours",
    {"successes": "tumours", "trials": "rats", "row": "experiment"},
    {"alpha": 1.4, "beta": 8.6, "pooled": False},
)


@model_builder(VARIABLES)
def build(data: xr.Dataset, *, alpha: Positive = 1.0, beta: Positive = 1.0, pooled: bool = True) -> pm.Model:
    """Build the beta-binomial model.

    Parameters
    ----------
    data : xarray.Dataset
        ``successes`` and ``trials``, both with dims ``("row",)``.
    alpha, beta : float
        Parameters of the Beta prior: as many successes and failures as the prior is worth.
    pooled : bool
        One chance of a success for all rows; otherwise one for each row.

    Returns
    -------
    pymc.Model
        With the free variable ``theta``, a scalar or with dims ``("row",)``.
    """
    with pm.Model(coords=row_coords(data)) as model:
        trials = pm.Data("trials", data["trials"].to_numpy(), dims="row")
        theta = pm.Beta("theta", alpha, beta, dims=None if pooled else "row")
        pm.Binomial("successes", n=trials, p=theta, observed=data["successes"].to_numpy(), dims="row")
    return model
