"""The kinds of data: measurements, counts, zeros and ones, categories; columns of a matrix, and rows in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pymc as pm
import xarray as xr
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import PartialObservedRV
from pytensor.tensor.random.op import RandomVariable

from bayeskit.errors import ModelError
from bayeskit.model.snapshot import written_down
from bayeskit.model.written_priors import distribution_name
from bayeskit.queries.class_rows import find_classes

__all__ = ["MAX_CATEGORIES", "DataKind", "category_labels", "data_kind", "distributions_of", "in_columns", "is_time"]

DataKind = Literal["continuous", "count", "binary", "category"]
MAX_CATEGORIES = 30
MAX_COLUMNS = 8  # of a matrix, each looked at by itself
TIMES = {"t", "time", "times", "date", "hour", "day", "week", "month", "quarter", "year", "period", "step", "decade"}


@written_down
def category_labels(model: pm.Model) -> dict[str, tuple[str, ...]]:
    """The names of the categories of every observed Categorical variable; none where the model has only codes."""
    found = {}
    for rv in model.observed_RVs:
        if type(_inner(rv).owner.op).__name__ == "CategoricalRV":
            try:
                found[str(rv.name)] = tuple(map(str, find_classes(model, str(rv.name)).labels))
            except ModelError:
                found[str(rv.name)] = ()
    return found


@written_down
def distributions_of(model: pm.Model) -> dict[str, str]:
    """What PyMC calls the distribution of every observed variable; nothing of mixtures and of those of a user's own."""
    inner = {str(rv.name): _inner(rv) for rv in model.observed_RVs}
    plain = {n: rv for n, rv in inner.items() if isinstance(rv.owner.op, RandomVariable)}
    return {n: distribution_name(rv) for n, rv in plain.items() if not isinstance(rv.owner.op, CustomDistRV)}


def _inner(rv: Any) -> Any:
    """The variable itself where some entries of it are missing."""
    return rv.owner.inputs[0] if isinstance(rv.owner.op, PartialObservedRV) else rv


def data_kind(observed: np.ndarray, replicated: np.ndarray, labelled: bool) -> DataKind:
    """The kind of observed values; ``labelled`` where they are those of a Categorical variable."""
    most = max(float(np.max(values, initial=0)) for values in (observed, replicated))
    if labelled and most < MAX_CATEGORIES:
        return "category"
    if observed.dtype.kind not in "biu":
        return "continuous"
    least = min(float(np.min(values, initial=0)) for values in (observed, replicated))
    return "binary" if least >= 0 and most <= 1 else "count"


def is_time(values: xr.DataArray, dim: Any) -> bool:
    """Whether a dim is one of time, by its labels or by its name."""
    dated = dim in values.coords and values[dim].dtype.kind == "M"
    return dated or str(dim).lower() in TIMES


def in_columns(values: xr.DataArray, sample: Sequence[str] = ()) -> dict[str, xr.DataArray]:
    """The columns of a matrix by their labels, its rows, which may be times, first; or all values as one.

    The first axes stay the ``sample`` dims, then come the rows, then the other axes.
    """
    dims = [d for d in values.dims if d not in sample]
    dims.sort(key=lambda d: not is_time(values, d))  # stable: the first axis is the rows where none is time
    values = values.transpose(*sample, *dims)
    if len(dims) != 2 or not 1 < values.sizes[dims[1]] <= MAX_COLUMNS:
        return {"": values}
    labels = values[dims[1]].to_numpy() if dims[1] in values.coords else np.arange(values.sizes[dims[1]])
    return {f"[{label}]": values.isel({dims[1]: k}) for k, label in enumerate(labels)}
