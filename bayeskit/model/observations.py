"""What one observation of a model is: an entry or a row of an observed variable, or all that shares a label of a dim.

A density that factors over the rows of a multivariate variable gives one observation a row; what is one density over
all of its entries is one observation, but for a multivariate Normal, of which every subset of entries has a density,
and for a time series whose forecasts are known.

Of data with missing entries PyMC makes a variable of those that are there, ``y_observed``; they go by the places that
they have in ``y``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedIncSubtensor

from bayeskit.errors import ModelError, OptionError
from bayeskit.graphs.many_arrays import of_plain_dtype
from bayeskit.model.summed_likelihood import ADDED_UP, known_rows

__all__ = ["ENTRY", "Observations", "by_observation", "observations_of"]

ENTRY = "entry"
OBSERVED = "_observed"  # what PyMC adds to the name of the entries that are not missing


@dataclass(frozen=True, eq=False)
class Observations:
    """The observations of a model, numbered in the order of its observed variables and of their entries.

    Attributes
    ----------
    unit : str
        ``entry``, or the dim of which each label is an observation.
    labels : tuple
        One a number.
    members : dict of str to array
        For each observed variable the number of the observation that each of its entries, or rows, belongs to.
    """

    unit: str
    labels: tuple[Any, ...]
    members: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.labels)

    def weights(self, kept: np.ndarray) -> dict[str, np.ndarray]:
        """One for what belongs to an observation that is kept, zero for the others."""
        return {name: kept[numbers].astype(float) for name, numbers in self.members.items()}


def observations_of(model: pm.Model, shapes: Mapping[str, tuple[int, ...]], unit: str | None = None) -> Observations:
    """Number the observations of a model, whose observed variables have entries, or rows, of these shapes.

    Without a ``unit``, several variables whose first dim is the same have one observation a label of it; else an
    observation is an entry.

    Raises
    ------
    ModelError
        If a variable has no such dim, or there are fewer than two observations.
    """
    places = [_places_of(model, name, shape) for name, shape in shapes.items()]
    if not shapes:
        raise ModelError(
            ADDED_UP if known_rows(model) else "the model has no observed variable, so it has no observations"
        )
    if unit is None:
        first = {of.dims[0] if of.dims else None for of in places}
        shared = next(iter(first)) if len(first) == 1 and len(places) > 1 else None
        unit = ENTRY if shared is None else shared
    found = _entries(model, places) if unit == ENTRY else _by_dim(model, places, unit)
    if len(found) < 2:
        kinds = ", ".join(f"{rv.name} ({type(rv.owner.op).__name__.removesuffix('RV')})" for rv in model.observed_RVs)
        one = "has one density over all of its entries" if len(shapes) == 1 else "are one observation"
        # A series, whose density is one number too, has many entries.
        scalar = all(getattr(rv.owner.op, "ndim_supp", 0) == 0 for rv in model.observed_RVs)
        if scalar and sum(math.prod(shape) for shape in shapes.values()) == 1:
            raise ModelError(f"there is one observation only: {kinds} is one number; at least two are needed")
        raise ModelError(
            f"there is one observation only: {kinds} {one}; write the density of each observation, given those before "
            "it where it depends on them"
        )
    return found


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the entries, or rows, of an observed variable lie in the data as they were given."""

    name: str
    whole: str  # what the data are called, missing entries and all
    lengths: tuple[int, ...]
    dims: tuple[str | None, ...]
    indices: tuple[np.ndarray, ...]  # an array an axis of the data, of the shape of the entries that are there


def _places_of(model: pm.Model, name: str, shape: tuple[int, ...]) -> _Places:
    there = _there(model, name)
    there = there if there is not None and (int(there.sum()),) == shape else None
    whole, lengths = (name, shape) if there is None else (name.removesuffix(OBSERVED), there.shape)
    dims = tuple(model.named_vars_to_dims.get(whole) or ())[: len(lengths)]
    indices = tuple(np.indices(shape)) if there is None else np.nonzero(there)
    return _Places(name, whole, lengths, (*dims, *[None] * (len(lengths) - len(dims))), indices)


