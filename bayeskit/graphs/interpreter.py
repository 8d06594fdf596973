"""A PyTensor graph as a list of steps for NumPy: no rewriting and no compilation.

``pytensor.function`` clones a graph, rewrites it, checks it and links it, which takes milliseconds; a graph of some
tens of nodes that is evaluated a handful of times is better run as it stands. Three things make that fast where arrays
are long: what does not depend on the inputs is computed at the first call only; a value spread over a shape (``fill``,
``alloc``) is a view that holds no memory; and an elementwise step writes over an argument that nobody reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.link.c.op import COp
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.utils import import_func_from_string

from bayeskit.graphs.batched_linalg import LARGEST, MANY, of_many

__all__ = ["NotEvaluable", "evaluator", "one_by_one", "order"]

VIEWS = (DimShuffle, Subtensor, Reshape, SpecifyShape, CheckAndRaise)  # the result may be the first argument's memory
WORTHWHILE = 4096  # numbers in an array from which its memory is worth using again

_Call = Callable[[list[Any]], Any]


class NotEvaluable(Exception):
    """The graph has a node that only a compiled function can run: a loop, a branch, a random draw."""


@dataclass(eq=False)
class Step:
    """One call: values in, values out.

    Attributes
    ----------
    call : callable
        From the list of arguments to the result (a list of results where there are several outputs).
    inputs, outputs : tuple of Variable
    view : bool
        Whether the result may share memory with the first argument; ``None``: with any argument.
    ufunc : numpy.ufunc or None
        Where ``call`` is one elementwise function, which may write over an argument.
    """

    call: _Call
    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    view: bool | None = False
    ufunc: np.ufunc | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    last: tuple[int, ...] = ()  # slots that nothing reads after this step
    buffers: tuple[int, ...] = field(default=())  # arguments that may be written over


def _known(var: Variable) -> tuple[int, ...] | None:
    """The shape of a tensor, where its type says it."""
    shape = var.type.shape
    return None if None in shape else shape


def _reads(node: Apply) -> list[Variable]:
    """The inputs of a node whose values count: not those of which only a known shape is wanted."""
    op: Any = node.op
    fill = isinstance(op, Elemwise) and isinstance(op.scalar_op, ps.Second)
    if (fill or isinstance(op, Alloc)) and _known(node.outputs[0]) is not None:
        return [node.inputs[1 if fill else 0]]
    if (isinstance(op, Shape) and _known(node.inputs[0]) is not None) or (
        isinstance(op, Shape_i) and node.inputs[0].type.shape[op.i] is not None
    ):
        return []
    return list(node.inputs)


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
        missing = [i for i in _reads(node) if i not in done and i.owner is not None]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        done.update(node.outputs)
        yield node


# -- what each node does ---------------------------------------------------------------------------------------------
def _performed(node: Apply) -> _Call:
    """PyTensor's own NumPy implementation."""
    op: Any = node.op
    op.prepare_node(node, None, None, "py")
    single = len(node.outputs) == 1

    many = of_many(node)

    def call(arguments: list[Any]) -> Any:
        if many is not None and _many_and_small(arguments):
            return many(*arguments)
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        # A value spread over a shape has strides of zero, with which BLAS cannot work.
        op.perform(node, [_laid_out(a) for a in arguments], storage)
        return storage[0][0] if single else [s[0] for s in storage]

    return call


def _side_by_side(node: Apply) -> _Call | None:
    """``concatenate`` and ``reshape`` of many arrays at once, which PyTensor does one by one."""
    if not isinstance(node.op, Blockwise):
        return None
    op: Any = node.op.core_op
    inner = [len(axes) for axes in node.op.inputs_sig]
    if isinstance(op, Join):
        return lambda a: _joined(a, inner, op.axis)
    if isinstance(op, Reshape):
        return lambda a: _reshaped(a[0], a[1], inner[0])
    return None


def _joined(arrays: list[Any], inner: list[int], axis: int) -> np.ndarray:
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - n] for a, n in zip(arrays, inner, strict=True)))
    spread = [np.broadcast_to(a, (*batch, *a.shape[a.ndim - n :])) for a, n in zip(arrays, inner, strict=True)]
    return np.concatenate(spread, axis=axis - inner[0] if axis >= 0 else axis)


def _reshaped(value: Any, shapes: Any, inner: int) -> np.ndarray:
    (shape,) = np.unique(shapes.reshape(-1, shapes.shape[-1]), axis=0)
    return np.reshape(value, (*value.shape[: value.ndim - inner], *shape))


