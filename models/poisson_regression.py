r"""Regression of counts over exposures: log rates that are linear in features, Poisson or negative binomial.

.. math::

   y_i \mid b, w \sim \mathrm{Poisson}(\mu_i), \qquad \log \mu_i = \log e_i + b + z_i^\top w

with exposures :math:`e_i` (time at risk, area, population; one where not given), :math:`z` the features, standardised
or as they are, :math:`b \sim \mathrm{Normal}(m_b, s_b^2)` and :math:`w_k \sim \mathrm{Normal}(0, s^2)`. Counts that
vary more than Poisson counts of their mean are negative binomial, with variance :math:`\mu_i + \mu_i^2 / \alpha` and
:math:`\alpha \sim \mathrm{Gamma}(2, 0.1)`: a Poisson variable whose rate is multiplied by one that is
:math:`\mathrm{Gamma}(\alpha, \alpha)`. With a large :math:`\alpha` it is the Poisson regression again.

The log likelihood of the Poisson regression, :math:`\sum_i y_i \eta_i - e^{\eta_i} - \log y_i!` with
:math:`\eta_i = \log \mu_i`, is concave and not quadratic. The posterior and the evidence are integrals over intercept,
weights and :math:`\alpha`, by quadrature for up to three of them, by importance sampling for more. Without features the
model with a conjugate prior is ``gamma_poisson``, and has a closed form.

The free variables are ``intercept``, the log rate for one unit of exposure (at the mean of standardised features),
``weights`` of dims ``("feature",)``, by which the log rate changes with one unit of a feature as seen by the model, and
``alpha``, where the counts are negative binomial.

The example is the mortality of British doctors, by age and smoking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.linear_predictor import linear_predictor
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "counts": Variable(kind="count", doc="number of events"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
    "exposure": Variable(kind="positive", required=False, doc="time, area or units at risk; 1 where not given"),
}

EXAMPLE = Example(
    "british_doctors",
    {
        "counts": "deaths",
        "x": ("decade", "decade_squared", "smokes", "smoker_decade"),
        "exposure": "person_years",
    },
    {"intercept_mean": -5.0},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    distribution: Literal["poisson", "negative_binomial"] = "poisson",
    standardise: bool = True,
    intercept_mean: float = 0.0,
    intercept_scale: Positive = 5.0,
    prior_scale: Positive = 2.5,
) -> pm.Model:
    """Build the regression of ``counts``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
        With ``exposure``, of dims ``("row",)``, if there are any.
    distribution : {"poisson", "negative_binomial"}
        Of the counts given their mean.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    intercept_mean, intercept_scale : float
        Prior mean and sd of the intercept, a log rate for one unit of exposure.
    prior_scale : float
        Prior sd of each weight.
    """
    counts = data["counts"].to_numpy()
    exposures = data["exposure"].to_numpy() if "exposure" in data else np.ones(counts.shape)
    with pm.Model(coords={**column_coords(data, "x"), **row_coords(data)}) as model:
        eta = linear_predictor(data, standardise, (intercept_mean, intercept_scale), prior_scale)
        mu = pm.math.exp(eta) * pm.Data("exposure", exposures, dims="row")
        if distribution == "poisson":
            pm.Poisson("counts", mu, observed=counts, dims="row")
        else:
            pm.NegativeBinomial("counts", mu=mu, alpha=pm.Gamma("alpha", 2.0, 0.1), observed=counts, dims="row")
    return model
