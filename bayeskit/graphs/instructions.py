"""What each node of a PyTensor graph does, as instructions for NumPy.

A value spread over a shape (``fill``, ``alloc``) is a view that holds no memory; lengths that the types tell are not
read; a loop of PyTensor's over many small arrays is one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.link.c.op import COp
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.basic import Alloc
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor
from pytensor.tensor.utils import import_func_from_string

from bayeskit.graphs.batched_linalg import LARGEST, MANY, of_many
from bayeskit.graphs.clipping import clip
from bayeskit.graphs.many_arrays import of_many_arrays, of_plain_dtype
from bayeskit.graphs.stable_logistic import log1mexp, softplus

__all__ = ["Instruction", "NotEvaluable", "instructions_of", "one_by_one", "order", "performed", "read_by", "spread"]

_Call = Callable[[list[Any]], Any]


class NotEvaluable(Exception):
    """The graph has a node that only a compiled function can run: a loop, a branch, a random draw."""


@dataclass(eq=False)
class Instruction:
    """One call, from the list of arguments to the result: a list of results unless there is one output.

    Where it is one elementwise function of NumPy's, ``ufunc``, it may write over an argument.
    """

    call: _Call
    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    node: Apply | None = None  # that it runs, or a part of
    ufunc: np.ufunc | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    last: tuple[int, ...] = ()  # slots that nothing reads after this instruction


def _known(var: Variable) -> tuple[int, ...] | None:
    """The shape of a tensor, where its type says it."""
    shape = var.type.shape
    return None if None in shape else shape


def read_by(node: Apply) -> list[Variable]:
    """The inputs of a node whose values count: not those of which only a known shape is wanted."""
    op: Any = node.op
    kind = type(getattr(op, "scalar_op", op))  # asked of every node, twice: isinstance takes four times as long
    if kind in (ps.Second, Alloc) and _known(node.outputs[0]) is not None:
        return [node.inputs[1 if kind is ps.Second else 0]]
    told = _known(node.inputs[0]) if kind is Shape else node.inputs[0].type.shape[op.i] if kind is Shape_i else None
    return node.inputs if told is None else []


def order(outputs: Iterable[Variable], inputs: Iterable[Variable] = ()) -> Iterator[Apply]:
    """The nodes whose values ``outputs`` need, arguments first; ``inputs`` are given."""
    done = set(inputs)
    todo = list(outputs)
    while todo:
        var = todo[-1]
        node = var.owner
        if var in done or node is None:
            todo.pop()
            continue
        missing = [i for i in read_by(node) if i not in done and i.owner is not None]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        done.update(node.outputs)
        yield node


def performed(node: Apply) -> _Call:
    """PyTensor's own NumPy implementation, or an operation's own of many at once."""
    op: Any = node.op
    if isinstance(op, Blockwise) and hasattr(op.core_op, "of_many"):
        return partial(_of_many, node)
    op.prepare_node(node, None, None, "py")
    single = len(node.outputs) == 1
    many = of_many(node)
    laid_out = _added if isinstance(op, AdvancedIncSubtensor) else _laid_out

    def call(arguments: list[Any]) -> Any:
        if many is not None and max(a.size for a in arguments) >= MANY * arguments[0].shape[-1] ** 2:
            return many(*arguments)
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        # A value spread over a shape has strides of zero, with which BLAS cannot work.
        op.perform(node, [laid_out(a) for a in arguments], storage)
        return storage[0][0] if single else [s[0] for s in storage]

    return call


def _of_many(node: Apply, arguments: list[Any]) -> Any:
    op: Any = node.op
    op._check_runtime_broadcast(node, arguments)  # it refuses to stretch a length that is not declared as one
    return op.core_op.of_many(*arguments)


def one_by_one(node: Apply) -> bool:
    """Whether LAPACK is called for one array after the other, at a few microseconds each: by static shapes."""
    if not isinstance(node.op, Blockwise):
        return False
    op: Any = node.op
    if op.gufunc_spec is not None or getattr(op.core_op, "gufunc_spec", None) is not None:
        return False
    size = node.inputs[0].type.shape[-1] if node.inputs[0].type.ndim else None
    together = of_many(node) is not None and size is not None and size <= LARGEST
    return not together and of_many_arrays(node) is None


def _laid_out(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size > 1 and 0 in value.strides:
        return np.ascontiguousarray(value)
    return value


def _added(value: Any) -> Any:
    return of_plain_dtype(_laid_out(value)) if isinstance(value, np.ndarray) else value


def spread(node: Apply) -> _Call:
    """``fill`` and ``alloc``: one value at every place of a shape."""
    dtype, shape = node.outputs[0].type.dtype, _known(node.outputs[0])

    def cast(value: Any) -> Any:  # what is wider than PyTensor knows stays so
        return value if getattr(value, "dtype", None) == np.longdouble else np.asarray(value, dtype=dtype)

    if shape is not None:
        return lambda a: np.broadcast_to(cast(a[0]), shape)
    if isinstance(node.op, Alloc):
        return lambda a: np.broadcast_to(cast(a[0]), tuple(int(k) for k in a[1:]))
    return lambda a: np.broadcast_to(cast(a[1]), np.broadcast_shapes(np.shape(a[0]), np.shape(a[1])))


def _ufunc(node: Apply) -> np.ufunc | None:
    """The NumPy function of an elementwise node, where it gives the node's dtype by itself."""
    op: Any = node.op
    spec = getattr(op, "nfunc_spec", None)
    if spec is None or spec[2] != 1 or (spec[1] != len(node.inputs) and not isinstance(op.scalar_op, ps.Add | ps.Mul)):
        return None
    function = op.nfunc if op.nfunc is not None else import_func_from_string(spec[0])
    dtypes, out = [i.type.dtype for i in node.inputs], node.outputs[0].type.dtype
    mixed = len(dtypes) == 2 and "float64" in dtypes and "complex128" not in dtypes
    alike = out == "float64" and (mixed or all(d == "float64" for d in dtypes))
    compares = isinstance(op.scalar_op, ps.LogicalComparison | ps.FixedLogicalComparison)
    truth = out == "bool" and (compares or all(d == "bool" for d in dtypes))
    return function if isinstance(function, np.ufunc) and (alike or truth) else None


