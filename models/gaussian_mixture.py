r"""A mixture of Gaussian components, in any number of dimensions, with every row's component written out.

.. math::

   w \sim \mathrm{Dirichlet}(a, \ldots, a), \qquad z_n \sim \mathrm{Categorical}(w), \qquad
   y_n \mid z_n = k \sim \mathrm{Normal}(\mu_k, \Sigma_k), \qquad \mu_{kd} \sim \mathrm{Normal}(m_d, s_m^2 u_d^2)

for rows :math:`n`, components :math:`k` and features :math:`d`. With :math:`U = \mathrm{diag}(u)` the units of the
features, the covariances are

* ``full``: :math:`\Sigma_k^{-1} \sim \mathrm{Wishart}(\nu, (\nu s^2 U^2)^{-1})`, whose mean is the precision
  of sds :math:`s u_d` without correlation;
* ``tied``: one such matrix for all components;
* ``diagonal``: :math:`\Sigma_k = \mathrm{diag}(\sigma_{kd}^2)` with
  :math:`\sigma_{kd}^2 \sim \mathrm{InverseGamma}(\nu / 2, \nu s^2 u_d^2 / 2)`, which is the same in one dimension;
* ``spherical``: :math:`\Sigma_k = \sigma_k^2 I`, with that prior at the root mean square of the units.

With ``standardise``, :math:`m` and :math:`u` are the columns' means and sds, so that the priors are in the scale of the
data, whatever their unit; without it they are 0 and 1, and :math:`m` an option. The parameters are in units of y either
way.

**The Wishart matrix by its factor.** :math:`\Sigma^{-1} = T^\top T` with :math:`T` lower triangular is Wishart if
:math:`T_{ij} = A_{ij} / (\sqrt{\nu} s u_j)` with independent :math:`A_{ii}^2 \sim \chi^2_{\nu - D + i}` and, below the
diagonal, :math:`A_{ij} \sim \mathrm{Normal}(0, 1)`: Bartlett's decomposition (1933, Proceedings of the Royal Society of
Edinburgh 53, 260-283), read from the last feature to the first. These entries are what is sampled; :math:`T (y - \mu)`
is standard Normal, and :math:`T^{-1}` is the Cholesky factor of :math:`\Sigma`.

The prior is the same for every component, so that each of the K! labellings has the same posterior; chains start in one
of them, at the groups that k-means finds. Given everything else, the components of the rows are summed out,

.. math:: p(y \mid w, \mu, \Sigma) = \prod_n \sum_k w_k \, \mathrm{Normal}(y_n \mid \mu_k, \Sigma_k)

and come back with their exact probabilities, the responsibilities. The evidence has no closed form; it compares numbers
of components, for which ``components=1`` is the plain Gaussian with the same priors.

The free variables are ``mean`` of dims ``("component", "feature")``, the covariance, and, for more than one component,
``weights`` of dims ``("component",)`` and ``z`` of dims ``("row",)``. The covariance is ``variance`` of dims
``("component",)`` (spherical) or ``("component", "feature")`` (diagonal), or the entries of the factor,
``diagonal_square`` and ``below``, with the Deterministic ``covariance``.

The example is Anderson's measurements of three species of iris, without the species.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import linalg

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.options import option_error
from bayeskit.catalogue.starts import group_rows, location_and_scale
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {"y": Variable(("row", "feature"), doc="the measurements, one column a feature")}

EXAMPLE = Example("iris", {"y": ("petal_length", "petal_width")}, {"components": 3, "covariance": "tied"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    components: Annotated[int, Range(1, 100)] = 2,
    covariance: Literal["spherical", "diagonal", "tied", "full"] = "full",
    standardise: bool = True,
    concentration: Positive = 1.0,
    mean: float | None = None,
    mean_scale: Positive = 1.0,
    spread: Positive = 0.5,
    degrees_of_freedom: Positive | None = None,
) -> pm.Model:
    """Build the Gaussian mixture.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` with dims ``("row", "feature")``, D features.
    components : int
        Number K of components, at most the number of rows.
    covariance : {"spherical", "diagonal", "tied", "full"}
        One variance for each component; one for each feature of each component; one matrix for all components; or a
        matrix for each component.
    standardise : bool
        Whether the priors are counted from each column's mean, in its sds (1 where it is constant).
    concentration : float
        Concentration a of the Dirichlet prior of the weights: as many rows in each component as it is worth.
    mean : float or None
        Prior mean of the components' means, in units of y, where the priors are not standardised; 0 where not given.
    mean_scale : float
        Prior sd of the components' means, in sds of the column (in units of y if not standardised).
    spread : float
        Prior guess s of the sd within a component, in the same units.
    degrees_of_freedom : float or None
        How firm that guess is: degrees of freedom nu of the Wishart prior, above D - 1, and twice the shape of the
        inverse Gamma prior; D + 2 where not given.
    """
    y = data["y"].to_numpy()
    rows, features = y.shape
    nu = features + 2.0 if degrees_of_freedom is None else degrees_of_freedom
    _check_options(components, rows, covariance, nu, features, mean, standardise)
    centre, unit = location_and_scale(y) if standardise else (np.full(features, mean or 0.0), np.ones(features))
    labels = group_rows(y, components)
    size, means, scatter = _group_moments(y, labels, components)
    coords = {"component": np.arange(1, components + 1), **column_coords(data, "y"), "row": np.arange(rows)}
    with pm.Model(coords=coords | row_coords(data)) as model:
        centres = pm.Normal("mean", centre, mean_scale * unit, dims=("component", "feature"), initval=means)
        z: Any = 0
        if components > 1:
            share = (size + 1.0) / (rows + components)
            weights = pm.Dirichlet("weights", np.full(components, concentration), dims="component", initval=share)
            z = pm.Categorical("z", p=weights, dims="row", initval=labels)
        if covariance in ("spherical", "diagonal"):
            sd = _sds(covariance, scatter, size, nu, spread * unit, z)
            pm.Normal("y", centres[z], sd, observed=y, dims=("row", "feature"))
        else:
            factor = _factors(covariance, scatter, size, nu, spread * unit)
            root = factor[z] if covariance == "full" else factor
            pm.MvNormal("y", centres[z], chol=root, observed=y, dims=("row", "feature"))
    return model


def _check_options(
    components: int, rows: int, covariance: str, nu: float, features: int, mean: float | None, standardise: bool
) -> None:
    if components > rows:
        raise OptionError(f"option components is {components}; it can be at most the number of rows, {rows}")
    if covariance in ("full", "tied") and nu <= features - 1:
        raise option_error("degrees_of_freedom", nu, f"above {features - 1}, the number of features less one")
    if mean is not None and standardise:
        raise OptionError(f"option mean is {mean!r} but has no effect here; set standardise=false too, or leave it out")


def _group_moments(y: np.ndarray, labels: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The size of each group of rows, its mean, and its scatter matrix, where the chains start."""
    means = np.stack([y[labels == k].mean(axis=0) for k in range(groups)])
    scatter = [(y[labels == k] - means[k]).T @ (y[labels == k] - means[k]) for k in range(groups)]
    return np.bincount(labels), means, np.stack(scatter)


def _sds(kind: str, scatter: np.ndarray, size: np.ndarray, nu: float, guess: np.ndarray, z: Any) -> Any:
    """The sds of the rows, one for each component or for each of its features, with inverse Gamma variances."""
    prior, squares, number = guess**2, np.diagonal(scatter, axis1=-2, axis2=-1), size[:, None]
    dims: tuple[str, ...] = ("component", "feature")
    if kind == "spherical":
        prior, squares, number, dims = np.mean(prior), squares.sum(axis=1), size * guess.size, ("component",)
    start = (squares + nu * prior) / (number + nu)
    sd = pt.sqrt(pm.InverseGamma("variance", nu / 2, nu * prior / 2, dims=dims, initval=start))[z]
    return sd[:, None] if kind == "spherical" and sd.ndim else sd


def _factors(kind: str, scatter: np.ndarray, size: np.ndarray, nu: float, guess: np.ndarray) -> pt.TensorVariable:
    """Cholesky factors of covariances whose inverses are Wishart: one for each component, or one for all (``tied``)."""
    dims: tuple[str, ...] = ("component",)
    number: Any = size[:, None, None]
    if kind == "tied":
        scatter, number, dims = np.sum(scatter, axis=0), size.sum(), ()
    start = (scatter + nu * np.diag(guess**2)) / (number + nu)
    model = pm.modelcontext(None)
    model.add_coord("other_feature", model.coords["feature"])
    return _factor(start, nu, guess, dims)


def _factor(start: np.ndarray, nu: float, guess: np.ndarray, dims: tuple[str, ...]) -> pt.TensorVariable:
    """Cholesky factors of covariances whose inverses are Wishart, one for each entry along the dims."""
    size = len(guess)
    row, column = np.tril_indices(size, -1)
    batch = start.shape[:-2]
    inverse = linalg.solve_triangular(np.linalg.cholesky(start), np.broadcast_to(np.eye(size), start.shape), lower=True)
    entries = inverse * np.sqrt(nu) * guess
    square = pm.ChiSquared(
        "diagonal_square",
        np.broadcast_to(nu - size + np.arange(1, size + 1), (*batch, size)),
        dims=(*dims, "feature"),
        initval=np.diagonal(entries, axis1=-2, axis2=-1) ** 2,
    )
    whitener = pt.zeros((*batch, size, size))
    whitener = whitener[..., np.arange(size), np.arange(size)].set(pt.sqrt(square))
    if size > 1:
        below = pm.Normal("below", 0.0, 1.0, shape=(*batch, len(row)), initval=entries[..., row, column])
        whitener = whitener[..., row, column].set(below)
    whitener = whitener / (np.sqrt(nu) * guess)
    factor = pt.linalg.solve_triangular(whitener, np.broadcast_to(np.eye(size), start.shape), lower=True)
    pm.Deterministic("covariance", factor @ factor.mT, dims=(*dims, "feature", "other_feature"))
    return factor
