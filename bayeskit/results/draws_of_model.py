"""Whether draws that somebody else's sampler made are of a model, and saw the data that it has.

Draws are read as bare arrays wherever something is computed of them. Labels in another order, or predictors that
``pm.set_data`` changed since, would go unnoticed and give other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_constants, find_observations

from bayeskit.errors import DataError, ModelError
from bayeskit.model.variable_sizes import variable_sizes
from bayeskit.results.draws_outside_support import require_within_support
from bayeskit.results.tree import draws_in, observed_data

__all__ = ["require_draws_of", "require_its_data", "require_its_labels"]


def require_draws_of(model: pm.Model, tree: xr.DataTree) -> None:
    """That there are draws of every free variable: in its shape, under its labels, in its support, given its data."""
    draws = tree["posterior"].to_dataset()
    free = [str(rv.name) for rv in model.free_RVs]
    if missing := [name for name in free if name not in draws]:
        has = ", ".join(map(str, draws.data_vars)) or "nothing"
        raise ModelError(
            f"these are not draws of this model: {', '.join(map(repr, missing))} is missing; they have {has}"
        )
    sizes = variable_sizes(model, list(model.free_RVs))
    draws_in(tree, {name: tuple(length for _, length in sizes[name]) for name in free})
    require_its_labels(model, draws, free)
    require_its_data(model, tree)
    require_within_support(model, draws)


def require_its_labels(model: pm.Model, draws: xr.Dataset, names: Iterable[str]) -> None:
    """That draws which have labels have those of the model, in its order: their values are read in that order."""
    for name in names:
        for dim in model.named_vars_to_dims.get(name, ()):
            if (known := model.coords.get(dim)) is None or dim not in draws[name].coords:
                continue
            if not _same(np.asarray(list(known)), draws[name].coords[dim].to_numpy()):
                raise DataError(f"{name!r} has other labels along {dim!r} than the model, or in another order")


def require_its_data(model: pm.Model, tree: xr.DataTree) -> None:
    """That the data which a tree came with, where it has them, are those that the model has now."""
    seen = observed_data(tree)
    for name, values in find_observations(model).items():
        if name in seen and not _same(np.asarray(values), seen[name].to_numpy()):
            raise DataError(f"the observed values of {name!r} are others than the model's: the draws saw other data")
    seen = tree["constant_data"].to_dataset() if "constant_data" in tree.children else xr.Dataset()
    for name, values in find_constants(model).items():
        if name in seen and not _same(np.asarray(values), seen[name].to_numpy()):
            back = "give them back by pm.set_data, or sample again"
            raise DataError(f"the data {name!r} of the model were changed since the draws were made: {back}")


def _same(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two arrays are the same but for how a file, or xarray, stores numbers, dates and texts."""
    if mine.shape != theirs.shape:
        return False
    if mine.dtype.kind in "biuf" and theirs.dtype.kind in "biuf":
        return np.allclose(mine.astype(float), theirs.astype(float), rtol=1e-6, atol=0, equal_nan=True)
    for kind, unit in (("M", "datetime64[ns]"), ("m", "timedelta64[ns]")):
        if kind in (mine.dtype.kind, theirs.dtype.kind):
            with suppress(ValueError, TypeError):  # labels that are neither
                return np.array_equal(mine.astype(unit), theirs.astype(unit))
    return bool(np.all(mine.astype(str) == theirs.astype(str)))
