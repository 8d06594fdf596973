r"""Probabilistic principal components and factor analysis: few latent coordinates behind many columns.

.. math::

   z_n \sim \mathrm{Normal}(0, I_K), \qquad y_{np} \mid z_n \sim \mathrm{Normal}(\mu_p + w_p^\top z_n, \sigma_p^2)

with :math:`\mu_p \sim \mathrm{Normal}(0, s_\mu^2)`. With ``noise="shared"`` all :math:`\sigma_p` are one :math:`\sigma`
(probabilistic PCA, Tipping and Bishop 1999, Journal of the Royal Statistical Society B 61, 611-622); with
``noise="each"`` every column has its own (factor analysis).

**Units.** With ``standardise``, the parameters are in sds of the columns,

.. math:: y_{np} \mid z_n \sim \mathrm{Normal}(b_p + s_p (\mu_p + w_p^\top z_n), s_p^2 \sigma_p^2)

where :math:`b` and :math:`s` are the columns' means and sds, kept as ``column_mean`` and ``column_sd`` among the
constant data. Loadings, means and noise, and their priors, are then in sds of their column; ``y``, its predictions, its
missing entries and the evidence are in the units of the data all the same.

**Missing entries** are not in the likelihood, so that the evidence is that of the observed entries; they are
predicted with everything else, as ``y_unobserved``. This is right where whether an entry is missing does not depend on
its value.

**Rotation is fixed by construction.** :math:`W` and :math:`W Q` with orthogonal :math:`Q` have the same likelihood.
Of each class the one is taken in which K chosen rows of :math:`W` are lower triangular with a positive diagonal.
Independent entries :math:`\mathrm{Normal}(0, s_w^2)`, rotated to that form, have a diagonal with
:math:`L_{kk}^2 / s_w^2 \sim \chi^2_{K-k+1}` and Normal entries below it (Bartlett's decomposition; Leung and Drton
2016, Statistics and Probability Letters, doi:10.1016/j.spl.2016.01.006). That is the prior here, so that the choice of
rows changes neither the model nor its evidence. It may therefore look at the data, and takes the columns in which the
components are clearest: the rotation is as uncertain as those rows are. With ``relevance``, :math:`s_w` is a scale for
each component with a half-Cauchy prior, so that components that are not needed shrink away; then the choice of rows is
part of the model.

The free variables are ``diagonal_square`` and ``below`` (the free entries of W, in the order of its triangular form),
the noise ``sigma``, ``mu`` and ``z``; ``loadings`` of dims ``("column", "component")`` is a Deterministic. With missing
entries, ``y`` has the dim ``observed_entry`` and ``y_unobserved`` the dim ``missing_entry``, both row by row and
labelled "row, column"; ``table[np.isnan(table)] = draw`` puts a draw of ``y_unobserved`` in its place. A row that is
missing throughout is predicted from the posterior of W, and a column from the prior of its loadings and mean.

The evidence has no closed form. Given :math:`W` and the noise, the coordinates and the means are jointly Normal and
integrated out exactly; only :math:`W` and the scales are sampled. They start from the maximum-likelihood solution: in
closed form, or, with missing entries or a noise for each column, by EM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import linalg

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.starts import fit_factors
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import DataError, OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(
        ("row", "column"), doc="the measurements, one column each; entries may be missing", min_columns=2, missing=True
    )
}

EXAMPLE = Example(
    "state_crime",
    {"y": ("violent", "murder", "hs_grad", "poverty", "single", "white", "urban"), "row": "state"},
    {"components": 2},
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
        ``y`` with dims ``("row", "column")``; missing entries are NaN.
    components : int
        Number K of latent coordinates, below the number of columns.
    noise : {"shared", "each"}
        One noise sd for all columns (PPCA) or one for each (factor analysis).
    relevance : bool
        Whether every component has a scale of its own that is learnt.
    standardise : bool
        Whether loadings, means and noise are in sds of their column, counted from its mean, both of the entries that
        are there (the sd is 1 where they are all equal). Predictions and the evidence stay in units of y.
    loading_scale : float
        Prior scale of the loadings, in sds of the column (in units of y if not standardised).
    mean_scale : float
        Prior sd of the means, in the same units.
    noise_scale : float
        Scale of the half-Normal prior of the noise sd, in the same units.
    """
    y = data["y"].to_numpy()
    rows, columns = y.shape
    if components >= columns:
        raise OptionError(f"option components is {components}; it must be below the number of columns, {columns}")
    labels = column_coords(data, "y")["column"]
    shift, unit = _location_and_scale(y, labels) if standardise else (np.zeros(columns), np.ones(columns))
    start, start_noise = fit_factors((y - shift) / unit, components, shared=noise == "shared")
    coords = {"column": labels, "component": np.arange(1, components + 1), "row": np.arange(rows), **row_coords(data)}
    with pm.Model(coords=coords) as model:
        scale = pm.HalfCauchy("scale", loading_scale, dims="component") if relevance else loading_scale
        loadings = _loadings(scale, start)
        each = {"dims": "column", "initval": start_noise}
        sigma = pm.HalfNormal("sigma", noise_scale, **(each if noise == "each" else {"initval": start_noise[0]}))
        mu = pm.Normal("mu", 0.0, mean_scale, dims="column")
        z = pm.Normal("z", 0.0, 1.0, dims=("row", "component"))
        mean, sd = mu + pt.dot(z, loadings.T), sigma
        if standardise:
            scale = pm.Data("column_sd", unit, dims="column")
            mean, sd = pm.Data("column_mean", shift, dims="column") + scale * mean, scale * sigma
        _observe(y, mean, sd)
    return model


