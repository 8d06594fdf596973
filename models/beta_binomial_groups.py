r"""Successes out of trials in several groups, whose chances differ and are learnt from each other.

.. math::

   y_j \mid \theta_j \sim \mathrm{Binomial}(n_j, \theta_j), \qquad
   \theta_j \mid \alpha, \beta \sim \mathrm{Beta}(\alpha, \beta), \qquad
   \alpha = m / s^2, \quad \beta = (1 - m) / s^2

with the mean :math:`m = \alpha / (\alpha + \beta) \sim \mathrm{Beta}(a, b)` of the chances and their spread
:math:`s = (\alpha + \beta)^{-1/2} \sim \mathrm{Uniform}(N^{-1/2}, 1)`: about the sd of the chances divided by that of
one trial. The prior of :math:`m` and :math:`s` together is that of Gelman et al. (2013, section 5.3),
:math:`p(\alpha, \beta) \propto (\alpha + \beta)^{-5/2}`, made proper: the groups are worth from 1 to :math:`N` trials
to each other. With more than that they could not be told from groups of one chance, for which the model is
``beta_binomial``.

Given :math:`m` and :math:`s` the chances are Beta with parameters :math:`\alpha + y_j` and
:math:`\beta + n_j - y_j`, independent of each other, and the counts are beta-binomial,

.. math::

   p(y \mid m, s) = \prod_j \binom{n_j}{y_j} \frac{B(\alpha + y_j,\ \beta + n_j - y_j)}{B(\alpha, \beta)},

so that the evidence is an integral over :math:`m` and :math:`s` only, by quadrature. Each chance is drawn to
:math:`m`, the more the fewer its trials: its mean given :math:`m` and :math:`s` is that of :math:`y_j / n_j` and
:math:`m`, weighted by :math:`n_j` and :math:`\alpha + \beta`.

The free variables are ``mean``, ``spread`` and ``theta``, of dims ``("row",)``.

The example is the mortality of infants after heart surgery, by hospital.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import pymc as pm

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Range, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "successes": Variable(kind="count", at_most="trials", doc="number of successes in each group"),
    "trials": Variable(kind="count", doc="number of trials in each group"),
}

EXAMPLE = Example("heart_surgery", {"successes": "deaths", "trials": "operations", "row": "hospital"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    mean_alpha: Positive = 1.0,
    mean_beta: Positive = 1.0,
    largest: Annotated[float, Range(1, 1e8, closed="right")] = 1e4,
) -> pm.Model:
    """Build the hierarchical beta-binomial model.

    Parameters
    ----------
    data : xarray.Dataset
        ``successes`` and ``trials``, both with dims ``("row",)``, a row for each group.
    mean_alpha, mean_beta : float
        Parameters of the Beta prior of the mean chance.
    largest : float
        The most trials that the groups can be worth to each other, :math:`N`.
    """
    with pm.Model(coords=row_coords(data)) as model:
        trials = pm.Data("trials", data["trials"].to_numpy(), dims="row")
        mean = pm.Beta("mean", mean_alpha, mean_beta)
        spread = pm.Uniform("spread", largest**-0.5, 1.0)
        theta = pm.Beta("theta", mean / spread**2, (1.0 - mean) / spread**2, dims="row")
        pm.Binomial("successes", n=trials, p=theta, observed=data["successes"].to_numpy(), dims="row")
    return model
