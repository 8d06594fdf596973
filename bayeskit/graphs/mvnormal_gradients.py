"""Quadratic form and determinant of a dense covariance that depends on φ, with a gradient that costs little more.

PyMC writes a multivariate Normal through L = cholesky(A): the squares of L⁻¹b and the logs of L's diagonal.
Differentiated through the factorisation, that costs about ten times the factorisation itself. With α = A⁻¹b

    ∂(bᵀA⁻¹b) = −ααᵀ · ∂A + 2α · ∂b,   ∂ log |A| = A⁻¹ · ∂A,

so that one inverse from the factor that is there already (LAPACK ``potri``) is all that the gradient needs. As A is
symmetric and only its lower triangle is read, the cotangents may be of that triangle alone.

From two hundred rows on all of it is one node (:mod:`bayeskit.graphs.mvnormal_low_rank`), which is told what noise the
diagonal is known to contain: with noise, the covariance of a smooth process is worth far less than a factorisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import dfs_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import ExtractDiag
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Shape

from bayeskit.graphs.compile import fill_to_alloc
from bayeskit.graphs.diagonal_matrices import diagonal_entries
from bayeskit.graphs.mvnormal_ops import DerivativeOfLogDeterminant, Terms
from bayeskit.graphs.nodes import applies, constant_number, core_op
from bayeskit.graphs.rewriting import substitute
from bayeskit.types import Graph

__all__ = ["cheap_gradients", "shared_factorisations"]

LEAST = 16  # size from which it is worth it
LARGE = 200  # size from which a matrix is worth a node of its own, which has to wait for Python


def shared_factorisations(graphs: list[Graph]) -> list[Graph]:
    """A log density and its gradient, where terms and their derivatives come from one node."""
    if not _terms(graphs):
        return graphs
    # Gradients are spread over the shape of what they are the gradients of, which is to say that they depend on it.
    fgraph = FunctionGraph(outputs=clone_replace(substitute(graphs, _known_shapes(graphs)), {}), clone=False)
    dfs_rewriter(fill_to_alloc).rewrite(fgraph)
    graphs = list(fgraph.outputs)
    nodes = _terms(graphs)
    full = {tuple(n.inputs[:3]): n for n in nodes if n.op.derivatives}
    replaced: dict[Graph, Graph] = {}
    for node in nodes:
        twin = full.get(tuple(node.inputs))
        # Where the weights of the twin depend on the terms themselves, these cannot come from it.
        if twin and not node.op.derivatives and set(node.outputs).isdisjoint(ancestors(twin.inputs)):
            replaced.update(zip(node.outputs, twin.outputs, strict=False))
    return substitute(graphs, replaced) if replaced else graphs


def _terms(graphs: list[Graph]) -> list[Apply]:
    return [v.owner for v in ancestors(graphs) if v.owner is not None and isinstance(v.owner.op, Terms)]


def _known_shapes(graphs: list[Graph]) -> dict[Graph, Graph]:
    found = {}
    for var in ancestors(graphs):
        shape = var.owner.inputs[0].type.shape if var.owner is not None and isinstance(var.owner.op, Shape) else None
        if shape is not None and None not in shape:
            found[var] = pt.constant(np.array(shape, dtype="int64"))
    return found


def _quadratic(matrix: Graph, rows: Graph) -> Graph:
    """bᵀA⁻¹b for every row b."""
    a, b = matrix.type(), rows.type()
    half = pt.linalg.solve_triangular(_factor(a), b.T, lower=True)

    def pullback(inputs: list[Graph], outputs: list[Graph], cotangents: list[Graph]) -> list[Graph]:
        factor = _factor(inputs[0])
        inner = pt.linalg.solve_triangular(factor, inputs[1].T, lower=True)
        alpha = pt.linalg.solve_triangular(factor, inner, lower=True, trans="T")
        weighted: Any = alpha * cotangents[0]
        # A matrix product of one column takes several times as long as the product of its entries.
        single = inputs[1].type.shape[0] == 1
        outer = -weighted * alpha.T if single else pt.dot(-weighted, alpha.T)
        return [outer, 2 * weighted.T]

    return _inlined([a, b], pt.sum(half**2, axis=0), pullback)(matrix, rows)


def _log_determinant(matrix: Graph) -> Graph:
    """½ log |A|."""
    a = matrix.type()

    def pullback(inputs: list[Graph], outputs: list[Graph], cotangents: list[Graph]) -> list[Graph]:
        cotangent: Any = cotangents[0]
        return [0.5 * cotangent * DerivativeOfLogDeterminant()(_factor(inputs[0]))]

    return _inlined([a], pt.sum(pt.log(pt.diagonal(_factor(a)))), pullback)(matrix)


def _factor(matrix: Graph) -> Any:
    return pt.linalg.cholesky(matrix, lower=True, on_error="nan")


def _inlined(inputs: list[Graph], output: Graph, pullback: Any) -> Any:
    # Inlined when compiled, so that the factorisations of value and gradient are merged into one.
    return OpFromGraph(inputs, [output], pullback=pullback, inline=True)


def cheap_gradients(graph: Graph) -> Graph:
    """The same scalar graph, with the terms of multivariate Normals written so that their gradients are cheap."""
    clients = _clients(graph)
    replaced: dict[Graph, Graph] = {}
    answers: dict[Graph, Graph] = {}
    for var in list(clients):
        if var.owner is None or type(core_op(var.owner)).__name__ != "Cholesky" or var.type.ndim != 2:
            continue
        size = var.type.shape[0]
        matrix = var.owner.inputs[0]
        if not core_op(var.owner).lower or (size is not None and size < LEAST) or matrix.type.ndim != 2:
            continue
        asked: list[tuple[Graph | None, Graph]] = []
        large = size is not None and size >= LARGE
        terms, defined = (partial(_asked, asked), _always) if large else (_apart, _if_finite)
        for view in _views(var, clients):
            for node in clients.get(view, []):
                replaced.update(_replacement(node, view, matrix, clients, terms, defined))
        answers |= _answers(asked, matrix) if asked else {}
    graph = substitute([graph], replaced)[0] if replaced else graph
    return substitute([graph], answers)[0] if answers else graph


def _clients(graph: Graph) -> dict[Graph, list[Apply]]:
    found: dict[Graph, list[Apply]] = {}
    for node in {v.owner: None for v in ancestors([graph]) if v.owner is not None}:
        for var in dict.fromkeys(node.inputs):
            found.setdefault(var, []).append(node)
    return found


def _views(factor: Graph, clients: dict[Graph, list[Apply]]) -> list[Graph]:
    """The factor itself and with axes of length one in front."""
    views = [factor]
    for node in clients.get(factor, []):
        if isinstance(node.op, DimShuffle) and [k for k in node.op.shuffle if isinstance(k, int)] == [0, 1]:
            views.append(node.outputs[0])
    return views


def _apart(matrix: Graph, rows: Graph | None) -> Graph:
    return _log_determinant(matrix) if rows is None else _quadratic(matrix, rows)


def _if_finite(log_determinant: Graph, pivots: Graph) -> Graph:
    return pt.fill(disconnected_grad(pivots), pt.gt(log_determinant, -np.inf))


def _always(log_determinant: Graph, pivots: Graph) -> Graph:
    """The terms of a matrix that is not positive definite are those of a density of zero: there is nothing to check.

    A check would make the gradient depend on the value, so that the two could not come from one node.
    """
    return pt.constant(np.ones(pivots.type.shape, dtype=bool))


def _asked(asked: list[tuple[Graph | None, Graph]], matrix: Graph, rows: Graph | None) -> Graph:
    """A stand-in for ½ log |A| without rows, for bᵀA⁻¹b with them."""
    stand_in: Graph = pt.dscalar() if rows is None else pt.TensorType("float64", rows.type.shape[:1])()
    asked.append((rows, stand_in))
    return stand_in


def _answers(asked: list[tuple[Graph | None, Graph]], matrix: Graph) -> dict[Graph, Graph]:
    """What the stand-ins of one matrix stand for: one node for all of them."""
    several = [rows for rows, _ in asked if rows is not None]
    none: Graph = pt.zeros((0, matrix.type.shape[0]))
    rows: Graph = several[0] if len(several) == 1 else pt.concatenate([none, *several], axis=0)
    made: Any = Terms()(matrix, rows, _noise(matrix))
    answers: dict[Graph, Graph] = {}
    at: Any = 0
    for own, stand_in in asked:
        if own is None:
            answers[stand_in] = made[1]
        else:
            answers[stand_in] = made[0] if len(several) == 1 else made[0][at : at + own.shape[0]]
            at = at + own.shape[0]
    return answers


def _noise(matrix: Graph) -> Graph:
    """What every entry of the diagonal contains, by the terms of a sum that are diagonal matrices; zero if none is."""
    terms, found = [matrix], []
    while terms:
        term = terms.pop()
        if term.owner is not None and applies(term.owner, ps.Add):
            terms += [i for i in term.owner.inputs if i.type.shape == matrix.type.shape]
        elif (entries := diagonal_entries(term)) is not None:
            found.append(pt.min(entries))
    total: Graph = pt.add(*found, pt.constant(0.0)) if found else pt.constant(0.0)
    return disconnected_grad(pt.cast(total, "float64"))


def _replacement(
    node: Apply,
    view: Graph,
    matrix: Graph,
    clients: dict[Graph, list[Apply]],
    terms: Callable[[Graph, Graph | None], Graph],
    defined: Callable[[Graph, Graph], Graph],
) -> dict[Graph, Graph]:
    """Σ(L⁻¹b)² or Σ log diag L, in whatever shape the model has it."""
    op: Any = core_op(node)
    (out, *_) = node.outputs
    if isinstance(op, ExtractDiag):
        logs = [n for n in clients.get(out, []) if applies(n, ps.Log)]
        sums = [s for n in logs for s in clients.get(n.outputs[0], []) if isinstance(s.op, Sum)]
        sums = [s for s in sums if s.outputs[0].type.ndim == 0]
        log_determinant = terms(matrix, None) if sums else None
        found: dict[Graph, Graph] = {s.outputs[0]: log_determinant for s in sums}
        # The check that the diagonal is positive has no gradient, but PyTensor would carry its zeros back to A, through
        # two systems of N equations for N right-hand sides. A pivot that is not positive has no logarithm.
        for check in [n for n in clients.get(out, []) if applies(n, ps.GT) and n.inputs[0] is out]:
            if log_determinant is not None and constant_number(check.inputs[1]) == 0:
                found[check.outputs[0]] = defined(log_determinant, out)
            else:
                held = check.clone_with_new_inputs([disconnected_grad(out), *check.inputs[1:]])
                found[check.outputs[0]] = held.outputs[0]
        return found
    if type(op).__name__ != "SolveTriangular" or node.inputs[0] is not view or not op.lower or op.unit_diagonal:
        return {}
    right: Graph = node.inputs[1]
    if op.b_ndim != 1:
        return {}
    found = {}
    for square in clients.get(out, []):
        if not applies(square, ps.Sqr) and not (applies(square, ps.Pow) and constant_number(square.inputs[1]) == 2):
            continue
        for total in clients.get(square.outputs[0], []):
            axes = total.op.axis if isinstance(total.op, Sum) else ()
            if axes is None or tuple(a % out.type.ndim for a in axes) != (out.type.ndim - 1,):
                continue
            lengths = right.type.shape
            number = -1 if None in lengths else math.prod(lengths[:-1])
            answer: Graph = terms(matrix, pt.reshape(right, (number, right.shape[-1] if number < 0 else lengths[-1])))
            found[total.outputs[0]] = pt.reshape(answer, right.shape[:-1], ndim=right.type.ndim - 1)
    return found
