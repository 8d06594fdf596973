r"""Members of a plate that share one precision, rotated into the few that hold what the data say.

A quadratic form T = Σ_k β_k G_k with constant G_k, in θ that falls apart into components once a few shared entries are
set aside: the coordinates of the rows of a table, given the means of its columns. Let n components c = 1 … n have one
precision Λ₀ for every β, and H the matrix with a row for each of them, of all constants of their linear parts and of
their products with shared entries. With an orthogonal U, in θ' = (U ⊗ I) θ the precision is I ⊗ Λ₀ as before and the
constants are UH; where UH is the triangular factor R of H = UᵀR, of rank r, all but r of the n have no linear part and
touch nothing: each is worth ∫ exp(−½ θᵀΛ₀θ) dθ. The marginal density of probabilistic PCA is so a matter of a matrix as
large as its number of columns, whatever that of its rows.

The triangular factor is as good as H: no square of it is formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components

__all__ = ["Plates", "rotated"]

FROM = 64  # size of θ from which it is worth looking
SHARED = 300  # entries that may be set aside
TRIALS = 8  # ways of setting them aside
CONSTANTS = 20_000_000  # of one H
WORTH = 0.7  # of the size of θ that may be left

Integers = NDArray[np.intp]
_Listed = tuple[Integers, Integers, Integers, np.ndarray]


@dataclass(frozen=True, eq=False)
class Plates:
    """The form in what is left of θ: T' is ``table @ β`` at some positions in its lower triangle."""

    size: int  # D' < D
    rows: np.ndarray
    columns: np.ndarray  # index D' is the constant 1
    table: sparse.csr_array
    # For each plate, how many members were left out, the size m of each, and the constants of −Λ₀, m² rows.
    spared: tuple[tuple[int, int, sparse.csr_array], ...]


@dataclass(frozen=True, eq=False)
class _Constants:
    """The constants of T one by one: both positions (the first not below the second), entry of β, value."""

    size: int
    row: Integers
    column: Integers
    entry: Integers
    value: np.ndarray

    def at(self, chosen: np.ndarray) -> _Listed:
        return self.row[chosen], self.column[chosen], self.entry[chosen], self.value[chosen]


def rotated(size: int, rows: np.ndarray, columns: np.ndarray, table: sparse.csr_array) -> Plates | None:
    """Look for plates in T, which is ``table @ β`` at some positions, and rotate them; None where that spares little.

    Entries that have the same constants to the last bit count as equal. O(D) but for the triangular factor of H.
    """
    if size < FROM:
        return None
    listed = sparse.coo_array(table)
    listed.eliminate_zeros()
    place, entry = (np.asarray(c, dtype=np.intp) for c in listed.coords)
    constants = _Constants(size, rows[place], columns[place], entry, listed.data)
    best: tuple[int, np.ndarray, list[Integers]] | None = None
    for shared in _set_aside(size, rows, columns):
        groups = _alike(constants, shared)
        left = int(shared.sum()) + sum(m.shape[1] * min(len(m), 1) for m in groups)
        if best is None or left < best[0]:
            best = left, shared, groups
    if best is None or best[0] > WORTH * size:
        return None
    found = _rotate(constants, best[1], best[2], table.shape[1])
    return found if found.size <= WORTH * size else None


