r"""A log density of many rows as a sum of (function of the data) × (function of the parameters).

.. math:: t_n(\phi) = \sum_p y_{np} \, b_p(\phi), \qquad \sum_n r_n t_n(\phi) = \sum_p b_p(\phi) \sum_n r_n y_{np}

so that a weighted sum over rows needs the weighted moments of the columns y once, and then no row any more. The columns
found are the constants of the graph, and products of two of them: what a Normal, MvNormal, Poisson or Binomial density
is made of. Each column is taken about a centre c that is an input, y = (y − c) + c: a variance is never the difference
of two large numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import Subtensor, get_idx_list

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import applies, core_op, without_shuffles
from bayeskit.types import Graph

__all__ = ["Columns", "Form", "NotReduced", "form_of"]

WIDEST = 256  # columns of one array

# The weights (indices of symbolic columns), and at most two columns of data, in order.
Key = tuple[tuple[int, ...], tuple[int, ...]]
ONE: Key = ((), ())


class NotReduced(Exception):
    """The rows of a density do not separate."""


@dataclass(eq=False)
class Columns:
    """The columns that a density was found to be made of.

    Attributes
    ----------
    rows : int
    latent : mapping of tensor to frozenset
        What each node of the density depends on.
    symbolic : tuple of tensor
        Arrays of rows that are inputs, such as state probabilities.
    centre : tensor
        c, a vector with one entry a column.
    """

    rows: int
    latent: Mapping[Variable, frozenset[Variable]]
    symbolic: tuple[Variable, ...] = ()
    centre: Graph = field(default_factory=pt.dvector)
    data: list[np.ndarray] = field(default_factory=list)
    weights: list[tuple[int, int, int]] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)
    memo: dict[tuple[Variable, int], Form] = field(default_factory=dict)

    def number(self, column: np.ndarray) -> int:
        key = np.ascontiguousarray(column).tobytes()
        if key not in self.known:
            self.known[key] = len(self.data)
            self.data.append(np.asarray(column, dtype=float))
        return self.known[key]

    def weight(self, array: int, axis: int, place: int) -> int:
        if (array, axis, place) not in self.weights:
            self.weights.append((array, axis, place))
        return self.weights.index((array, axis, place))


@dataclass(frozen=True, eq=False)
class Form:
    """Σ_p y_p b_p: the keys of the columns, and b as a graph whose first axis runs over them."""

    keys: tuple[Key, ...]
    b: Graph


def form_of(graph: Variable, axis: int, columns: Columns) -> Form:
    """The form of a graph whose rows lie along an axis; the other axes follow the first of b.

    Raises
    ------
    NotReduced
        If an operation is not linear in the columns, or has no rule.
    """
    key = (graph, axis)
    if key not in columns.memo:
        columns.memo[key] = _visit(graph, axis, columns)
    return columns.memo[key]


def _visit(graph: Any, axis: int, columns: Columns) -> Form:
    if graph in columns.symbolic:
        return _weights(graph, axis, columns)
    if not columns.latent.get(graph):
        return _constant(graph, axis, columns)
    if graph.type.shape[axis] == 1:
        return Form((ONE,), pt.moveaxis(graph, axis, 0))
    node: Any = graph.owner
    if node is None:
        raise NotReduced
    op = node.op
    if isinstance(op, CheckAndRaise | SpecifyShape):
        return form_of(node.inputs[0], axis, columns)
    if isinstance(op, Elemwise):
        return _elementwise(node, axis, columns)
    if isinstance(op, DimShuffle):
        return _shuffled(node, axis, columns)
    if isinstance(op, Sum):
        return _sum(node, axis, columns)
    if isinstance(op, Alloc):
        value = node.inputs[0]
        below = axis - (graph.type.ndim - value.type.ndim)
        if below < 0 or value.type.shape[below] == 1:
            inner = Form((ONE,), value[None] if below < 0 else pt.moveaxis(value, below, 0))
        else:
            inner = form_of(value, below, columns)
        return Form(inner.keys, _stretched(_padded(inner.b, graph.type.ndim), lengths(graph, axis)))
    if isinstance(op, Join):
        return _joined(node, axis, columns)
    if isinstance(op, Subtensor):
        return _selected(node, axis, columns)
    return _linear_algebra(node, axis, columns)


def lengths(graph: Graph, without: int) -> list[Any]:
    """Of all axes but one; numbers where they are known."""
    return [graph.shape[i] if n is None else n for i, n in enumerate(graph.type.shape) if i != without]


def _stretched(b: Graph, shape: Sequence[Any]) -> Graph:
    """b with the axes after the first broadcast to a shape."""
    shape = list(shape)
    return b if list(b.type.shape[1:]) == shape else pt.alloc(b, b.type.shape[0] or b.shape[0], *shape)


def _constant(graph: Any, axis: int, columns: Columns) -> Form:
    values = np.moveaxis(np.asarray(_value(graph)), axis, 0)
    flat = values.reshape(len(values), -1)
    varies = np.any(flat != flat[:1], axis=0)
    if not np.any(varies):
        return Form((ONE,), pt.constant(values[:1]))
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
    return Form(keys, stacked.reshape((len(keys), *values.shape[1:])))


def _value(graph: Any) -> np.ndarray:
    if not all(isinstance(i, Constant) for i in graph_inputs([graph])):
        raise NotReduced
    return graph.data if isinstance(graph, Constant) else compile_small([], graph)()


def _weights(graph: Any, axis: int, columns: Columns) -> Form:
    shape = tuple(n for i, n in enumerate(graph.type.shape) if i != axis)
    if None in shape:
        raise NotReduced
    size = int(np.prod(shape, dtype=int))
    array = columns.symbolic.index(graph)
    keys = tuple(((columns.weight(array, axis, place),), ()) for place in range(size))
    return Form(keys, pt.constant(np.eye(size).reshape(size, *shape)))


def _padded(b: Graph, ndim: int) -> Graph:
    """b with axes of length one after the first, so that it has ``ndim`` in all."""
    return b.dimshuffle(0, *["x"] * (ndim - b.type.ndim), *range(1, b.type.ndim))


def _free(form: Form) -> bool:
    return form.keys == (ONE,)


def _add(forms: Sequence[Form]) -> Form:
    ndim = max(f.b.type.ndim for f in forms)
    keys = tuple(dict.fromkeys(k for f in forms for k in f.keys))
    if all(f.keys == keys for f in forms):
        return Form(keys, pt.add(*[_padded(f.b, ndim) for f in forms]))
    return Form(keys, pt.add(*[_spread(_padded(f.b, ndim), f.keys, keys) for f in forms]))


def _spread(b: Graph, own: Sequence[Key], keys: Sequence[Key]) -> Graph:
    """Rows of b at the places of their keys, zeros elsewhere; rows of the same key are added."""
    places = [keys.index(k) for k in own]
    if len(set(places)) < len(places):
        matrix = np.zeros((len(keys), len(own)))
        matrix[places, np.arange(len(own))] = 1.0
        return pt.tensordot(pt.constant(matrix), b, axes=1)
    if places == list(range(len(own))):
        return b if len(own) == len(keys) else pt.concatenate([b, _zeros(b, len(keys) - len(own))])
    source = np.full(len(keys), len(own))
    source[places] = np.arange(len(own))
    return pt.concatenate([b, _zeros(b, 1)])[source]


def _zeros(b: Graph, rows: int) -> Graph:
    if None in b.type.shape[1:]:
        return pt.zeros((rows, *[b.shape[i] for i in range(1, b.type.ndim)]))
    return pt.constant(np.zeros((rows, *b.type.shape[1:])))


def _times(one: Form, two: Form) -> Form:
    if _free(one) or _free(two):
        ndim = max(one.b.type.ndim, two.b.type.ndim)
        keys = two.keys if _free(one) else one.keys
        return Form(keys, _padded(one.b, ndim) * _padded(two.b, ndim))
    pairs = [_product(a, b) for a in one.keys for b in two.keys]
    keys = tuple(dict.fromkeys(pairs))
    ndim = max(one.b.type.ndim, two.b.type.ndim)
    left, right = _padded(one.b, ndim), _padded(two.b, ndim)
    outer = left[:, None] * right[None]
    known = [outer.shape[i] if n is None else n for i, n in enumerate(outer.type.shape)]
    return Form(keys, _spread(outer.reshape((len(pairs), *known[2:]), ndim=ndim), pairs, keys))


def _product(one: Key, two: Key) -> Key:
    data = tuple(sorted(one[1] + two[1]))
    if len(data) > 2:
        raise NotReduced
    return tuple(sorted(one[0] + two[0])), data


def _elementwise(node: Apply, axis: int, columns: Columns) -> Form:
    op: Any = node.op.scalar_op
    if isinstance(op, ps.Switch):
        return _switch(node, axis, columns)
    forms = [form_of(i, axis, columns) for i in node.inputs]
    if all(_free(f) for f in forms):
        return Form((ONE,), node.op(*[f.b for f in forms]))
    first = forms[0]
    if isinstance(op, ps.Add):
        return _add(forms)
    if isinstance(op, ps.Sub):
        return _add([first, Form(forms[1].keys, -forms[1].b)])
    if isinstance(op, ps.Neg):
        return Form(first.keys, -first.b)
    if isinstance(op, ps.Identity) or (isinstance(op, ps.Cast) and op.o_type.dtype == "float64"):
        return first
    if isinstance(op, ps.Mul):
        return reduce(_times, forms)
    if isinstance(op, ps.TrueDiv) and _free(forms[1]):
        return _times(first, Form((ONE,), 1.0 / forms[1].b))
    if isinstance(op, ps.Sqr):
        return _times(first, first)
    if isinstance(op, ps.Pow) and isinstance(node.inputs[1], Constant) and np.all(node.inputs[1].data == 2):
        return _times(first, first)
    raise NotReduced


def _switch(node: Apply, axis: int, columns: Columns) -> Form:
    condition, *branches = node.inputs
    if not columns.latent.get(condition):
        held = _value(condition)
        if np.all(held) or not np.any(held):
            return form_of(branches[0 if np.all(held) else 1], axis, columns)
        mask = _constant(pt.constant(np.asarray(held, dtype=float)), axis, columns)
        opposite = _constant(pt.constant(1.0 - np.asarray(held, dtype=float)), axis, columns)
        return _add(
            [_times(mask, _finite(branches[0], axis, columns)), _times(opposite, _finite(branches[1], axis, columns))]
        )
    if _is_zero_test(condition):
        # As in PyMC's 0·log 0: the modes are sought inside the support, where no parameter is zero.
        return form_of(branches[1], axis, columns)
    test = form_of(condition, axis, columns)
    one, two = (form_of(b, axis, columns) for b in branches)
    if not _free(test):
        raise NotReduced
    keys = tuple(dict.fromkeys([*one.keys, *two.keys]))
    ndim = max(f.b.type.ndim for f in (test, one, two))
    parts = [_spread(_padded(f.b, ndim), f.keys, keys) for f in (one, two)]
    return Form(keys, pt.switch(_padded(test.b, ndim), *parts))


def _is_zero_test(condition: Any) -> bool:
    node = without_shuffles(condition).owner
    if node is None or not applies(node, ps.EQ):
        return False
    constant = without_shuffles(node.inputs[1])
    return isinstance(constant, Constant) and bool(np.all(constant.data == 0))


def _finite(branch: Any, axis: int, columns: Columns) -> Form:
    """A branch that is taken in some rows only; an impossible one has an effect as soon as it has any weight."""
    if not columns.latent.get(branch) and not np.all(np.isfinite(_value(branch))):
        raise NotReduced
    return form_of(branch, axis, columns)


def _shuffled(node: Apply, axis: int, columns: Columns) -> Form:
    order: Any = node.op.new_order
    if order[axis] == "x":
        raise NotReduced
    inner = form_of(node.inputs[0], order[axis], columns)
    below = [i for i in range(node.inputs[0].type.ndim) if i != order[axis]]
    pattern = [o if o == "x" else below.index(o) + 1 for i, o in enumerate(order) if i != axis]
    return Form(inner.keys, inner.b.dimshuffle(0, *pattern))


def _sum(node: Apply, axis: int, columns: Columns) -> Form:
    op: Any = node.op
    source = node.inputs[0]
    summed = range(source.type.ndim) if op.axis is None else op.axis
    kept = [i for i in range(source.type.ndim) if i not in summed]
    row = kept[axis]
    inner = form_of(source, row, columns)
    b = inner.b
    # An axis along which b is broadcast has the length of the sum all the same.
    b = _stretched(b, lengths(source, row))
    places = [1 + i - (i > row) for i in summed]
    return Form(inner.keys, pt.sum(b, axis=places))


def _joined(node: Apply, axis: int, columns: Columns) -> Form:
    op: Any = node.op
    if op.axis == axis:
        raise NotReduced
    forms = [form_of(i, axis, columns) for i in node.inputs]
    keys = tuple(dict.fromkeys(k for f in forms for k in f.keys))
    parts = [_spread(f.b, f.keys, keys) for f in forms]
    return Form(keys, pt.concatenate(parts, axis=1 + op.axis - (op.axis > axis)))


def _selected(node: Apply, axis: int, columns: Columns) -> Form:
    op: Any = node.op
    indices: list[Any] = list(get_idx_list(node.inputs, op.idx_list))
    indices += [slice(None)] * (node.inputs[0].type.ndim - len(indices))
    kept = [i for i, index in enumerate(indices) if isinstance(index, slice)]
    row = kept[axis]
    if indices[row] != slice(None):
        raise NotReduced
    inner = form_of(node.inputs[0], row, columns)
    full = _stretched(inner.b, lengths(node.inputs[0], row))
    return Form(inner.keys, full[(slice(None), *[x for i, x in enumerate(indices) if i != row])])


def _linear_algebra(node: Apply, axis: int, columns: Columns) -> Form:
    op = core_op(node)
    name = type(op).__name__
    batched = isinstance(node.op, Blockwise)
    out: Any = node.outputs[0]
    if isinstance(op, Dot) or name == "Matmul":
        return _matrix_product(node, axis, columns)
    if name == "SolveTriangular" and op.b_ndim == 2 and batched:
        matrix, right = node.inputs
        ndim = out.type.ndim
        if axis == ndim - 1 and columns.latent.get(matrix) is not None:
            inner = form_of(
                right, right.type.ndim - 1, columns
            )  # (keys, …, m): a column of the right side for each key
            if matrix.type.ndim == 2 and inner.b.type.ndim == 2:
                return Form(inner.keys, node.op(matrix, inner.b.T).T)
    raise NotReduced


def _matrix_product(node: Apply, axis: int, columns: Columns) -> Form:
    left, right = node.inputs
    if left.type.ndim == 2 and axis == 0 and right.type.ndim in (1, 2):
        inner = form_of(left, 0, columns)
        return Form(inner.keys, pt.dot(_stretched(inner.b, lengths(left, 0)), right))
    raise NotReduced
