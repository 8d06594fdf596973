r"""Successes out of trials from several sources, of which it is not known which gave which row: the two-coins problem.

.. math::

   z_n \sim \mathrm{Categorical}(w), \qquad \theta_k \sim \mathrm{Beta}(\alpha, \beta), \qquad
   y_n \mid z_n = k \sim \mathrm{Binomial}(m_n, \theta_k)

for rows :math:`n` of :math:`m_n` trials and components :math:`k`, with equal weights :math:`w_k = 1 / K`, or
:math:`w \sim \mathrm{Dirichlet}(a, \ldots, a)`. Given :math:`\theta` and :math:`w` the components of the rows are
summed out,

.. math:: p(y \mid \theta, w) = \prod_n \sum_k w_k \, \mathrm{Binomial}(y_n \mid m_n, \theta_k)

and come back with their exact probabilities. Up to three numbers that remain are integrated by quadrature, which gives
the evidence with a bound; more are sampled. The prior is the same for every component, so that the posterior has K!
modes that differ in their labels alone, and the marginal of every :math:`\theta_k` is the same: what is of interest is
what does not depend on the labels.

The example is the worked one of Do and Batzoglou (2008, Nature Biotechnology 26, 897-899): two coins, one of which was
taken at random five times and tossed ten times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.catalogue.starts import group_rows
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "successes": Variable(kind="count", at_most="trials", doc="number of successes"),
    "trials": Variable(kind="count", doc="number of trials"),
}

EXAMPLE = Example("two_coins", {"successes": "heads", "trials": "tosses"}, {"components": 2, "weights": "equal"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    components: Annotated[int, Range(2, 100)] = 2,
    weights: Literal["equal", "dirichlet"] = "dirichlet",
    concentration: Positive = 1.0,
    alpha: Positive = 1.0,
    beta: Positive = 1.0,
) -> pm.Model:
    """Build the binomial mixture.

    Parameters
    ----------
    data : xarray.Dataset
        ``successes`` and ``trials``, both with dims ``("row",)``.
    components : int
        Number K of components, at most the number of rows.
    weights : {"equal", "dirichlet"}
        Whether every component has the weight 1 / K, or the weights are unknown.
    concentration : float
        Concentration a of the Dirichlet prior of unknown weights: as many rows in each component as it is worth.
    alpha, beta : float
        Parameters of the Beta prior: as many successes and failures as it is worth in each component.

    Returns
    -------
    pymc.Model
        With the free variables ``theta`` of dims ``("component",)``, ``z`` of dims ``("row",)`` and, where they are
        unknown, ``weights`` of dims ``("component",)``.

    Raises
    ------
    OptionError
        If there are more components than rows.
    """
    y, trials = data["successes"].to_numpy(), data["trials"].to_numpy()
    if components > y.size:
        raise OptionError(f"option components is {components}; it can be at most the number of rows, {y.size}")
    labels = group_rows((y / np.maximum(trials, 1))[:, None], components)
    heads, tosses, rows = (np.bincount(labels, values, components) for values in (y, trials, np.ones(y.size)))
    coords = {"component": np.arange(1, components + 1), "row": np.arange(y.size), **row_coords(data)}
    with pm.Model(coords=coords) as model:
        number = pm.Data("trials", trials, dims="row")
        theta = pm.Beta("theta", alpha, beta, dims="component", initval=(heads + 1.0) / (tosses + 2.0))
        share = np.full(components, 1 / components)
        if weights == "dirichlet":
            start = (rows + 1.0) / (y.size + components)
            share = pm.Dirichlet("weights", np.full(components, concentration), dims="component", initval=start)
        z = pm.Categorical("z", p=share, dims="row", initval=labels)
        pm.Binomial("successes", n=number, p=theta[z], observed=y, dims="row")
    return model
