r"""A log density of many rows as a sum of (function of the data) × (function of the parameters).

.. math:: t_n(\phi) = \sum_p y_{np} \, b_p(\phi), \qquad \sum_n r_n t_n(\phi) = \sum_p b_p(\phi) \sum_n r_n y_{np}

so that a weighted sum over rows needs the weighted moments of the columns y once, and then no row any more. The columns
found are the constants of the graph, and products of two of them: what a Normal, MvNormal, Poisson or Binomial density
is made of. Each column is taken about a centre c that is an input, y = (y − c) + c: a variance is never the difference
of two large numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial, reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import SpecifyShape

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.nodes import applies, core_op, without_shuffles
from bayeskit.graphs.operations import coefficients, exponents, followed_axes, parts
from bayeskit.point_estimates.column_forms import ONE, ColumnForm, Columns, NotReduced, lengths, stretched
from bayeskit.types import Graph

__all__ = ["form_of"]

WIDEST = 256  # columns of one array

_Rows = Callable[[int], ColumnForm]  # the form of a node, given the axis along which its rows lie


def form_of(graph: Graph, axis: int, columns: Columns) -> ColumnForm:
    """The form of a graph whose rows lie along an axis; the other axes follow the first of b.

    Raises NotReduced where an operation is not linear in the columns, or has no rule.
    """
    parameters = [v for v in graph_inputs([graph]) if columns.latent.get(v)]
    analysis = _ColumnForms(dict.fromkeys(parameters, _refused), columns)
    analysis.walk([graph])
    return analysis.value(graph)(axis)


def _refused(axis: int) -> ColumnForm:
    raise NotReduced


class _ColumnForms(GraphAnalysis[_Rows]):
    """The form of every node, found once the axis of its rows is known, which is where it is used."""

    def __init__(self, leaves: Mapping[Graph, _Rows], columns: Columns) -> None:
        super().__init__({v: _unless_one_row(v, rows) for v, rows in leaves.items()})
        self.values |= {v: partial(_of_weights, v, columns) for v in columns.symbolic}
        self.columns = columns
        self.constants: dict[Graph, _Rows] = {}

    def constant(self, var: Graph) -> _Rows:
        return self.constants.setdefault(var, cache(partial(_of_constant, var, self.columns)))

    def unknown(self, out: Graph, values: list[_Rows]) -> _Rows:
        return _refused

    def transfer(self, out: Graph, values: list[_Rows]) -> _Rows:
        return _unless_one_row(out, super().transfer(out, values))

    def entrywise(self, out: Graph, values: list[_Rows], combine: Callable[[list[ColumnForm]], ColumnForm]) -> _Rows:
        def rows(axis: int) -> ColumnForm:
            forms = [value(axis) for value in values]
            if all(f.free for f in forms):
                return ColumnForm((ONE,), out.owner.op(*[f.b for f in forms]))
            return combine(forms)

        return rows

    def elementwise(self, out: Graph, values: list[_Rows]) -> _Rows:
        return self.entrywise(out, values, lambda forms: _refused(0))

    def linear(self, out: Graph, values: list[_Rows]) -> _Rows:
        signs = coefficients(out.owner) or ()
        if out.type.dtype != "float64":
            return self.elementwise(out, values)
        return self.entrywise(
            out, values, lambda forms: ColumnForm.added([f.scaled(c) for f, c in zip(forms, signs, strict=True) if c])
        )

    def product(self, out: Graph, values: list[_Rows]) -> _Rows:
        powers = exponents(out.owner) or ()
        return self.entrywise(out, values, lambda forms: reduce(ColumnForm.times, map(_power, forms, powers)))

    def choice(self, out: Graph, values: list[_Rows]) -> _Rows:
        condition, *branches = out.owner.inputs
        if condition in self.values and not _is_zero_test(condition):
            return lambda axis: _chosen(*[value(axis) for value in values])
        if condition in self.values:
            # As in PyMC's 0·log 0: the modes are sought inside the support, where no parameter is zero.
            return values[2]
        mask = _value_of(condition)
        if np.all(mask) or not np.any(mask):
            return values[1 if np.all(mask) else 2]
        # In some rows only: an impossible branch has an effect as soon as it has any weight.
        if not all(b in self.values or np.all(np.isfinite(_value_of(b))) for b in branches):
            return _refused
        masks = [self.constant(pt.constant(np.asarray(m, dtype=float))) for m in (mask, 1.0 - mask)]
        return lambda axis: ColumnForm.added([m(axis).times(v(axis)) for m, v in zip(masks, values[1:], strict=True)])

    def check(self, out: Graph, values: list[_Rows]) -> _Rows:
        return values[0]

    def move(self, out: Graph, values: list[_Rows]) -> _Rows:
        if isinstance(out.owner.op, SpecifyShape):
            return values[0]
        if not isinstance(out.owner.op, Alloc):
            return self.join(out, values)
        value = out.owner.inputs[0]

        def rows(axis: int) -> ColumnForm:
            below = axis - (out.type.ndim - value.type.ndim)
            inner = values[0](below) if below >= 0 and value.type.shape[below] != 1 else _one_row(value, below)
            return ColumnForm(inner.keys, stretched(inner.padded(out.type.ndim).b, lengths(out, axis)))

        return rows

    def join(self, out: Graph, values: list[_Rows]) -> _Rows:
        """The operation itself, on b with the columns in the place of the rows, where it treats these one by one."""

        def rows(axis: int) -> ColumnForm:
            inputs, places, forms = list(out.owner.inputs), [], []
            for k in parts(out.owner):
                place = (followed_axes(out, k) or [None] * out.type.ndim)[axis]
                if place is None:
                    raise NotReduced
                places.append((k, place))
                forms.append(values[k](place))
            keys = tuple(dict.fromkeys(key for f in forms for key in f.keys))
            for (k, place), form in zip(places, forms, strict=True):
                b = form.b
                if not isinstance(out.owner.op, DimShuffle):
                    # An axis along which b is broadcast has the length that it has in the sum all the same.
                    b = stretched(b, lengths(inputs[k], place))
                inputs[k] = pt.moveaxis(ColumnForm(form.keys, b).spread(keys), 0, place)
            return ColumnForm(keys, pt.moveaxis(out.owner.op(*inputs), axis, 0))

        return rows

    sum = join

    def bilinear(self, out: Graph, values: list[_Rows]) -> _Rows:
        left, right = out.owner.inputs

        def rows(axis: int) -> ColumnForm:
            if left.type.ndim != 2 or axis != 0 or right.type.ndim not in (1, 2):
                raise NotReduced
            inner = values[0](0)
            return ColumnForm(inner.keys, pt.dot(stretched(inner.b, lengths(left, 0)), right))

        return rows

    def solve(self, out: Graph, values: list[_Rows]) -> _Rows:
        matrix, right = out.owner.inputs
        op = core_op(out.owner)
        columns = type(op).__name__ == "SolveTriangular" and op.b_ndim == 2 and isinstance(out.owner.op, Blockwise)

        def rows(axis: int) -> ColumnForm:
            if not columns or axis != out.type.ndim - 1 or matrix.type.ndim != 2:
                raise NotReduced
            inner = values[1](right.type.ndim - 1)  # (keys, …, m): a column of the right side for each key
            if inner.b.type.ndim != 2:
                raise NotReduced
            return ColumnForm(inner.keys, out.owner.op(matrix, inner.b.T).T)

        return rows


def _unless_one_row(out: Graph, rows: _Rows) -> _Rows:
    """The form of a node; one of a single row is the same in all rows."""
    return cache(lambda axis: _one_row(out, axis) if out.type.shape[axis] == 1 else rows(axis))


def _one_row(graph: Graph, axis: int) -> ColumnForm:
    return ColumnForm((ONE,), graph[None] if axis < 0 else pt.moveaxis(graph, axis, 0))


def _power(form: ColumnForm, exponent: float) -> ColumnForm:
    if exponent in (1, 2):
        return form if exponent == 1 else form.times(form)
    if not form.free:
        raise NotReduced
    return ColumnForm((ONE,), form.b**exponent if exponent != -1 else 1.0 / form.b)


def _chosen(test: ColumnForm, *branches: ColumnForm) -> ColumnForm:
    if not test.free:
        raise NotReduced
    keys, (_, *graphs) = ColumnForm.aligned([test, *branches])
    return ColumnForm(keys, pt.switch(test.padded(graphs[0].type.ndim).b, *graphs))


def _is_zero_test(condition: Graph) -> bool:
    """Whether it holds only where a parameter is zero, or its logarithm −∞; in some of the rows, maybe."""
    node = without_shuffles(condition).owner
    if node is None:
        return False
    if applies(node, ps.AND, ps.Mul) and condition.type.dtype == "bool":
        return any(_is_zero_test(i) for i in node.inputs)
    constant = without_shuffles(node.inputs[1]) if applies(node, ps.EQ) else None
    return isinstance(constant, Constant) and bool(np.all(constant.data == 0) or np.all(constant.data == -np.inf))


def _of_constant(graph: Any, columns: Columns, axis: int) -> ColumnForm:
    """A node that does not depend on the parameters, its rows along an axis: columns of the data."""
    values = np.moveaxis(np.asarray(_value_of(graph)), axis, 0)
    flat = values.reshape(len(values), -1)
    varies = np.any(flat != flat[:1], axis=0)
    if not np.any(varies):
        return ColumnForm((ONE,), pt.constant(values[:1]))
    flat = flat.astype(float)
    if len(values) != columns.rows or np.sum(varies) > WIDEST or not np.all(np.isfinite(flat[:, varies])):
        raise NotReduced
    numbers = [columns.number(flat[:, j]) for j in np.flatnonzero(varies)]
    once = list(dict.fromkeys(numbers))
    b = np.zeros((len(once), flat.shape[1]))
    for j, number in zip(np.flatnonzero(varies), numbers, strict=True):
        b[once.index(number), j] = 1.0
    offset: Any = columns.centre[np.array(numbers)]
    if not np.all(varies):
        offset = pt.set_subtensor(pt.constant(flat[0])[np.flatnonzero(varies)], offset)
    stacked: Any = pt.concatenate([offset[None], pt.constant(b)])
    keys = (ONE, *(((), (n,)) for n in once))
    return ColumnForm(keys, stacked.reshape((len(keys), *values.shape[1:])))


def _of_weights(graph: Any, columns: Columns, axis: int) -> ColumnForm:
    """An array of weights, its rows along an axis: symbolic columns."""
    shape = tuple(n for i, n in enumerate(graph.type.shape) if i != axis)
    if None in shape:
        raise NotReduced
    size = int(np.prod(shape, dtype=int))
    array = columns.symbolic.index(graph)
    keys = tuple(((columns.weight(array, axis, place),), ()) for place in range(size))
    return ColumnForm(keys, pt.constant(np.eye(size).reshape(size, *shape)))


def _value_of(graph: Any) -> np.ndarray:
    """The value of a node that is made of constants; raises NotReduced for any other."""
    if not all(isinstance(i, Constant) for i in graph_inputs([graph])):
        raise NotReduced
    return graph.data if isinstance(graph, Constant) else compile_small([], graph)()
