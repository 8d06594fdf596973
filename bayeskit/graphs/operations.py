"""What the operations of PyTensor mean, one row each in ``OPERATIONS``: a new row reaches every analysis.

A row says of which kind an operation is, which of its inputs its entries come from, and which axes it leaves alone.
Functions of the entries at one place have a row together, and the tables of `coefficients` and `exponents`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor import basic as ptb
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor, get_idx_list

from bayeskit.graphs.kronecker import KroneckerSolve
from bayeskit.graphs.nodes import applies, core_op
from bayeskit.types import Graph

__all__ = [
    "OPERATIONS",
    "Kind",
    "Meaning",
    "added_entries",
    "coefficients",
    "entry_sources",
    "exponents",
    "followed_axes",
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


# --- which axis of an input each of an output follows -----------------------------------------------------------------
_Axes = tuple[int | None, ...]


def _same(node: Apply, position: int) -> _Axes:
    return tuple(range(node.inputs[position].type.ndim))


def _whole(node: Apply, position: int) -> _Axes:
    """For each axis of the part that a node takes or changes, the axis of the input that it is; None of a selection."""
    of_index = node.inputs[2:] if isinstance(node.op, IncSubtensor) else node.inputs[1:]
    indices = [*get_idx_list([node.inputs[0], *of_index], node.op.idx_list), *[slice(None)] * node.inputs[0].type.ndim]
    axes = enumerate(indices[: node.inputs[0].type.ndim])
    return tuple(i if index == slice(None) else None for i, index in axes if isinstance(index, slice))


def _changed(node: Apply, position: int) -> _Axes:
    """Of an array changed in part, by the array and by what is put there, which may be stretched along an axis."""
    same, whole = _same(node, position), _whole(node, position)
    if position == 0:
        return tuple(i if i in whole else None for i in same)
    put = dict(zip(whole[len(whole) - len(same) :], zip(same, node.inputs[1].type.shape, strict=True), strict=True))
    lengths = enumerate(node.outputs[0].type.shape)
    return tuple(put[i][0] if n and put.get(i, (0, 0))[1] == n else None for i, n in lengths)


def _beside(node: Apply, position: int) -> _Axes:
    """All axes but those along which entries are mixed."""
    same, axis = _same(node, position), node.op.axis
    mixed = same if axis is None else [a % len(same) for a in np.ravel(axis)]
    return tuple(None if i in mixed else i for i in same)


def _kept(node: Apply, position: int) -> _Axes:
    return tuple(i for i in _beside(node, position) if i is not None)


# --- what is known of each operation ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Meaning:
    """What an operation does.

    ``kind`` may depend on the node. ``parts`` are the inputs that its entries come from, or that it is linear in, all
    where None; others are indices, shapes or conditions. ``axes`` gives, for each axis of the output, the axis of one
    of the parts that it follows, or None; without it nothing is known of axes.
    """

    kind: Kind | Callable[[Apply], Kind]
    axes: Callable[[Apply, int], _Axes] | None = None
    parts: tuple[int, ...] | None = (0,)


def _of_entries(node: Apply) -> Kind:
    if applies(node, ps.Switch):
        return Kind.CHOICE
    return Kind.LINEAR if coefficients(node) else Kind.PRODUCT if exponents(node) else Kind.FUNCTION


def _of_change(node: Apply) -> Kind:
    return Kind.JOIN if core_op(node).set_instead_of_inc else Kind.SUM


#: By the class of an operation, or one that it is derived from.
OPERATIONS: dict[type, Meaning] = {
    Elemwise: Meaning(_of_entries, _same, None),
    CheckAndRaise: Meaning(Kind.CHECK, _same),
    **dict.fromkeys((SpecifyShape, ViewOp), Meaning(Kind.MOVE, _same)),
    DimShuffle: Meaning(Kind.MOVE, lambda node, _: tuple(None if i == "x" else i for i in node.op.new_order)),
    ptb.Alloc: Meaning(Kind.MOVE, lambda n, k: (None,) * (len(n.inputs) - 1 - n.inputs[k].type.ndim) + _same(n, k)),
    ptb.ExtractDiag: Meaning(
        Kind.MOVE, lambda node, k: (*(i for i in _same(node, k) if i not in (node.op.axis1, node.op.axis2)), None)
    ),
    Subtensor: Meaning(Kind.MOVE, _whole),
    **dict.fromkeys((AdvancedSubtensor, ptb.Split, Reshape, JoinDims, SplitDims, Repeat), Meaning(Kind.MOVE)),
    **dict.fromkeys((ptb.TensorFromScalar, ptb.ScalarFromTensor), Meaning(Kind.MOVE)),
    ptb.Join: Meaning(Kind.JOIN, _beside, None),
    ptb.MakeVector: Meaning(Kind.JOIN, parts=None),
    IncSubtensor: Meaning(_of_change, _changed, (0, 1)),
    AdvancedIncSubtensor: Meaning(_of_change, parts=(0, 1)),
    Sum: Meaning(Kind.SUM, _kept),
    CAReduce: Meaning(Kind.OTHER, _kept),
    CumOp: Meaning(lambda node: Kind.SUM if core_op(node).mode == "add" else Kind.OTHER, _beside),
    **dict.fromkeys((Softmax, LogSoftmax), Meaning(Kind.OTHER, _beside)),
    Dot: Meaning(Kind.BILINEAR),
    **dict.fromkeys((Solve, SolveTriangular, CholeskySolve), Meaning(Kind.SOLVE, parts=(1,))),
    KroneckerSolve: Meaning(Kind.SOLVE),
}
_COEFFICIENTS = {ps.Sub: (1.0, -1.0), ps.Neg: (-1.0,), ps.Identity: (1.0,), ps.Second: (0.0, 1.0)}
_EXPONENTS = {ps.TrueDiv: (1.0, -1.0), ps.Reciprocal: (-1.0,), ps.Sqr: (2.0,), ps.Sqrt: (0.5,)}


def _meaning(op: Any) -> Meaning:
    return next((OPERATIONS[c] for c in type(op).__mro__ if c in OPERATIONS), Meaning(Kind.OTHER))


def kind_of(node: Apply) -> Kind:
    """The kind of operation that a node is."""
    kind = _meaning(core_op(node)).kind
    return kind if isinstance(kind, Kind) else kind(node)


def parts(node: Apply) -> tuple[int, ...]:
    """The inputs that the entries of a move, join or sum come from; the others are indices or shapes."""
    found = _meaning(core_op(node)).parts
    return tuple(range(len(node.inputs))) if found is None else found


def linear_argument(node: Apply) -> int | None:
    """Which input a solve is linear in, all others held fixed; None if there is none."""
    return parts(node)[0] if kind_of(node) is Kind.SOLVE else None


def followed_axes(out: Graph, position: int) -> _Axes | None:
    """For each axis of an output the axis of one of its node's inputs that it follows.

    An output follows an axis where its entries at i depend on the entries of the input at i only, in the same way for
    every i. An axis of the input that none follows is mixed. None where nothing is known.
    """
    node, op = out.owner, out.owner.op
    if isinstance(op, Blockwise):
        batch = op.batch_ndim(node)
        return (*range(batch), *[None] * (out.type.ndim - batch))
    axes = _meaning(op).axes
    return None if axes is None or position not in parts(node) else axes(node, position)


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
    data = np.ravel(var.data)
    if data.size > 1 and np.any(data != data[0]):
        return None
    for dtype in types[::-1]:
        data = data[:1].astype(dtype)
    return float(data[0])


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


def added_entries(node: Apply, inputs: Sequence[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Which entries of its second input a node adds to which of its first, both flat; None where it does otherwise."""
    op: Any = node.op
    if not isinstance(op, IncSubtensor | AdvancedIncSubtensor) or op.set_instead_of_inc:
        return None
    if getattr(op, "ignore_duplicates", False):
        return None
    first, second = (np.arange(int(np.prod(np.shape(v), dtype=int))).reshape(np.shape(v)) for v in inputs[:2])
    targets = first[tuple(get_idx_list([inputs[0], *inputs[2:]], op.idx_list))]
    return np.broadcast_to(second, targets.shape).ravel(), targets.ravel()


def sum_targets(node: Apply, shape: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
    """For each entry of what a ``Sum`` adds up, flat, the number of its sum; and the shape of the sums."""
    axes = range(len(shape)) if node.op.axis is None else [a % len(shape) for a in node.op.axis]
    sums = tuple(n for i, n in enumerate(shape) if i not in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    numbers = np.arange(int(np.prod(sums, dtype=int))).reshape(kept)
    return np.broadcast_to(numbers, shape).ravel(), sums
