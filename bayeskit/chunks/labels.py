"""Which entry of a latent variable is which in every chunk: by the labels of its dims, where it has some."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.row_sums.terms import NotAdditive

__all__ = ["KnownLabels", "latent_labels"]

BITS = 62  # of the number of an entry


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """The labels of each dim in the order in which they were seen; those of a chunk may be few of them."""

    numbers: Mapping[str, pd.Index] = field(default_factory=dict)

    def extended(self, found: Mapping[str, pd.Index]) -> KnownLabels:
        """With the labels of more dims, and with more of those that there are."""
        new = dict(self.numbers)
        for dim, index in found.items():
            known = new.get(dim)
            more = index if known is None else index[~index.isin(known)]
            if known is None or len(more):
                new[dim] = more if known is None else known.append(more)
        return replace(self, numbers=new)

    def missing(self, found: Mapping[str, pd.Index]) -> dict[str, pd.Index]:
        """The labels that are not known, by dim."""
        new = {d: i if d not in self.numbers else i[~i.isin(self.numbers[d])] for d, i in found.items()}
        return {d: i for d, i in new.items() if len(i)}

    def packing(self, model: pm.Model, shapes: Mapping[str, tuple[int, ...]]) -> _Packing:
        """How entries of the variables of a model, whose labels are all known, are numbered and found again."""
        return _Packing(shapes, latent_dims(model), latent_labels(model), self.numbers)


@dataclass(frozen=True, eq=False)
class _Packing:
    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, tuple[str | None, ...]]
    own: Mapping[str, pd.Index]
    known: Mapping[str, pd.Index]

    def pack(self, name: str, entries: np.ndarray) -> np.ndarray:
        """The same numbers for the same entries in all chunks, of numbers of entries in a variable of this one."""
        if name.startswith("="):
            return entries
        packed = np.zeros(len(entries), dtype=np.int64)
        shape = self.shapes[name]
        bits = BITS // max(len(shape), 1)
        for axis, (dim, places) in enumerate(
            zip(self.dims[name], np.unravel_index(entries, shape or (1,)), strict=False)
        ):
            if dim is not None:
                places = self.known[dim].get_indexer(self.own[dim])[places]
            if len(places) and np.max(places) >= 1 << bits:
                raise NotAdditive(f"{name!r} has more entries along an axis than can be told apart: {np.max(places):,}")
            packed |= np.asarray(places, dtype=np.int64) << (bits * axis)
        return packed

    def unpack(self, name: str, packed: np.ndarray) -> np.ndarray:
        """The numbers of entries in a variable of this model."""
        shape = self.shapes.get(name, ())
        if name.startswith("=") or not shape:
            return packed
        bits, places = BITS // len(shape), []
        for axis, dim in enumerate(self.dims[name]):
            found = (packed >> (bits * axis)) & ((1 << bits) - 1)
            if dim is not None:
                found = self.own[dim].get_indexer(self.known[dim])[found]
            places.append(found)
        return np.ravel_multi_index(tuple(places), shape)

    def translated(self, name: str, packed: np.ndarray, other: KnownLabels) -> np.ndarray:
        """The numbers that the entries have where other labels were seen first."""
        shape = self.shapes.get(name, ())
        if name.startswith("=") or not shape:
            return packed
        bits, result = BITS // len(shape), np.zeros_like(packed)
        for axis, dim in enumerate(self.dims[name]):
            found = (packed >> (bits * axis)) & ((1 << bits) - 1)
            if dim is not None:
                found = other.numbers[dim].get_indexer(self.known[dim])[found]
            result |= found.astype(np.int64) << (bits * axis)
        return result

    def fixed(self, name: str, whole: bool) -> tuple[Any, ...]:
        """What a variable has to have in common in all chunks: the lengths of its axes without labels.

        Of a variable that is read as a ``whole`` also the labels of the others, in order.
        """
        axes = zip(self.dims[name], self.shapes[name], strict=True)
        return tuple(n if d is None else tuple(self.own[d]) if whole else None for d, n in axes)


def latent_dims(model: pm.Model) -> dict[str, tuple[str | None, ...]]:
    """Of each free variable the dims that have labels, None for the other axes."""
    result = {}
    for rv in model.free_RVs:
        dims = model.named_vars_to_dims.get(rv.name, (None,) * rv.type.ndim)
        result[str(rv.name)] = tuple(d if d is not None and model.coords.get(d) is not None else None for d in dims)
    return result


def latent_labels(model: pm.Model, but: Collection[str] = ()) -> dict[str, pd.Index]:
    """The labels of the dims of free variables ``but`` some; NotAdditive where one is there twice."""
    found = {}
    for dim in {d for name, dims in latent_dims(model).items() for d in dims if d is not None and name not in but}:
        labels = model.coords[dim]
        if any(isinstance(label, tuple) for label in labels):
            raise NotAdditive(f"the dim {dim!r} has labels that are tuples: write each as one text")
        found[dim] = index = pd.Index(labels)
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise NotAdditive(
                f"the dim {dim!r} has the label {twice!r} twice: list each label once, and look entries up by codes, "
                "np.unique(labels, return_inverse=True)"
            )
    return found
