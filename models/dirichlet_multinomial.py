r"""Counts over categories, with a Dirichlet prior on the probabilities.

.. math::

   p \sim \mathrm{Dirichlet}(a, \ldots, a), \qquad
   y_i \mid p \sim \mathrm{Multinomial}(n_i, p)

Every row :math:`i` of counts shares the probability vector :math:`p`, over :math:`K` categories; :math:`n_i` is the
row's total, and :math:`a` the concentration. With :math:`s_k = \sum_i y_{ik}` the posterior is
:math:`\mathrm{Dirichlet}(a + s_1, \ldots, a + s_K)` and the evidence is
:math:`\prod_i n_i! / \prod_k y_{ik}! \cdot \Gamma(Ka) / \Gamma(Ka + \sum_k s_k) \cdot
\prod_k \Gamma(a + s_k) / \Gamma(a)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "counts": Variable(("row", "category"), kind="count", min_columns=2, doc="number of cases in each category"),
}

EXAMPLE = Example("hair_eye_colour", {"counts": ("brown", "blue", "hazel", "green"), "row": "hair"})


@model_builder(VARIABLES)
def build(data: xr.Dataset, *, concentration: Positive = 1.0) -> pm.Model:
    """Build the Dirichlet-multinomial model.

    Parameters
    ----------
    data : xarray.Dataset
        ``counts`` with dims ``("row", "category")``, at least two categories.
    concentration : float
        The prior's parameter, the same for each category: as many cases of each as the prior is worth.

    Returns
    -------
    pymc.Model
        With the free variable ``probability``, of dims ``("category",)``.
    """
    counts = data["counts"].to_numpy()
    with pm.Model(coords={**row_coords(data), **column_coords(data, "counts")}) as model:
        trials = pm.Data("trials", counts.sum(axis=1), dims="row")
        probability = pm.Dirichlet("probability", a=np.full(counts.shape[1], concentration), dims="category")
        pm.Multinomial("counts", n=trials, p=probability, observed=counts, dims=("row", "category"))
    return model
