r"""Returns whose variance changes over time: stochastic volatility, a latent autoregression of the log variance.

.. math::

   y_t \mid u_t \sim \mathrm{Normal}(0, e^{\mu + u_t}), \qquad
   u_1 \sim \mathrm{Normal}\!\left(0, \frac{\sigma^2}{1 - \phi^2}\right), \qquad
   u_t \mid u_{t-1} \sim \mathrm{Normal}(\phi u_{t-1}, \sigma^2)

for returns :math:`y_t` less their mean, with the priors of Kim, Shephard and Chib (1998):
:math:`\mu \sim \mathrm{Normal}(m, s^2)` for the level of the log variance,
:math:`(\phi + 1) / 2 \sim \mathrm{Beta}(a, b)` for its persistence, which keeps it stationary, and
:math:`\sigma^2 \sim \mathrm{InverseGamma}(c, d)` for the variance of its steps.

The deviations :math:`u` and the level are Normal before the returns are seen and not after: nothing has a closed form.
Given :math:`\phi` and :math:`\sigma^2` they are drawn from their Gaussian approximation (the mode by Newton's method,
whose matrices are banded but for the level) and weighted, so that the evidence

.. math::

   p(y) = \int p(\phi, \sigma^2) \int p(\mu)\, p(u \mid \phi, \sigma^2)
   \prod_t \mathrm{Normal}(y_t \mid 0, e^{\mu + u_t})\, d(\mu, u)\, d(\phi, \sigma^2)

is an estimate with a standard error, and the draws are independent.

The free variables are ``level``, ``persistence`` (which is :math:`(\phi + 1) / 2`), ``step_variance`` and
``deviation`` of dims ``("row",)``; the volatility of a step is :math:`e^{(\mu + u_t) / 2}`.

The example is the monthly returns of American shares before, in and after the financial crisis of 2008.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.datasets.labels import column_name
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {"y": Variable(doc="the returns, in order of time and at even steps")}

EXAMPLE = Example("share_returns", {"y": "return_percent", "row": "month"}, {"step_scale": 0.1})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    level_mean: float | None = None,
    level_scale: Positive = 1.0,
    persistence_alpha: Positive = 20.0,
    persistence_beta: Positive = 1.5,
    step_shape: Positive = 2.5,
    step_scale: Positive = 0.025,
) -> pm.Model:
    """Build the stochastic volatility of ``y``, of dims ``("row",)``, from which its mean is taken.

    Parameters
    ----------
    data : xarray.Dataset
    level_mean : float or None
        Prior mean of the level of the log variance; the logarithm of the variance of these data where not given.
    level_scale : float
        Prior sd of that level.
    persistence_alpha, persistence_beta : float
        Parameters of the Beta prior of :math:`(\\phi + 1) / 2`.
    step_shape, step_scale : float
        Parameters of the inverse Gamma prior of the variance of a step of the log variance.
    """
    y = data["y"].to_numpy()
    y = y - y.mean()
    if not np.any(np.abs(y) > 1e-12 * np.abs(data["y"].to_numpy()).max()):
        raise DataError(f"column {column_name(data['y'])!r} is constant; there is no variance to model")
    level_mean = float(np.log(np.mean(y**2))) if level_mean is None else level_mean
    with pm.Model(coords={"row": np.arange(y.size), **row_coords(data)}) as model:
        level = pm.Normal("level", level_mean, level_scale)
        phi = 2.0 * pm.Beta("persistence", persistence_alpha, persistence_beta) - 1.0
        variance = pm.InverseGamma("step_variance", alpha=step_shape, beta=step_scale)
        first = pm.Normal.dist(0.0, pt.sqrt(variance / (1.0 - phi**2)))
        # About its level, which is then one of the numbers that are Normal, where it would be a third that is not.
        u = pm.AR("deviation", phi[None], sigma=pt.sqrt(variance), init_dist=first, dims="row", steps=y.size - 1)
        pm.Normal("y", 0.0, pt.exp((level + u) / 2.0), observed=y, dims="row")
    return model
