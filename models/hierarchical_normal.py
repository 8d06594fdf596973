r"""Effects measured in several groups, each with its own known standard error: partial pooling.

.. math::

   \mu \sim \mathrm{Normal}(m_0, s_0^2), \qquad \tau \sim p(\tau), \qquad
   \theta_j \mid \mu, \tau \sim \mathrm{Normal}(\mu, \tau^2), \qquad
   y_j \mid \theta_j \sim \mathrm{Normal}(\theta_j, \sigma_j^2)

Given :math:`\tau`, the effects and their mean are jointly Normal, with
:math:`y \mid \tau \sim \mathrm{Normal}(m_0 1, \mathrm{diag}(\sigma_j^2 + \tau^2) + s_0^2 1 1^\top)` as the marginal
likelihood; only :math:`\tau` remains, and is integrated by quadrature. The centred spelling and the non-centred one,
:math:`\theta_j = \mu + \tau z_j` with :math:`z_j \sim \mathrm{Normal}(0, 1)`, are the same model and have the same
evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import half_prior, model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the estimated effect in each group"),
    "error": Variable(kind="positive", doc="the standard error of each estimate"),
}

EXAMPLE = Example("eight_schools", {"y": "effect", "error": "standard_error", "row": "school"}, {"centred": False})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    mean: float = 0.0,
    mean_scale: Positive = 5.0,
    spread: Literal["half_cauchy", "half_normal", "exponential"] = "half_cauchy",
    spread_scale: Positive = 5.0,
    centred: bool = True,
) -> pm.Model:
    """Build the hierarchical Normal model.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` and ``error`` with dims ``("row",)``.
    mean : float
        Prior mean m0 of the mean effect, in units of y.
    mean_scale : float
        Prior sd s0 of the mean effect, in units of y.
    spread : {"half_cauchy", "half_normal", "exponential"}
        The prior of the sd tau between groups.
    spread_scale : float
        Its scale, in units of y (of an exponential: its mean).
    centred : bool
        Whether the effects are written as Normal(mu, tau) or as mu + tau z.

    Returns
    -------
    pymc.Model
        With the free variables ``mu``, ``tau`` and ``theta`` of dims ``("row",)`` (centred) or ``z`` (non-centred, with
        ``theta`` as a Deterministic).
    """
    y = data["y"].to_numpy()
    with pm.Model(coords={"row": np.arange(y.size), **row_coords(data)}) as model:
        mu = pm.Normal("mu", mean, mean_scale)
        tau = half_prior("tau", spread, spread_scale)
        if centred:
            theta = pm.Normal("theta", mu, tau, dims="row")
        else:
            theta = pm.Deterministic("theta", mu + tau * pm.Normal("z", 0.0, 1.0, dims="row"), dims="row")
        error = pm.Data("error", data["error"].to_numpy(), dims="row")
        pm.Normal("y", theta, error, observed=y, dims="row")
    return model
