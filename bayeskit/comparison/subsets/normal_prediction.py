r"""Moments of Normal data at new covariates, from those of the coefficients.

With E y = f + J θ, which is read off the model's own mean at θ₀ and at θ₀ and one unit of each coefficient,

.. math::
    \mathrm{E}[y] = f + J \, \mathrm{E}\theta, \quad
    \mathrm{Var}[y] = J \, \mathrm{Cov}(\theta) \, J^\top + \mathrm{E}[\sigma^2] .
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pymc.logprob.utils import replace_rvs_by_values
from pytensor.graph.basic import Constant

from bayeskit.arguments import numeric
from bayeskit.comparison.subsets.averaging import Averaged
from bayeskit.comparison.subsets.linear_model import LinearModel
from bayeskit.errors import DataError, ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.rewriting import inline, widen
from bayeskit.model.snapshot import Snapshot
from bayeskit.types import Point

__all__ = ["NormalData", "NormalPrediction", "normal_data"]


@dataclass(frozen=True, eq=False)
class NormalData:
    """The one observed variable of a linear model, if it is Normal: its mean and sd as functions of all values."""

    linear: LinearModel
    function: Any
    observed: np.ndarray

    def design(self, point: Point) -> tuple[np.ndarray, np.ndarray]:
        """f and J at the data that the model has now."""
        offset = np.asarray(self.function(*self.linear.arguments(point))[0], dtype=float)
        columns = []
        for direction in np.eye(self.linear.theta.size):
            moved = self.linear.theta.split(direction)
            theta = {n: self.linear.origin[n] + moved[n] for n in self.linear.coefficients}
            columns.append(np.ravel(self.function(*self.linear.arguments(point | theta))[0] - offset))
        return np.ravel(offset), np.stack(columns, axis=1)

    def variance(self, point: Point) -> np.ndarray:
        """σ² at given scales."""
        mean, sd = self.function(*self.linear.arguments(point))
        return np.ravel(np.broadcast_to(np.square(sd), np.shape(mean)))


def normal_data(linear: LinearModel) -> NormalData | None:
    """None where the data are something else than one Normal variable without missing entries."""
    model = linear.joint.model
    if len(model.observed_RVs) != 1 or type(model.observed_RVs[0].owner.op).__name__ != "NormalRV":
        return None
    (rv,) = model.observed_RVs
    fresh = {free: linear.joint.values[str(free.name)] for free in model.free_RVs}
    _, _, mean, sd = rv.owner.inputs
    graphs = widen(inline(replace_rvs_by_values([mean, sd], rvs_to_values=fresh)))
    observed = model.rvs_to_values[rv]
    value = observed.data if isinstance(observed, Constant) else compile_small([], [observed])()[0]
    return NormalData(linear, compile_small(list(linear.joint.values.values()), graphs), np.asarray(value, dtype=float))


@dataclass(frozen=True, eq=False)
class NormalPrediction:
    """Moments of the coefficients, and the data model that they belong to."""

    data: NormalData | None
    moments: Averaged
    snapshot: Snapshot

    def at(self, new: Mapping[str, Any]) -> pd.DataFrame:
        """Moments at new values of containers of the model."""
        if self.data is None:
            raise ModelError("predictions need data that are one Normal variable without missing entries")
        model = self.data.linear.joint.model
        containers = {str(v.name): v for v in model.data_vars}
        for name, value in new.items():
            if name not in containers:
                known = ", ".join(containers) or "none; wrap the covariates in pm.Data"
                raise DataError(f"{name!r} is not a pm.Data container of the model; it has: {known}")
            if not np.all(np.isfinite(numeric(f"the new values of {name!r}", value))):
                raise DataError(f"the new values of {name!r} are not all finite")
        try:
            with self.snapshot.restored(), lightly():
                coords = {d: np.arange(n) for d, n in self._lengths(new, containers).items()}
                pm.set_data(dict(new), model=model, coords=coords)
                return self._table()
        except (ValueError, TypeError, IndexError) as error:
            why = str(error).splitlines()[0]
            raise DataError(f"the new values of {', '.join(new)} do not fit the model: {why}") from error

    def _lengths(self, new: Mapping[str, Any], containers: Mapping[str, Any]) -> dict[str, int]:
        """Of dims whose length changes."""
        assert self.data is not None
        model, found = self.data.linear.joint.model, {}
        for name, value in new.items():
            for dim, length in zip(model.named_vars_to_dims.get(name, ()), np.shape(value), strict=False):
                known = model.coords.get(dim)
                if known is not None and len(known) != length:
                    found[str(dim)] = length
        return found

    def _table(self) -> pd.DataFrame:
        assert self.data is not None
        point = self.moments.variances[0][0]
        offset, design = self.data.design(point)
        noise = sum(self.data.variance(p) * share for p, share in self.moments.variances if share > 0)
        spread = np.einsum("ij,jk,ik->i", design, self.moments.covariance, design)
        mean = offset + design @ self.moments.mean
        return pd.DataFrame({"mean": mean, "sd_mean": np.sqrt(spread), "sd": np.sqrt(spread + noise)})
