r"""Gaussian process regression: an unknown function with a covariance chosen by a string.

.. math::

   f \sim \mathrm{GP}(0, k_\phi), \qquad y_i \mid f \sim \mathrm{Normal}(b + s f(z_i), (s \sigma)^2)

with :math:`z` the inputs and :math:`s`, :math:`b` the sd and mean of the response, where ``standardise`` is on, so
that priors of unit scale suit any data. The kernel string, ``"periodic * expquad + linear"`` say, names covariance
functions of ``pymc.gp.cov`` (see :mod:`bayeskit.catalogue.kernels`); each term has an amplitude. The function is
integrated out by the graph itself: :math:`y \sim \mathrm{Normal}(b, s^2 (K_\phi + \sigma^2 I))`. What remains is
:math:`\phi` and :math:`\sigma`: integrated by quadrature, with the log evidence, where they are few and the data too;
else sampled.

``f_new`` is the function at the inputs of the data container ``x_new``, and ``y_new`` a new response there: both are
drawn exactly given the hyperparameters. By default ``x_new`` is an even grid over the data (one column) or the data's
own inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.kernels import build_kernel, parse_kernel
from bayeskit.datasets.schema import Example, Positive, Range, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the response"),
    "x": Variable(("row", "feature"), doc="the inputs, one column each"),
}

EXAMPLE = Example("nile", {"y": "volume", "x": ("year",)}, {"kernel": "matern32", "ahead": 0.2})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    kernel: str = "expquad",
    standardise: bool = True,
    noise_scale: Positive = 1.0,
    jitter: Annotated[float, Range(0.0, None)] = 0.0,
    points: Annotated[int, Range(2, 1000)] = 60,
    ahead: Annotated[float, Range(0.0, None)] = 0.0,
) -> pm.Model:
    """Build the Gaussian process regression.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` with dims ``("row",)`` and ``x`` with dims ``("row", "feature")``.
    kernel : str
        Sums and products of expquad, matern12, matern32, matern52, ratquad, periodic, linear, polynomial, constant;
        periodic(period=1) fixes a value.
    standardise : bool
        Shift and scale the inputs and the response by their means and sds before the process sees them.
    noise_scale : float
        Scale of the half-Normal prior of the noise sd, in sds of the response (in units of y if not standardised).
    jitter : float
        Variance added to the diagonal of the covariance of the data, in squared units of the standardised response.
    points : int
        Size of the grid of new inputs, for one column.
    ahead : float
        How far beyond the data the grid goes, as a share of their range.

    Returns
    -------
    pymc.Model
        With the hyperparameters of the kernel, ``noise``, and the leaves ``f_new`` and ``y_new``.

    Raises
    ------
    OptionError
        If the kernel string does not parse; the message has the column.
    """
    tree = parse_kernel(kernel)
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    shift, scale = _location_and_scale(x) if standardise else (np.zeros(x.shape[1]), np.ones(x.shape[1]))
    level, unit = _location_and_scale(y) if standardise else (0.0, 1.0)
    low, high = x.min(axis=0), x.max(axis=0)
    new = np.linspace(low, high + ahead * (high - low), points) if x.shape[1] == 1 and len(x) > 1 else x
    features = column_coords(data, "x")["feature"]
    with pm.Model(coords={"feature": features, "row": np.arange(y.size), **row_coords(data)}) as model:
        inputs = (pm.Data("x", x, dims=("row", "feature")) - shift) / scale
        new_inputs = (pm.Data("x_new", new, dims=("new", "feature")) - shift) / scale
        covariance = unit**2 * build_kernel(tree, x.shape[1])
        noise = pm.HalfNormal("noise", noise_scale * unit)
        process = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(level), cov_func=covariance)
        process.marginal_likelihood("y", inputs, y, sigma=noise, jitter=jitter * unit**2, dims="row")
        # A draw of a smooth function needs a covariance that can be factorised; 1e-6 of an sd is below any plot.
        f_new = process.conditional("f_new", new_inputs, jitter=1e-10 * unit**2, dims="new")
        pm.Normal("y_new", f_new, noise, dims="new")
    return model


def _location_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column; a column that is constant has scale 1."""
    sd = values.std(axis=0)
    return values.mean(axis=0), np.where(sd > 1e-12 * np.abs(values).max(initial=1e-300), sd, 1.0)
