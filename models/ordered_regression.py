r"""Ordered logistic regression: levels in an order, such as ratings, as a function of features.

.. math::

   \Pr(y_i \le k \mid \eta_i) = \frac{1}{1 + e^{-(c_k - \eta_i)}}, \qquad \eta_i = z_i^\top w, \qquad
   c_k = \log \frac{p_1 + \cdots + p_k}{1 - p_1 - \cdots - p_k}

(proportional odds; McCullagh 1980) with :math:`z` the features, standardised or as they are, and
:math:`w \sim \mathrm{Normal}(0, s^2)`. The cut points :math:`c` are those at which a row with :math:`\eta = 0`, at the
means of standardised features, has level k with probability :math:`p_k`; the prior is of these probabilities,
:math:`p \sim \mathrm{Dirichlet}(\alpha, \ldots, \alpha)`, which keeps the cut points in order. An increase of
:math:`\eta` by one multiplies the odds of a higher level by e, whichever level is asked about. There is no intercept:
the cut points are K - 1 of them.

A latent response :math:`\eta_i + \epsilon_i` with logistic noise, which falls between two cut points, is the same
model. There is no closed form: the posterior and the evidence are integrals over weights and :math:`p`, by quadrature
for up to three numbers, by importance sampling for more.

The levels are whole numbers, from 0 or from 1 on; the largest that is there is the last. The free variables are
``weights`` of dims ``("feature",)`` and ``probability`` of dims ``("level",)``; ``cutpoint`` is made from it.

The example is the bitterness of wine, rated from 1 to 5 by nine judges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.linear_predictor import feature_terms
from bayeskit.datasets.labels import column_name
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(kind="count", doc="the level, a whole number from 0 or 1 on"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example("wine", {"y": "bitterness", "x": ("warm", "contact")}, {"standardise": False})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset, *, standardise: bool = True, prior_scale: Positive = 2.5, concentration: Positive = 1.0
) -> pm.Model:
    """Build the ordered regression of ``y``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    prior_scale : float
        Prior sd of each weight.
    concentration : float
        Rows of each level that the prior of the probabilities at :math:`\\eta = 0` is worth.
    """
    y = data["y"].to_numpy()
    first, last = _range(y, column_name(data["y"]))
    levels = np.arange(first, last + 1)
    coords = {**column_coords(data, "x"), **row_coords(data), "level": levels, "step": levels[:-1]}
    with pm.Model(coords=coords) as model:
        eta = feature_terms(data, standardise, prior_scale)
        below = pt.cumsum(pm.Dirichlet("probability", np.full(len(levels), concentration), dims="level"))[:-1]
        cutpoints = pm.Deterministic("cutpoint", pt.log(below) - pt.log1p(-below), dims="step")
        pm.OrderedLogistic("y", eta=eta, cutpoints=cutpoints, compute_p=False, observed=y - first, dims="row")
    return model


def _range(y: np.ndarray, column: str) -> tuple[int, int]:
    """The first and the last level."""
    low, high = int(y.min()), int(y.max())
    if low == high:
        raise DataError(f"column {column!r} has one level, {low}; an ordered regression takes two or more")
    if low > 1:
        raise DataError(
            f"column {column!r} has no level below {low}; number the levels from 0 or 1, and leave no level out "
            "at the beginning"
        )
    return low, high