def _elementwise(node: Apply) -> Iterator[Instruction]:
    op: Any = node.op
    reads, (out,) = tuple(read_by(node)), node.outputs
    scalar_op, dtype = op.scalar_op, out.type.dtype
    if isinstance(scalar_op, ps.Second):
        yield Instruction(spread(node), reads, (out,))
        return
    ufunc = _ufunc(node)
    if isinstance(scalar_op, Softplus | Log1mexp) and reads[0].type.dtype == dtype == "float64":
        function = softplus if isinstance(scalar_op, Softplus) else log1mexp
        yield Instruction(lambda a: function(a[0]), reads, (out,))
        return
    if ufunc is None and not isinstance(scalar_op, ps.Cast | ps.Identity | ps.Clip | ps.Switch):
        yield Instruction(performed(node), reads, (out,))
        return
    if places := _may_stretch(node):
        yield Instruction(lambda a: _require_unstretched(node, a, places), reads, ())
    if ufunc is None and isinstance(scalar_op, ps.Switch):
        yield Instruction(lambda a: np.asarray(np.where(*a), dtype=dtype), reads, (out,))
    elif ufunc is None and isinstance(scalar_op, ps.Clip):
        # It has no NumPy function in PyTensor, and every distance of a process has one.
        yield Instruction(lambda a: np.asarray(clip(*a), dtype=dtype), reads, (out,))
    elif ufunc is None and node.inputs[0].type.dtype == dtype:
        yield Instruction(lambda a: a[0], reads, (out,))
    elif ufunc is None:
        yield Instruction(lambda a: np.asarray(a[0]).astype(dtype), reads, (out,))
    elif len(reads) == 1 and ufunc.nin == 2:  # a sum of one term
        yield Instruction(lambda a: a[0], reads, (out,))
    elif len(reads) == ufunc.nin:
        yield Instruction(lambda a: np.asarray(ufunc(*a)), reads, (out,), ufunc=ufunc)
    else:  # a sum or a product of several
        total = reads[0]
        for k, var in enumerate(reads[1:], 2):
            result = out if k == len(reads) else out.type()
            yield Instruction(lambda a: np.asarray(ufunc(a[0], a[1])), (total, var), (result,), ufunc=ufunc)
            total = result


