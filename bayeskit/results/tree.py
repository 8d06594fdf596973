"""Draws as an ``xarray.DataTree`` in the ArviZ schema, like those of ``pymc.sample``, or made when they are read.

4,000 draws of 25,000 variables are 800 MB of random numbers, which take longer than all else of an exact answer, while
its closed-form marginals say the same of each variable. Which draws they are is settled beforehand, by their generator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from arviz_base import extract, from_dict
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations
from xarray.backends import BackendArray
from xarray.core import indexing

from bayeskit.arguments import all_finite, numeric
from bayeskit.errors import CertificateError, DataError, ModelError

__all__ = [
    "LaterDraws",
    "StackedDraws",
    "build_tree",
    "chains_of",
    "countable",
    "dims_of",
    "draws_in",
    "observed_data",
    "selected",
    "stacked_draws",
    "thinned",
]

FOUR_CHAINS_FROM = 100  # with fewer draws R-hat says nothing, and ArviZ warns of more chains than draws


@dataclass(eq=False)
class StackedDraws:
    """All variables of a block in one array, its first axis the draws, made when it is first read."""

    make: Callable[[], np.ndarray]

    @cached_property
    def values(self) -> np.ndarray:
        """The draws."""
        return self.make()


@dataclass(eq=False)
class LaterDraws(BackendArray):
    """Draws of one variable of a block: an array for NumPy, and for xarray one that is read as a file is."""

    stacked: StackedDraws
    where: slice  # the columns of the variable
    shape: tuple[int, ...]  # the axes of the draws, then those of the variable
    dtype = np.dtype(float)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.stacked.values[:, self.where].reshape(self.shape)
        return np.array(values, dtype=dtype) if copy else np.asarray(values, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        values = np.asarray(self)
        if not isinstance(key, indexing.ExplicitIndexer):
            return values[key]
        slices = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, slices, values.__getitem__)

    def variable(self, lengths: tuple[int, ...]) -> Any:
        """The same draws with other axes in place of their first, as what an ``xarray.Variable`` holds."""
        return indexing.LazilyIndexedArray(LaterDraws(self.stacked, self.where, (*lengths, *self.shape[1:])))


def dims_of(model: pm.Model, name: str, ndim: int) -> tuple[str, ...]:
    """The dims of a variable, named as ArviZ does where the model gives an axis no name."""
    named = model.named_vars_to_dims.get(name) or [None] * ndim
    return tuple(f"{name}_dim_{i}" if dim is None else str(dim) for i, dim in enumerate(named))


def stacked_draws(draws: Any, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Draws of all chains, one chain after the other: one array a variable, first axis the draws."""
    ordered = {n: draws[n].transpose("chain", "draw", ...).to_numpy() for n in names}
    return {n: v.reshape(v.shape[0] * v.shape[1], *v.shape[2:]) for n, v in ordered.items()}


def draws_in(draws: xr.DataTree | xr.Dataset, shapes: Mapping[str, tuple[int, ...]]) -> xr.Dataset:
    """Draws that were given; a DataError where those of a variable have another shape, or are not all numbers."""
    if isinstance(draws, xr.DataTree):
        draws = (draws["posterior"] if "posterior" in draws.children else draws).to_dataset()
    if not min(draws.sizes.get(dim, 0) for dim in ("chain", "draw")):
        raise DataError("there are no draws with the dims 'chain' and 'draw', as pymc.sample gives them")
    for name, shape in shapes.items():
        values = draws[name].transpose("chain", "draw", ..., missing_dims="ignore")
        if values.dims[:2] != ("chain", "draw") or values.shape[2:] != shape:
            raise DataError(f"the draws of {name!r} have shape {values.shape}; (chain, draw) and {shape} is needed")
        if not np.all(np.isfinite(numeric(f"the draws of {name!r}", values))):
            left_out = "leave the chains out that have them, or sample again from another start"
            raise DataError(f"the draws of {name!r} are not all finite: {left_out}")
    return draws


def selected(
    draws: xr.Dataset, var_names: str | Sequence[str] | None, filter_vars: Literal["like", "regex"] | None
) -> xr.Dataset:
    """Some variables, named as ArviZ has it: ``~mu`` is all but ``mu``; parts of names, or regular expressions."""
    if var_names is None:
        return draws
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    # Of as many scalars as there are variables: the draws themselves may not be made yet.
    scalars = xr.Dataset({name: (("chain", "draw"), [[0.0]]) for name in draws.data_vars})
    known = xr.DataTree.from_dict({"posterior": scalars})
    try:
        kept = extract(known, combined=False, var_names=names, filter_vars=filter_vars, keep_dataset=True)
    except (KeyError, ValueError, re.error) as error:
        has, why = ", ".join(map(str, draws.data_vars)) or "none", "" if isinstance(error, KeyError) else f" ({error})"
        raise ModelError(f"no variables {', '.join(names)}{why}; the posterior has {has}") from error
    return draws[list(kept.data_vars)]


