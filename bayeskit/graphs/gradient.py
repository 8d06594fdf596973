"""Gradients by reverse accumulation, along the paths that lead to the wanted variables and no others.

``pytensor.grad`` differentiates every node in all of its arguments, constants too, by way of graphs of scalars, and so
makes several nodes for each one that counts; building them takes longer than evaluating them. Here the elementwise
functions of which densities are mostly made have their chain rule written out, for the argument that is asked for only.
Every other node is differentiated by its own rule in PyTensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.null_type import NullType
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.types import Graph

__all__ = ["gradient", "without_log_of_zero"]


class _NoRule(Exception):
    """A node has no derivative that could be built here."""


def gradient(total: Variable, wrt: Sequence[Variable]) -> list[Variable]:
    """∂ total / ∂ v for each v, variables of floats or nodes of the graph; zero where it does not depend on v."""
    try:
        return _accumulate(total, wrt)
    except _NoRule:
        result: Any = pytensor.grad(total, list(wrt), disconnected_inputs="ignore")
        return list(result)


def without_log_of_zero(graph: Variable, depends: Mapping[Variable, Any]) -> Variable:
    """The same density, with log 0 read as 0, for differentiation.

    A Poisson count of 0 with exposure 0 has the density 0·log(0·λ) = 0 by a ``switch``, but its gradient there is 0·∞.
    """
    logs = [v for v in ancestors([graph]) if v.owner and applies(v.owner, ps.Log) and depends.get(v)]
    safe = {v: pt.log(pt.switch(pt.eq(v.owner.inputs[0], 0), 1.0, v.owner.inputs[0])) for v in logs}
    return graph_replace([graph], safe)[0] if safe else graph


def _is_float(var: Variable) -> bool:
    return str(getattr(var.type, "dtype", "")).startswith("float")


def _accumulate(total: Variable, wrt: Sequence[Variable]) -> list[Variable]:
    leading = set(wrt)  # nodes on a path from a wanted variable
    nodes = []
    for node in toposort([total]):
        if isinstance(node.op, Shape | Shape_i) or not any(i in leading for i in node.inputs):
            continue
        nodes.append(node)
        leading.update(o for o in node.outputs if _is_float(o))
    adjoints: dict[Variable, Graph] = {total: pt.constant(1.0, dtype=total.type.dtype)}
    for node in reversed(nodes):
        if not any(o in adjoints for o in node.outputs):
            continue
        wanted = [k for k, i in enumerate(node.inputs) if i in leading]
        for k, term in _terms(node, [adjoints.get(o) for o in node.outputs], wanted):
            var = node.inputs[k]
            adjoints[var] = adjoints[var] + term if var in adjoints else term
    return [adjoints[v] if v in adjoints else pt.zeros_like(v) for v in wrt]


def _terms(node: Apply, adjoints: list[Graph | None], wanted: list[int]) -> list[tuple[int, Graph]]:
    """What each wanted argument of a node receives."""
    op: Any = node.op
    first: Graph = adjoints[0]
    if isinstance(op, Elemwise) and len(node.outputs) == 1:
        rules = [_elementwise(op.scalar_op, node, k, first) for k in wanted]
        if all(r is not None for r in rules):
            return [(k, _gathered(r, node.inputs[k], node.outputs[0])) for k, r in zip(wanted, rules, strict=True)]
    if isinstance(op, CheckAndRaise):
        return [(0, first)] if 0 in wanted else []
    if isinstance(op, DimShuffle) and not op.drop:
        axes = [op.new_order.index(k) for k in range(node.inputs[0].type.ndim)]
        extra = [k for k, o in enumerate(op.new_order) if o == "x"]
        return [(0, first.dimshuffle(axes) if extra or axes != sorted(axes) else first)]
    given = [a if a is not None else disconnected_type() for a in adjoints]
    terms = op.pullback(node.inputs, node.outputs, given)
    if any(isinstance(terms[k].type, NullType) for k in wanted):
        raise _NoRule
    return [(k, terms[k]) for k in wanted if not isinstance(terms[k].type, DisconnectedType)]


def _gathered(term: Graph, argument: Graph, output: Graph) -> Graph:
    """Summed over the axes along which an argument was stretched."""
    lengths = zip(argument.type.shape, output.type.shape, strict=True)
    stretched = [k for k, (own, wide) in enumerate(lengths) if own == 1 and wide != 1]
    return pt.sum(term, axis=stretched, keepdims=True) if stretched else term


def _elementwise(op: ps.ScalarOp, node: Apply, k: int, g: Graph) -> Graph | None:
    """g · ∂ output / ∂ (argument k), of the shape of the output; None where no rule is written out."""
    x: list[Graph] = list(node.inputs)
    rule: Callable[[], Graph] | None = {
        ps.Add: lambda: g,
        ps.Sub: lambda: g if k == 0 else -g,
        ps.Neg: lambda: -g,
        ps.Mul: lambda: pt.mul(g, *(v for i, v in enumerate(x) if i != k)),
        ps.TrueDiv: lambda: g / x[1] if k == 0 else -g * node.outputs[0] / x[1],
        ps.Sqr: lambda: g * (2.0 * x[0]),
        ps.Sqrt: lambda: g * 0.5 / node.outputs[0],
        ps.Log: lambda: g / x[0],
        ps.Log1p: lambda: g / (1.0 + x[0]),
        ps.Exp: lambda: g * node.outputs[0],
        ps.Reciprocal: lambda: -g * node.outputs[0] * node.outputs[0],
        ps.Second: lambda: g if k == 1 else None,
        ps.Switch: lambda: pt.switch(x[0], *((g, 0.0) if k == 1 else (0.0, g))) if k else None,
        ps.Pow: lambda: _power(x[0], x[1], g) if k == 0 else None,
    }.get(type(op))
    return None if rule is None or any(not _is_float(v) for i, v in enumerate(x) if i == k) else rule()


def _power(base: Graph, exponent: Graph, g: Graph) -> Graph:
    number = constant_number(exponent)
    if number is not None:
        return g * (2.0 * base) if number == 2 else g * number * base ** (number - 1.0)
    return g * exponent * base ** (exponent - 1.0)
