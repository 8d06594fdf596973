"""The log terms of a sum over a finite variable, one for each of its states, as graphs.

Where the entries of the variable are independent given the rest, all of them are put in state k at once, K times; where
they are coupled, every joint value is put in. Checks of factors hold for every state and stay outside the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.tensor.basic import ARange, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, Shape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from bayeskit.finite.axis_dependence import EntriesMixed, connection
from bayeskit.graphs.compile import vectorised
from bayeskit.graphs.rewriting import apart_from_checks, substitute
from bayeskit.model.log_joint import LogJoint
from bayeskit.types import Graph

__all__ = ["StateTables"]

UNROLLED = 16  # states up to which each gets a graph of its own: parameters are then computed once, not once an entry
LENGTHS = (Subtensor, ScalarFromTensor, TensorFromScalar, ARange, Reshape, MakeVector, DimShuffle)


def _folded(graphs: Sequence[Any], replacements: Mapping[Any, Any]) -> dict[Any, Any]:
    """What each node becomes where some are replaced, with whole numbers that are known, such as lengths, computed."""
    memo: dict[Any, Any] = dict(replacements)
    for node in toposort(list(graphs)):
        inputs: list[Any] = [memo.get(i, i) for i in node.inputs]
        op: Any = node.op
        if isinstance(op, Shape) and None not in inputs[0].type.shape:
            memo[node.outputs[0]] = pt.constant(np.array(inputs[0].type.shape, dtype=np.int64))
        elif isinstance(op, LENGTHS) and all(isinstance(i, Constant) and np.size(i.data) <= 8 for i in inputs):
            storage: list[list[Any]] = [[None]]
            op.perform(node, [i.data for i in inputs], storage)
            (out,), ((value,),) = node.outputs, storage
            memo[out] = out.type.clone(shape=np.shape(value)).make_constant(value)
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True))
    return memo


def _stretches(node: Any, axes: Mapping[Any, Sequence[Any]], memo: Mapping[Any, Any]) -> bool:
    """Whether an axis of the variable may have length one at a node, instead of its own.

    PyTensor stretches an axis only where it is known to have length one; and nothing may pick entries from it.
    """
    lengths = memo.get(node, node).type.shape
    if any(n is None or a.positions is not None for a, n in zip(axes[node], lengths, strict=True) if a is not None):
        return False
    if node.owner is None or not isinstance(node.owner.op, AdvancedSubtensor):
        return True
    value, *indices = node.owner.inputs
    # An arange that was computed when the length was another, as in the density of a nested indicator.
    return not any(a is not None for a in axes.get(value, ())) or all(
        memo.get(i, i).type.shape == (1,) * i.type.ndim for i in indices
    )


class StateTables:
    """The terms of one sum; keeps the checks of the factors, which hold for every state."""

    def __init__(self, joint: LogJoint, variable: Any, values: np.ndarray, shape: tuple[int, ...]) -> None:
        self.joint, self.variable, self.values, self.shape = joint, variable, values, shape
        self.checks: list[tuple[Any, Variable]] = []

    def keep_checks(self, graph: Variable) -> None:
        """Keep the checks of a factor that is not evaluated: those that do not depend on the variable."""
        _, conditions, operations = apart_from_checks(graph)
        for operation, condition in zip(operations, conditions, strict=True):
            if self.variable not in self.joint.dependence.get(condition, ()):
                self.checks.append((operation, condition))

    def separated(self, factors: Sequence[str]) -> Graph:
        """Σ of the factors with every entry in state k: (K, *shape); EntriesMixed if one of them mixes entries."""
        terms = []
        for factor in factors:
            graph, conditions, operations = apart_from_checks(self.joint.factors[factor])
            try:
                axes, below = connection(graph, self.variable, self.shape)
            except EntriesMixed as error:
                raise EntriesMixed(f"{error} in the log density of {factor!r}") from None
            table, *checks = self._everywhere([graph, *conditions], below)
            self.checks += [(o, pt.all(c)) for o, c in zip(operations, checks, strict=True)]
            terms.append(self._aligned(table, axes))
        size = (len(self.values), *self.shape)
        return pt.broadcast_to(pt.add(*terms) if len(terms) > 1 else terms[0], size)

    def enumerated(self, factors: Sequence[str], configurations: np.ndarray) -> Graph:
        """Σ of the factors at each value of the variable: (C,)."""
        terms = []
        for factor in factors:
            graph, conditions, operations = apart_from_checks(self.joint.factors[factor])
            table, *checks = self._at([graph, *conditions], self.variable, configurations)
            self.checks += [(o, pt.all(c)) for o, c in zip(operations, checks, strict=True)]
            terms.append(pt.sum(table, axis=tuple(range(1, table.type.ndim))))
        return pt.add(*terms) if len(terms) > 1 else terms[0]

    def checked(self, total: Graph) -> Graph:
        """The sum, with the checks of all its factors."""
        for operation, condition in self.checks:
            total = operation(total, condition)
        return total

    def _everywhere(self, graphs: list[Graph], axes: Mapping[Variable, Any]) -> list[Graph]:
        """The graphs with all entries in state k."""
        points = self.values.reshape(-1, *[1] * len(self.shape))
        # One number stands for all entries: mu[z] is then K rows, not one for each entry and state.
        alone = self.variable.type.clone(shape=(1,) * len(self.shape))()
        try:
            memo = _folded(graphs, {self.variable: alone})
        except (IndexError, TypeError, ValueError):
            memo = {}  # a mask, or an operation that asks for the length
        if memo and all(_stretches(node, axes, memo) for node in axes):
            return self._at([memo.get(g, g) for g in graphs], alone, points)
        return self._at(graphs, self.variable, np.broadcast_to(points, (len(points), *self.shape)))

    def _at(self, graphs: list[Graph], variable: Any, points: np.ndarray) -> list[Graph]:
        """The graphs at each point, along a new first axis."""
        if len(points) > UNROLLED:
            every = pt.constant(points)
            everywhere: Any = vectorize_graph(graphs, {variable: every})
            return [
                new if new.type.ndim > old.type.ndim else pt.broadcast_to(new, (len(points), *new.shape))
                for new, old in zip(everywhere, graphs, strict=True)
            ]
        rows = []
        for point in points:
            value: Any = pt.constant(np.asarray(point, dtype=points.dtype))
            rows.append(substitute(graphs, {variable: value}))
        return [vectorised(pt.stack(column)) for column in zip(*rows, strict=True)]

    def _aligned(self, table: Graph, axes: Sequence[Any]) -> Graph:
        """A table whose later axes are those of a factor, with those of the variable instead."""
        extra = [i + 1 for i, axis in enumerate(axes) if axis is None]
        table = pt.sum(table, axis=extra) if extra else table
        joined = [axis for axis in axes if axis is not None]
        for place, axis in enumerate(joined):
            length = axis.length(self.shape)
            indices = axis.indices(length)
            if not np.array_equal(indices, np.arange(length)):
                # Entries that the factor has not are without a term; one that it has twice has two.
                front = pt.moveaxis(table, place + 1, 0)
                empty = pt.zeros((length, *[front.shape[i] for i in range(1, front.type.ndim)]))
                table = pt.moveaxis(pt.inc_subtensor(empty[indices], front), 0, place + 1)
        present = [a for axis in joined for a in axis.all]
        if len(present) > len(joined):
            table = table.reshape((table.shape[0], *[self.shape[a] for a in present]))
        order = sorted(range(len(present)), key=lambda i: present[i])
        table = table.transpose(0, *[i + 1 for i in order])
        present = sorted(present)
        pattern = [0] + [present.index(a) + 1 if a in present else "x" for a in range(len(self.shape))]
        return table.dimshuffle(*pattern)