def thinned(tree: xr.DataTree, names: Iterable[str], number: int) -> dict[str, np.ndarray]:
    """At most so many posterior draws, evenly spaced over all chains: one array a variable, first axis the draws."""
    draws = tree["posterior"].to_dataset().stack(sample=("chain", "draw"), create_index=False)
    total = draws.sizes["sample"]
    kept = np.unique(np.linspace(0, total - 1, min(number, total)).round().astype(int))
    return {n: draws[n].transpose("sample", ...).to_numpy()[kept] for n in names}


def observed_data(tree: xr.DataTree) -> xr.Dataset:
    """The observed values; of a model that has none, of which the tree has no such group, no variable."""
    return tree["observed_data"].to_dataset() if "observed_data" in tree.children else xr.Dataset()


def countable(tree: xr.DataTree) -> xr.DataTree:
    """Draws as PyMC counts them: by a variable, of which a model that has only observed ones has none."""
    draws = tree["posterior"].to_dataset()
    if draws.data_vars:
        return tree
    numbers = np.arange(draws.sizes["chain"] * draws.sizes["draw"]).reshape(draws.sizes["chain"], -1)
    counted = draws.assign({"number of the draw": (("chain", "draw"), numbers)})
    return xr.DataTree.from_dict({**tree.to_dict(), "/posterior": counted})


def chains_of(draws: int) -> int:
    """As how many chains independent draws are laid out: four where the number allows it, for R-hat needs several."""
    return 4 if draws % 4 == 0 and draws >= FOUR_CHAINS_FROM else 1


def build_tree(model: pm.Model, values: Mapping[str, Any], draws: int, *, chains: int | None = None) -> xr.DataTree:
    """A DataTree with posterior, observed_data and constant_data; of no draws, an empty one.

    The first axis of the values is the draws, of chains one after the other; independent ones are laid out as four
    chains where the number allows it, because R-hat needs several. :class:`LaterDraws` stay unread.
    """
    if not draws:
        return xr.DataTree()
    chains = chains or chains_of(draws)
    length = draws // chains
    coords, dims = coords_and_dims_for_inferencedata(model)
    later = {n: v.variable((chains, length)) for n, v in values.items() if isinstance(v, LaterDraws)}
    # In one order in memory: sums over draws that were saved and read again are then the same to the last digit.
    made = {n: np.ascontiguousarray(v).reshape(np.shape(v)) for n, v in values.items() if n not in later}
    # True and false as numbers, which pm.sample gives too: ArviZ takes differences.
    made = {n: v.astype(float) if v.dtype == bool else v for n, v in made.items()}
    posterior = {n: v.reshape(chains, length, *v.shape[1:]) for n, v in made.items()}
    _require_numbers(posterior, [str(rv.name) for rv in model.free_RVs])
    # Draws that are not made yet are given their coordinates by an array of their shape that takes no memory.
    posterior |= {n: np.broadcast_to(0.0, v.shape) for n, v in later.items()}
    groups: dict[str, Mapping[str, np.ndarray]] = {"posterior": posterior}
    if observed := find_observations(model):
        groups["observed_data"] = observed
        # Row numbers that are not stored: as an array they are as long as the data, and are copied several times.
        unnamed = {n: len(v) for n, v in observed.items() if np.ndim(v) and not any(dims.get(n, ()))}
        coords = {f"{n}_dim_0": pd.RangeIndex(length) for n, length in unnamed.items()} | coords
    if constant := find_constants(model):
        groups["constant_data"] = constant
    tree: xr.DataTree = from_dict(groups, coords=coords, dims=dims)
    if not posterior:
        tree["posterior"] = xr.DataTree(xr.Dataset(coords={"chain": np.arange(chains), "draw": np.arange(length)}))
    if later:
        named = tree["posterior"].to_dataset()
        tree["posterior"] = xr.DataTree(named.assign({n: (named[n].dims, v) for n, v in later.items()}))
    # The package is there by now, installed or not; an import from it here would go upwards.
    own = import_module("bayeskit").__version__
    tree["posterior"].attrs.update({"inference_library": "bayeskit", "inference_library_version": own})
    return tree


def _require_numbers(draws: Mapping[str, np.ndarray], names: Iterable[str]) -> None:
    """That no draw of a free variable is infinite or not a number: it would be in every answer that is made of it."""
    for name in names:
        values = draws.get(name)
        if values is not None and values.dtype.kind == "f" and not all_finite(values):
            what = f"{np.mean(~np.isfinite(values)):.1%} of the draws of {name!r} are infinite or not numbers"
            raise CertificateError(f"{what}; use method='nuts', and please report the model")
