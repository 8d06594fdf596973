"""Terms of a node moved to other places, masked, or read from a latent variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.row_sums.terms import DataTerm, Factor, KeyColumn, TermSum, along, of_entries

__all__ = ["beside", "masked", "of_latent", "shuffled", "taken", "taken_at", "term_at"]


def of_latent(name: str, var: Any) -> TermSum:
    shape = var.type.shape
    if not shape:  # an array of one entry may be of more in another chunk
        return TermSum((DataTerm(factors=(Factor(var, (), name),)),), shape)
    column = KeyColumn.of_latent(name, shape)
    return TermSum((DataTerm(factors=(Factor(pt.flatten(var)[column.place], (column,), name),)),), shape)


def moved_terms(terms: Iterable[DataTerm], move: Callable[[np.ndarray, int], np.ndarray]) -> tuple[DataTerm, ...]:
    """Terms of one node with their arrays moved, each array once: what was one column stays one."""
    found: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def once(array: np.ndarray, extra: int) -> np.ndarray:
        key = id(array), extra
        if key not in found:
            found[key] = array, move(array, extra)
        return found[key][1]

    return tuple(of_entries(t, once) for t in terms)


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
    return TermSum(moved_terms(value.terms, move), shape)


def taken(value: TermSum, source: np.ndarray) -> TermSum:
    def move(array: np.ndarray, extra: int) -> np.ndarray:
        full = along(array, len(value.shape) + extra)
        tail = full.shape[full.ndim - extra :]
        if all(n == 1 for n in full.shape[: full.ndim - extra]):
            # A copy: where there is one group only, what two lookups give is no more the same than elsewhere.
            return full.reshape((1,) * source.ndim + tail).copy()
        return np.broadcast_to(full, (*value.shape, *tail)).reshape(-1, *tail)[source]

    return TermSum(moved_terms(value.terms, move), source.shape)


def term_at(term: DataTerm, ndim: int, axis: int, k: int) -> DataTerm:
    """A term of a node at one place along an axis."""

    def move(array: np.ndarray, extra: int) -> np.ndarray:
        full = along(array, ndim + extra)
        # No copy: columns that are the same are known by where they lie in memory.
        where: Any = (*(slice(None),) * axis, k if full.shape[axis] > 1 else 0)
        return full[where]

    return of_entries(term, move)


def taken_at(value: TermSum, axis: int, k: int) -> TermSum:
    """A node at one place along an axis, without what has no weight there."""
    terms = [term_at(t, len(value.shape), axis, k) for t in value.terms]
    kept = [t for t in terms if t.weight.size != 1 or t.weight.reshape(()) != 0]
    return TermSum(tuple(kept or terms[:1]), value.shape[:axis] + value.shape[axis + 1 :])


def beside(values: list[TermSum], axis: int) -> TermSum:
    """Nodes put side by side along an axis: each has no weight where the others stand."""
    values = [v for v in values if v.shape[axis]]
    lengths = [v.shape[axis] for v in values]
    ends = np.cumsum([0, *lengths])
    shape = (*values[0].shape[:axis], int(ends[-1]), *values[0].shape[axis + 1 :])
    terms = []
    for start, value in zip(ends, values, strict=False):
        places = np.clip(np.arange(ends[-1]) - start, 0, value.shape[axis] - 1)
        own = (np.arange(ends[-1]) >= start) & (np.arange(ends[-1]) < start + value.shape[axis])
        mask = own.reshape(-1, *(1,) * (len(shape) - axis - 1))

        def move(array: np.ndarray, extra: int, places: np.ndarray = places) -> np.ndarray:
            full = along(array, len(shape) + extra)
            return np.take(full, places, axis=axis) if full.shape[axis] > 1 else full

        terms += [masked(t, mask) for t in moved_terms(value.terms, move)]
    return TermSum(tuple(terms), shape)
