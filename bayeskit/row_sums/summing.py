"""Sums of terms along axes of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.graphs.fingerprint import digest
from bayeskit.graphs.rewriting import substitute
from bayeskit.row_sums.moves import taken_at, term_at
from bayeskit.row_sums.terms import (
    WIDEST,
    DataTerm,
    Factor,
    Linear,
    NotAdditive,
    TermSum,
    added_terms,
    along,
    apply,
    as_factor,
    of_entries,
)

__all__ = ["extreme", "summed"]


def summed(value: TermSum, axes: Iterable[int]) -> TermSum:
    """The sum of a node along some axes."""
    for axis in sorted(axes, reverse=True):
        terms = [s for t in value.terms for s in _along_axis(t, value.shape, axis)]
        shape = value.shape[:axis] + value.shape[axis + 1 :]
        value = added_terms([(1.0, TermSum(tuple(terms), shape))], shape)
    return value


def _along_axis(term: DataTerm, shape: tuple[int, ...], axis: int) -> list[DataTerm]:
    ndim, length = len(shape), shape[axis]
    if term.solved is not None:
        raise NotAdditive("its log density divides by a matrix and adds the results up")
    if term.square is not None and term.square.through is not None and axis == ndim - 1:
        outer = replace(term, square=None)
        if _varies(outer, ndim, axis):
            raise NotAdditive("its log density weighs the entries of a multivariate Normal")
        # The axis is that of the vectors, which the square adds up.
        return [replace(term_at(outer, ndim, axis, 0), square=term.square)]
    weight = along(term.weight, ndim)
    if not _varies(replace(term, weight=np.ones(())), ndim, axis):
        total = weight.sum(axis=axis) * (length if weight.shape[axis] == 1 else 1)
        return [replace(term_at(replace(term, weight=np.ones(())), ndim, axis, 0), weight=total)]
    others = [i for i in range(ndim) if i != axis]
    if term.is_plain and all(along(c.values, ndim).shape[i] == 1 for c in term.columns for i in others):
        return [_as_row(term, weight, ndim, axis)]
    if length > WIDEST:
        raise NotAdditive(f"its log density adds up {length} functions in every row")
    return [term_at(term, ndim, axis, k) for k in range(length)]


def _varies(term: DataTerm, ndim: int, axis: int) -> bool:
    """Whether any array of a term differs along an axis."""
    found: list[bool] = []

    def look(array: np.ndarray, extra: int) -> np.ndarray:
        found.append(along(array, ndim + extra).shape[axis] > 1)
        return array

    of_entries(term, look)
    return any(found)


def _as_row(term: DataTerm, weight: np.ndarray, ndim: int, axis: int) -> DataTerm:
    """Σ_k w_k f_k where the functions are the same in all rows: a row of data against the vector of the functions."""
    factor = as_factor(TermSum(tuple([replace(term, weight=np.ones(()))]), ()))
    length = max(along(c.values, ndim).shape[axis] for c in factor.columns)
    at = [np.broadcast_to(along(c.values, ndim).reshape(-1), (length,)) for c in factor.columns]
    places: dict[Any, Any] = {
        c.place: pt.constant(v.astype(c.place.type.dtype)) for c, v in zip(factor.columns, at, strict=True)
    }
    vector = substitute([factor.graph], places)[0]
    named = frozenset(c.latent for c in factor.columns if c.latent and not c.latent.startswith("="))
    told = digest(*at)
    sign, whole = f"row({factor.sign},{told})", factor.whole | named
    rows = np.moveaxis(weight, axis, -1)
    if rows.shape[-1] == 1:
        rows = np.broadcast_to(rows, (*rows.shape[:-1], length))
    if all(n == 1 for n in rows.shape[:-1]):
        flat = rows.reshape(-1)
        numbers = digest(flat)
        total = pt.sum(vector) if np.all(flat == 1) else pt.sum(pt.constant(np.array(flat)) * vector)
        return DataTerm(factors=(Factor(total, (), f"sum({sign},{numbers})", whole),))
    return DataTerm(linear=Linear(rows, vector, sign, whole))


def extreme(value: TermSum, axes: Iterable[int], largest: Callable[[Any, Any], Any], name: str) -> TermSum:
    """The largest, or smallest, along some axes: a function of all entries there."""
    for axis in sorted(axes, reverse=True):
        entries = [as_factor(taken_at(value, axis, k)) for k in range(value.shape[axis])]
        found = apply(lambda *graphs: reduce(largest, graphs), name, entries)
        value = TermSum((DataTerm(factors=(found,)),), value.shape[:axis] + value.shape[axis + 1 :])
    return value
