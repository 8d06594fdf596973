"""A graph over long data taken apart: what its nodes do to a block of rows, and the sums that are left of them.

An elementwise function of rows is one row by row; a sum over rows, a product XᵀR, and "all" are those of the blocks put
together. Anything else that has N entries is refused. What has no rows, and what is the same in every row, stays out of
the block.
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

from bayeskit.graphs.instructions import order
from bayeskit.types import Graph

__all__ = ["BlockProgram", "NotByRows"]


class NotByRows(Exception):
    """Something with N entries along an axis that is no function of its rows."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """A value with one entry a row: its graph for a block, and which axis the rows are."""

    graph: Graph
    axis: int
    even: bool = False  # one value for all rows: of length one along the axis, and in terms of the inputs


class BlockProgram:
    """A graph taken apart for blocks of rows of one length."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable], total: int, length: int) -> None:
        self.total, self.length = total, length
        self.sources: dict[Variable, tuple[Variable, int]] = {}  # long data: inputs of the row program, their axes
        self.small: dict[Variable, Variable] = {}  # what the rows read that has none: inputs of the row program
        self.partial: dict[Variable, tuple[Graph, bool]] = {}  # of a block; whether it is a sum, else it is "all"
        self.known: dict[Variable, Graph] = {}  # sums of equal entries, which need no rows
        self.checks: list[Graph] = []  # conditions on parameters, which raise
        self.late_checks: list[Graph] = []  # those on every row
        self.width = 1
        self._rows: dict[Variable, _Rows] = {}
        self._late: set[Variable] = set()
        self._given, self._moving = set(inputs), set(inputs)
        for node in order(outputs, inputs):
            self._visit(node)
        rows = [self._rows.get(o) for o in outputs]
        if any(self._is_long(o) if r is None else not r.even for o, r in zip(outputs, rows, strict=True)):
            raise NotByRows
        self.outputs = [o if r is None else r.graph for o, r in zip(outputs, rows, strict=True)]
        self.even = [r is not None for r in rows]

    def _is_long(self, var: Variable) -> bool:
        return self.total in getattr(var.type, "shape", ())

    def _axis(self, var: Variable) -> int:
        shape = var.type.shape
        if shape.count(self.total) != 1:
            raise NotByRows
        return int(shape.index(self.total))

    def _source(self, var: Variable) -> _Rows:
        axis = self._axis(var)
        shape = tuple(self.length if k == axis else n for k, n in enumerate(var.type.shape))
        if None in shape:
            raise NotByRows
        given = pt.TensorType(var.type.dtype, shape)()
        self.sources[var] = given, axis
        return self._keep(var, given, axis)

    def _keep(self, var: Variable, graph: Graph, axis: int, *, even: bool = False) -> _Rows:
        shape = graph.type.shape
        if not even and (None in shape or shape[axis] != self.length):
            raise NotByRows
        if not even:
            self.width = max(self.width, int(np.prod(shape)) // self.length)
        self._rows[var] = _Rows(graph, axis, even)
        return self._rows[var]

    def _long(self, var: Variable) -> _Rows | None:
        """The rows of a variable that has some."""
        if var in self._rows or not self._is_long(var):
            return self._rows.get(var)
        if var in self._moving and var.owner is not None and var not in self._given:
            raise NotByRows
        return self._source(var)

    def _short(self, var: Variable) -> Graph:
        """A value without rows, as the row program reads it."""
        if var in self._late:
            raise NotByRows
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
                raise NotByRows
            return
        if not any(self._is_long(v) for v in (*node.inputs, *node.outputs)):
            if any(i in self._late for i in node.inputs):
                self._late.update(node.outputs)
            return
        spread = isinstance(op, Alloc) or (isinstance(op, Elemwise) and isinstance(op.scalar_op, ps.Second))
        even = any(i in self._rows and self._rows[i].even for i in node.inputs)
        if not (moving or spread or even or isinstance(op, DimShuffle)):
            return  # from constants: held, and a source where it is read
        if len(node.outputs) != 1:
            raise NotByRows
        rule = next((r for kind, r in self._rules if isinstance(op, kind)), None)
        if rule is None:
            raise NotByRows
        rule(self, node, op)

    def _elementwise(self, node: Apply, op: Any) -> None:
        out = node.outputs[0]
        if isinstance(op.scalar_op, ps.Second):
            self._spread(out, node.inputs[1])
            return
        axis = self._axis(out)
        rows = [self._long(i) for i in node.inputs]
        if any(r is not None and r.axis != axis for r in rows):
            raise NotByRows
        graphs = [i if r is None else r.graph for i, r in zip(node.inputs, rows, strict=True)]
        same = [r is None or r.even for r in rows]
        if any(s and g.type.shape[axis] != 1 for g, s in zip(graphs, same, strict=True)):
            raise NotByRows
        if all(same) and any(i in self._late for i in node.inputs):
            raise NotByRows
        read = graphs if all(same) else [self._short(g) if s else g for g, s in zip(graphs, same, strict=True)]
        self._keep(out, op.make_node(*read).outputs[0], axis, even=all(same))

    def _spread(self, out: Variable, value: Graph) -> None:
        """``fill`` and ``alloc``, of which only the shape that the type states counts."""
        axis, lead = self._axis(out), out.type.ndim - value.type.ndim
        if (row := self._long(value)) is not None:
            if value.type.shape != out.type.shape:
                raise NotByRows
            self._keep(out, pt.cast(row.graph, out.type.dtype), axis, even=row.even)
            return
        wide = [1 if k == axis else n for k, n in enumerate(out.type.shape)]
        if value in self._late or [*([1] * lead), *value.type.shape] != wide:
            raise NotByRows
        graph = value.dimshuffle(*(["x"] * lead), *range(value.type.ndim)) if lead else value
        self._keep(out, pt.cast(graph, out.type.dtype), axis, even=True)

    def _checked(self, node: Apply, op: Any) -> None:
        value, *conditions = node.inputs
        if any(self._is_long(c) for c in conditions):
            raise NotByRows
        late = any(c in self._late for c in conditions)
        (self.late_checks if late else self.checks).append(op.make_node(pt.constant(0.0), *conditions).outputs[0])
        self._spread(node.outputs[0], value)

    def _shuffled(self, node: Apply, op: Any) -> None:
        old: Any = self._long(node.inputs[0])
        axis = list(op.new_order).index(old.axis)
        self._keep(node.outputs[0], op.make_node(old.graph).outputs[0], axis, even=old.even)

    def _reduced(self, node: Apply, op: Any) -> None:
        out = node.outputs[0]
        old: Any = self._long(node.inputs[0])
        axes = tuple(range(node.inputs[0].type.ndim)) if op.axis is None else tuple(op.axis)
        graph = op.make_node(old.graph).outputs[0]
        if old.axis not in axes:
            self._keep(out, graph, old.axis - sum(a < old.axis for a in axes), even=old.even)
            return
        adds = isinstance(op, Sum)
        if not adds and not isinstance(op, All):
            raise NotByRows
        if old.even:
            self.known[out] = pt.cast(graph * self.total, out.type.dtype) if adds else graph
        else:
            self.partial[out] = graph, adds
        self._late.add(out)

    def _multiplied(self, node: Apply, op: Any) -> None:
        out = node.outputs[0]
        left, right = node.inputs
        if isinstance(node.op, Blockwise) and any(i.type.ndim > 2 for i in node.inputs):
            raise NotByRows
        one, two = self._long(left), self._long(right)
        if any(r is not None and r.even for r in (one, two)):
            raise NotByRows
        if one is not None and two is not None:
            if one.axis != left.type.ndim - 1 or two.axis != 0:
                raise NotByRows
            self.partial[out] = node.op.make_node(one.graph, two.graph).outputs[0], True
            self._late.add(out)
        elif one is not None and one.axis == 0 and left.type.ndim == 2:
            self._keep(out, node.op.make_node(one.graph, self._short(right)).outputs[0], 0)
        else:
            raise NotByRows

    _rules: Sequence[tuple[Any, Callable[..., None]]] = (
        (Elemwise, _elementwise),
        (Alloc, lambda self, node, op: self._spread(node.outputs[0], node.inputs[0])),
        (CheckAndRaise, _checked),
        (DimShuffle, _shuffled),
        (CAReduce, _reduced),
        (Dot, _multiplied),
    )