def _loadings(scale: Any, start: np.ndarray) -> Any:
    """W of shape (columns, components), whose K clearest rows are lower triangular with a positive diagonal."""
    columns, components = start.shape
    order = _clearest_first(start)
    start = _trapezoidal(start[order])
    lower, diagonal = np.tril_indices(columns, -1, components), np.diag_indices(components)
    scales = scale * pt.ones(components)
    square = pm.Gamma(
        "diagonal_square",
        (components - np.arange(components)) / 2,
        0.5 / scales**2,
        dims="component",
        initval=start[diagonal].clip(1e-3) ** 2,
    )
    below = pm.Normal("below", 0.0, scales[lower[1]], shape=len(lower[0]), initval=start[lower])
    loadings = pt.zeros((columns, components))
    loadings = loadings[order[diagonal[0]], diagonal[1]].set(pt.sqrt(square))
    loadings = loadings[order[lower[0]], lower[1]].set(below)
    pm.Deterministic("loadings", loadings, dims=("column", "component"))
    return loadings


def _observe(y: np.ndarray, mean: Any, sd: Any) -> None:
    """The entries of y; those that are missing are predicted, as a variable of their own."""
    missing = np.isnan(y)
    if not missing.any():
        pm.Normal("y", mean, sd, observed=y, dims=("row", "column"))
        return
    model = pm.modelcontext(None)
    rows, columns = np.asarray(model.coords["row"]), np.asarray(model.coords["column"])
    sd = sd * pt.ones(y.shape[1])
    for name, dim, at in (("y", "observed_entry", ~missing), ("y_unobserved", "missing_entry", missing)):
        row, column = np.nonzero(at)
        model.add_coord(dim, [f"{rows[n]}, {columns[p]}" for n, p in zip(row, column, strict=True)])
        pm.Normal(name, mean[row, column], sd[column], observed=y[at] if name == "y" else None, dims=dim)


def _location_and_scale(y: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column's entries; where they are all equal, the sd is 1."""
    empty = np.isnan(y).all(axis=0)
    if empty.any():
        raise DataError(
            f"column {str(labels[empty.argmax()])!r} is missing throughout and has no sd to standardise it by; "
            "drop it, or set standardise=false"
        )
    sd = np.nanstd(y, axis=0)
    return np.nanmean(y, axis=0), np.where(sd > 1e-12 * np.nanmax(np.abs(y), axis=0), sd, 1.0)


def _clearest_first(loadings: np.ndarray) -> np.ndarray:
    """The columns of the data, the K first whose rows of W are farthest from dependent; the others stay in order."""
    first = linalg.qr(loadings.T, mode="r", pivoting=True)[1][: loadings.shape[1]]
    return np.concatenate([first, np.setdiff1d(np.arange(len(loadings)), first)])


def _trapezoidal(loadings: np.ndarray) -> np.ndarray:
    """Loadings rotated to lower trapezoidal form with a positive diagonal."""
    # W = L Qᵀ with L lower trapezoidal: the QR decomposition of the transpose of its first rows.
    rotated = loadings @ np.linalg.qr(loadings[: loadings.shape[1]].T)[0]
    return rotated * np.where(np.diag(rotated) < 0, -1.0, 1.0)
