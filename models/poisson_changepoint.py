r"""Counts whose rate changes once, at an unknown time.

.. math::

   y_i \mid \lambda, \tau \sim \mathrm{Poisson}(\lambda_{[t_i \ge \tau]}\, e_i), \qquad
   \lambda_0, \lambda_1 \sim \mathrm{Gamma}(\alpha, \beta), \qquad \tau \sim \mathrm{Uniform}\{t_1 + 1, \ldots, t_n\}

with times :math:`t_i`, which are whole numbers, and exposures :math:`e_i`, one where not given: the change :math:`\tau`
is the first time of the second rate, and each rate has at least one row. Given :math:`\tau` the rates are Gamma with
shape :math:`\alpha + S` and rate :math:`\beta + E`, where :math:`S` and :math:`E` are the sums of the counts and of the
exposures before the change, or from it on. The evidence is the mean over all values of :math:`\tau` of

.. math::

   \prod_i \frac{e_i^{y_i}}{y_i!} \prod_{k=0}^{1}
   \frac{\Gamma(\alpha + S_k)}{\Gamma(\alpha)} \frac{\beta^\alpha}{(\beta + E_k)^{\alpha + S_k}}

and the posterior probability of each :math:`\tau` is its share of that sum: all of it is exact.

The free variables are ``change`` and ``rate``, of dims ``("period",)``: before the change, and after it. Without a
change the model is ``gamma_poisson``; the evidences of both on the same data say what a change is worth.

The example is the disasters of British coal mines, by year.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import model_builder, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "counts": Variable(kind="count", doc="number of events"),
    "time": Variable(kind="count", required=False, doc="when they were counted; 1, 2, ... where not given"),
    "exposure": Variable(kind="positive", required=False, doc="time, area or units at risk; 1 where not given"),
}

EXAMPLE = Example("coal_mining", {"counts": "disasters", "time": "year"}, {"shape": 2.0, "rate": 1.0})

LONGEST = 10_000  # values of the change, each with a sum over all rows


@model_builder(VARIABLES)
def build(data: xr.Dataset, *, shape: Positive = 1.0, rate: Positive = 1.0) -> pm.Model:
    """Build the model of counts with one change of their rate.

    Parameters
    ----------
    data : xarray.Dataset
        ``counts`` and, if there are any, ``time`` and ``exposure``, all with dims ``("row",)``.
    shape : float
        Shape of the Gamma prior of each rate: as many events as it is worth.
    rate : float
        Rate of the Gamma prior of each rate: the exposure in which it has seen them, in units of ``exposure``.

    Returns
    -------
    pymc.Model
        With the free variables ``change`` and ``rate`` (events per unit of exposure), of dims ``("period",)``.
    """
    counts = data["counts"].to_numpy()
    exposures = data["exposure"].to_numpy() if "exposure" in data else np.ones(counts.shape)
    times = data["time"].to_numpy() if "time" in data else np.arange(1, counts.size + 1)
    first, last = _span(times)
    with pm.Model(coords={"period": ["before", "after"], **row_coords(data)}) as model:
        time = pm.Data("time", times, dims="row")
        exposure = pm.Data("exposure", exposures, dims="row")
        change = pm.DiscreteUniform("change", first + 1, last)
        rates = pm.Gamma("rate", alpha=shape, beta=rate, dims="period")
        mu = pt.switch(time < change, rates[0], rates[1]) * exposure
        pm.Poisson("counts", mu=mu, observed=counts, dims="row")
    return model


def _span(times: np.ndarray) -> tuple[int, int]:
    """The first and the last time; refused where there is no time between which a rate could change, or too many."""
    first, last = int(times.min()), int(times.max())
    if first == last:
        raise DataError(f"all rows have the time {first}; a change needs rows of at least two times")
    if last - first > LONGEST:
        raise DataError(f"the times span {last - first:,} units, of {LONGEST:,} at most; count them in larger units")
    return first, last
