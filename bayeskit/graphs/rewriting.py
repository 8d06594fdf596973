"""Graphs of PyTensor made into other graphs: written out, widened, with nodes replaced; and what depends on what.

PyTensor keeps Python floats such as 15.0 as float32 when that is exact and small integers as int8, and then computes
log(15.0) or gammaln(2.0) in single precision: off by 1e-8 to 1e-7. :func:`widen` makes every such constant float64.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue, local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors, graph_inputs, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Cast, upcast
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Alloc, Join, MakeVector, infer_shape_db
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.rewriting.basic import topo_constant_folding
from pytensor.tensor.rewriting.shape import ShapeFeature
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import TensorType

from bayeskit.types import Graph

__all__ = [
    "apart_from_checks",
    "depends_on",
    "entry",
    "inline",
    "shapes_of",
    "substitute",
    "wide_leaf",
    "widen",
    "with_constant_data",
    "with_known_shapes",
    "without_checks",
]

NARROW = frozenset({"bool", "int8", "int16", "uint8", "uint16", "float16", "float32"})


def _rebuild(node: Apply, inputs: list[Variable], memo: dict[Variable, Variable]) -> None:
    """Note the outputs of a node with other inputs, but those that something is noted for already.

    Cast to the type that it has by now, an input is itself: computed, it would be a copy of all data.
    """
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        cast = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast)
        same = cast and inputs[0].type.dtype == node.outputs[0].type.dtype
        for old, new in zip(node.outputs, inputs if same else _with_inputs(node, inputs).outputs, strict=True):
            memo.setdefault(old, new)


def _with_inputs(node: Apply, inputs: list[Variable]) -> Apply:
    """A node with other inputs; where it is an ``alloc`` of the same lengths, without finding them again.

    Made anew, it would rewrite the graphs of its lengths to see which are constant.
    """
    if isinstance(node.op, Alloc) and all(new is old for new, old in zip(inputs[1:], node.inputs[1:], strict=True)):
        old, new, (out,) = node.inputs[0].type, inputs[0].type, node.outputs
        if isinstance(old, TensorType) and isinstance(new, TensorType) and new.shape == old.shape:
            return Apply(node.op, inputs, [out.type.clone(dtype=new.dtype)()])
    return node.clone_with_new_inputs(inputs, strict=False)


@cache
def _has_graph_inside(kind: type) -> bool:  # asked of every node, many times: isinstance of an abstract class is slow
    return issubclass(kind, OpFromGraph)


def _alone(node: Apply) -> Any:
    """The operation of a node, without a ``Blockwise`` around it that has nothing to repeat: gradients make some."""
    op: Any = node.op
    return op.core_op if isinstance(op, Blockwise) and not op.batch_ndim(node) else op


def inline(outputs: list[Variable]) -> list[Variable]:
    """The same graphs with every ``OpFromGraph`` (einsum, pad, …) written out, so that proofs can see inside."""
    while any(v.owner and _has_graph_inside(_alone(v.owner).__class__) for v in ancestors(outputs)):
        memo: dict[Variable, Variable] = {}
        for node in toposort(outputs):
            inputs = [memo.get(i, i) for i in node.inputs]
            op: Any = _alone(node)
            if _has_graph_inside(op.__class__):
                bound = op.fgraph.bind(dict(zip(op.fgraph.inputs, inputs, strict=True)))
                memo.update(zip(node.outputs, bound, strict=True))
            else:
                _rebuild(node, inputs, memo)
        outputs = [memo.get(o, o) for o in outputs]
    return outputs


def widen(outputs: list[Variable]) -> list[Variable]:
    """The same graphs with every narrow float constant, and every narrow input of a float function, as float64.

    What is no constant and was wide before it was cast is rounded as the model says: its density is one of steps.
    What PyMC maps onto an interval stays in it: rounded, its s·b + (1 − s)·a may lie below a, where the density is 0.
    """
    memo: dict[Variable, Variable] = {}
    for node in toposort(outputs):
        inputs = [memo[i] if i in memo else wide_leaf(i) for i in node.inputs]
        op: Any = node.op
        if isinstance(op, Elemwise):
            if isinstance(op.scalar_op, Cast) and op.scalar_op.o_type.dtype in ("float32", "float16"):
                (old,), (new,), dtype = node.inputs, inputs, op.scalar_op.o_type.dtype
                exact = np.can_cast(old.type.dtype, dtype) or all(isinstance(i, Constant) for i in graph_inputs([old]))
                memo[node.outputs[0]] = pt.cast(new if exact else pt.cast(new, dtype), "float64")
                continue
            makes_float = any(o.type.dtype.startswith("float") for o in node.outputs)
            dtypes = {i.type.dtype for i in inputs}
            if makes_float and dtypes <= NARROW and upcast(*dtypes) in NARROW:
                inputs = [pt.cast(i, "float64") if i.type.dtype in NARROW - {"bool"} else i for i in inputs]
        if isinstance(op, RandomVariable) and inputs != node.inputs:
            # Its outputs are of the types they were; made anew, it would infer their shapes again, by rewriting graphs.
            memo.update(zip(node.outputs, Apply(op, inputs, [o.type() for o in node.outputs]).outputs, strict=True))
            continue
        if isinstance(op, CAReduce) and not node.inputs[0].type.ndim:
            # PyMC's CAR sums a scalar over its last axis, which NumPy refuses.
            memo[node.outputs[0]] = pt.cast(inputs[0], node.outputs[0].type.dtype)
            continue
        if isinstance(op, MakeVector):
            memo[node.outputs[0]] = MakeVector(upcast(*[i.type.dtype for i in inputs])).make_node(*inputs).outputs[0]
            continue
        if _has_graph_inside(op.__class__):
            # Its inner graph has declared types; the values are exact in either precision, so they go in as declared.
            inputs = [_of_dtype(new, old) for new, old in zip(inputs, node.inputs, strict=True)]
        _rebuild(node, inputs, memo)
        if ends := [memo.get(e, wide_leaf(e)) for e in _ends_of_interval(node)]:
            memo[node.out] = pt.clip(memo.get(node.out, node.out), pt.minimum(*ends), pt.maximum(*ends))
    return [memo.get(o, wide_leaf(o)) for o in outputs]


def _ends_of_interval(node: Apply) -> list[Variable]:
    """The ends of a node s·b + (1 − s)·a with a logistic s; none of any other."""
    match [i.owner.inputs for i in node.inputs if i.owner and i.owner.op == pt.mul and node.op == pt.add]:
        case [[share, b], [rest, a]] if share.owner and share.owner.op == pt.sigmoid and rest.owner:
            return [a, b] if rest.owner.op == pt.sub and rest.owner.inputs[1] is share else []
    return []


def wide_leaf(var: Variable) -> Variable:
    if isinstance(var.type, SparseTensorType):  # widened where it is multiplied
        return var
    if getattr(var.type, "dtype", "") in ("float32", "float16"):
        if isinstance(var, Constant):
            return pt.constant(np.asarray(var.data, dtype="float64"), name=var.name)
        return pt.cast(var, "float64")
    return var


def _of_dtype(new: Variable, old: Variable) -> Variable:
    same = getattr(new.type, "dtype", None) == getattr(old.type, "dtype", None)
    return new if same else pt.cast(new, old.type.dtype)


def depends_on(variables: Iterable[Variable], targets: Iterable[Variable]) -> dict[Variable, frozenset[Variable]]:
    """For every node above ``variables``, which of ``targets`` its value depends on; a shape depends on none."""
    wanted = set(targets)
    found: dict[Variable, frozenset[Variable]] = {v: frozenset([v]) for v in wanted}
    empty: frozenset[Variable] = frozenset()
    for node in toposort(list(variables)):
        read = () if isinstance(node.op, Shape | Shape_i) else node.inputs
        union = empty.union(*[found.get(i, empty) for i in read])
        for out in node.outputs:
            if out not in wanted:
                found[out] = union
    return found


def with_constant_data(graphs: list[Variable], but: Collection[Variable] = ()) -> list[Variable]:
    """The same graphs with shared data as constants, whose lengths are known and which rewrites can compute with."""
    leaves = [v for v in graph_inputs(graphs) if v not in but]
    shared = [v for v in leaves if isinstance(v, SharedVariable) and isinstance(v.type, TensorType)]
    constants: dict[Variable, Any] = {v: pt.constant(v.get_value(), name=v.name) for v in shared}
    return substitute(graphs, constants)


def with_known_shapes(graphs: list[Variable]) -> list[Variable]:
    """The same graphs with numbers for the shapes that follow from types and constants.

    Vectorised, each shape that is asked for is an array of its own, and PyTensor rewrites all that is above it to find
    its type: seconds for the gradient of a factorisation.
    """
    asked = [v for v in ancestors(graphs) if v.owner and isinstance(v.owner.op, Shape | Shape_i)]
    told = {v: known for v in asked if (known := _told_by_type(v)) is not None}
    if told:
        graphs = substitute(graphs, told)
        asked = [v for v in ancestors(graphs) if v.owner and isinstance(v.owner.op, Shape | Shape_i)]
    if not asked:
        return graphs
    fgraph = _inferred(asked)
    topo_constant_folding.rewrite(fgraph)
    pairs = zip(asked, fgraph.outputs, strict=True)
    return substitute(graphs, {old: new for old, new in pairs if isinstance(new, Constant)})


def shapes_of(variables: Iterable[Variable]) -> list[Variable]:
    """The shapes of variables, as graphs that do not compute the variables."""
    return list(_inferred([pt.shape(v) for v in variables]).outputs)


def _inferred(shapes: list[Variable]) -> FunctionGraph:
    fgraph = FunctionGraph(outputs=shapes, features=[ShapeFeature()], clone=True)
    infer_shape_db.default_query.rewrite(fgraph)
    return fgraph


def _told_by_type(asked: Any) -> Variable | None:
    """A shape, or a length, that the type of what is asked tells."""
    op, shape = asked.owner.op, asked.owner.inputs[0].type.shape
    value = shape if isinstance(op, Shape) else shape[op.i : op.i + 1]
    if None in value:
        return None
    return pt.constant(np.array(value if isinstance(op, Shape) else value[0], dtype=asked.type.dtype))


def substitute(graphs: list[Variable], replacements: Mapping[Variable, Variable]) -> list[Variable]:
    """Graphs with some nodes replaced (data for observed values), rebuilding the nodes whose types change with it."""
    memo: dict[Variable, Variable] = dict(replacements)
    for node in toposort(graphs):
        _rebuild(node, [memo.get(i, i) for i in node.inputs], memo)
    return [memo.get(g, g) for g in graphs]


def apart_from_checks(graph: Variable) -> tuple[Variable, list[Variable], list[Any]]:
    """A graph without its assertions and parameter checks; their conditions; and the operations that make them."""
    memo: dict[Variable, Variable] = {}
    conditions: list[Variable] = []
    operations: list[Any] = []
    for node in toposort([graph]):
        inputs = [memo.get(i, i) for i in node.inputs]
        if isinstance(node.op, CheckAndRaise):
            memo[node.outputs[0]] = inputs[0]
            conditions += inputs[1:]
            operations += [node.op] * len(inputs[1:])
        else:
            _rebuild(node, inputs, memo)
    return memo.get(graph, graph), conditions, operations


def without_checks(graphs: list[Variable]) -> list[Variable]:
    """PyMC's parameter checks as −∞ instead of an error: one bad point must not stop a batch."""
    memo: dict[Variable, Variable] = {}
    for node in toposort(graphs):
        _rebuild(node, [memo.get(i, i) for i in node.inputs], memo)
        if isinstance(node.op, CheckParameterValue):
            (out,) = node.outputs
            checked: Any = memo.get(out, out).owner
            if choice := local_check_parameter_to_ninf_switch.transform(None, checked):
                memo[out] = choice[0]
    return [memo.get(g, g) for g in graphs]


