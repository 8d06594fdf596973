r"""Probabilistic principal components and factor analysis: few latent coordinates behind many columns.

.. math::

   z_n \sim \mathrm{Normal}(0, I_K), \qquad y_{np} \mid z_n \sim \mathrm{Normal}(\mu_p + w_p^\top z_n, \sigma_p^2)

with :math:`\mu_p \sim \mathrm{Normal}(0, s_\mu^2)`. With ``noise="shared"`` all :math:`\sigma_p` are one :math:`\sigma`
(probabilistic PCA, Tipping and Bishop 1999, Journal of the Royal Statistical Society B 61, 611-622); with
``noise="each"`` every column has its own (factor analysis).

**Rotation is fixed by construction.** :math:`W` and :math:`W Q` with orthogonal :math:`Q` have the same likelihood;
here :math:`W` is lower trapezoidal with a positive diagonal, which picks one of each class where its first :math:`K`
rows are of full rank. Its entries below the diagonal are Normal, those on it half-Normal, with scale :math:`s_w`, or,
with ``relevance``, a scale for each component with a half-Cauchy prior, so that components that are not needed shrink
away.

The evidence has no closed form. Given :math:`W` and the noise, the coordinates and the means are jointly Normal and
integrated out exactly; only :math:`W` and the scales are sampled. They start from the closed-form maximum-likelihood
solution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.datasets.builder import column_coords, model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {"y": Variable(("row", "column"), doc="the measurements, one column each", min_columns=2)}

EXAMPLE = Example(
    "iris_setosa",
    {"y": ("sepal_length", "sepal_width", "petal_length", "petal_width")},
    {"components": 1},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    components: Annotated[int, Range(1, 50)] = 2,
    noise: Literal["shared", "each"] = "shared",
    relevance: bool = False,
    standardise: bool = True,
    loading_scale: Positive = 1.0,
    mean_scale: Positive = 10.0,
    noise_scale: Positive = 1.0,
) -> pm.Model:
    """Build probabilistic PCA or factor analysis.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` with dims ``("row", "column")``.
    components : int
        Number K of latent coordinates, below the number of columns.
    noise : {"shared", "each"}
        One noise sd for all columns (PPCA) or one for each (factor analysis).
    relevance : bool
        Whether every component has a scale of its own that is learnt.
    standardise : bool
        Shift and scale each column by its mean and sd first: the model, its predictions and its evidence are then of
        the standardised columns.
    loading_scale : float
        Prior scale of the loadings, in units of the (standardised) columns.
    mean_scale : float
        Prior sd of the means, in the same units.
    noise_scale : float
        Scale of the half-Normal prior of the noise sd, in the same units.

    Returns
    -------
    pymc.Model
        With ``diagonal`` and ``below`` (the free entries of W), the noise ``sigma``, ``mu``, ``z`` and the
        Deterministic ``loadings`` of dims ``("column", "component")``.

    Raises
    ------
    OptionError
        If there are not fewer components than columns.
    """
    y = data["y"].to_numpy()
    rows, columns = y.shape
    if components >= columns:
        raise OptionError(f"option components is {components}; it must be below the number of columns, {columns}")
    if standardise:
        sd = y.std(axis=0)
        y = (y - y.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    start, start_noise = _maximum_likelihood(y, components)
    lower = np.tril_indices(columns, -1, components)
    coords = {"column": column_coords(data, "y")["column"], "component": np.arange(1, components + 1)}
    with pm.Model(coords={**coords, "row": np.arange(rows), **row_coords(data)}) as model:
        scale = pm.HalfCauchy("scale", loading_scale, dims="component") if relevance else loading_scale
        scales = scale * pt.ones(components)
        diagonal = pm.HalfNormal("diagonal", scales, dims="component", initval=np.diag(start).clip(1e-3))
        below = pm.Normal("below", 0.0, scales[lower[1]], shape=len(lower[0]), initval=start[lower])
        loadings = pt.zeros((columns, components))[lower].set(below)
        loadings = loadings[np.arange(components), np.arange(components)].set(diagonal)
        pm.Deterministic("loadings", loadings, dims=("column", "component"))
        if noise == "shared":
            sigma = pm.HalfNormal("sigma", noise_scale, initval=start_noise)
        else:
            sigma = pm.HalfNormal("sigma", noise_scale, dims="column", initval=np.full(columns, start_noise))
        mu = pm.Normal("mu", 0.0, mean_scale, dims="column")
        z = pm.Normal("z", 0.0, 1.0, dims=("row", "component"))
        pm.Normal("y", mu + pt.dot(z, loadings.T), sigma, observed=y, dims=("row", "column"))
    return model


def _maximum_likelihood(y: np.ndarray, components: int) -> tuple[np.ndarray, float]:
    """The loadings and noise sd of Tipping and Bishop (1999), rotated to lower trapezoidal form."""
    covariance = np.atleast_2d(np.cov(y, rowvar=False, bias=True))
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = max(float(np.mean(values[components:])), 1e-6)
    loadings = vectors[:, :components] * np.sqrt(np.maximum(values[:components] - noise, 1e-6))
    # W = L Qᵀ with L lower trapezoidal: the QR decomposition of the transpose of its first rows.
    rotation = np.linalg.qr(loadings[:components].T)[0]
    rotated = loadings @ rotation
    return rotated * np.where(np.diag(rotated) < 0, -1.0, 1.0), float(np.sqrt(noise))
