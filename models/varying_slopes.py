r"""Regression lines that differ from group to group: varying intercepts and slopes, partially pooled.

.. math::

   y_i \mid a, b, \sigma \sim \mathrm{Normal}(a_{g(i)} + x_i^\top b_{g(i)},\ \sigma^2), \qquad
   a_j \sim \mathrm{Normal}(\mu_a, \tau_a^2), \qquad b_{jk} \sim \mathrm{Normal}(\mu_{b,k}, \tau_{b,k}^2)

for row :math:`i` of group :math:`g(i)` and predictor :math:`k`, with
:math:`\mu_a \sim \mathrm{Normal}(m_a, s_a^2)`, :math:`\mu_{b,k} \sim \mathrm{Normal}(m_b, s_b^2)` and a half-Normal,
half-Cauchy or exponential prior of each of the scales :math:`\tau_a`, :math:`\tau_{b,k}` and :math:`\sigma`. Intercepts
and slopes of one group are independent given the scales: there is no correlation between them to learn. With
``slopes="shared"`` there is one slope for all groups, :math:`b_k \sim \mathrm{Normal}(m_b, s_b^2)`, and only the
intercepts vary. With ``logarithms`` the same is said of :math:`\log y_i` and :math:`\log x_i` (:math:`y` is then
log-Normal, its evidence is in the units of :math:`y` itself, and the slopes are elasticities).

Given the scales everything is jointly Normal. With :math:`Z` the indicators of the groups,
:math:`S = Z Z^\top` and all products by elements, the marginal likelihood is Normal with mean
:math:`m_a 1 + m_b \sum_k x_k` and covariance

.. math::

   \sigma^2 I + s_a^2 1 1^\top + \tau_a^2 S + \sum_k x_k x_k^\top \circ (s_b^2 1 1^\top + \tau_{b,k}^2 S).

The scales remain: three for one predictor (two where the slopes are shared), which are integrated by quadrature, and
one more for each further predictor, which NUTS takes on the collapsed model. Both spellings, centred and non-centred
(:math:`a_j = \mu_a + \tau_a z_j`), are the same model and have the same evidence. A single group has an answer too: its
:math:`\tau` is then known from the prior only.

The free variables are ``mu_intercept``, ``tau_intercept``, ``intercept`` of dims ``("group",)``, ``sigma``, and, where
slopes vary, ``mu_slope`` and ``tau_slope`` of dims ``("predictor",)`` and ``slope`` of dims ``("group", "predictor")``;
where they are shared, ``slope`` of dims ``("predictor",)``. Non-centred, intercept and varying slope are Deterministics
of ``z_intercept`` and ``z_slope``.

The predictors and the groups are data containers: ``predict({"x": ..., "group": [...]})`` takes new rows, with the
labels of groups that the model was fitted to (the container ``group_code`` holds their codes).

The example is Grunfeld's investment data: the investment of eleven corporations over twenty years, on the value of each
on the stock market. The corporations differ a hundredfold in size and the spread of their investment grows with it, so
the lines are between logarithms, where one :math:`\sigma` for all is plausible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import column_coords, half_prior, model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the response"),
    "x": Variable(("row", "predictor"), doc="the predictors, one column each"),
    "group": Variable(kind="category", doc="the group of each row"),
}

EXAMPLE = Example(
    "grunfeld",
    {"y": "invest", "x": ("value",), "group": "firm"},
    {
        "logarithms": True,
        "predictors": "centred",
        "intercept_mean": 4.0,
        "intercept_scale": 2.0,
        "slope_mean": 1.0,
        "slope_scale": 0.5,
        "intercept_spread": 1.0,
        "slope_spread": 0.5,
        "noise_scale": 0.5,
    },
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    slopes: Literal["varying", "shared"] = "varying",
    predictors: Literal["raw", "centred", "standardised", "within"] = "standardised",
    logarithms: bool = False,
    centred: bool = True,
    intercept_mean: float = 0.0,
    intercept_scale: Positive = 10.0,
    slope_mean: float = 0.0,
    slope_scale: Positive = 10.0,
    spread: Literal["half_cauchy", "half_normal", "exponential"] = "half_normal",
    intercept_spread: Positive = 1.0,
    slope_spread: Positive = 1.0,
    noise: Literal["half_cauchy", "half_normal", "exponential"] = "half_normal",
    noise_scale: Positive = 1.0,
) -> pm.Model:
    """Build the regression with varying intercepts and slopes.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` and ``group`` with dims ``("row",)`` and ``x`` with dims ``("row", "predictor")``.
    slopes : {"varying", "shared"}
        A slope for each group, or one for all of them: then only the intercepts vary.
    predictors : {"raw", "centred", "standardised", "within"}
        As they are; less the mean over all rows; that in sds over all rows; or less the mean of their own group.
    logarithms : bool
        Whether the lines are between the logarithms of y and of the predictors; all units are then those of log y.
    centred : bool
        Whether intercepts and slopes are written as Normal(mu, tau) or as mu + tau z.
    intercept_mean, intercept_scale : float
        Prior mean and sd of the mean intercept, in units of y.
    slope_mean, slope_scale : float
        Prior mean and sd of the mean slope (the slope, where shared), in units of y for each unit of x as transformed.
    spread : {"half_cauchy", "half_normal", "exponential"}
        The prior of the sds between groups.
    intercept_spread, slope_spread : float
        Scales (of an exponential: means) of the priors of the sds of the intercepts and of the slopes, in their units.
    noise : {"half_cauchy", "half_normal", "exponential"}
        The prior of the sd within groups.
    noise_scale : float
        Its scale (of an exponential: mean), in units of y.
    """
    names = column_coords(data, "x")["predictor"]
    groups, codes = np.unique(data["group"].to_numpy(), return_inverse=True)
    with pm.Model(coords={"group": groups, "predictor": names, **row_coords(data)}) as model:
        z, group = _transformed(data, codes, predictors, logarithms)
        priors = (intercept_mean, intercept_scale, intercept_spread)
        intercept = _effects("intercept", *priors, spread, centred)[group]
        if slopes == "varying":
            slope = _effects("slope", slope_mean, slope_scale, slope_spread, spread, centred, "predictor")[group]
        else:
            slope = pm.Normal("slope", slope_mean, slope_scale, dims="predictor")
        sigma = half_prior("sigma", noise, noise_scale)
        line = intercept + pt.sum(z * slope, axis=1)
        (pm.LogNormal if logarithms else pm.Normal)("y", line, sigma, observed=data["y"].to_numpy(), dims="row")
    return model


def _transformed(data: xr.Dataset, codes: np.ndarray, predictors: str, logarithms: bool) -> tuple[Any, Any]:
    """The predictors as the lines see them, and the group of each row, both from data containers.

    The intercept of a group is its response where these are zero; new rows are shifted and scaled by the same numbers.
    """
    y, x = data["y"], data["x"].to_numpy()
    if logarithms:
        _check_positive(y.to_numpy(), str(y.attrs.get("column", "y")))
        for values, name in zip(x.T, column_coords(data, "x")["predictor"], strict=True):
            _check_positive(values, str(name))
    shift, stretch = _location_and_scale(np.log(x) if logarithms else x, codes, predictors)
    inputs = pm.Data("x", x, dims=("row", "predictor"))
    group = pm.Data("group_code", codes, dims="row")
    z = pt.log(inputs) if logarithms else inputs
    if predictors != "raw":
        z = (z - (pt.as_tensor(shift)[group] if predictors == "within" else shift)) / stretch
    return z, group


def _effects(name: str, mean: float, scale: float, spread: float, kind: str, centred: bool, *dims: str) -> Any:
    """Normal effects of each group with a mean and an sd that are unknown, in one of their two spellings."""
    mu = pm.Normal(f"mu_{name}", mean, scale, dims=dims or None)
    tau = half_prior(f"tau_{name}", kind, spread, dims=dims or None)
    over = ("group", *dims)
    if centred:
        return pm.Normal(name, mu, tau, dims=over)
    return pm.Deterministic(name, mu + tau * pm.Normal(f"z_{name}", 0.0, 1.0, dims=over), dims=over)


def _check_positive(values: np.ndarray, column: str) -> None:
    bad = np.flatnonzero(values <= 0)
    if bad.size:
        raise DataError(
            f"column {column!r}, row {bad[0] + 1}: {values[bad[0]]:g} has no logarithm; "
            "drop the row, or set logarithms=false"
        )


def _location_and_scale(x: np.ndarray, codes: np.ndarray, predictors: str) -> tuple[np.ndarray, np.ndarray]:
    """What is taken off the predictors, of shape (predictors,) or (groups, predictors), and what they are divided by.

    A predictor that is constant up to rounding has scale 1.
    """
    one = np.ones(x.shape[1])
    if predictors == "within":
        counts = np.bincount(codes)[:, None]
        return np.stack([np.bincount(codes, column) for column in x.T], axis=1) / counts, one
    if predictors == "raw":
        return np.zeros(x.shape[1]), one
    sd = x.std(axis=0) if predictors == "standardised" else one
    return x.mean(axis=0), np.where(sd > 1e-12 * np.abs(x).max(axis=0), sd, 1.0)
