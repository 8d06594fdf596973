r"""Logistic regression: the probability of an event as a function of features.

.. math::

   y_i \mid b, w \sim \mathrm{Bernoulli}(p_i), \qquad \log \frac{p_i}{1 - p_i} = b + z_i^\top w

with :math:`z` the features, standardised or as they are, :math:`b \sim \mathrm{Normal}(m_b, s_b^2)` and
:math:`w_k \sim \mathrm{Normal}(0, s^2)`. With ``link="probit"`` it is :math:`p_i = \Phi(b + z_i^\top w)`. The log
likelihood is :math:`\sum_i y_i \eta_i - \log(1 + e^{\eta_i})` with :math:`\eta_i = b + z_i^\top w`: concave, with one
mode, which Newton's method (iteratively reweighted least squares) finds, and not quadratic: there is no closed form.
The posterior and the evidence are integrals over intercept and weights: by quadrature for up to two features, by
importance sampling for more.

With ``prior="flat"`` the mode of the posterior is the estimate of maximum likelihood, and there is no evidence, for the
prior has no normaliser. That posterior has an integral if and only if no hyperplane separates the events from the rest,
not even weakly, and no feature is a combination of the others (Albert and Anderson 1984): such data are refused.

The free variables are ``intercept``, of standardised features the log odds at their means, and ``weights``, of dims
``("feature",)``: what one unit of a feature as seen by the model, one sd if standardised, adds to the log odds.

The example is the distress of O-rings of the space shuttle, by the temperature at launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm
from scipy.optimize import linprog

from bayeskit.catalogue.builder import column_coords, model_builder, refuse_unused, row_coords
from bayeskit.catalogue.linear_predictor import column_mean_and_scale, linear_predictor
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(kind="binary", doc="whether the event happened"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example("o_rings", {"y": "distress", "x": ("temperature",), "row": "flight"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    link: Literal["logit", "probit"] = "logit",
    standardise: bool = True,
    prior: Literal["normal", "flat"] = "normal",
    intercept_mean: float = 0.0,
    intercept_scale: Positive | None = None,
    prior_scale: Positive | None = None,
) -> pm.Model:
    """Build the logistic regression of ``y``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
    link : {"logit", "probit"}
        What the linear predictor is of the probability: its log odds, or its Normal quantile.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    prior : {"normal", "flat"}
        The prior of intercept and weights.
    intercept_mean : float
        Prior mean of the intercept, for the Normal prior.
    intercept_scale : float or None
        Prior sd of the intercept, for the Normal prior; 5 where not given.
    prior_scale : float or None
        Prior sd of each weight, for the Normal prior; 2.5 where not given.
    """
    flat = prior == "flat"
    refuse_unused("intercept_scale", intercept_scale, not flat, "prior=normal")
    refuse_unused("prior_scale", prior_scale, not flat, "prior=normal")
    y = data["y"].to_numpy()
    if flat:
        _refuse_improper(data["x"].to_numpy(), y)
    intercept = None if flat else (intercept_mean, intercept_scale or 5.0)
    with pm.Model(coords={**column_coords(data, "x"), **row_coords(data)}) as model:
        eta = linear_predictor(data, standardise, intercept, None if flat else prior_scale or 2.5)
        p = {"logit_p": eta} if link == "logit" else {"p": pm.math.invprobit(eta)}
        pm.Bernoulli("y", **p, observed=y, dims="row")
    return model


def _refuse_improper(x: np.ndarray, y: np.ndarray) -> None:
    """Refuse data under which a Flat prior gives a posterior that has no integral.

    They are separated if some direction d of intercept and weights other than zero has s_i (1, z_i)·d ≥ 0 in all rows,
    s_i being the sign of the event: along it the likelihood does not fall. The largest sum of these numbers over the
    cube is above zero unless all are zero, and then the columns are linearly dependent.
    """
    shift, scale = column_mean_and_scale(x)
    design = np.column_stack([np.ones(len(y)), (x - shift) / scale])
    signed = np.where(y == 1, 1.0, -1.0)[:, None] * design
    remedy = "set prior=normal, or drop"
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise DataError(f"a feature is a combination of others, and a Flat prior leaves it free; {remedy} the feature")
    best = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(y)), bounds=(-1, 1))
    if -best.fun > 1e-7:
        raise DataError(
            "the features separate the events from the rest, so that under a Flat prior the posterior has no integral; "
            f"{remedy} the feature that does"
        )
