r"""Rows of several classes, each class with a multivariate Normal of its own: Gaussian discriminant analysis.

.. math::

   \pi \sim \mathrm{Dirichlet}(a, \ldots, a), \qquad
   c_i \mid \pi \sim \mathrm{Categorical}(\pi), \qquad
   x_i \mid c_i = c \sim \mathrm{Normal}(\mu_c, \Sigma_c)

The classes are observed, so that everything is conjugate. With :math:`\Lambda_c = \Sigma_c^{-1}`, :math:`D` features
and :math:`u` the units of the features, the prior is one of

* separate: :math:`\Lambda_c \sim \mathrm{Wishart}(\nu_0, V_0)` with
  :math:`V_0^{-1} = \nu_0 s^2\, \mathrm{diag}(u^2)`, for each class: quadratic boundaries;
* tied: one such :math:`\Lambda` for all classes: linear boundaries in the limit of many rows;
* diagonal, tied diagonal: independent features, :math:`\Lambda_{cd} = \lambda_{cd} / u_d^2` (or
  :math:`\lambda_d / u_d^2` for all classes), with :math:`\lambda \sim \mathrm{Gamma}(\nu_0 / 2, \nu_0 s^2 / 2)`;
* spherical: the same with one :math:`\lambda_c` for all features of a class;

and :math:`\mu_c \mid \Lambda_c \sim \mathrm{Normal}(m_0, (\kappa_0 \Lambda_c)^{-1})`. The prior mean of the precision
is :math:`1 / (s u_d)^2` on the diagonal in each of them.

With :math:`n_c` rows of class :math:`c`, of mean :math:`\bar x_c` and scatter :math:`S_c`, the posterior of a class has
:math:`\kappa_c = \kappa_0 + n_c`, :math:`m_c = (\kappa_0 m_0 + n_c \bar x_c) / \kappa_c`, :math:`\nu_c = \nu_0 + n_c`
and :math:`V_c^{-1} = V_0^{-1} + S_c + \kappa_0 n_c / \kappa_c\, (\bar x_c - m_0)(\bar x_c - m_0)^\top`; where the
precision is tied, its :math:`n_c` and its matrices are sums over classes. The evidence is that of the labels,
:math:`\Gamma(Ka) / \Gamma(Ka + n) \cdot \prod_c \Gamma(a + n_c) / \Gamma(a)`, times
:math:`\pi^{-n_c D/2} (\kappa_0 / \kappa_c)^{D/2} \cdot \Gamma_D(\nu_c / 2) / \Gamma_D(\nu_0 / 2) \cdot
|V_c|^{\nu_c/2} / |V_0|^{\nu_0/2}` for each class (tied: the first factors for each class, the others once).

A new row has the class probabilities

.. math::

   p(c \mid x, y) \propto (a + n_c) \cdot
   \mathrm{t}_{\nu_c - D + 1}\Bigl(x;\ m_c,\ \frac{\kappa_c + 1}{\kappa_c} \frac{V_c^{-1}}{\nu_c - D + 1}\Bigr),

with :math:`\nu` and :math:`V` of all classes where they are tied: ``bayeskit.classify`` computes them from the graph.
A class that was declared and has no row is answered by its prior. With separate covariances the rows of each class are
an observed variable of their own, ``x_<class>``. The free variables are ``class_probability`` of dims ``("class",)``,
``mu`` of dims ``("class", "feature")`` and ``precision``; separate: ``mu_<class>`` and ``precision_<class>``.

The example is Fisher's irises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.class_conditional import class_prior, feature_units, normal_features
from bayeskit.catalogue.options import option_error
from bayeskit.datasets.labels import declared_codes
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "x": Variable(("row", "feature"), doc="the features, one column each"),
    "label": Variable(kind="category", doc="the class of each row"),
}

EXAMPLE = Example(
    "iris",
    {"x": ("sepal_length", "sepal_width", "petal_length", "petal_width"), "label": "species"},
    {"covariance": "tied"},
)

# What has a variance of its own, where the features of a class are independent.
INDEPENDENT = {"diagonal": "each", "tied_diagonal": "feature", "spherical": "class"}


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    covariance: Literal["separate", "tied", "diagonal", "tied_diagonal", "spherical"] = "tied",
    classes: str | None = None,
    concentration: Positive = 1.0,
    prior: Literal["data", "given"] = "data",
    mean: float = 0.0,
    mean_weight: Positive = 0.1,
    degrees_of_freedom: Annotated[float, Range(low=0, closed="neither")] | None = None,
    sd: Positive = 0.5,
) -> pm.Model:
    """Build the Gaussian classifier.

    Parameters
    ----------
    data : xarray.Dataset
        ``x`` with dims ``("row", "feature")``, D features, and ``label`` with dims ``("row",)``.
    covariance : {"separate", "tied", "diagonal", "tied_diagonal", "spherical"}
        A covariance for each class, one for all; variances for each class and feature, for each feature; or one
        variance for each class, in units of the features.
    classes : str or None
        All classes, separated by commas, where some have no rows or the order matters; those found where not given.
    concentration : float
        As many rows of each class as the prior is worth.
    prior : {"data", "given"}
        Units of the prior: each feature's mean and sd over all rows of all classes, or the features' own units.
    mean : float
        Prior mean of each class mean: so many sds from the overall mean, or in units of the features themselves.
    mean_weight : float
        As many rows kappa0 as the prior mean is worth.
    degrees_of_freedom : float or None
        Degrees of freedom nu0 of the Wishart prior, above D - 1 (D + 2 where not given), or twice the shape of the
        Gamma priors (3 where not given).
    sd : float
        Prior guess of each feature's sd within a class, in the units of the prior.
    """
    x = data["x"].to_numpy()
    labels, codes = declared_codes(data["label"], "classes", classes)
    location, unit = feature_units(x, prior)
    location = location + mean * unit
    coords = {"row": np.arange(len(x)), "class": labels, **column_coords(data, "x"), **row_coords(data)}
    with pm.Model(coords=coords) as model:
        label = class_prior("class_probability", "label", codes, concentration, ("class", "row"))
        if covariance in INDEPENDENT:
            normal_features(
                "x", x, label, prior=prior, mean=mean, mean_weight=mean_weight, sd=sd,
                degrees_of_freedom=degrees_of_freedom or 3.0, variance=INDEPENDENT[covariance],
            )  # fmt: skip
        elif covariance == "tied":
            precision = _precision("precision", degrees_of_freedom, sd, unit)
            mu = pm.MvNormal("mu", location, tau=mean_weight * precision, dims=("class", "feature"))
            pm.MvNormal("x", mu[label], tau=precision, observed=x, dims=("row", "feature"))
        else:
            for code, suffix in enumerate(_suffixes(labels)):
                precision = _precision(f"precision_{suffix}", degrees_of_freedom, sd, unit)
                mu = pm.MvNormal(f"mu_{suffix}", location, tau=mean_weight * precision, dims="feature")
                _normal_rows(suffix, x, np.flatnonzero(codes == code), mu, precision)
    return model


def _precision(name: str, degrees_of_freedom: float | None, sd: float, unit: np.ndarray) -> pm.Distribution:
    """A Wishart precision matrix of mean 1 / (sd · unit)² on its diagonal; improper ones are refused."""
    nu = unit.size + 2.0 if degrees_of_freedom is None else degrees_of_freedom
    if nu <= unit.size - 1:
        raise option_error("degrees_of_freedom", nu, f"above {unit.size - 1}, the number of features less one")
    model = pm.modelcontext(None)
    model.add_coord("other_feature", model.coords["feature"])
    scale_chol = np.diag(1.0 / (np.sqrt(nu) * sd * unit))
    return pm.Wishart(name, nu=nu, scale_chol=scale_chol, dims=("feature", "other_feature"))


def _normal_rows(suffix: str, x: np.ndarray, rows: np.ndarray, mu: Any, precision: Any) -> None:
    """The rows of one class, an observed variable of their own; without rows, the next one, which is not observed."""
    if not rows.size:
        pm.MvNormal(f"x_{suffix}", mu, tau=precision, dims="feature")
        return
    model = pm.modelcontext(None)
    model.add_coord(f"row_{suffix}", np.asarray(model.coords["row"])[rows])
    pm.MvNormal(f"x_{suffix}", mu, tau=precision, observed=x[rows], dims=(f"row_{suffix}", "feature"))


def _suffixes(labels: np.ndarray) -> list[str]:
    """What the names of the variables of each class end with; PyMC allows no slash in a name."""
    suffixes = [str(label).replace("/", "_") for label in labels]
    for k, suffix in enumerate(suffixes):
        if suffix in suffixes[:k]:
            other = labels[suffixes.index(suffix)]
            raise DataError(f"the labels {str(other)!r} and {str(labels[k])!r} differ by a slash only; rename one")
    return suffixes
