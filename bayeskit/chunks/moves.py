"""Terms of a node moved to other places, masked, or read from a latent variable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.chunks.terms import DataTerm, Factor, KeyColumn, TermSum, along, of_entries

__all__ = ["masked", "of_latent", "shuffled", "taken"]


def of_latent(name: str, var: Any) -> TermSum:
    shape = var.type.shape
    if not shape:  # an array of one entry may be of more in another chunk
        return TermSum((DataTerm(factors=(Factor(var, (), name),)),), shape)
    column = KeyColumn.of_latent(name, shape)
    return TermSum((DataTerm(factors=(Factor(pt.flatten(var)[column.place], (column,), name),)),), shape)


def masked(term: DataTerm, mask: np.ndarray) -> DataTerm:
    """A term where a mask holds: elsewhere its weight is zero, and it is not taken to be a number times zero."""
    return replace(term, weight=np.where(mask, term.weight, 0.0))


def shuffled(value: TermSum, order: tuple[Any, ...]) -> TermSum:
    ndim = len(value.shape)
    kept = [i for i in order if i != "x"]
    dropped = tuple(i for i in range(ndim) if i not in kept)

    def move(array: np.ndarray, extra: int) -> np.ndarray:
        full = along(array, ndim + extra)
        full = np.transpose(full, [*kept, *dropped, *range(ndim, ndim + extra)])
        full = full.reshape((*full.shape[: len(kept)], *full.shape[ndim:]))
        return np.expand_dims(full, tuple(k for k, i in enumerate(order) if i == "x"))

    shape = tuple(1 if i == "x" else value.shape[i] for i in order)
    return TermSum(tuple(of_entries(t, move) for t in value.terms), shape)


def taken(value: TermSum, source: np.ndarray) -> TermSum:
    def move(array: np.ndarray, extra: int) -> np.ndarray:
        full = along(array, len(value.shape) + extra)
        tail = full.shape[full.ndim - extra :]
        if all(n == 1 for n in full.shape[: full.ndim - extra]):
            return full.reshape((1,) * source.ndim + tail)
        return np.broadcast_to(full, (*value.shape, *tail)).reshape(-1, *tail)[source]

    return TermSum(tuple(of_entries(t, move) for t in value.terms), source.shape)
