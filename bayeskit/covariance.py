"""Quadratic form and determinant of a dense covariance that depends on φ, with a gradient that costs little more.

PyMC writes a multivariate Normal through L = cholesky(A): the squares of L⁻¹b and the logs of L's diagonal.
Differentiated through the factorisation, that costs about ten times the factorisation itself. With α = A⁻¹b

    ∂(bᵀA⁻¹b) = −ααᵀ · ∂A + 2α · ∂b,   ∂ log |A| = A⁻¹ · ∂A,

so that one inverse from the factor that is there already (LAPACK ``potri``) is all that the gradient needs. As A is
symmetric and only its lower triangle is read, the cotangents may be of that triangle alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import ExtractDiag
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum
from scipy.linalg import lapack

from bayeskit.compiling import Graph
from bayeskit.degrees import core_op
from bayeskit.density import substitute
from bayeskit.nodes import applies, constant_number

__all__ = ["DerivativeOfLogDeterminant", "cheap_gradients"]

LEAST = 16  # size from which it is worth it


class DerivativeOfLogDeterminant(Op):
    """L → the derivative of log |L Lᵀ| in the entries that a Cholesky factorisation reads, its lower triangle.

    That is (L Lᵀ)⁻¹ with the entries below the diagonal doubled, those above it zero; not a number where a pivot is
    not positive. Filling in the upper triangle would take as long as the inverse itself, for the same sum.
    """

    __props__ = ()
    gufunc_signature = "(n,n)->(n,n)"

    def make_node(self, factor: Any) -> Apply:  # type: ignore[override]
        factor = pt.as_tensor_variable(factor)
        if factor.type.ndim != 2:
            raise TypeError("the factor must be a matrix")
        return Apply(self, [factor], [pt.TensorType("float64", factor.type.shape)()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        (factor,) = inputs
        # The transpose of a row-major lower triangle is a column-major upper one: LAPACK copies nothing else, and
        # leaves the zeros in the other triangle alone.
        inverse, failed = lapack.dpotri(np.array(factor, dtype=np.float64, order="C").T, lower=0, overwrite_c=1)
        if failed:
            output_storage[0][0] = np.full(factor.shape, np.nan)
            return
        lower = inverse.T
        lower *= 2
        np.einsum("ii->i", lower)[:] *= 0.5
        output_storage[0][0] = lower

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return shapes

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of a multivariate Normal")


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
    for var in list(clients):
        if var.owner is None or type(core_op(var.owner)).__name__ != "Cholesky" or var.type.ndim != 2:
            continue
        size = var.type.shape[0]
        matrix = var.owner.inputs[0]
        if not core_op(var.owner).lower or (size is not None and size < LEAST) or matrix.type.ndim != 2:
            continue
        for view in _views(var, clients):
            for node in clients.get(view, []):
                replaced.update(_replacement(node, view, matrix, clients))
    return substitute([graph], replaced)[0] if replaced else graph


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


def _replacement(node: Apply, view: Graph, matrix: Graph, clients: dict[Graph, list[Apply]]) -> dict[Graph, Graph]:
    """Σ(L⁻¹b)² or Σ log diag L, in whatever shape the model has it."""
    op: Any = core_op(node)
    (out, *_) = node.outputs
    if isinstance(op, ExtractDiag):
        logs = [n for n in clients.get(out, []) if applies(n, ps.Log)]
        sums = [s for n in logs for s in clients.get(n.outputs[0], []) if isinstance(s.op, Sum)]
        sums = [s for s in sums if s.outputs[0].type.ndim == 0]
        log_determinant = _log_determinant(matrix) if sums else None
        found: dict[Graph, Graph] = {s.outputs[0]: log_determinant for s in sums}
        # The check that the diagonal is positive has no gradient, but PyTensor would carry its zeros back to A, through
        # two systems of N equations for N right-hand sides. A pivot that is not positive has no logarithm.
        for check in [n for n in clients.get(out, []) if applies(n, ps.GT) and n.inputs[0] is out]:
            if log_determinant is not None and constant_number(check.inputs[1]) == 0:
                found[check.outputs[0]] = pt.fill(disconnected_grad(out), pt.gt(log_determinant, -np.inf))
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
        if not (applies(square, ps.Sqr) or _is_square(square)):
            continue
        for total in clients.get(square.outputs[0], []):
            axes = total.op.axis if isinstance(total.op, Sum) else ()
            if axes is None or tuple(a % out.type.ndim for a in axes) != (out.type.ndim - 1,):
                continue
            answer: Graph = _quadratic(matrix, pt.reshape(right, (-1, right.shape[-1])))
            found[total.outputs[0]] = pt.reshape(answer, right.shape[:-1], ndim=right.type.ndim - 1)
    return found


def _is_square(node: Apply) -> bool:
    return applies(node, ps.Pow) and constant_number(node.inputs[1]) == 2