def _there(model: pm.Model, name: str) -> np.ndarray | None:
    """Where data that an observed variable is a part of are not missing; None of one that is whole."""
    whole = name.removesuffix(OBSERVED)
    if whole == name or whole not in model.named_vars:
        return None
    for variable in ancestors([model[whole]]):
        node = variable.owner
        if node is not None and isinstance(node.op, AdvancedIncSubtensor) and len(node.inputs) == 3:
            _, value, place = node.inputs
            if model[name] in ancestors([value]) and isinstance(place, Constant) and place.data.dtype == bool:
                return np.asarray(place.data)
    return None


def _entries(model: pm.Model, places: Sequence[_Places]) -> Observations:
    members: dict[str, np.ndarray] = {}
    labels: list[Any] = []
    for of in places:
        axes = [_labels(model, dim, n) for dim, n in zip(of.dims, of.lengths, strict=True)]
        shape = of.indices[0].shape if of.indices else ()
        # An array for a scalar, too: NumPy would make a number of the sum.
        members[of.name] = np.arange(len(labels), len(labels) + math.prod(shape)).reshape(shape)
        each = list(zip(*(index.ravel().tolist() for index in of.indices), strict=True)) if of.indices else [()]
        if len(places) == 1 and len(axes) == 1:
            labels += [axes[0][i] for (i,) in each]
            continue
        for index in each:
            place = ", ".join(str(axis[i]) for axis, i in zip(axes, index, strict=True))
            labels.append(f"{of.whole}[{place}]" if index else of.whole)
    return Observations(ENTRY, tuple(labels), members)


def _by_dim(model: pm.Model, places: Sequence[_Places], unit: str) -> Observations:
    members = {}
    for of in places:
        if unit not in of.dims:
            known = sorted({str(d) for each in places for d in each.dims if d is not None}) or ["none"]
            has = f"the observed variables have the dims {', '.join(known)}"
            raise OptionError(f"observations is {unit!r}, which counts no rows of {of.whole!r}; {has}; or 'entry'")
        members[of.name] = of.indices[of.dims.index(unit)]
    (length,) = {of.lengths[of.dims.index(unit)] for of in places}
    # A label of which all entries are missing is no observation.
    present = np.unique(np.concatenate([numbers.ravel() for numbers in members.values()]))
    labels = _labels(model, unit, length)
    numbered = {name: np.searchsorted(present, numbers) for name, numbers in members.items()}
    return Observations(unit, tuple(labels[i] for i in present), numbered)


def _labels(model: pm.Model, dim: str | None, length: int) -> list[Any]:
    """The coordinates of a dim; its places where it has none."""
    coords = model.coords.get(dim) if dim is not None else None
    return list(range(length) if coords is None or len(coords) != length else coords)


def by_observation(terms: Mapping[str, np.ndarray], members: Mapping[str, np.ndarray] | None) -> np.ndarray | None:
    """Log densities of observed variables, with two axes in front, as those of observations, their last axis.

    ``members`` are those of :class:`Observations`, or none where an observation is an entry; no answer where the
    densities are not of these.
    """
    if members is None:
        return np.concatenate([v.reshape(*v.shape[:2], -1) for v in terms.values()], axis=2)
    if any(terms[name].shape[2:] != numbers.shape for name, numbers in members.items()):
        return None
    lengths = next(iter(terms.values())).shape[:2]
    result = np.zeros((*lengths, 1 + max(int(numbers.max()) for numbers in members.values())))
    for name, numbers in members.items():
        place: Any = (..., numbers.ravel())
        np.add.at(result, place, of_plain_dtype(terms[name]).reshape(*result.shape[:2], -1))
    return result
