r"""Times until an event, some of them censored: Weibull or exponential regression.

.. math::

   t_i \mid k, b, w \sim \mathrm{Weibull}(k,\ s_i), \qquad \log s_i = b + z_i^\top w, \qquad
   S(t) = \Pr(T_i > t) = \exp(-(t / s_i)^k)

with :math:`z` the features, standardised or as they are. A row whose event was seen has the density of :math:`t_i`; of
one that was censored only :math:`T_i > t_i` is known, whose probability is :math:`S(t_i)`. With :math:`d_i` whether
the event was seen, the log likelihood is

.. math::

   \sum_i d_i \bigl(\log k - k \log s_i + (k - 1) \log t_i\bigr) - (t_i / s_i)^k .

The weights lengthen or shorten all times by the factor :math:`e^{w}` (accelerated failure times); the hazard is
multiplied by :math:`e^{-k w}`, whatever the time (proportional hazards). The shape has
:math:`\log k \sim \mathrm{Normal}(0, s_k^2)`; with ``distribution="exponential"`` it is one, and the hazard constant.
The priors are :math:`b \sim \mathrm{Normal}(m_b, s_b^2)` and :math:`w \sim \mathrm{Normal}(0, s^2)`.

There is no closed form: the posterior and the evidence are integrals over intercept, weights and shape, by quadrature
for two or three of them, or by importance sampling. The evidence of censored data is a product of densities and
probabilities; it compares models of the same rows.

The free variables are ``intercept``, ``weights`` of dims ``("feature",)`` and, of the Weibull distribution, ``shape``.

The example is the remission of children with leukaemia under 6-mercaptopurine, against a placebo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import column_coords, model_builder, refuse_unused, row_coords
from bayeskit.catalogue.linear_predictor import linear_predictor
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "time": Variable(kind="positive", doc="until the event, or until it was last known not to have happened"),
    "event": Variable(kind="binary", doc="1 where the event was seen, 0 where the time is censored"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example(
    "leukaemia",
    {"time": "weeks", "event": "relapse", "x": ("treated",)},
    {"distribution": "exponential", "standardise": False, "intercept_mean": 2.0},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    distribution: Literal["weibull", "exponential"] = "weibull",
    standardise: bool = True,
    intercept_mean: float = 0.0,
    intercept_scale: Positive = 2.5,
    prior_scale: Positive = 2.5,
    shape_scale: Positive | None = None,
) -> pm.Model:
    """Build the regression of ``time``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
        With ``event``, of dims ``("row",)``.
    distribution : {"weibull", "exponential"}
        Of the times until the event.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    intercept_mean, intercept_scale : float
        Prior mean and sd of the intercept, the log scale of the times (at the mean of standardised features).
    prior_scale : float
        Prior sd of each weight.
    shape_scale : float or None
        Prior sd of the log shape of the Weibull distribution; 0.5 where not given.

    Returns
    -------
    pymc.Model
        To predict at new ``x``, give ``event`` and ``limit`` too: with ``event`` 1 times are not censored, with 0 they
        are cut at ``limit``.
    """
    weibull = distribution == "weibull"
    refuse_unused("shape_scale", shape_scale, weibull, "distribution=weibull")
    time = data["time"].to_numpy()
    with pm.Model(coords={**column_coords(data, "x"), **row_coords(data)}) as model:
        scale = pm.math.exp(linear_predictor(data, standardise, (intercept_mean, intercept_scale), prior_scale))
        event = pm.Data("event", data["event"].to_numpy(), dims="row")
        upper = pt.switch(pt.eq(event, 1), np.inf, pm.Data("limit", time, dims="row"))
        if weibull:
            until = pm.Weibull.dist(pm.LogNormal("shape", 0.0, shape_scale or 0.5), scale)
        else:
            until = pm.Exponential.dist(scale=scale)
        pm.Censored("time", until, lower=None, upper=upper, observed=time, dims="row")
    return model
