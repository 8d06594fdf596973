r"""Logistic regression of rows in groups: intercepts that vary from group to group, partially pooled.

.. math::

   y_i \mid b, w, u \sim \mathrm{Binomial}(n_i, p_i), \qquad
   \log \frac{p_i}{1 - p_i} = b + u_{g(i)} + z_i^\top w, \qquad u_j \sim \mathrm{Normal}(0, \tau^2)

for row :math:`i` of group :math:`g(i)`, with :math:`z` the features, standardised or as they are,
:math:`b \sim \mathrm{Normal}(m_b, s_b^2)`, :math:`w_k \sim \mathrm{Normal}(0, s^2)` and a half-Normal, half-Cauchy or
exponential prior of the sd :math:`\tau` between groups. Without trials each row is an event that happened or did not.
It is the generalised linear mixed model with a random intercept: :math:`w` are effects within a group, which are larger
than those on the shares of all groups together.

Nothing has a closed form. Given the others each :math:`u_j` is an integral over one number,

.. math::

   p(y \mid b, w, \tau) = \prod_j \int \mathrm{Normal}(u \mid 0, \tau^2)
   \prod_{i : g(i) = j} \mathrm{Binomial}(y_i \mid n_i, p_i)\, du,

and the evidence integrates that over :math:`b, w` and :math:`\tau`. Adaptive Gauss–Hermite quadrature finds the
maximum of the same likelihood. Without features the others are two numbers, left to quadrature, with more to importance
sampling; of many rows the effects are drawn from their Gaussian approximation given :math:`\tau`, and weighted.

The free variables are ``intercept``, ``tau``, ``effect`` of dims ``("group",)`` and, with features, ``weights`` of dims
``("feature",)``. Non-centred, ``effect`` is :math:`\tau` times ``z``, which is standard Normal.

The example is an infection of cattle: new cases in fifteen herds, in each of four quarters of a year.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, half_prior, model_builder, row_coords
from bayeskit.catalogue.linear_predictor import feature_terms
from bayeskit.datasets.labels import column_name
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "successes": Variable(kind="count", at_most="trials", doc="number of successes"),
    "group": Variable(kind="category", doc="the group of each row"),
    "x": Variable(("row", "feature"), required=False, doc="the features, one column each"),
    "trials": Variable(kind="count", required=False, doc="number of trials; 1 where not given"),
}

EXAMPLE = Example(
    "cattle_infection",
    {"successes": "cases", "trials": "animals", "group": "herd", "x": ("second", "third", "fourth")},
    {"standardise": False},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    standardise: bool = True,
    centred: bool = True,
    intercept_mean: float = 0.0,
    intercept_scale: Positive = 5.0,
    prior_scale: Positive = 2.5,
    spread: Literal["half_cauchy", "half_normal", "exponential"] = "half_normal",
    spread_scale: Positive = 1.0,
) -> pm.Model:
    """Build the mixed logistic regression of ``successes`` on ``x``, with an effect for each ``group``.

    Parameters
    ----------
    data : xarray.Dataset
        ``successes``, ``group`` and ``trials`` with dims ``("row",)``, and ``x`` with dims ``("row", "feature")``.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    centred : bool
        Whether the effects are written as Normal(0, tau) or as tau z.
    intercept_mean, intercept_scale : float
        Prior mean and sd of the intercept, the log odds in a group whose effect is zero.
    prior_scale : float
        Prior sd of each weight.
    spread : {"half_cauchy", "half_normal", "exponential"}
        The prior of the sd between groups.
    spread_scale : float
        Its scale (of an exponential: its mean), in log odds.
    """
    successes = data["successes"].to_numpy()
    trials = data["trials"].to_numpy() if "trials" in data else _one_each(data)
    groups, codes = np.unique(data["group"].to_numpy(), return_inverse=True)
    columns = column_coords(data, "x") if "x" in data else {}
    with pm.Model(coords={"group": groups, **columns, **row_coords(data)}) as model:
        terms = feature_terms(data, standardise, prior_scale) if "x" in data else 0.0
        intercept = pm.Normal("intercept", intercept_mean, intercept_scale)
        tau = half_prior("tau", spread, spread_scale)
        if centred:
            effect = pm.Normal("effect", 0.0, tau, dims="group")
        else:
            effect = pm.Deterministic("effect", tau * pm.Normal("z", 0.0, 1.0, dims="group"), dims="group")
        eta = intercept + effect[pm.Data("group_code", codes, dims="row")] + terms
        n = pm.Data("trials", trials, dims="row")
        pm.Binomial("successes", n=n, logit_p=eta, observed=successes, dims="row")
    return model


def _one_each(data: xr.Dataset) -> np.ndarray:
    """One trial for each row; refused where a row has more successes."""
    successes = data["successes"].to_numpy()
    more = np.flatnonzero(successes > 1)
    if more.size:
        name = column_name(data["successes"])
        raise DataError(
            f"column {name!r}, row {more[0] + 1}: {successes[more[0]]} successes; name the column of the trials"
        )
    return np.ones(successes.shape, dtype=np.int64)
