"""What one observation of a model is: an entry or a row of an observed variable, or all that shares a label of a dim.

A density that factors over the rows of a multivariate variable gives one observation a row; what is one density over
all of its entries is one observation, but for a multivariate Normal, of which every subset of entries has a density,
and for a time series whose forecasts are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from bayeskit.errors import ModelError, OptionError

__all__ = ["ENTRY", "Observations", "by_observation", "observations_of"]

ENTRY = "entry"


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
    dims = {name: _dims(model, name)[: len(shape)] for name, shape in shapes.items()}
    if not shapes:
        raise ModelError("the model has no observed variable, so it has no observations")
    if unit is None:
        first = {of[0] if of else None for of in dims.values()}
        shared = next(iter(first)) if len(first) == 1 and len(dims) > 1 else None
        unit = ENTRY if shared is None else shared
    found = _entries(model, shapes, dims) if unit == ENTRY else _by_dim(model, shapes, dims, unit)
    if len(found) < 2:
        kinds = ", ".join(f"{rv.name} ({type(rv.owner.op).__name__.removesuffix('RV')})" for rv in model.observed_RVs)
        one = "has one density over all of its entries" if len(shapes) == 1 else "are one observation"
        raise ModelError(
            f"there is one observation only: {kinds} {one}; write the density of each observation, given those before "
            "it where it depends on them"
        )
    return found


def _dims(model: pm.Model, name: str) -> tuple[str | None, ...]:
    return tuple(model.named_vars_to_dims.get(name) or ())


def _entries(
    model: pm.Model, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, tuple[str | None, ...]]
) -> Observations:
    members: dict[str, np.ndarray] = {}
    labels: list[Any] = []
    for name, shape in shapes.items():
        members[name] = len(labels) + np.arange(math.prod(shape)).reshape(shape)
        axes = [_labels(model, dims[name][k] if k < len(dims[name]) else None, n) for k, n in enumerate(shape)]
        if len(shapes) == 1 and len(shape) == 1:
            labels += axes[0]
            continue
        for index in np.ndindex(*shape):
            place = ", ".join(str(axis[i]) for axis, i in zip(axes, index, strict=True))
            labels.append(f"{name}[{place}]" if shape else name)
    return Observations(ENTRY, tuple(labels), members)


def _by_dim(
    model: pm.Model, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, tuple[str | None, ...]], unit: str
) -> Observations:
    members = {}
    for name, shape in shapes.items():
        if unit not in dims[name]:
            known = sorted({str(d) for of in dims.values() for d in of if d is not None}) or ["none"]
            has = f"the observed variables have the dims {', '.join(known)}"
            raise OptionError(f"observations is {unit!r}, which counts no rows of {name!r}; {has}; or 'entry'")
        axis = dims[name].index(unit)
        numbers = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        members[name] = np.broadcast_to(numbers, shape)
    (length,) = {shapes[name][of.index(unit)] for name, of in dims.items()}
    return Observations(unit, tuple(_labels(model, unit, length)), members)


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
        np.add.at(result, place, terms[name].reshape(*result.shape[:2], -1))
    return result
