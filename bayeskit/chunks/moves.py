"""Terms of a node moved to other places, masked, or read from a latent variable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.chunks.terms import Column, Factor, Term, Value, along, of_entries

__all__ = ["masked", "of_latent", "shuffled", "taken"]


def of_latent(name: str, var: Any) -> Value:
    shape = var.type.shape
    if not shape:  # an array of one entry may be of more in another chunk
        return Value((Term(factors=(Factor(pt.reshape(var, ()), (), name),)),), shape)
    column = Column.of_latent(name, shape)
    return Value((Term(factors=(Factor(pt.flatten(var)[column.place], (column,), name),)),), shape)


def masked(term: Term, mask: np.ndarray) -> Term:
    """A term where a mask holds: elsewhere its weight is zero, and it is not taken to be a number times zero."""
    return replace(term, weight=np.where(mask, term.weight, 0.0))


def shuffled(value: Value, order: tuple[Any, ...]) -> Value:
    ndim = len(value.shape)
    kept = [i for i in order if i != "x"]
    dropped = tuple(i for i in range(ndim) if i not in kept)

    def move(array: np.ndarray, extra: int) -> np.ndarray:
        full = along(array, ndim + extra)
        full = np.transpose(full, [*kept, *dropped, *range(ndim, ndim + extra)])
        full = full.reshape((*full.shape[: len(kept)], *full.shape[ndim:]))
        return np.expand_dims(full, tuple(k for k, i in enumerate(order) if i == "x"))

    shape = tuple(1 if i == "x" else value.shape[i] for i in order)
    return Value(tuple(of_entries(t, move) for t in value.terms), shape)


def taken(value: Value, source: np.ndarray) -> Value:
    def move(array: np.ndarray, extra: int) -> np.ndarray:
        full = along(array, len(value.shape) + extra)
        tail = full.shape[full.ndim - extra :]
        if all(n == 1 for n in full.shape[: full.ndim - extra]):
            return full.reshape((1,) * source.ndim + tail)
        return np.broadcast_to(full, (*value.shape, *tail)).reshape(-1, *tail)[source]

    return Value(tuple(of_entries(t, move) for t in value.terms), source.shape)
