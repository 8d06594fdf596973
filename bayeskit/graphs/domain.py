"""What the operations of PyTensor mean, stated once, and the one walk with which every analysis follows a graph.

An analysis asks one question of every node: of which degree it is in θ, what its Jacobian is, along which axes it
depends on z. It is a *lattice*, the answers a node may have, and a few *rules* that give the answer of a node from
those of its inputs (Cousot and Cousot's abstract interpretation). The rules are per kind of operation, and
:func:`kind_of` is the only place that knows which operations are of a kind: one that it is newly taught reaches all
analyses. What has no rule is ``unknown``, the answer that claims nothing.

Which nodes are sure to be positive where x is::

    class Positive(GraphAnalysis[bool]):
        def constant(self, var):             # a node that does not depend on the leaves
            return isinstance(var, Constant) and bool(np.all(var.data > 0))

        def unknown(self, out, values):      # no rule: nothing is claimed
            return False

        def product(self, out, values):
            return all(values)

        def move(self, out, values):         # entries are moved, never changed; later inputs are indices or shapes
            return values[0]

    Positive({x: True}).walk([graph])[graph]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum, auto
from typing import Any

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.traversal import toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor import basic as ptb
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from bayeskit.graphs.nodes import applies, core_op
from bayeskit.types import Graph

__all__ = [
    "GraphAnalysis",
    "Kind",
    "coefficients",
    "entry_sources",
    "exponents",
    "kind_of",
    "linear_argument",
    "parts",
    "perform",
    "sum_targets",
]


class Kind(StrEnum):
    """What an operation does; the value is the name of its rule in an :class:`GraphAnalysis`."""

    LINEAR = auto()  # entry by entry Σ cᵢ xᵢ, see `coefficients`
    PRODUCT = auto()  # entry by entry Π xᵢ^eᵢ, see `exponents`
    CHOICE = auto()  # entry by entry one of the later inputs, by the first
    FUNCTION = auto()  # any other function of the entries at one place
    CHECK = auto()  # the first input, if the conditions that follow it hold
    MOVE = auto()  # every entry is an entry of the first input; later inputs are indices or shapes
    JOIN = auto()  # every entry is an entry of one of the `parts`; other inputs are indices
    SUM = auto()  # every entry is a sum of certain entries of the `parts`; other inputs are indices
    BILINEAR = auto()  # linear in each of two inputs
    SOLVE = auto()  # linear in `linear_argument`
    OTHER = auto()


_INDEXING = (Subtensor, AdvancedSubtensor, ptb.Split, ptb.ExtractDiag)
_RESHAPING = (DimShuffle, Reshape, SpecifyShape, ptb.Alloc, JoinDims, SplitDims, Repeat)
_IDENTITIES = (ptb.TensorFromScalar, ptb.ScalarFromTensor, ViewOp)
_JOINS = (ptb.Join, ptb.MakeVector)
_KINDS: dict[Kind, tuple[type, ...]] = {
    Kind.CHECK: (CheckAndRaise,),
    Kind.MOVE: (*_INDEXING, *_RESHAPING, *_IDENTITIES),
    Kind.JOIN: _JOINS,
    Kind.SUM: (Sum,),
    Kind.BILINEAR: (Dot,),
}
_INCREMENTS = (IncSubtensor, AdvancedIncSubtensor)
_COEFFICIENTS = {ps.Sub: (1.0, -1.0), ps.Neg: (-1.0,), ps.Identity: (1.0,), ps.Second: (0.0, 1.0)}
_EXPONENTS = {ps.TrueDiv: (1.0, -1.0), ps.Reciprocal: (-1.0,), ps.Sqr: (2.0,), ps.Sqrt: (0.5,)}
_LINEAR_ARGUMENTS = {"SolveTriangular": 1, "CholeskySolve": 1, "Solve": 1}


def kind_of(node: Apply) -> Kind:
    """The kind of operation that a node is."""
    op = core_op(node)
    if isinstance(op, Elemwise):
        if isinstance(op.scalar_op, ps.Switch):
            return Kind.CHOICE
        return Kind.LINEAR if coefficients(node) else Kind.PRODUCT if exponents(node) else Kind.FUNCTION
    if isinstance(op, _INCREMENTS):
        return Kind.JOIN if op.set_instead_of_inc else Kind.SUM
    if isinstance(op, CumOp):
        return Kind.SUM if op.mode == "add" else Kind.OTHER
    if linear_argument(node) is not None:
        return Kind.SOLVE
    return next((kind for kind, ops in _KINDS.items() if isinstance(op, ops)), Kind.OTHER)


def coefficients(node: Apply) -> tuple[float, ...] | None:
    """c of a node that is Σ cᵢ xᵢ entry by entry, an input that does not enter having c = 0; None of others."""
    op: Any = getattr(core_op(node), "scalar_op", None)
    if isinstance(op, ps.Add):
        return (1.0,) * len(node.inputs)
    if isinstance(op, ps.Cast):  # float32 rounds what is wider: steps, however small
        dtype = op.o_type.dtype
        return (1.0,) if dtype.startswith("float") and np.can_cast(node.inputs[0].type.dtype, dtype) else None
    return _COEFFICIENTS.get(type(op))


def exponents(node: Apply) -> tuple[float, ...] | None:
    """e of a node that is Π xᵢ^eᵢ entry by entry, an input that does not enter having e = 0; None of others."""
    op: Any = getattr(core_op(node), "scalar_op", None)
    if isinstance(op, ps.Mul):
        return (1.0,) * len(node.inputs)
    if isinstance(op, ps.Pow):
        power = _one_number(node.inputs[1])
        return None if power is None else (power, 0.0)
    return _EXPONENTS.get(type(op))


def _one_number(var: Graph) -> float | None:
    """The number of which a constant has copies only, of whatever shape and type it was cast to."""
    types = [var.type.dtype]
    while var.owner and (isinstance(var.owner.op, DimShuffle) or applies(var.owner, ps.Cast)):
        var = var.owner.inputs[0]
        types.append(var.type.dtype)
    if not isinstance(var, Constant) or np.size(var.data) == 0:
        return None
    data = np.unique(var.data)
    for dtype in types[::-1]:
        data = data.astype(dtype)
    return float(data[0]) if data.size == 1 else None


def linear_argument(node: Apply) -> int | None:
    """Which input a solve is linear in, all others held fixed; None if there is none."""
    return _LINEAR_ARGUMENTS.get(type(core_op(node)).__name__)


def parts(node: Apply) -> tuple[int, ...]:
    """The inputs that the entries of a move, join or sum come from; the others are indices or shapes."""
    op = core_op(node)
    return tuple(range(len(node.inputs))) if isinstance(op, _JOINS) else (0, 1) if isinstance(op, _INCREMENTS) else (0,)


def perform(node: Apply, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of a node for values of its inputs."""
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, list(inputs), storage)
    return [np.asarray(s[0]) for s in storage]


