"""A sampler's draws as arrays that can be set beside the exact ones: (chain, draw, *shape), in the same order.

Samplers hand over a DataTree, a Dataset or a dict of arrays. Variables are matched by name; dims, where they carry the
same names, are transposed into the exact order, and coordinates, where they hold the same labels, are sorted into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayeskit.arguments import numeric
from bayeskit.errors import DataError

__all__ = ["as_arrays"]

SAMPLE_DIMS = ("chain", "draw")


def as_arrays(draws: Any, exact: xr.Dataset, var_names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """The draws of ``var_names``, each of shape (chain, draw, *shape of the exact variable).

    A DataTree needs a ``posterior`` group; a Dataset the dims ``chain`` and ``draw``; an array the shape
    (chain, draw, *shape) or, for one chain, (draw, *shape).
    """
    source = _variables(draws)
    missing = [name for name in var_names if name not in source]
    if missing:
        raise DataError(f"no draws of {', '.join(missing)}: the draws hold {', '.join(map(str, source)) or 'nothing'}")
    return {name: _align(name, source[name], exact[name]) for name in var_names}


def _variables(draws: Any) -> Mapping[str, Any]:
    if isinstance(draws, xr.DataTree):
        if "posterior" not in draws.children:
            held = ", ".join(draws.children) or "no groups"
            raise DataError(f"no group 'posterior' in the DataTree: it holds {held}")
        draws = draws["posterior"].to_dataset()
    if isinstance(draws, xr.Dataset):
        return {str(name): var for name, var in draws.data_vars.items()}
    if isinstance(draws, Mapping):
        return draws
    kind = type(draws).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    raise DataError(f"draws are {article} {kind}: give a DataTree, a Dataset or a dict of arrays")


def _align(name: str, value: Any, exact: xr.DataArray) -> NDArray[np.float64]:
    dims = exact.transpose(*SAMPLE_DIMS, ...).dims[2:]
    shape = tuple(exact.sizes[dim] for dim in dims)
    if isinstance(value, xr.DataArray):
        absent = [dim for dim in SAMPLE_DIMS if dim not in value.dims]
        if absent:
            raise DataError(f"{name}: its dims are {', '.join(map(str, value.dims))}; 'chain' and 'draw' are needed")
        value = value.transpose(*SAMPLE_DIMS, ...)
        if set(dims) <= set(value.dims):
            value = _in_order(name, value.transpose(*SAMPLE_DIMS, *dims, ...), exact, dims)
    array = numeric(f"{name}: its draws", value).astype(np.float64)
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        array = array[None]
    if array.ndim != len(shape) + 2 or array.shape[2:] != shape:
        wanted = ", ".join(["chain", "draw", *map(str, shape)])
        raise DataError(f"{name}: its draws have shape {array.shape}; ({wanted}) is needed")
    if not array.shape[0] * array.shape[1]:
        raise DataError(f"{name}: there are no draws")
    return array


def _in_order(name: str, value: xr.DataArray, exact: xr.DataArray, dims: Sequence[Any]) -> xr.DataArray:
    for dim in dims:
        if dim not in value.coords or dim not in exact.coords:
            continue
        given, wanted = list(value[dim].values), list(exact[dim].values)
        if given == wanted:
            continue
        if sorted(map(str, given)) != sorted(map(str, wanted)):
            raise DataError(f"{name}: along {dim!r} the draws have labels {given}, the exact posterior has {wanted}")
        value = value.sel({dim: wanted})
    return value
