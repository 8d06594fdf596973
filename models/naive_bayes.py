r"""Rows of several classes whose features are independent given the class: naive Bayes.

.. math::

   \pi \sim \mathrm{Dirichlet}(a, \ldots, a), \qquad c_i \mid \pi \sim \mathrm{Categorical}(\pi)

and, given :math:`c_i = c`, independently for each feature :math:`d`,

* real (``x``): :math:`x_{id} \sim \mathrm{Normal}(\mu_{cd}, u_d^2 / \lambda_{cd})`, with
  :math:`\lambda_{cd} \sim \mathrm{Gamma}(\nu_0 / 2, \nu_0 s^2 / 2)` and
  :math:`\mu_{cd} \mid \lambda_{cd} \sim \mathrm{Normal}(m_d, u_d^2 / (\kappa_0 \lambda_{cd}))`;
* binary: :math:`b_{id} \sim \mathrm{Bernoulli}(\theta_{cd})`, with
  :math:`\theta_{cd} \sim \mathrm{Beta}(\alpha, \beta)`;
* counts: :math:`k_{id} \sim \mathrm{Poisson}(\rho_{cd})`, with
  :math:`\rho_{cd} \sim \mathrm{Gamma}(\gamma, \gamma / r_d)`, of mean :math:`r_d`; or, as counts of the parts of a
  whole, :math:`k_i \sim \mathrm{Multinomial}(n_i, \phi_c)` with :math:`\phi_c \sim \mathrm{Dirichlet}(b, \ldots, b)`.

A data set may have features of one kind or of several. The classes are observed, so that all of it is conjugate. The
evidence is the product of that of the labels,
:math:`\Gamma(Ka) / \Gamma(Ka + n) \cdot \prod_c \Gamma(a + n_c) / \Gamma(a)`, and of a factor for each class and
feature: that of the ``normal`` model; :math:`\mathrm{B}(\alpha + k, \beta + n_c - k) / \mathrm{B}(\alpha, \beta)` for
:math:`k` ones among the :math:`n_c` rows of the class; that of the ``gamma_poisson`` or ``dirichlet_multinomial``
model.

A new row has the class probabilities :math:`p(c \mid x, y) \propto (a + n_c) \prod_d p(x_d \mid c, y)`, products of
Student-t, Bernoulli and negative binomial (or Dirichlet-multinomial) probabilities: ``bayeskit.classify`` computes them
from the graph. A class that was declared and has no row is answered by its prior, and so is a feature value that no row
of a class has.

The free variables are ``class_probability`` of dims ``("class",)`` and, as the data have them, ``mu`` and ``precision``
of dims ``("class", "feature")``, ``binary_probability`` of dims ``("class", "indicator")``, and ``rate`` or
``item_probability`` of dims ``("class", "item")``.

The example is handwritten digits, by the pixels that are dark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.class_conditional import bernoulli_features, class_prior, normal_features, poisson_features
from bayeskit.datasets.labels import declared_codes
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "label": Variable(kind="category", doc="the class of each row"),
    "x": Variable(("row", "feature"), required=False, doc="real features, one column each"),
    "binary": Variable(("row", "indicator"), kind="binary", required=False, doc="features that are zero or one"),
    "counts": Variable(("row", "item"), kind="count", required=False, doc="features that are counts"),
}

EXAMPLE = Example(
    "digits",
    {"label": "digit", "binary": tuple(f"r{row}c{column}" for row in range(1, 9) for column in range(2, 8))},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    classes: str | None = None,
    concentration: Positive = 1.0,
    prior: Literal["data", "given"] = "data",
    mean: float = 0.0,
    mean_weight: Positive = 0.1,
    degrees_of_freedom: Positive = 3.0,
    sd: Positive = 0.5,
    ones: Positive = 1.0,
    zeros: Positive = 1.0,
    counts: Literal["poisson", "multinomial"] = "poisson",
    rate_shape: Positive = 1.0,
    rate_mean: Positive = 1.0,
    item_concentration: Positive = 1.0,
) -> pm.Model:
    """Build the naive Bayes classifier of ``label`` by one or more of ``x``, ``binary`` and ``counts``.

    Parameters
    ----------
    data : xarray.Dataset
    classes : str or None
        All classes, separated by commas, where some have no rows or the order matters; those found where not given.
    concentration : float
        As many rows of each class as the prior is worth.
    prior : {"data", "given"}
        Units of the priors: each column's mean and sd (of counts: mean) over all rows, or the columns' own units.
    mean : float
        Prior mean of each real feature's class mean: so many sds from the overall mean, or in units of the feature.
    mean_weight : float
        As many rows kappa0 as that prior mean is worth.
    degrees_of_freedom : float
        Degrees of freedom nu0 of the prior of the precisions of real features, twice the shape of their Gamma.
    sd : float
        Prior guess of each real feature's sd within a class, in the units of the prior.
    ones, zeros : float
        Parameters of the Beta prior of binary features: as many ones and zeros as it is worth.
    counts : {"poisson", "multinomial"}
        Independent counts, or the parts of a whole whose size says nothing of the class.
    rate_shape, rate_mean : float
        Shape of the Gamma prior of the rates (as many events as it is worth), and its mean in the units of the prior.
    item_concentration : float
        Parameter b of the Dirichlet prior of the multinomial probabilities.
    """
    labels, codes = declared_codes(data["label"], "classes", classes)
    with pm.Model(coords=_coords(data, labels)) as model:
        label = class_prior("class_probability", "label", codes, concentration, ("class", "row"))
        if "x" in data:
            normal_features(
                "x", data["x"].to_numpy(), label, prior=prior, mean=mean, mean_weight=mean_weight,
                degrees_of_freedom=degrees_of_freedom, sd=sd,
            )  # fmt: skip
        if "binary" in data:
            bernoulli_features("binary", data["binary"].to_numpy(), label, ones=ones, zeros=zeros)
        if "counts" in data and counts == "poisson":
            poisson_features("counts", data["counts"].to_numpy(), label, prior=prior, shape=rate_shape, mean=rate_mean)
        elif "counts" in data:
            _multinomial_features(data["counts"].to_numpy(), label, item_concentration)
    return model


def _coords(data: xr.Dataset, labels: np.ndarray) -> dict[str, np.ndarray]:
    kinds = [name for name in ("x", "binary", "counts") if name in data]
    if not kinds:
        raise DataError(
            "the model needs features: name the columns of at least one of x (real), binary (0 or 1) and counts"
        )
    coords = {"row": np.arange(data["label"].size), "class": labels, **row_coords(data)}
    for name in kinds:
        coords |= column_coords(data, name)
    return coords


def _multinomial_features(counts: np.ndarray, label: Any, concentration: float) -> None:
    """Counts of the parts of a whole of known size, with Dirichlet probabilities in each class."""
    total = pm.Data("total", counts.sum(axis=1), dims="row")
    classes = len(pm.modelcontext(None).coords["class"])
    concentrations = np.full((classes, counts.shape[1]), concentration)
    probability = pm.Dirichlet("item_probability", a=concentrations, dims=("class", "item"))
    pm.Multinomial("counts", n=total, p=probability[label], observed=counts, dims=("row", "item"))
