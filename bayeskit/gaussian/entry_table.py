"""The entries of T as a constant sparse table times a short vector β, filled by the products of separable nodes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.gram import Product, weighted_product
from bayeskit.gaussian.jacobians import Jacobian, dot_rows
from bayeskit.gaussian.separable_forms import OFFSET, Form, NotSeparable, Term
from bayeskit.gaussian.separated import recentred, stacked_matrix
from bayeskit.gaussian.separator import Separator
from bayeskit.gaussian.setting import Setting
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Array, Graph

__all__ = ["DENSE", "EntryTable", "add_linear", "add_separable", "multiplied"]

STACKED = 64  # values of a factor up to which each gets its own constant matrix
ENTRIES = 20_000_000  # constants kept for one product of nodes; beyond it, it is multiplied out at each evaluation
DENSE = 64  # size of θ up to which T is kept whole


class EntryTable:
    """Sums of constants times factors, for entries of T in its lower triangle, as they are found."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.factors: list[Graph] = [pt.ones(1)]
        self.start = {None: 0}
        self.length = 1
        self.constants: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # key, entry of β, constant
        self.whole: list[Graph] = []  # contributions to T as a matrix of its own
        self.scattered: list[tuple[np.ndarray, np.ndarray, Graph]] = []  # key, multiple, vector

    def offset_of(self, factor: Graph | None, length: int) -> int:
        if factor not in self.start:
            self.start[factor] = self.length
            self.factors.append(factor)
            self.length += length
        return self.start[factor]

    def keys(self, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number of the entry of the lower triangle, and 2 on the diagonal: T = G + Gᵀ."""
        # SciPy's sparse indices are of 32 bits: from 46,341 entries of θ on, their products overflow.
        p, q = np.asarray(p, dtype=np.int64), np.asarray(q, dtype=np.int64)
        key = np.maximum(p, q) * (self.size + 1) + np.minimum(p, q)
        return key, np.where(p == q, 2.0, 1.0)

    def add(self, p: np.ndarray, q: np.ndarray, entry: np.ndarray | int, value: np.ndarray) -> None:
        kept = value != 0
        key, multiple = self.keys(p[kept], q[kept])
        entries = np.broadcast_to(np.asarray(entry), value.shape)[kept]
        self.constants.append((key, entries, value[kept] * multiple))

    def pattern(self) -> np.ndarray:
        """The keys of all entries, sorted."""
        if self.whole or self.size <= DENSE:
            p, q = np.tril_indices(self.size + 1)
            return p * (self.size + 1) + q
        keys = [k for k, _, _ in self.constants] + [k for k, _, _ in self.scattered]
        return np.unique(np.concatenate(keys)) if keys else np.zeros(0, dtype=int)

    @cached_property
    def beta(self) -> Graph:
        return pt.concatenate(self.factors)

    def table(self, pattern: np.ndarray) -> sparse.csr_array:
        """G of the entries of T that are Gβ; of all of them, where nothing is ``scattered`` or ``whole``."""
        key, entry, value = (np.concatenate(column) for column in zip(*self.constants, strict=True))
        place = np.searchsorted(pattern, key)
        return sparse.csr_array(sparse.coo_array((value, (place, entry)), shape=(len(pattern), self.length)))

    def values(self, pattern: np.ndarray) -> Graph:
        total: Any = pt.zeros(len(pattern))
        if self.constants:
            total = total + multiplied(self.table(pattern), self.beta)
        for key, multiple, vector in self.scattered:
            total = pt.inc_subtensor(total[np.searchsorted(pattern, key)], vector * multiple)
        if self.whole:
            rows, columns = np.divmod(pattern, self.size + 1)
            matrix: Any = pt.add(*self.whole) if len(self.whole) > 1 else self.whole[0]
            total = total + (matrix + matrix.T)[rows, columns]
        return total


def multiplied(table: sparse.csr_array, beta: Graph) -> Graph:
    """A constant sparse matrix times a short vector."""
    if table.shape[1] <= 8 or table.shape[0] * table.shape[1] <= 4_000_000:
        return pt.dot(table.toarray(), beta)
    entries = sparse.coo_array(table)
    rows, columns = entries.coords
    terms = beta[columns] * entries.data
    if len(np.unique(rows)) == len(rows) == table.shape[0]:
        return terms[np.argsort(rows)]
    return pt.inc_subtensor(pt.zeros(table.shape[0])[rows], terms)


def add_separable(entries: EntryTable, setting: Setting, products: list[Product]) -> list[Product]:
    """Add Σ w u v of what is separable; returns the rest."""
    failed = []
    for product in products:
        try:
            left, right = setting.separator.form(product.left), setting.separator.form(product.right)
        except NotSeparable:
            failed.append(product)
            continue
        weight = _whole_weight(product, setting.separator, setting.weights[product])
        left, right = recentred(left, setting.origin), recentred(right, setting.origin)
        if product.is_dot:
            rows, columns, repeat = dot_rows(left.shape, right.shape)
            left, right = left.rows(rows, rows.shape), right.rows(columns, rows.shape)
            weight = weight.rows(repeat, rows.shape)
        shape = np.broadcast_shapes(left.shape, right.shape, weight.shape)
        ones = left.to_shape(shape).terms
        twos = ones if product.left is product.right and not product.is_dot else right.to_shape(shape).terms
        for w in weight.to_shape(shape).terms:
            for a in ones:
                for b in twos:
                    _add_pair(entries, setting, a, b, w)
    return failed


def _whole_weight(product: Product, separator: Separator, weight: Graph) -> Form:
    """The weight of a product, times the factors of a Mul that are not affine in θ."""
    form = separator.form(weight)
    if product.is_dot:
        return form
    shape = np.broadcast_shapes(form.shape, separator.shape_of(product.node.outputs[0]))
    form = form.to_shape(shape)
    for var in product.others:
        form = separator.factors.product(form, separator.form(var).to_shape(shape))
    return form


def _add_pair(entries: EntryTable, setting: Setting, a: Term, b: Term, w: Term) -> None:
    multiply, theta = setting.separator.factors.multiply, setting.theta
    factor, index = multiply(*multiply(a.factor, a.index, b.factor, b.index), w.factor, w.index)
    weight = w.offset
    if index is None:
        _add_gram(entries, a.jacobian, b.jacobian, weight, entries.offset_of(factor, 1), theta)
        return
    used, index = np.unique(index, return_inverse=True)
    assert factor is not None
    start = entries.offset_of(factor, _length(factor, int(used.max()) + 1))
    if len(used) <= STACKED:
        for k, entry in enumerate(used):
            rows = np.flatnonzero(index == k)
            one = a.rows(rows, (len(rows),)).jacobian
            two = one if b is a else b.rows(rows, (len(rows),)).jacobian
            _add_gram(entries, one, two, weight[rows], start + int(entry), theta)
        return
    left, right = stacked_matrix(a.jacobian, theta), stacked_matrix(b.jacobian, theta)
    pairs = int(np.sum(np.diff(left.indptr).astype(float) * np.diff(right.indptr)))
    if pairs <= ENTRIES and (entries.size > DENSE or pairs <= 20 * len(weight)):
        row, p, q, value = _row_products(left, right)
        entries.add(p, q, start + used[index[row]], value * weight[row])
    else:
        scale = factor[used[index]] * weight
        one_matrix = left.toarray()
        two_matrix = one_matrix if a is b else right.toarray()
        entries.whole.append(pt.dot(pt.constant(one_matrix.T) * scale, pt.constant(two_matrix)))


def _length(factor: Graph, at_least: int) -> int:
    length = factor.type.shape[0]
    if length is None:
        raise NotImplementedError(f"a factor of unknown length, at least {at_least}")
    return int(length)


def _add_gram(entries: EntryTable, a: Jacobian, b: Jacobian, weight: Array, entry: int, theta: VectorLayout) -> None:
    """Add Aᵀ diag(w) B for one entry of β."""
    place = {n: s.start for n, s in theta.slices.items()} | {OFFSET: theta.size}
    for one, x in a.blocks.items():
        for two, y in b.blocks.items():
            if a is b and place[two] < place[one]:
                continue  # the symmetric half
            gram = sparse.coo_array(weighted_product(x, y, weight))
            p, q = gram.coords
            value = gram.data * (2.0 if a is b and one != two else 1.0)
            entries.add(p + place[one], q + place[two], entry, value)


def _row_products(left: sparse.csr_array, right: sparse.csr_array) -> tuple[np.ndarray, ...]:
    """Row by row, every product of an entry of the left with one of the right: row, both columns, product."""
    one, two = np.diff(left.indptr), np.diff(right.indptr)
    count = one * two
    row = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    i = left.indptr[row] + within // np.maximum(two[row], 1)
    j = right.indptr[row] + within % np.maximum(two[row], 1)
    return row, left.indices[i], right.indices[j], left.data[i] * right.data[j]


def add_linear(entries: EntryTable, form: Form, where: slice) -> None:
    """Add gᵀδ, the part of the log density that is linear in θ without being part of a product."""
    for term in form.terms:
        value = term.offset
        entry: Any = entries.offset_of(term.factor, 1 if term.factor is None else _length(term.factor, 1))
        if term.index is not None:
            entry = entry + term.index
        place = np.arange(where.start, where.stop)
        entries.add(np.full(len(value), entries.size), place, entry, value)
