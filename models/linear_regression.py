r"""Bayesian linear regression on basis functions of one or several features.

.. math::

   y_i \mid b, w, \sigma^2 \sim \mathrm{Normal}(b + \phi(x_i)^\top w,\ \sigma^2)

With known noise :math:`w_j \sim \mathrm{Normal}(0, s^2)` and :math:`b \sim \mathrm{Normal}(m_b, s_b^2)`; with conjugate
noise :math:`\sigma^2 \sim \mathrm{InverseGamma}(a_0, b_0)`, :math:`w_j \sim \mathrm{Normal}(0, \sigma^2 s^2)` and
:math:`b \sim \mathrm{Normal}(m_b, \sigma^2 s_b^2)`: the scales :math:`s` (``prior_scale``) and :math:`s_b`
(``intercept_scale``) are then in units of the noise. The basis functions :math:`\phi` of a feature :math:`z`, which is
:math:`x` or :math:`x` standardised by the mean and sd of the data the model was built with, are

* linear: :math:`z` itself;
* polynomial: :math:`z, z^2, \ldots, z^d`;
* gaussian: :math:`\exp(-(z - c_k)^2 / 2h^2)`, with centres :math:`c_k` evenly spaced over the data;
* sigmoid: :math:`1 / (1 + \exp(-(z - c_k) / h))`, with the same centres.

With unknown noise of another prior, or with a prior scale of the weights that is itself unknown (``shrinkage``: one for
all, or one for each, which is automatic relevance determination), the weights are integrated out given those scales,
and the scales by quadrature or NUTS.

Several features each get their own basis functions; there are no products of features. With :math:`\Phi` the design
matrix (a first column of ones for the intercept) and :math:`P_0`, :math:`m_0` the prior precision and mean of intercept
and weights, in units of the noise, the posterior has :math:`P_n = P_0 + \Phi^\top \Phi`,
:math:`m_n = P_n^{-1} (P_0 m_0 + \Phi^\top y)`, :math:`a_n = a_0 + n/2` and
:math:`b_n = b_0 + \frac12 (y^\top y + m_0^\top P_0 m_0 - m_n^\top P_n m_n)`. The evidence is
:math:`(2\pi)^{-n/2} |P_0|^{1/2} |P_n|^{-1/2} \cdot \Gamma(a_n) / \Gamma(a_0) \cdot b_0^{a_0} / b_n^{a_n}` with
conjugate noise; with known noise it is the Normal density of :math:`y` with mean :math:`\Phi m_0` and covariance
:math:`\sigma^2 I + \Phi S_0 \Phi^\top`, where :math:`S_0` is the prior covariance. The prior is proper, so a constant
column, collinear columns and fewer rows than weights all have an answer.

The free variables are ``weights``, of dims ``("basis",)``; ``intercept``, if there is one; ``variance`` (of conjugate
noise) or ``noise_sd``; and ``weight_scale`` where the shrinkage is learnt.

The design matrix is part of the graph: new values of the data container ``x`` give predictions at new inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import column_coords, half_prior, model_builder, refuse_unused, row_coords
from bayeskit.catalogue.linear_predictor import column_mean_and_scale
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the response"),
    "x": Variable(("row", "feature"), doc="the features, one column each"),
}

EXAMPLE = Example(
    "forbes",
    {"y": "pressure", "x": ("temperature",)},
    {"intercept_mean": 25.0, "prior_scale": 30.0, "noise_shape": 2.0, "noise_rate": 0.1},
)


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    basis: Literal["linear", "polynomial", "gaussian", "sigmoid"] = "polynomial",
    degree: Annotated[int, Range(1, 20)] | None = None,
    centres: Annotated[int, Range(1, 1000)] | None = None,
    width: Positive | None = None,
    standardise: bool = True,
    intercept: bool = True,
    intercept_mean: float = 0.0,
    intercept_scale: Positive = 100.0,
    prior_scale: Positive = 10.0,
    shrinkage: Literal["fixed", "ridge", "relevance"] = "fixed",
    noise: Literal["conjugate", "known", "half_normal", "half_cauchy", "exponential"] = "conjugate",
    noise_sd: Positive | None = None,
    noise_scale: Positive | None = None,
    noise_shape: Positive = 1.0,
    noise_rate: Positive = 1.0,
) -> pm.Model:
    """Build the linear regression of ``y``, of dims ``("row",)``, on ``x``, of dims ``("row", "feature")``.

    Parameters
    ----------
    data : xarray.Dataset
    basis : {"linear", "polynomial", "gaussian", "sigmoid"}
        The basis functions of each feature.
    degree : int or None
        Highest power of each feature, for the polynomial basis; 1 where not given.
    centres : int or None
        Number of centres for each feature, for the gaussian and sigmoid bases; 9 where not given.
    width : float or None
        Width h of the local functions, in units of the (standardised) feature; the distance between centres if None.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data before the basis functions see it.
    intercept : bool
        Whether there is one.
    intercept_mean, intercept_scale : float
        Its prior mean, in units of y, and prior sd, in units of the noise (conjugate noise) or of y (any other).
    prior_scale : float
        Prior sd of each weight, in those units; where the shrinkage is learnt, scale of that sd's half-Cauchy prior.
    shrinkage : {"fixed", "ridge", "relevance"}
        Whether the prior sd of the weights is given, one unknown number for all of them, or one for each.
    noise : {"conjugate", "known", "half_normal", "half_cauchy", "exponential"}
        Unknown noise with its conjugate prior, noise of known sd, or unknown noise with this prior of its sd.
    noise_sd : float or None
        The sd of known noise, in units of y; 1 where not given.
    noise_scale : float or None
        Scale (of an exponential: mean) of the prior of an unknown noise sd, in units of y; 1 where not given.
    noise_shape, noise_rate : float
        Shape a0 and scale b0 (in squared units of y) of the inverse-gamma prior of the variance, for conjugate noise.
    """
    with pm.Model(coords={**column_coords(data, "x"), **row_coords(data)}) as model:
        design = _design(data["x"].to_numpy(), standardise, basis, degree, centres, width)
        sd, unit = _noise(noise, noise_sd, noise_scale, noise_shape, noise_rate)
        scale = _weight_scale(shrinkage, prior_scale)
        mean = pt.dot(design, pm.Normal("weights", 0.0, scale * unit, dims="basis"))
        if intercept:
            mean = pm.Normal("intercept", intercept_mean, intercept_scale * unit) + mean
        pm.Normal("y", mean, sd, observed=data["y"].to_numpy(), dims="row")
    return model


def _design(x: np.ndarray, standardise: bool, basis: str, degree: int | None, centres: int | None,
            width: float | None) -> Any:  # fmt: skip
    """The basis functions of the data container ``x``, of shape (rows, basis), and the coordinate of their names."""
    local = basis in ("gaussian", "sigmoid")
    refuse_unused("degree", degree, basis == "polynomial", "basis=polynomial")
    refuse_unused("centres", centres, local, "basis=gaussian or basis=sigmoid")
    refuse_unused("width", width, local, "basis=gaussian or basis=sigmoid")
    model = pm.modelcontext(None)
    features = np.asarray(model.coords["feature"])
    shift, stretch = column_mean_and_scale(x) if standardise else (np.zeros(x.shape[1]), np.ones(x.shape[1]))
    low, high = (x.min(axis=0) - shift) / stretch, (x.max(axis=0) - shift) / stretch
    _check_powers(features, np.maximum(abs(low), abs(high)), 1 if local else degree or 1)
    inputs = pm.Data("x", x, dims=("row", "feature"))
    z = (inputs - shift) / stretch if standardise else inputs
    if local:
        design, labels = _local_basis(z, features, basis, *_centres(low, high, centres or 9, width))
    else:
        design, labels = _powers(z, features, degree or 1)
    model.add_coord("basis", labels)
    return design


def _noise(kind: str, known: float | None, scale: float | None, shape: float, rate: float) -> tuple[Any, Any]:
    """The sd of the noise, and the unit in which the priors of intercept and weights are."""
    unknown = kind in ("half_normal", "half_cauchy", "exponential")
    refuse_unused("noise_sd", known, kind == "known", "noise=known")
    refuse_unused("noise_scale", scale, unknown, "noise=half_normal, half_cauchy or exponential")
    if kind == "conjugate":
        sd = pt.sqrt(pm.InverseGamma("variance", alpha=shape, beta=rate))
        return sd, sd
    return half_prior("noise_sd", kind, scale or 1.0) if unknown else known or 1.0, 1.0


def _weight_scale(shrinkage: str, scale: float) -> Any:
    """The prior sd of the weights: given, one unknown number for all of them, or one for each."""
    if shrinkage == "fixed":
        return scale
    dims = {"dims": "basis"} if shrinkage == "relevance" else {}
    return half_prior("weight_scale", "half_cauchy", scale, **dims)


def _check_powers(features: np.ndarray, largest: np.ndarray, degree: int) -> None:
    """The squares of the basis functions enter the posterior, so they too must be finite numbers."""
    for feature, value in zip(features, largest, strict=True):
        if value > 0 and 2 * degree * np.log10(value) > 300:
            power = str(feature) if degree == 1 else f"{feature}^{degree}"
            raise DataError(
                f"feature {power} reaches 1e150 and its square overflows; set standardise=true, or rescale it"
            )


def _powers(z: pt.TensorVariable, features: np.ndarray, degree: int) -> tuple[pt.TensorVariable, list[str]]:
    """z, z², … of each feature in turn, of shape (rows, features · degree), and their names."""
    labels = [str(f) if power == 1 else f"{f}^{power}" for f in features for power in range(1, degree + 1)]
    if degree == 1:
        return z, labels
    columns = [z[:, k, None] ** np.arange(1, degree + 1) for k in range(len(features))]
    return pt.concatenate(columns, axis=1), labels


def _centres(low: np.ndarray, high: np.ndarray, count: int, width: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Centres of shape (count, features), evenly spaced over each column, and a width for each column."""
    places = np.linspace(low, high, count) if count > 1 else ((low + high) / 2)[None, :]
    spacing = (high - low) / max(count - 1, 1)
    # A constant column has no spacing; any width will do.
    automatic = np.where(spacing > 0, spacing, 1.0)
    return places, np.full(low.shape, width) if width is not None else automatic


def _local_basis(
    z: pt.TensorVariable, features: np.ndarray, basis: str, places: np.ndarray, widths: np.ndarray
) -> tuple[pt.TensorVariable, list[str]]:
    """Gaussian or sigmoid functions of each feature in turn, of shape (rows, features · centres), and their names."""
    distances = [(z[:, k, None] - places[:, k]) / widths[k] for k in range(len(features))]
    columns = [pt.exp(-0.5 * d**2) if basis == "gaussian" else pt.sigmoid(d) for d in distances]
    labels = [f"{feature}:{basis}{k}" for feature in features for k in range(1, len(places) + 1)]
    return pt.concatenate(columns, axis=1), labels