@cache
def _is_function(kind: type) -> bool:
    return next(c for c in kind.__mro__ if "make_thunk" in vars(c)) in (Op, COp)


@cache
def _has_more_inside(kind: type) -> bool:  # asked once a kind: of an abstract class it takes a microsecond or more
    return issubclass(kind, HasInnerGraph | RandomVariable)


def instructions_of(node: Apply, evaluator: Callable[..., Callable[..., Any]]) -> Iterator[Instruction]:
    """What a node does, NotEvaluable where only a compiled function can run it.

    ``evaluator`` makes a function of the inputs and outputs of a graph within it.
    """
    op: Any = node.op
    reads, outputs = tuple(read_by(node)), tuple(node.outputs)
    inner = getattr(op, "core_op", op)
    if isinstance(inner, OpFromGraph) and (inner is op or op.batch_ndim(node) == 0):
        function, single = evaluator(inner.fgraph.inputs, inner.fgraph.outputs), len(outputs) == 1
        yield Instruction(lambda a: function(*a)[0] if single else function(*a), reads, outputs)
        return
    together = of_many_arrays(node)
    if together is None and (not _is_function(op.__class__) or _has_more_inside(inner.__class__)):
        raise NotEvaluable(f"{op} is more than a function of its arguments")
    if op.destroy_map:
        raise NotEvaluable(f"{op} writes over its arguments")
    if isinstance(op, Elemwise) and len(outputs) == 1:
        yield from _elementwise(node)
    elif isinstance(op, Alloc):
        yield Instruction(spread(node), reads, outputs)
    elif together is not None:
        yield Instruction(together, reads, outputs)
    elif isinstance(op, Shape | Shape_i) and not reads:
        shape = node.inputs[0].type.shape
        value = np.asarray(shape if isinstance(op, Shape) else shape[op.i], dtype="int64")
        yield Instruction(lambda a: value, (), outputs)
    elif isinstance(op, CAReduce) and node.inputs[0].type == outputs[0].type:
        yield Instruction(lambda a: a[0], reads, outputs)
    elif isinstance(op, CAReduce):
        dtype = outputs[0].type.dtype
        reduce = partial(op.ufunc.reduce, axis=op.axis, dtype=op.acc_dtype or dtype)
        yield Instruction(lambda a: np.asarray(reduce(a[0]), dtype=dtype), reads, outputs)
    else:
        yield Instruction(performed(node), reads, outputs)


def _may_stretch(node: Apply) -> list[tuple[int, list[int]]]:
    """The axes of which the types leave a length that may turn out to be one, each with the inputs that it is of."""
    axes = enumerate(zip(*(i.type.shape for i in node.inputs), strict=True))
    wide = [(axis, [k for k, n in enumerate(lengths) if n != 1]) for axis, lengths in axes if None in lengths]
    return [(axis, several) for axis, several in wide if len(several) > 1]


def _require_unstretched(node: Apply, arguments: list[Any], places: list[tuple[int, list[int]]]) -> None:
    """PyTensor refuses to stretch a length that is not declared as one; its own check takes longer than a product."""
    for axis, several in places:
        first, *others = [arguments[k].shape[axis] for k in several]
        if any(n != first for n in others):
            node.op._check_runtime_broadcast(node, arguments)
            return