def _set_aside(size: int, rows: np.ndarray, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Which entries are shared: those with more neighbours than a number."""
    inside = (rows < size) & (rows != columns)
    degree = np.bincount(np.concatenate([rows[inside], columns[inside]]), minlength=size)
    for most in np.unique(degree)[:TRIALS]:
        shared = degree > most
        if shared.sum() <= SHARED:
            yield shared


def _alike(constants: _Constants, shared: np.ndarray) -> list[Integers]:
    """The components without the shared entries, in groups that have one precision: arrays (members, entries)."""
    size = constants.size
    row, column, entry, value = constants.at(constants.row < size)
    within = ~(shared[row] | shared[column])
    row, column, entry, value = row[within], column[within], entry[within], value[within]
    graph = sparse.coo_array((np.ones(len(row)), (row, column)), shape=(size, size))
    label = connected_components(sparse.csr_array(graph), directed=False)[1]
    kept = np.flatnonzero(~shared)
    kept = kept[np.argsort(label[kept], kind="stable")]
    starts = np.flatnonzero(np.diff(label[kept], prepend=-1))
    members = np.split(kept, starts[1:]) if len(kept) else []
    labels = label[kept[starts]]
    rank = np.zeros(size, dtype=np.intp)
    for member in members:
        rank[member] = np.arange(len(member))
    order = np.lexsort((entry, rank[column], rank[row], label[row]))
    own = label[row[order]]
    signature = np.stack([rank[row], rank[column], entry, value.view(np.int64)], axis=1)[order]
    first, last = np.searchsorted(own, labels, side="left"), np.searchsorted(own, labels, side="right")
    groups: dict[tuple[int, bytes], list[Integers]] = {}
    for one, begin, end in zip(members, first, last, strict=True):
        groups.setdefault((len(one), signature[begin:end].tobytes()), []).append(one)
    return [np.stack(g) for g in groups.values()]


def _rotate(constants: _Constants, shared: np.ndarray, groups: list[Integers], length: int) -> Plates:
    size = constants.size
    outside = np.append(shared, True)  # of the components; the constant 1 is
    group, member, rank = (np.full(size + 1, len(groups)) for _ in range(3))
    for number, members in enumerate(groups):
        group[members] = number
        member[members] = np.arange(len(members))[:, None]
        rank[members] = np.arange(members.shape[1])
    # Of a constant that a component has with the outside, the component's own position first.
    swapped = outside[constants.row] & ~outside[constants.column]
    row = np.where(swapped, constants.column, constants.row)
    column = np.where(swapped, constants.row, constants.column)
    constants = replace(constants, row=row, column=column)
    crossing = _by_group(np.where(outside[column], group[row], len(groups)), len(groups))
    within = _by_group(np.where(outside[column], len(groups), group[row]), len(groups))
    new = np.full(size + 1, -1)
    found: list[_Listed] = []
    spared: list[tuple[int, int, sparse.csr_array]] = []
    start = 0
    for number, members in enumerate(groups):
        count, width = members.shape
        own, other, entry, value = constants.at(crossing[number])
        kinds, which = np.unique([rank[own], other, entry], axis=1, return_inverse=True)
        which, number_of = np.ravel(which), member[own]
        keep = count
        if count > 1 and count * kinds.shape[1] <= CONSTANTS:
            linear = np.zeros((count, kinds.shape[1]))
            np.add.at(linear, (number_of, which), value)
            triangle = _factor(linear)
            keep = len(triangle)
            number_of, which = np.nonzero(triangle)
            value = triangle[number_of, which]
        found.append((start + number_of * width + kinds[0][which], kinds[1][which], kinds[2][which], value))
        p, q, entry, value = constants.at(within[number])
        first = member[p] == 0
        p, q, entry, value = rank[p[first]], rank[q[first]], entry[first], value[first]
        shift = start + width * np.repeat(np.arange(keep), len(p))
        one, two, at, times = (np.tile(part, keep) for part in (p, q, entry, value))
        found.append((shift + one, ~(shift + two), at, times))
        if keep < count:
            both = np.concatenate([np.arange(len(p)), np.flatnonzero(p != q)])
            at = np.concatenate([p * width + q, (q * width + p)[p != q]])
            matrix = sparse.coo_array((value[both], (at, entry[both])), shape=(width * width, length))
            spared.append((count - keep, width, sparse.csr_array(matrix)))
        start += keep * width
    new[outside] = start + np.arange(int(outside.sum()))
    found = [(p, np.where(q < 0, ~q, new[q]), entry, value) for p, q, entry, value in found]
    row, column, entry, value = constants.at(outside[row])
    found.append((new[row], new[column], entry, value))
    row, column, entry, value = (np.concatenate(part) for part in zip(*found, strict=True))
    left = start + int(shared.sum())
    key = np.maximum(row, column) * (left + 1) + np.minimum(row, column)
    pattern, place = np.unique(key, return_inverse=True)
    table = sparse.coo_array((value, (np.ravel(place), entry)), shape=(len(pattern), length))
    return Plates(left, *np.divmod(pattern, left + 1), sparse.csr_array(table), tuple(spared))


def _by_group(group: Integers, number: int) -> list[Integers]:
    """The positions of each group's constants."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, number + 1)))[:number]


def _factor(linear: np.ndarray) -> np.ndarray:
    """R with RᵀR = HᵀH and as many rows as H has rank."""
    scale = np.sqrt(np.sum(linear**2, axis=0))
    used = scale > 0
    if not np.any(used):
        return np.zeros((0, linear.shape[1]))
    triangle, order = linalg.qr(linear[:, used] / scale[used], mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > max(linear.shape) * np.finfo(float).eps * diagonal[0]))
    result = np.zeros((rank, linear.shape[1]))
    result[:, np.flatnonzero(used)[order]] = triangle[:rank]
    return result * scale