def one_by_one(node: Apply) -> bool:
    """Whether a node is run one array after the other, at a few microseconds each: by static shapes."""
    if not isinstance(node.op, Blockwise):
        return False
    op: Any = node.op
    if op.gufunc_spec is not None or getattr(op.core_op, "gufunc_spec", None) is not None:
        return False
    size = node.inputs[0].type.shape[-1] if node.inputs[0].type.ndim else None
    together = of_many(node) is not None and size is not None and size <= LARGEST
    return not together and _side_by_side(node) is None


def _many_and_small(arguments: list[Any]) -> bool:
    """Whether there are many matrices (the first argument, or right-hand sides to solve for), and all of them small."""
    size = arguments[0].shape[-1]
    return size <= LARGEST and max(a.size for a in arguments) >= MANY * size**2


def _unpacked(function: Callable[..., list[Any]]) -> _Call:
    def call(arguments: list[Any]) -> Any:
        results = function(*arguments)
        return results[0] if len(results) == 1 else results

    return call


def _laid_out(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size > 1 and 0 in value.strides:
        return np.ascontiguousarray(value)
    return value


def _spread(node: Apply) -> _Call:
    """``fill`` and ``alloc``: one value at every place of a shape."""
    dtype, shape = node.outputs[0].type.dtype, _known(node.outputs[0])
    if shape is not None:
        return lambda a: np.broadcast_to(np.asarray(a[0], dtype=dtype), shape)
    if isinstance(node.op, Alloc):
        return lambda a: np.broadcast_to(np.asarray(a[0], dtype=dtype), tuple(int(k) for k in a[1:]))
    return lambda a: np.broadcast_to(np.asarray(a[1], dtype=dtype), np.broadcast_shapes(np.shape(a[0]), np.shape(a[1])))


def _ufunc(node: Apply) -> np.ufunc | None:
    """The NumPy function of an elementwise node, where it gives the node's dtype by itself."""
    op: Any = node.op
    spec = getattr(op, "nfunc_spec", None)
    if spec is None or spec[2] != 1 or (spec[1] != len(node.inputs) and not isinstance(op.scalar_op, ps.Add | ps.Mul)):
        return None
    function = op.nfunc if op.nfunc is not None else import_func_from_string(spec[0])
    dtypes = [i.type.dtype for i in node.inputs]
    out = node.outputs[0].type.dtype
    alike = out == "float64" and (
        all(d == "float64" for d in dtypes) or (len(dtypes) == 2 and "float64" in dtypes and "complex128" not in dtypes)
    )
    truth = out == "bool" and (isinstance(op.scalar_op, ps.LogicalComparison) or all(d == "bool" for d in dtypes))
    return function if isinstance(function, np.ufunc) and (alike or truth) else None


def _elementwise(node: Apply) -> Iterator[Step]:
    op: Any = node.op
    reads, (out,) = tuple(_reads(node)), node.outputs
    scalar_op, dtype = op.scalar_op, out.type.dtype
    if isinstance(scalar_op, ps.Second):
        yield Step(_spread(node), reads, (out,), True if len(reads) == 1 else None)
        return
    ufunc = _ufunc(node)
    if ufunc is None and not isinstance(scalar_op, ps.Cast | ps.Identity | ps.Clip):
        yield Step(_performed(node), reads, (out,))
        return
    if not _stretches_as_declared(node):
        yield Step(lambda a: op._check_runtime_broadcast(node, a), reads, ())
    if ufunc is None and isinstance(scalar_op, ps.Clip):
        # It has no NumPy function in PyTensor, and every distance of a process has one.
        yield Step(lambda a: np.asarray(np.minimum(np.maximum(a[0], a[1]), a[2]), dtype=dtype), reads, (out,))
    elif ufunc is None and node.inputs[0].type.dtype == dtype:
        yield Step(lambda a: a[0], reads, (out,), True)
    elif ufunc is None:
        yield Step(lambda a: np.asarray(a[0]).astype(dtype), reads, (out,))
    elif len(reads) == 1 and ufunc.nin == 2:  # a sum of one term
        yield Step(lambda a: a[0], reads, (out,), True)
    elif len(reads) == ufunc.nin:
        yield Step(lambda a: np.asarray(ufunc(*a)), reads, (out,), ufunc=ufunc)
    else:  # a sum or a product of several
        total = reads[0]
        for k, var in enumerate(reads[1:], 2):
            result = out if k == len(reads) else out.type()
            yield Step(lambda a: np.asarray(ufunc(a[0], a[1])), (total, var), (result,), ufunc=ufunc)
            total = result


def _steps(node: Apply) -> Iterator[Step]:
    op: Any = node.op
    reads, outputs = tuple(_reads(node)), tuple(node.outputs)
    home = next(c for c in type(op).__mro__ if "make_thunk" in vars(c))
    inner = getattr(op, "core_op", op)
    if isinstance(inner, OpFromGraph) and (inner is op or op.batch_ndim(node) == 0):
        yield Step(_unpacked(evaluator(inner.fgraph.inputs, inner.fgraph.outputs)), reads, outputs)
        return
    if home not in (Op, COp) or isinstance(inner, HasInnerGraph | RandomVariable):
        raise NotEvaluable(f"{op} is more than a function of its arguments")
    if op.destroy_map:
        raise NotEvaluable(f"{op} writes over its arguments")
    if isinstance(op, Elemwise) and len(outputs) == 1:
        yield from _elementwise(node)
    elif isinstance(op, Alloc):
        yield Step(_spread(node), reads, outputs, True)
    elif (together := _side_by_side(node)) is not None:
        yield Step(together, reads, outputs, None)
    elif isinstance(op, Shape | Shape_i) and not reads:
        shape = node.inputs[0].type.shape
        value = np.asarray(shape if isinstance(op, Shape) else shape[op.i], dtype="int64")
        yield Step(lambda a: value, (), outputs, None)
    elif isinstance(op, CAReduce) and node.inputs[0].type == outputs[0].type:
        yield Step(lambda a: a[0], reads, outputs, True)
    elif isinstance(op, CAReduce):
        dtype = outputs[0].type.dtype
        accumulator = op.acc_dtype or dtype
        yield Step(
            lambda a: np.asarray(op.ufunc.reduce(a[0], axis=op.axis, dtype=accumulator), dtype=dtype), reads, outputs
        )
    else:
        yield Step(_performed(node), reads, outputs, True if isinstance(op, VIEWS) else None)


def _stretches_as_declared(node: Apply) -> bool:
    """Whether the types leave no length that may turn out to be one; PyTensor refuses to stretch such a dimension."""
    for lengths in zip(*(i.type.shape for i in node.inputs), strict=True):
        if None in lengths and sum(k != 1 for k in lengths) > 1:
            return False
    return True


# -- the program -----------------------------------------------------------------------------------------------------
def _merged(nodes: Iterable[Apply], outputs: Sequence[Variable]) -> tuple[list[Apply], dict[Variable, Variable]]:
    """The nodes without those that compute again what another computes, and what stands for the outputs left out."""
    same: dict[Variable, Variable] = {}
    first: dict[Any, Any] = {}

    def stands_for(var: Variable) -> Variable:
        if isinstance(var, Constant) and np.size(var.data) <= WORTHWHILE and hasattr(var.type, "dtype"):
            return first.setdefault((var.type, np.asarray(var.data).tobytes()), var)
        return same.get(var, var)

    kept = []
    for node in nodes:
        twin = first.setdefault((node.op, tuple(stands_for(i) for i in node.inputs)), node)
        if twin is node:
            kept.append(node)
        else:
            same.update(zip(node.outputs, twin.outputs, strict=True))
    return kept, same


class _Memory:
    """Which values may share memory, and which step reads each for the last time."""

    def __init__(self, steps: Sequence[Step], lasting: Iterable[Variable]) -> None:
        self.owner: dict[Variable, Variable] = {}  # the value whose memory a view is of
        self.shared: set[Variable] = set()  # owners whose memory others may hold without our knowing
        self.fresh = {o for s in steps if s.view is False for o in s.outputs}
        for step in steps:
            owners = [self.owner.get(i, i) for i in step.inputs]
            if step.view is True:
                self.owner.update(dict.fromkeys(step.outputs, owners[0]))
            elif step.view is None:
                self.shared.update(owners)
                self.shared.update(step.outputs)
        self.lasting = {self.owner.get(v, v) for v in lasting}
        self.last: dict[Variable, int] = {}
        self.last_of_owner: dict[Variable, int] = {}
        for k, step in enumerate(steps):
            for var in step.inputs:
                self.last[var] = k
                self.last_of_owner[self.owner.get(var, var)] = k

    def may_be_written_over(self, var: Variable, step: int) -> bool:
        return (
            var in self.fresh and var not in self.shared and var not in self.lasting and self.last_of_owner[var] == step
        )


def evaluator(inputs: Sequence[Variable], outputs: Sequence[Variable], *, merge: bool = False) -> Callable[..., Any]:
    """A function from values of ``inputs`` to the list of values of ``outputs``.

    Parameters
    ----------
    inputs, outputs : sequence of tensor
    merge : bool
        Whether nodes that compute the same are looked for, and computed once.

    Raises
    ------
    NotEvaluable
        If only a compiled function can run the graph.

    Notes
    -----
    What depends on constants only is held for as long as the function is.
    """
    nodes = list(order(outputs, inputs))
    same: dict[Variable, Variable] = {}
    if merge:
        nodes, same = _merged(nodes, outputs)
    steps = [s for n in nodes for s in _steps(n)]
    if same:
        for step in steps:
            step.inputs = tuple(same.get(i, i) for i in step.inputs)
    wanted = [same.get(o, o) for o in outputs]
    moving = set(inputs)
    once, always = [], []
    for step in steps:
        if any(i in moving or isinstance(i, SharedVariable) for i in step.inputs):
            moving.update(step.outputs)
            always.append(step)
        else:
            once.append(step)
    slots: dict[Variable, int] = {}
    for var in [*inputs, *wanted, *(v for s in steps for v in (*s.inputs, *s.outputs))]:
        slots.setdefault(var, len(slots))
    start: list[Any] = [None] * len(slots)
    shared: list[tuple[int, Any]] = []
    for var, slot in slots.items():
        if isinstance(var, Constant):
            start[slot] = var.data
        elif isinstance(var, SharedVariable) and var not in inputs:
            shared.append((slot, var))
        elif var.owner is None and var not in moving and not any(var in s.outputs for s in steps):
            raise NotEvaluable(f"no value for {var}")
    memory = _Memory(always, wanted)
    produced = {o for s in always for o in s.outputs}
    for k, step in enumerate(always):
        step.last = tuple(
            slots[v] for v in dict.fromkeys(step.inputs) if v in produced and memory.last[v] == k and v not in wanted
        )
        if step.ufunc is not None:
            step.buffers = tuple(p for p, v in enumerate(step.inputs) if memory.may_be_written_over(v, k))
    for step in steps:
        step.reads, step.writes = tuple(slots[v] for v in step.inputs), tuple(slots[v] for v in step.outputs)
    kept = {i for s in always for i in s.inputs} | set(wanted)
    passing = [slots[o] for s in once for o in s.outputs if o not in kept]
    types = [(slots[v], getattr(v.type, "dtype", None)) for v in inputs]
    # What may be somebody else's memory is copied on return, so that no output changes with another.
    results = [
        (slots[v], v in memory.fresh and v not in memory.shared and v not in wanted[:k]) for k, v in enumerate(wanted)
    ]
    pending = list(once)

    def function(*arguments: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            if pending:
                _run(pending, start)
                for slot in passing:
                    start[slot] = None
                pending.clear()
            values = start.copy()
            for (slot, dtype), value in zip(types, arguments, strict=True):
                values[slot] = value if dtype is None else np.asarray(value, dtype=dtype)
            for slot, var in shared:
                values[slot] = var.get_value(borrow=True)
            _run(always, values)
        return [values[slot] if own else _own(values[slot]) for slot, own in results]

    return function


def _own(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray | np.generic) else value


def _run(steps: Sequence[Step], values: list[Any]) -> None:
    for step in steps:
        arguments = [values[r] for r in step.reads]
        result = _over_an_argument(step, arguments) if step.buffers else None
        if result is None:
            result = step.call(arguments)
        if len(step.writes) == 1:
            values[step.writes[0]] = result
        else:
            for slot, value in zip(step.writes, result or (), strict=True):
                values[slot] = value
        del arguments, result
        for slot in step.last:
            values[slot] = None


def _over_an_argument(step: Step, arguments: list[Any]) -> np.ndarray | None:
    """The result in the memory of an argument that is not needed again; None where none has its size."""
    assert step.ufunc is not None
    for k in step.buffers:
        buffer = arguments[k]
        if buffer.size < WORTHWHILE or buffer.dtype != np.float64 or step.outputs[0].type.dtype != "float64":
            continue
        if all(a.ndim == 0 or a.shape == buffer.shape for a in arguments) or buffer.shape == np.broadcast_shapes(
            *(a.shape for a in arguments)
        ):
            result: np.ndarray = step.ufunc(*arguments, out=buffer)
            return result
    return None