def entry(graph: Any, index: int, axis: int) -> Graph:
    """``graph[..., index, ...]`` along an axis, as the graph of that entry alone.

    A stack of K densities, multiplied by weights and summed, is then K sums that have nothing to do with each other.
    """
    if graph.type.shape[axis] == 1:
        index = 0
    node = graph.owner
    op: Any = None if node is None else node.op
    if isinstance(op, Elemwise):
        return op(*[entry(i, index, axis) for i in node.inputs])
    if isinstance(op, DimShuffle):
        below = op.new_order[axis]
        order = [o for i, o in enumerate(op.new_order) if i != axis]
        if below == "x":
            return node.inputs[0].dimshuffle(order)
        picked = entry(node.inputs[0], index, below)
        return picked.dimshuffle([o if o == "x" else o - (o > below) for o in order])
    if isinstance(op, Alloc):
        value, *shape = node.inputs
        below = axis - (graph.type.ndim - value.type.ndim)
        kept = [s for i, s in enumerate(shape) if i != axis]
        return op(value if below < 0 else entry(value, index, below), *kept)
    if isinstance(op, Join) and op.axis == axis:
        start = 0
        for piece in node.inputs:
            length = piece.type.shape[axis]
            if length is None:
                break
            if index < start + length:
                return entry(piece, index - start, axis)
            start += length
    if isinstance(graph, Constant):
        shape = graph.type.shape[:axis] + graph.type.shape[axis + 1 :]
        return type(graph)(graph.type.clone(shape=shape), np.take(graph.data, index, axis))
    return graph[(slice(None),) * axis + (index,)]
