"""What every model's ``build`` does before it writes its graph: check the options, check the data, take the coords."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.catalogue.options import check_options
from bayeskit.datasets.checking import check_data
from bayeskit.datasets.schema import Variable
from bayeskit.errors import OptionError

__all__ = ["column_coords", "half_prior", "model_builder", "refuse_unused", "row_coords"]

HALF = {"half_cauchy": pm.HalfCauchy, "half_normal": pm.HalfNormal}


def half_prior(name: str, kind: str, scale: float, **options: Any) -> pm.Distribution:
    """A variable with a half-Cauchy, half-Normal or exponential prior of this scale; of an exponential, this mean."""
    return HALF[kind](name, scale, **options) if kind in HALF else pm.Exponential(name, scale=scale, **options)


def model_builder(variables: Mapping[str, Variable]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a model's ``build`` so that it only ever sees options in range and data the model can explain.

    The decorated ``build`` keeps its signature, so that options are still read from it; it raises
    :class:`~bayeskit.errors.OptionError` and :class:`~bayeskit.errors.DataError`.
    """

    def decorate(build: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(build)
        def checked(data: xr.Dataset, **options: Any) -> Any:
            return build(check_data(data, variables), **check_options(build, options))

        return checked

    return decorate


def refuse_unused(name: str, value: object, used: bool, where: str) -> None:
    """Refuse an option that was given and has no effect beside the others; ``where`` says what would use it."""
    if value is not None and not used:
        raise OptionError(f"option {name} is {value!r} but has no effect here; set {where} too, or leave it out")


def row_coords(data: xr.Dataset) -> dict[str, np.ndarray]:
    """The labels of the rows, where the data have some.

    Rows without labels get no coordinate: PyMC then lets their number change when a model predicts at new data.
    """
    return {"row": data["row"].to_numpy()} if "row" in data.coords else {}


def column_coords(data: xr.Dataset, name: str) -> dict[str, np.ndarray]:
    """The names of the columns of a two-dimensional variable, by its second dim; numbered from 0 where it has none."""
    dim = str(data[name].dims[1])
    return {dim: data[dim].to_numpy()}
