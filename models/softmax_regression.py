r"""Softmax regression: which of several classes a row is of, as a function of features.

.. math::

   \Pr(y_i = k \mid \eta_i) = \frac{e^{\eta_{ik}}}{\sum_j e^{\eta_{ij}}}, \qquad
   \eta_{ik} = b_k + z_i^\top w_k, \qquad \eta_{i1} = 0

(multinomial logistic regression) with :math:`z` the features, standardised or as they are,
:math:`b_k \sim \mathrm{Normal}(0, s_b^2)` and :math:`w_{kj} \sim \mathrm{Normal}(0, s^2)`. The first class, by number
or alphabet unless ``reference`` names one, is that with which the others are compared: :math:`w_{kj}` is what one unit
of feature j adds to the logarithm of the odds of class k against it. To compare all with one makes the weights known
from the data; the price is that the prior is not the same for all classes. With two classes it is the logistic
regression.

There is no closed form: the posterior and the evidence are integrals over the intercepts and weights, by quadrature for
up to three numbers, by importance sampling for up to forty. Where a feature separates the classes the likelihood has no
largest value, and the priors alone bound the weights.

The free variables are ``intercept`` of dims ``("other_class",)``, of standardised features the log odds at their means,
and ``weights`` of dims ``("feature", "other_class")``.

The example is the species of Fisher's irises, by their petals.
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
from bayeskit.errors import DataError, OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(kind="category", doc="the class"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example("iris", {"y": "species", "x": ("petal_length", "petal_width")}, {"reference": "versicolor"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    reference: str | None = None,
    standardise: bool = True,
    intercept_scale: Positive = 5.0,
    prior_scale: Positive = 2.5,
) -> pm.Model:
    """Build the softmax regression of ``y``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
    reference : str or None
        The class that the others are compared with; the first where not given.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    intercept_scale, prior_scale : float
        Prior sd of each intercept and of each weight.
    """
    classes, codes = np.unique(data["y"].to_numpy(), return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"column {column_name(data['y'])!r} has one class, {classes[0]}; it takes two or more")
    names = [str(label) for label in classes]
    if reference is not None and reference not in names:
        raise OptionError(f"option reference is {reference!r}; it must be one of {', '.join(names)}, or none")
    base = names.index(reference) if reference is not None else 0
    others = np.delete(classes, base)
    coords = {**column_coords(data, "x"), **row_coords(data), "class": classes, "other_class": others}
    with pm.Model(coords=coords) as model:
        terms = feature_terms(data, standardise, prior_scale, "other_class")
        eta = pm.Normal("intercept", 0.0, intercept_scale, dims="other_class") + terms
        zero = pt.zeros((eta.shape[0], 1))
        logits = pt.concatenate([eta[:, :base], zero, eta[:, base:]], axis=1)
        pm.Categorical("y", logit_p=logits, observed=codes, dims="row")
    return model