def entry_sources(node: Apply, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Where the entries of a move or join come from: the operation itself is asked, on the numbers of the entries.

    ``inputs`` are of the `parts` their shapes, as tuples, or anything that has one; of the others the values. For each
    output, of its shape: the number of an entry, where those of the parts are counted one after another.
    """
    numbers, first = list(inputs), 0
    for k in parts(node):
        shape = inputs[k] if isinstance(inputs[k], tuple) else np.shape(inputs[k])
        size = int(np.prod(shape, dtype=int))
        numbers[k] = np.arange(first, first + size).reshape(shape)
        first += size
    return [s.astype(int) for s in perform(node, numbers)]


def sum_targets(node: Apply, shape: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
    """For each entry of what a ``Sum`` adds up, flat, the number of its sum; and the shape of the sums."""
    axes = range(len(shape)) if node.op.axis is None else [a % len(shape) for a in node.op.axis]
    sums = tuple(n for i, n in enumerate(shape) if i not in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    numbers = np.arange(int(np.prod(sums, dtype=int))).reshape(kept)
    return np.broadcast_to(numbers, shape).ravel(), sums


class GraphAnalysis[V]:
    """A walk over graphs that gives every node a value; to be subclassed with the rules of one question.

    A rule is a method with the name of a :class:`Kind`. It takes an output of a node and the values of the node's
    inputs, and gives the output's value. It is called only where an input depends on the leaves. A kind without a rule
    is ``unknown``.

    ``leaves`` are the variables in question (any nodes; nothing above them is visited for them) with their values.
    ``values`` are those of all nodes visited; a node that is not among them does not depend on the leaves.
    """

    def __init__(self, leaves: Mapping[Graph, V]) -> None:
        self.values: dict[Graph, V] = dict(leaves)

    def walk(self, graphs: Iterable[Graph]) -> dict[Graph, V]:
        """Visit everything below some graphs, inputs before outputs, and give the values of all nodes visited."""
        for node in toposort(list(graphs)):
            # A shape does not depend on what it is the shape of.
            if isinstance(node.op, Shape | Shape_i) or not any(i in self.values for i in node.inputs):
                continue
            values = [self.value(i) for i in node.inputs]
            for out in node.outputs:
                if out not in self.values:
                    self.values[out] = self.transfer(out, values)
        return self.values

    def value(self, var: Graph) -> V:
        """The value of a node that was visited, or that does not depend on the leaves."""
        return self.values[var] if var in self.values else self.constant(var)

    def transfer(self, out: Graph, values: list[V]) -> V:
        """The value of an output of a node: the rule for its kind of operation, ``elementwise`` for the first four."""
        kind = kind_of(out.owner)
        general = self.elementwise if isinstance(core_op(out.owner), Elemwise) else self.unknown
        result: V = getattr(self, kind, general)(out, values)
        return result

    def constant(self, var: Graph) -> V:
        """The value of a node that does not depend on the leaves."""
        raise NotImplementedError

    def unknown(self, out: Graph, values: list[V]) -> V:
        """The value that claims nothing (or an exception that ends the walk)."""
        raise NotImplementedError

    def elementwise(self, out: Graph, values: list[V]) -> V:
        """Where the kind of elementwise operation has no rule of its own."""
        return self.unknown(out, values)
