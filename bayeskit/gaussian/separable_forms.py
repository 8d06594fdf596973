"""Nodes that are affine in θ, with what depends on the remaining variables φ pulled out in front as small factors.

For a node u(θ, φ) that is affine in θ there may be constants M_r, a_r, indices k_r and small vectors b_r(φ) with

    u_i(θ, φ) = Σ_r b_r(φ)[k_r(i)] · (M_r θ + a_r)_i .

(y − Xw)/σ is one term, with factor 1/σ and constants −X and y; with a noise sd for each group the factor is the vector
1/σ and k the group of each row. Products of such nodes are then sums over a few values of φ times constant matrices
such as XᵀX, computed once: **sufficient statistics**, so that an evaluation costs the same for 10³ and for 10⁶ rows.
The walk that finds them is :mod:`bayeskit.gaussian.separator`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.jacobians import Jacobian, JacobianBlock, broadcast_index, sum_jacobians, summed_rows, vstacked
from bayeskit.types import Graph

__all__ = ["OFFSET", "Factors", "Form", "NotSeparable", "Term", "constant", "factor_form", "joined", "joint_classes"]

OFFSET = ""  # the name of the column a of a Jacobian in homogeneous coordinates (θ, 1)
CLASSES = 32  # entries of a vector factor up to which a sum or product over rows is split into one term each
DENSE_COUNTS = 1_000_000  # entries of the table of counts with which a factor is summed

RowClasses = np.ndarray | None
Shape = tuple[int, ...]


class NotSeparable(Exception):
    """The node mixes θ with φ in a way that no small factor describes."""


@dataclass(frozen=True, eq=False)
class Term:
    """diag(b[index]) (M θ + a): constant Jacobian in (θ, 1), factor b, and the entry of b for each row.

    ``factor`` is None for 1; a factor of one entry has no index.
    """

    jacobian: Jacobian
    factor: Graph | None = None
    index: RowClasses = None

    def rows(self, index: np.ndarray, shape: Shape) -> Term:
        """The term of the node whose entries are the entries ``index`` of this one."""
        return Term(self.jacobian.rows(index, shape), self.factor, None if self.index is None else self.index[index])

    def with_jacobian(self, jacobian: Jacobian) -> Term:
        return replace(self, jacobian=jacobian)

    @property
    def pure(self) -> bool:
        """Whether θ does not enter."""
        return all(n == OFFSET for n in self.jacobian.blocks)

    @property
    def offset(self) -> np.ndarray:
        """a, flat."""
        block = self.jacobian.blocks.get(OFFSET)
        return np.zeros(self.jacobian.size) if block is None else block.dense()[:, 0]


@dataclass(frozen=True, eq=False)
class Form:
    """A node as a sum of terms."""

    shape: Shape
    terms: tuple[Term, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def pure(self) -> bool:
        return all(t.pure for t in self.terms)

    @property
    def single(self) -> bool:
        """Whether it is one factor times constants."""
        return len(self.terms) == 1 and self.pure

    def mapped(self, function: Callable[[Jacobian], Jacobian], shape: Shape | None = None) -> Form:
        """With the constants of every term changed."""
        terms = tuple(t.with_jacobian(function(t.jacobian)) for t in self.terms)
        return Form(self.shape if shape is None else shape, terms)

    def rows(self, index: np.ndarray, shape: Shape) -> Form:
        """The node of some shape whose entries are the entries ``index`` of this one."""
        if index.size == self.size and np.array_equal(index.ravel(), np.arange(self.size)):  # nothing is copied
            return self.reshaped(shape)
        return Form(shape, tuple(t.rows(index.ravel(), shape) for t in self.terms))

    def to_shape(self, shape: Shape) -> Form:
        """Broadcast."""
        if math.prod(shape) == self.size:
            return self.reshaped(shape)
        return self.rows(broadcast_index(self.shape, shape), shape)

    def reshaped(self, shape: Shape) -> Form:
        return self if shape == self.shape else self.mapped(lambda jac: jac.reshaped(shape), shape)

    def times(self, array: np.ndarray) -> Form:
        """Multiplied by a constant, one number or one for each row."""
        flat = np.asarray(array, dtype=float).ravel()
        return self.mapped(lambda jac: jac.times(flat))

    def where(self, chosen: np.ndarray) -> Form:
        """Zero in the rows not chosen."""
        return self.mapped(lambda jac: jac.where(chosen))

    def tidied(self) -> Form:
        """Terms with the same factor, added up: (y − Xw)/σ must stay one residual."""
        groups: list[tuple[Term, list[Jacobian]]] = []
        for term in self.terms:
            for first, members in groups:
                if first.factor is term.factor and _same(first.index, term.index):
                    members.append(term.jacobian)
                    break
            else:
                groups.append((term, [term.jacobian]))
        if len(groups) == len(self.terms):
            return self
        return Form(self.shape, tuple(first.with_jacobian(sum_jacobians(m, self.shape)) for first, m in groups))


def _same(one: RowClasses, two: RowClasses) -> bool:
    return one is two or (one is not None and two is not None and np.array_equal(one, two))


def offset_only(values: np.ndarray, shape: Shape) -> Jacobian:
    """The Jacobian in (θ, 1) of constants."""
    return Jacobian(shape, {OFFSET: JacobianBlock(values.reshape(-1, 1))})


def constant(value: Any) -> Form:
    """A constant as a form."""
    array = np.asarray(value, dtype=float)
    return Form(array.shape, (Term(offset_only(array, array.shape)),))


def factor_form(vector: Graph, shape: Shape, *index: RowClasses) -> Form:
    """A node without θ whose entries are those of a vector; picked from it where an index is given."""
    size = math.prod(shape)
    (classes,) = index or (None if size == 1 else np.arange(size),)
    return Form(shape, (Term(offset_only(np.ones(size), shape), vector, classes),))


def joint_classes(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """For rows labelled by several integer columns: a representative row of each distinct label, and its number."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # Renumbered at every step, so that the codes cannot overflow.
        code = np.unique(code, return_inverse=True)[1]
        code = code * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse


def joined(forms: Sequence[Form], source: np.ndarray) -> Form:
    """The node whose entries are the entries ``source`` of some nodes, counted one after another."""
    sizes = [form.size for form in forms]
    used = np.unique(np.searchsorted(np.cumsum(sizes), source, side="right"))
    # Terms with the same factor become one, whatever their classes are; a second one of the same part another.
    layers: dict[tuple[Graph | None, int], dict[int, Term]] = {}
    for k in used:
        for term in forms[k].terms:
            depth = sum(k in layer for (factor, _), layer in layers.items() if factor is term.factor)
            layers.setdefault((term.factor, depth), {})[int(k)] = term
    terms = []
    for (factor, _), layer in layers.items():
        stack = vstacked([layer[k].jacobian if k in layer else None for k in range(len(forms))], sizes)
        index = None
        if any(term.index is not None for term in layer.values()):
            parts = [layer[k].index if k in layer else None for k in range(len(forms))]
            index = np.concatenate([np.zeros(n, int) if i is None else i for i, n in zip(parts, sizes, strict=True)])
        terms.append(Term(stack, factor, index).rows(source.ravel(), source.shape))
    return Form(source.shape, tuple(terms))


class Factors:
    """Products, powers and sums of factors: one tensor for one expression, so that equal ones are the same object."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Graph] = {}  # the keys keep alive what they name

    def once(self, key: tuple[Any, ...], make: Callable[[], Graph]) -> Graph:
        """An expression, made where it is new."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def multiply(
        self, one: Graph | None, i: RowClasses, two: Graph | None, j: RowClasses
    ) -> tuple[Graph | None, RowClasses]:
        """The product of two factors, row by row."""
        if one is None or two is None:
            return (two, j) if one is None else (one, i)
        if i is None or j is None or (one is two and np.array_equal(i, j)):
            pair = tuple(sorted((one, two), key=id))
            return self.once(("multiply", *pair), lambda: one * two), j if i is None else i
        first, inverse = joint_classes([i, j])
        return one[i[first]] * two[j[first]], inverse

    def product(self, one: Form, two: Form) -> Form:
        """The product of two nodes of one shape, at most one of them with θ."""
        terms = []
        for a in one.terms:
            for b in two.terms:
                moving, still = (a, b) if b.pure else (b, a)
                offset = still.offset
                even = offset[:1] if offset.size and np.all(offset == offset[0]) else offset
                factor, index = self.multiply(a.factor, a.index, b.factor, b.index)
                terms.append(Term(moving.jacobian.times(even), factor, index))
        return Form(one.shape, tuple(terms))

    def power(self, form: Form, exponent: float) -> Form:
        """A node of one term, without θ, to a power."""
        if not form.single:
            raise NotSeparable
        (term,) = form.terms
        offset, factor = term.offset, term.factor
        if (exponent != int(exponent) and np.any(offset < 0)) or (exponent < 0 and np.any(offset == 0)):
            raise NotSeparable
        if factor is not None:
            base: Graph = factor
            factor = self.once(("power", exponent, base), lambda: 1.0 / base if exponent == -1 else base**exponent)
        return Form(form.shape, (Term(offset_only(offset**exponent, form.shape), factor, term.index),))

    def split(self, form: Form) -> list[Term]:
        """Terms whose factors have one entry: one for each entry of a vector factor."""
        pieces: list[Term] = []
        for term in form.terms:
            if term.index is None:
                pieces.append(term)
                continue
            used = np.unique(term.index)
            if len(used) > CLASSES:
                raise NotSeparable
            for k in used:
                pieces.append(Term(term.jacobian.where(term.index == k), self._entry(term.factor, int(k))))
        return pieces

    def _entry(self, factor: Graph, k: int) -> Graph:
        return self.once(("entry", k, factor), lambda: factor[[k]])

    def summed(self, term: Term, targets: np.ndarray, shape: Shape) -> list[Term]:
        """Sums over the rows of a term; Σ a_i b[k_i] as counts times b."""
        if term.index is None or not term.pure:
            pieces = self.split(Form(term.jacobian.shape, (term,)))
            return [piece.with_jacobian(summed_rows(piece.jacobian, targets, shape)) for piece in pieces]
        assert term.factor is not None
        size, length = math.prod(shape), int(term.index.max(initial=-1)) + 1
        if size * length <= DENSE_COUNTS:
            counts = sparse.coo_array((term.offset, (targets, term.index)), shape=(size, length)).toarray()
            total = pt.dot(counts, term.factor[:length])
        else:
            total = pt.zeros(size)[targets].inc(term.factor[term.index] * term.offset)
        return list(factor_form(total, shape).terms)
