"""Making functions of small PyTensor graphs in milliseconds.

These graphs have tens of nodes and are evaluated a handful of times. PyTensor's default rewrites and its numba
compilation take seconds a model; without them, NumPy does the heavy lifting all the same. A graph is run as it stands
(:mod:`bayeskit.graphs.interpreter`), but for systems of linear equations, which are gathered lest Python be called once
a row. PyTensor's own Python linker, with a few rewrites, runs what has loops or draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace, graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import MergeOptimizer, SequentialGraphRewriter, dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Second
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.rewriting.basic import local_elemwise_alloc, local_useless_alloc
from pytensor.tensor.rewriting.linalg.solvers import batched_vector_b_solve_to_matrix_b_solve
from pytensor.tensor.rewriting.math import local_useless_reduce

from bayeskit.graphs.categorical_draws import draw_categories_together
from bayeskit.graphs.clipping import clip_to_bounds
from bayeskit.graphs.condensing import condensed
from bayeskit.graphs.field_draws import draw_fields_by_one_factor
from bayeskit.graphs.instructions import NotEvaluable
from bayeskit.graphs.interpreter import evaluator
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.operation_costs import charge, static_cost
from bayeskit.graphs.rewriting import substitute, with_known_shapes
from bayeskit.types import Graph

__all__ = ["compile_small", "compile_stacked", "fill_to_alloc", "has_loops", "small_mode", "stacked", "vectorised"]

SMALL = 4096  # numbers of a shape


def stacked(variables: Iterable[Graph]) -> dict[Graph, Any]:
    """For each variable, an input of its type with an axis in front: of draws, points or rows."""
    # ``pt.tensor`` reads the name "1|g_stacked" as a type of numbers, and raises.
    return {v: pt.TensorType(v.type.dtype, (None, *v.type.shape))(f"{v.name}_stacked") for v in variables}


def has_loops(graphs: Iterable[Graph]) -> bool:
    """Whether a graph has a ``scan``."""
    return any(v.owner and isinstance(v.owner.op, Scan) for v in ancestors(graphs))


def compile_stacked(variables: Iterable[Graph], graphs: Any) -> Any:
    """One or several graphs as a function of many values of the variables at once, the first axis of each.

    Graphs with loops are compiled, and asked for one value after the other: Python takes some hundred times as long.
    """
    single, variables = isinstance(graphs, Variable), list(variables)
    if has_loops([graphs] if single else graphs):
        one = pytensor.function(variables, graphs, mode="NUMBA", on_unused_input="ignore")
        each = _charging(one, [graphs] if single else graphs)
        return lambda *values: _stack([each(*row) for row in zip(*values, strict=True)], single)
    rows = stacked(variables)
    known = _elementwise_where_spread(condensed(with_known_shapes([graphs] if single else list(graphs))))
    return compile_small(list(rows.values()), vectorize_graph(known[0] if single else known, rows))


def _elementwise_where_spread(graphs: list[Graph]) -> list[Graph]:
    """The same graphs with ``fill`` for ``alloc`` over shapes that are known, and not large.

    Vectorised, ``alloc`` would have PyTensor rewrite all that is above it to find the lengths of its stack.
    """
    told: dict[Graph, Graph] = {}
    for v in ancestors(graphs):
        if v.owner and isinstance(v.owner.op, Alloc) and None not in v.type.shape and np.prod(v.type.shape) <= SMALL:
            like = pt.constant(np.zeros(v.type.shape, dtype="int8"))
            told[v] = pt.second(like, v.owner.inputs[0])
    return substitute(graphs, told) if told else graphs


@node_rewriter([Elemwise])
def fill_to_alloc(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """``fill``, which gradients are full of, as ``alloc``: it has no NumPy function and runs element by element."""
    if not isinstance(node.op.scalar_op, Second):
        return None
    model: Any
    model, value = node.inputs
    if model.type.ndim == 0:
        return [pt.cast(value, node.outputs[0].type.dtype)]
    # A shape that is known spares computing the value whose shape it is.
    wider: list[Any] = [value if n == 1 else model for n in model.type.shape]
    shape: list[Any] = [w.shape[i] if w.type.shape[i] is None else w.type.shape[i] for i, w in enumerate(wider)]
    kind = node.outputs[0].type
    # ``alloc`` itself would rewrite the graph of every length to see whether it is constant: that takes many seconds.
    lengths = [pt.as_tensor(n, dtype="int64") for n in shape]
    return [Apply(pt.alloc, [pt.cast(value, kind.dtype), *lengths], [kind()]).outputs[0]]


@cache
def _rewriter() -> Any:  # one for all: it remembers what applies to which node
    return dfs_rewriter(
        fill_to_alloc,
        clip_to_bounds,
        draw_categories_together,
        draw_fields_by_one_factor,
        batched_vector_b_solve_to_matrix_b_solve,
        local_useless_reduce,
        local_useless_alloc,
        local_elemwise_alloc,
    )


def small_mode() -> Mode:
    """The Python linker and few rewrites, in a form to which PyMC can add its own."""
    return Mode(linker="py", optimizer=RewriteDatabaseQuery(include=(), extra_rewrites=[(_rewriter(), 0)]))


def vectorised(graph: Variable) -> Variable:
    """The same graph, or a copy with the same inputs, that does not call Python once a row."""
    return _rewritten([graph])[0] if _solves_in_batches([graph]) else graph


def _solves_in_batches(graphs: Sequence[Variable]) -> bool:
    """Whether one system of linear equations is solved for many right-hand sides, one after the other."""
    nodes = (v.owner for v in ancestors(graphs) if v.owner is not None and isinstance(core_op(v.owner), SolveBase))
    return any(core_op(node).b_ndim == 1 and node.inputs[1].type.ndim > 1 for node in nodes)


def _rewritten(graphs: list[Variable]) -> list[Variable]:
    fgraph = FunctionGraph(outputs=clone_replace(graphs, {}), clone=False)
    _rewriter().rewrite(fgraph)
    return list(fgraph.outputs)


def compile_small(inputs: Sequence[Variable], outputs: Any, **options: Any) -> Any:
    """A function of ``inputs``, made in about a millisecond; where nodes of the graphs are among them, it cuts there.

    With ``options``, and where the graphs have loops, :func:`pytensor.function` makes it.
    """
    single = isinstance(outputs, Variable)
    graphs = [outputs] if single else list(outputs)
    solves = _solves_in_batches(graphs)
    # A factorisation that value and gradient share is made once; for smaller work, finding doubles costs more.
    factorised = any("Cholesky" in type(core_op(v.owner)).__name__ for v in ancestors(graphs) if v.owner is not None)
    if not options and not solves:
        with suppress(NotEvaluable):
            return _of(evaluator(inputs, graphs, merge=factorised), single)
    cut = {i: i.type() for i in inputs if i.owner is not None}
    if cut:
        inputs, graphs = [cut.get(i, i) for i in inputs], graph_replace(graphs, cut, strict=False)
    if not options and solves:
        with suppress(NotEvaluable):
            return _of(evaluator(inputs, _rewritten(graphs), merge=factorised), single)
    optimizer = SequentialGraphRewriter(MergeOptimizer(), _rewriter(), MergeOptimizer()) if factorised else _rewriter()
    mode = Mode(linker="py", optimizer=optimizer)
    wanted: Any = graphs[0] if single else graphs
    compiled = pytensor.function([*inputs], wanted, mode=mode, on_unused_input="ignore", **options)
    return compiled if options else _charging(compiled, graphs)


def _charging(function: Callable[..., Any], graphs: Iterable[Variable]) -> Callable[..., Any]:
    """A compiled function whose cost is counted at each call."""
    cost = static_cost(graphs)

    def charged(*arguments: Any) -> Any:
        charge(cost)
        return function(*arguments)

    return charged


def _stack(found: list[Any], single: bool) -> Any:
    return np.array(found) if single else [np.array(each) for each in zip(*found, strict=True)]


def _of(function: Callable[..., list[Any]], single: bool) -> Callable[..., Any]:
    return (lambda *arguments: function(*arguments)[0]) if single else function
