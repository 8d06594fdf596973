"""A graph as loops over one flat array: source that numba compiles in a second or two.

PyTensor hands numba a function for each node, generic in what it takes and with a message for whatever may be wrong
with that; numba takes some fifty milliseconds for each and for each function that it calls: forty seconds for a hidden
Markov model whose sampling takes half of one. Here the shapes of all arrays are known. Every array is a stretch of one
workspace of doubles, views are offsets and strides (:mod:`bayeskit.sampling.codegen.strided_view`), elementwise nodes
of one shape share a loop, and what numba sees is arithmetic on doubles alone.

What has no loop here (factorisations, recursions of chains) calls PyTensor's function for it. A graph with a node of an
unknown kind, or whose shapes depend on values, is refused; the caller then compiles it as PyTensor does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.link.numba.dispatch.basic import numba_funcify_ensure_cache
from pytensor.tensor.basic import ScalarFromTensor
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.shape import SpecifyShape

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import depends_on
from bayeskit.graphs.taken_entries import computed_before_taken
from bayeskit.sampling.codegen.loop_algebra import solve_or_call
from bayeskit.sampling.codegen.loop_nodes import move
from bayeskit.sampling.codegen.scalar_expressions import REDUCTIONS, expression, literal, loaded, stored
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import Call, NoLoops, Workspace

__all__ = ["Program", "program"]

MOST = 5_000_000  # numbers in the workspace


@dataclass(frozen=True)
class Program:
    """What a graph computes, as source.

    Bodies of functions of the workspace ``w`` and the constants ``c``, to be called in turn; the length of the
    workspace, in which the inputs lie one after the other from 1 on; the constants; and the compiled functions called.
    """

    functions: tuple[list[str], ...]
    size: int
    data: np.ndarray
    outputs: tuple[Place, ...]
    calls: dict[str, Call]


def program(
    title: str, inputs: Sequence[Variable], outputs: Sequence[Variable], point: Sequence[np.ndarray], first: int = 0
) -> Program:
    """Loops that compute ``outputs``.

    ``title`` is the program's name among several, ``first`` where its constants begin among theirs. The shapes of all
    arrays are those at a ``point``. NoLoops if the graph has something for which there is no loop.
    """
    shapes, values = _traced(inputs, outputs, point)
    fewer = computed_before_taken(list(outputs), shapes)
    if any(new is not old for new, old in zip(fewer, outputs, strict=True)):
        outputs = fewer
        shapes, values = _traced(inputs, outputs, point)
    ws = Workspace(title, first, shapes, values)
    for var in inputs:
        ws.new(var)
    _schedule(ws, _needed(ws, inputs, outputs), outputs)
    places = tuple(ws.contiguous(v) for v in outputs)
    if ws.size > MOST:
        raise NoLoops(f"a workspace of {ws.size} numbers")
    return Program(ws.functions(), ws.size, ws.constants(), places, ws.calls)


def _traced(
    inputs: Sequence[Variable], outputs: Sequence[Variable], point: Sequence[np.ndarray]
) -> tuple[dict[Variable, tuple[int, ...]], dict[Variable, np.ndarray]]:
    """Shapes of all arrays, and values of those that the inputs do not move."""
    nodes = list(toposort(list(outputs)))
    for n in nodes:
        if any(not hasattr(v.type, "dtype") for v in (*_read(n), *n.outputs)):
            raise NoLoops(f"{n.op} is not about arrays")
        if any(o.type.dtype.startswith("complex") for o in n.outputs):
            raise NoLoops(f"{n.op} gives complex numbers")
    every = [v for n in nodes for v in n.outputs]
    leaves = {v for n in nodes for v in n.inputs if v.owner is None} | set(outputs)
    held = [v for v in leaves if isinstance(v, Constant) and hasattr(v.type, "dtype")]
    constants: dict[Variable, Any] = {v: np.asarray(v.data) for v in held}
    moving = depends_on([*every, *outputs], inputs)
    found = compile_small(list(inputs), every)(*point) if every else []
    traced: dict[Variable, Any] = {v: np.asarray(f) for v, f in zip(every, found, strict=True)}
    traced |= {v: np.asarray(p) for v, p in zip(inputs, point, strict=True)}
    shapes = {v: np.shape(f) for v, f in {**traced, **constants}.items()}
    return shapes, constants | {v: f for v, f in traced.items() if not moving.get(v)}


def _needed(ws: Workspace, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[Apply]:
    """Nodes that the outputs need, in order; not those of which only a shape or a constant is wanted."""
    wanted, todo = set(), [v for v in outputs if v not in ws.values]
    while todo:
        node = todo.pop().owner
        if node is not None and node not in wanted:
            wanted.add(node)
            todo += [i for i in _read(node) if i not in ws.values and i not in inputs]
    return [n for n in toposort(list(outputs)) if n in wanted]


def _schedule(ws: Workspace, nodes: list[Apply], outputs: Sequence[Variable]) -> None:
    """Everything that is no loop as soon as it can be; then the shape of which most nodes can share a loop."""
    remaining = dict.fromkeys(nodes)
    ready = set(ws.values) | set(ws.places)
    uses = Counter([*outputs, *(v for n in nodes for v in n.inputs)])
    while remaining:
        progress = False
        for node in list(remaining):
            if not _elementwise(node) and all(i in ready for i in _read(node)):
                if not move(ws, node):
                    solve_or_call(ws, node)
                ready.update(node.outputs)
                del remaining[node]
                progress = True
        if progress:
            continue
        could = [n for n in remaining if _elementwise(n) and all(i in ready for i in n.inputs)]
        shapes = dict.fromkeys(ws.shapes[n.outputs[0]] for n in could)
        groups = [_group(ws, shape, remaining, ready) for shape in shapes]
        group = max(groups, key=lambda g: len(g[0]) + len(g[1]))
        _write_elementwise(ws, *group, uses)
        for node in (*group[0], *group[1]):
            ready.update(node.outputs)
            del remaining[node]


def _group(
    ws: Workspace, shape: tuple[int, ...], remaining: dict[Apply, None], ready: set[Variable]
) -> tuple[list[Apply], list[Apply]]:
    """The elementwise nodes of one shape that can be computed in one loop, and full sums over them."""
    group: list[Apply] = []
    made: set[Variable] = set()
    for node in remaining:  # in topological order, so that one pass suffices
        if not _elementwise(node) or ws.shapes[node.outputs[0]] != shape:
            continue
        if all(i in ready or (i in made and ws.shapes[i] == shape) for i in node.inputs):
            group.append(node)
            made.add(node.outputs[0])
    whole = [n for n in remaining if isinstance(n.op, CAReduce) and ws.shapes[n.outputs[0]] == ()]
    return group, [n for n in whole if n.inputs[0] in made and _scalar(n) in REDUCTIONS]


def _write_elementwise(ws: Workspace, nodes: list[Apply], sums: list[Apply], uses: Counter[Variable]) -> None:
    """One loop for all of them."""
    shape = ws.shapes[nodes[0].outputs[0]]
    inside = dict.fromkeys(n.outputs[0] for n in nodes)  # in order: the same graph gives the same source
    within = Counter(v for n in (*nodes, *sums) for v in n.inputs)
    kept = [v for v in inside if uses[v] > within[v]]
    before: list[str] = []
    inner: dict[Variable, Place] = {}
    names: dict[Variable, str] = {}
    for var in dict.fromkeys(v for n in nodes for v in n.inputs if v not in inside):
        value = ws.values.get(var)
        if value is not None and value.size and np.all(value == value.flat[0]):
            single = value.flat[0]
            names[var] = str(bool(single)) if var.type.dtype == "bool" else literal(single)
            continue
        place, names[var] = ws.place(var), ws.name("x")
        if place.size == 1:  # the same at every step
            before.append(f"{names[var]} = {loaded(f'{place.array}[{place.offset}]', var)}")
        else:
            inner[var] = place
    names |= {v: ws.name("t") for v in inside}
    totals = {s: ws.name("s") for s in sums}
    before += [f"{name} = {REDUCTIONS[_scalar(s)][0]}" for s, name in totals.items()]
    to = {v: ws.new(v) for v in kept}

    def body(at: Callable[[Place], str]) -> list[str]:
        lines = [f"{names[v]} = {loaded(at(p), v)}" for v, p in inner.items()]
        for node in nodes:
            arguments = [names[i] for i in node.inputs]
            source = expression(node, arguments) or _scalar_call(ws, node, arguments)
            lines.append(f"{names[node.outputs[0]]} = {source}")
        lines += [f"{at(p)} = {stored(names[v], v)}" for v, p in to.items()]
        for node, name in totals.items():
            lines.append(f"{name} = {REDUCTIONS[_scalar(node)][1].format(name, names[node.inputs[0]])}")
        return lines

    after = [f"w[{ws.new(s.outputs[0]).offset}] = {stored(name, s.outputs[0])}" for s, name in totals.items()]
    ws.loop(shape, [*inner.values(), *to.values()], body, before, after)


def _scalar_call(ws: Workspace, node: Apply, arguments: list[str]) -> str:
    """PyTensor's function of a scalar that has no expression here."""
    op: Any = node.op
    kinds = {i.type.dtype for i in node.inputs}
    result = node.outputs[0].type.dtype
    if not all(k.startswith("float") for k in kinds | {result}) or hasattr(op.scalar_op, "fgraph"):
        raise NoLoops(f"{op} of {sorted(kinds)}")
    inputs = [pt.dscalar() for _ in node.inputs]  # all numbers here are doubles
    scalar_node = op.scalar_op.make_node(*[ScalarFromTensor()(i) for i in inputs])
    name = ws.call(*numba_funcify_ensure_cache(op.scalar_op, node=scalar_node))
    return f"{name}({', '.join(arguments)})"


def _read(node: Apply) -> Sequence[Variable]:
    return node.inputs[:1] if isinstance(node.op, SpecifyShape) else node.inputs


def _elementwise(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and len(node.outputs) == 1


def _scalar(node: Apply) -> str:
    return type(node.op.scalar_op).__name__
