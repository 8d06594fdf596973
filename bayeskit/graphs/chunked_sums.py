"""Sums over long data, evaluated a block of rows at a time.

A log density of N observations is a sum of N terms, and its gradient in a few numbers is a few such sums. Evaluated
node by node, each node makes an array of length N: for a million rows that is a dozen times 8 MB, written to memory and
read again. Here the nodes with N entries along an axis are run on a block of rows that stays in the cache, and only the
sums are kept. The graph falls into three programs:

    before   what does not have N entries (σ, log σ, the coefficients), once
    rows     what has N entries, up to the sums over them, once a block
    after    what depends on the sums, once

Proof that this is the same function: an elementwise function of rows is one row by row; a sum over rows, a product
XᵀR, and "all" are those of the blocks put together. A graph with anything else that has N entries is refused (None) and
evaluated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import All, Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.interpreter import NotEvaluable, evaluator, order
from bayeskit.types import Graph

__all__ = ["RowFunction", "compile_rows"]

LONG = 100_000  # rows from which an array of that length is worth avoiding
BLOCK = 200_000  # numbers in the widest array of a block: 1.6 MB
MOST_ROWS = 32_000  # rows of a block: 256 kB a column


class _NotByRows(Exception):
    """Something with N entries along an axis that is no function of its rows."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """A value with one entry a row: its graph for a block, and which axis the rows are."""

    graph: Graph
    axis: int


class _Split:
    """A graph taken apart for blocks of one length.

    Attributes
    ----------
    sources : dict of Variable to (input of the row program, axis)
        The long inputs, data and constants.
    small : dict of Variable to input of the row program
        What the rows read that has no rows itself.
    partial : dict of Variable to (graph for a block, whether it is a sum; else it is "all")
    known : dict of Variable to graph
        Sums of equal entries, which need no rows.
    checks, late_checks : list of graph
        Conditions on parameters, which raise; the late ones are on every row.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable], total: int, length: int) -> None:
        self.total, self.length = total, length
        self.sources: dict[Variable, tuple[Variable, int]] = {}
        self.small: dict[Variable, Variable] = {}
        self.partial: dict[Variable, tuple[Graph, bool]] = {}
        self.known: dict[Variable, Graph] = {}
        self.checks: list[Graph] = []
        self.late_checks: list[Graph] = []
        self.width = 1
        self._rows: dict[Variable, _Rows] = {}
        self._even: dict[Variable, _Rows] = {}  # one value for all rows: of length 1 there, in terms of the inputs
        self._late: set[Variable] = set()
        self._given, self._moving = set(inputs), set(inputs)
        for node in order(outputs, inputs):
            self._visit(node)
        if any(o in self._rows or (self._is_long(o) and o not in self._even) for o in outputs):
            raise _NotByRows
        self.outputs = [self._even[o].graph if o in self._even else o for o in outputs]
        self.even = [o in self._even for o in outputs]

    def _is_long(self, var: Variable) -> bool:
        return self.total in getattr(var.type, "shape", ())

    def _axis(self, var: Variable) -> int:
        shape = var.type.shape
        if shape.count(self.total) != 1:
            raise _NotByRows
        return int(shape.index(self.total))

    def _source(self, var: Variable) -> _Rows:
        axis = self._axis(var)
        shape = tuple(self.length if k == axis else n for k, n in enumerate(var.type.shape))
        if None in shape:
            raise _NotByRows
        given = pt.TensorType(var.type.dtype, shape)()
        self.sources[var] = given, axis
        return self._keep(var, given, axis)

    def _keep(self, var: Variable, graph: Graph, axis: int) -> _Rows:
        shape = graph.type.shape
        if None in shape or shape[axis] != self.length:
            raise _NotByRows
        self.width = max(self.width, int(np.prod(shape)) // self.length)
        self._rows[var] = _Rows(graph, axis)
        return self._rows[var]

    def _long(self, var: Variable) -> _Rows | None:
        """The rows of a variable that has some."""
        if var in self._rows or not self._is_long(var):
            return self._rows.get(var)
        if var in self._even:
            return None
        if var in self._moving and var.owner is not None and var not in self._given:
            raise _NotByRows
        return self._source(var)

    def _short(self, var: Variable) -> Graph:
        """A value without rows, as the row program reads it."""
        if var in self._late:
            raise _NotByRows
        if isinstance(var, Constant):
            return var
        if var not in self.small:
            self.small[var] = var.type()
        return self.small[var]

    def _visit(self, node: Apply) -> None:
        op: Any = getattr(node.op, "core_op", node.op)
        moving = any(i in self._moving or isinstance(i, SharedVariable) for i in node.inputs)
        if moving:
            self._moving.update(node.outputs)
        if isinstance(op, Shape | Shape_i):
            if any(self._is_long(i) for i in node.inputs) and node.inputs[0].type.shape.count(None):
                raise _NotByRows
            return
        if not any(self._is_long(v) for v in (*node.inputs, *node.outputs)):
            if any(i in self._late for i in node.inputs):
                self._late.update(node.outputs)
            return
        spread = isinstance(op, Alloc) or (isinstance(op, Elemwise) and isinstance(op.scalar_op, ps.Second))
        if (
            not moving
            and not spread
            and not isinstance(op, DimShuffle)
            and not any(i in self._even for i in node.inputs)
        ):
            return  # from constants: held, and a source where it is read
        if len(node.outputs) != 1:
            raise _NotByRows
        rule = next((r for kind, r in self._rules if isinstance(op, kind)), None)
        if rule is None:
            raise _NotByRows
        rule(self, node, op)

    # -- one rule a kind of node ---------------------------------------------------------------------------------
    def _elementwise(self, node: Apply, op: Any) -> None:
        out = node.outputs[0]
        if isinstance(op.scalar_op, ps.Second):
            self._spread(out, node.inputs[1])
            return
        axis = self._axis(out)
        rows = [self._long(i) for i in node.inputs]
        if any(r is not None and r.axis != axis for r in rows):
            raise _NotByRows
        even = [self._even.get(i) for i in node.inputs]
        if not any(r is not None for r in rows):
            graphs = [i if e is None else e.graph for i, e in zip(node.inputs, even, strict=True)]
            if any(g.type.shape[axis] != 1 for g in graphs) or any(i in self._late for i in node.inputs):
                raise _NotByRows
            self._even[out] = _Rows(op.make_node(*graphs).outputs[0], axis)
            return
        read = []
        for var, row, same in zip(node.inputs, rows, even, strict=True):
            short = var if same is None else same.graph
            if row is None and short.type.shape[axis] != 1:
                raise _NotByRows
            read.append(self._short(short) if row is None else row.graph)
        self._keep(out, op.make_node(*read).outputs[0], axis)

    def _spread(self, out: Variable, value: Graph) -> None:
        """``fill`` and ``alloc``, of which only the shape that the type states counts."""
        axis, lead = self._axis(out), out.type.ndim - value.type.ndim
        row, same = self._long(value), self._even.get(value)
        if row is not None or same is not None:
            if value.type.shape != out.type.shape:
                raise _NotByRows
            if row is not None:
                self._keep(out, pt.cast(row.graph, out.type.dtype), axis)
            elif same is not None:
                self._even[out] = _Rows(pt.cast(same.graph, out.type.dtype), axis)
            return
        wide = (*([1] * lead), *value.type.shape)
        if value in self._late or any(
            n != m for k, (n, m) in enumerate(zip(wide, out.type.shape, strict=True)) if k != axis
        ):
            raise _NotByRows
        if wide[axis] != 1:
            raise _NotByRows
        graph = value.dimshuffle(*(["x"] * lead), *range(value.type.ndim)) if lead else value
        self._even[out] = _Rows(pt.cast(graph, out.type.dtype), axis)

    def _alloc(self, node: Apply, op: Any) -> None:
        self._spread(node.outputs[0], node.inputs[0])

    def _checked(self, node: Apply, op: Any) -> None:
        value, *conditions = node.inputs
        if any(self._is_long(c) for c in conditions):
            raise _NotByRows
        late = any(c in self._late for c in conditions)
        (self.late_checks if late else self.checks).append(op.make_node(pt.constant(0.0), *conditions).outputs[0])
        self._spread(node.outputs[0], value)

    def _shuffled(self, node: Apply, op: Any) -> None:
        out, row = node.outputs[0], self._long(node.inputs[0])
        old = row if row is not None else self._even[node.inputs[0]]
        axis = list(op.new_order).index(old.axis)
        graph = op.make_node(old.graph).outputs[0]
        if row is None:
            self._even[out] = _Rows(graph, axis)
        else:
            self._keep(out, graph, axis)

    def _reduced(self, node: Apply, op: Any) -> None:
        out, row = node.outputs[0], self._long(node.inputs[0])
        old = row if row is not None else self._even[node.inputs[0]]
        axes = tuple(range(node.inputs[0].type.ndim)) if op.axis is None else tuple(op.axis)
        graph = op.make_node(old.graph).outputs[0]
        if old.axis not in axes:
            axis = old.axis - sum(a < old.axis for a in axes)
            if row is None:
                self._even[out] = _Rows(graph, axis)
            else:
                self._keep(out, graph, axis)
            return
        adds = isinstance(op, Sum)
        if not adds and not isinstance(op, All):
            raise _NotByRows
        if row is None:
            self.known[out] = pt.cast(graph * self.total, out.type.dtype) if adds else graph
        else:
            self.partial[out] = graph, adds
        self._late.add(out)

    def _multiplied(self, node: Apply, op: Any) -> None:
        out = node.outputs[0]
        left, right = node.inputs
        if isinstance(node.op, Blockwise) and any(i.type.ndim > 2 for i in node.inputs):
            raise _NotByRows
        if left in self._even or right in self._even:
            raise _NotByRows
        one, two = self._long(left), self._long(right)
        if one is not None and two is not None:
            if one.axis != left.type.ndim - 1 or two.axis != 0:
                raise _NotByRows
            self.partial[out] = node.op.make_node(one.graph, two.graph).outputs[0], True
            self._late.add(out)
        elif one is not None and one.axis == 0 and left.type.ndim == 2:
            self._keep(out, node.op.make_node(one.graph, self._short(right)).outputs[0], 0)
        else:
            raise _NotByRows

    _rules: Sequence[tuple[Any, Callable[..., None]]] = (
        (Elemwise, _elementwise),
        (Alloc, _alloc),
        (CheckAndRaise, _checked),
        (DimShuffle, _shuffled),
        (CAReduce, _reduced),
        (Dot, _multiplied),
    )


@dataclass(eq=False)
class _State:
    """One evaluation under way: the arguments, what the rows read, and the sums so far."""

    arguments: Sequence[np.ndarray]
    small: list[np.ndarray]
    known: list[Any]
    even: list[Any]
    long: list[tuple[np.ndarray, int]]
    sums: list[Any]


class RowFunction:
    """A function of long data that holds no array of their length; :func:`compile_rows` makes it.

    Attributes
    ----------
    rows : int
        N.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable], rows: int) -> None:
        self.rows, self._inputs, self._outputs = rows, list(inputs), list(outputs)
        self._programs: dict[int, Callable[..., list[Any]]] = {}  # by the length of a block
        split = _Split(inputs, outputs, rows, length=rows - 1)  # a length that is not N, so that none is taken for it
        self.width = split.width
        self._sources, self._small = list(split.sources), list(split.small)
        self._adds = [adds for _, adds in split.partial.values()]
        self._even = split.even
        self._counts = len(split.small), len(split.known), sum(split.even)
        even = [o for o, same in zip(split.outputs, split.even, strict=True) if same]
        self._before = compile_small(inputs, [*split.small, *split.known.values(), *even, *split.checks])
        self._reduced = [*split.known, *split.partial]
        later = [o for o, same in zip(outputs, split.even, strict=True) if not same]
        self._after = compile_small([*inputs, *self._reduced], [*later, *split.late_checks])
        given = {v: k for k, v in enumerate(inputs)}
        self._places: list[int | None] = [given.get(v) for v in self._sources]
        made = [v for v in self._sources if v.owner is not None and v not in given]
        # From constants only: computed at the first call, and held.
        self._held = dict.fromkeys(made)
        self._make_held = evaluator([], made) if made else None

    def blocks(self) -> list[slice]:
        """Slices of rows that together are all of them."""
        most = min(MOST_ROWS, max(1, BLOCK // self.width))
        count = -(-self.rows // most)
        # Blocks of one length need one program.
        count = next((k for k in range(count, 2 * count) if self.rows % k == 0), count)
        step = -(-self.rows // count)
        return [slice(a, min(a + step, self.rows)) for a in range(0, self.rows, step)]

    def _program(self, length: int) -> Callable[..., list[Any]]:
        if length not in self._programs:
            split = _Split(self._inputs, self._outputs, self.rows, length)
            reads = [*(g for g, _ in split.sources.values()), *split.small.values()]
            self._programs[length] = evaluator(reads, [g for g, _ in split.partial.values()])
        return self._programs[length]

    def begin(self, arguments: Sequence[np.ndarray | None]) -> _State:
        """Start an evaluation; a long argument that is None is given to :meth:`add` block by block."""
        filled = [
            np.broadcast_to(np.nan, v.type.shape) if a is None else a
            for a, v in zip(arguments, self._inputs, strict=True)
        ]
        results = self._before(*filled)
        small, known, even = self._counts
        if self._make_held is not None:
            self._held = dict(zip(self._held, self._make_held(), strict=True))
            self._make_held = None
        return _State(
            arguments=filled,
            small=results[:small],
            known=results[small : small + known],
            even=results[small + known : small + known + even],
            long=[
                (self._value(v, k, arguments), v.type.shape.index(self.rows))
                for v, k in zip(self._sources, self._places, strict=True)
            ],
            sums=[None] * len(self._adds),
        )

    def _value(self, var: Variable, place: int | None, arguments: Sequence[Any]) -> Any:
        if place is not None:
            return arguments[place]
        if isinstance(var, SharedVariable):
            return var.get_value(borrow=True)
        return var.data if isinstance(var, Constant) else self._held[var]

    def add(self, state: _State, block: slice, given: Sequence[np.ndarray] = ()) -> None:
        """Add the rows of one block; ``given`` are those of the arguments that are None, in order."""
        rest = iter(given)
        values = [
            next(rest) if v is None else v[block] if axis == 0 else v[:, block] if axis == 1 else _rows(v, axis, block)
            for v, axis in state.long
        ]
        found = self._program(block.stop - block.start)(*values, *state.small)
        for k, (value, adds) in enumerate(zip(found, self._adds, strict=True)):
            old = state.sums[k]
            # In extended precision: there are hundreds of blocks.
            state.sums[k] = (
                (np.asarray(value, dtype=np.longdouble) if adds else value)
                if old is None
                else (old + value if adds else np.logical_and(old, value))
            )

    def end(self, state: _State) -> list[Any]:
        """The values of the outputs."""
        types = [v.type.dtype for v in self._reduced]
        reduced = [np.asarray(v, dtype=d) for v, d in zip([*state.known, *state.sums], types, strict=True)]
        later, even = iter(self._after(*state.arguments, *reduced)), iter(state.even)
        shapes = [v.type.shape for v in self._outputs]
        return [np.broadcast_to(next(even), s) if e else next(later) for e, s in zip(self._even, shapes, strict=True)]

    def __call__(self, *arguments: np.ndarray) -> list[Any]:
        state = self.begin(arguments)
        for block in self.blocks():
            self.add(state, block)
        return self.end(state)


def _rows(value: np.ndarray, axis: int, block: slice) -> np.ndarray:
    return value[(*([slice(None)] * axis), block)]


def compile_rows(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> RowFunction | None:
    """A function of ``inputs`` that takes long data block by block; None where the graph is not a sum over rows.

    Parameters
    ----------
    inputs, outputs : sequence of tensor
        Inputs may be as long as the data. Outputs have no rows, or the same value in each.
    """
    lengths = {
        n
        for node in order(outputs, inputs)
        for var in (*node.inputs, *node.outputs)
        for n in getattr(var.type, "shape", ())
        if n is not None and n >= LONG
    }
    if len(lengths) != 1:
        return None
    try:
        return RowFunction(inputs, outputs, lengths.pop())
    except (_NotByRows, NotEvaluable):
        return None
