"""What the gradients of a multivariate Normal are made of, as operations of PyTensor: LAPACK by Python and by numba."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from numba import types
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.null_type import NullType
from pytensor.graph.op import Op
from pytensor.link.numba.cache import _call_cached_ptr
from pytensor.link.numba.dispatch.basic import (
    numba_njit,
    register_funcify_and_cache_key,
    register_funcify_default_op_cache_key,
)
from pytensor.link.numba.dispatch.linalg._LAPACK import get_lapack_ptr, int_ptr_to_val, val_to_int_ptr
from scipy.linalg import lapack

from bayeskit.graphs.mvnormal_low_rank import normal_terms
from bayeskit.graphs.numba_functions import as_it_is, source_version
from bayeskit.types import Graph

__all__ = ["DerivativeOfLogDeterminant", "Terms"]


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


class Terms(Op):
    """bᵀA⁻¹b for every row b, and ½ log |A|, of a matrix A whose diagonal contains a known noise.

    With derivatives, which take two more inputs (the cotangents of the two), it gives A⁻¹b and the derivative in A as
    well: in the entries that a Cholesky factorisation reads, those below the diagonal counted twice.
    """

    __props__ = ("derivatives",)

    def __init__(self, derivatives: bool = False) -> None:
        self.derivatives = derivatives

    def make_node(self, matrix: Any, rows: Any, floor: Any, *weights: Any) -> Apply:  # type: ignore[override]
        inputs = [pt.as_tensor_variable(v) for v in (matrix, rows, floor, *weights)]
        if [v.type.ndim for v in inputs] != [2, 2, 0, 1, 0][: 5 if self.derivatives else 3]:
            raise TypeError("a matrix, rows, a number, and the cotangents of the two terms")
        matrix, rows = inputs[:2]
        outputs = [pt.TensorType("float64", rows.type.shape[:1])(), pt.TensorType("float64", ())()]
        if self.derivatives:
            outputs += [pt.TensorType("float64", v.type.shape)() for v in (rows, matrix)]
        return Apply(self, inputs, outputs)

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        matrix, rows, floor, *weights = inputs
        terms = normal_terms(matrix, rows, float(floor), (weights[0], float(weights[1])) if weights else None)
        results: list[Any] = [terms.quadratic, np.asarray(terms.half_log_determinant)]
        if self.derivatives:
            results += [np.ascontiguousarray(terms.solved), terms.to_matrix]
        for storage, result in zip(output_storage, results, strict=True):
            storage[0] = result

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(shapes[1][0],), (), shapes[1], shapes[0]][: len(node.outputs)]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        if self.derivatives:
            raise NotImplementedError("second derivatives of a multivariate Normal")
        given = [
            pt.zeros_like(o) if isinstance(c.type, NullType | DisconnectedType) else c
            for o, c in zip(outputs, cotangents, strict=True)
        ]
        made: Any = Terms(derivatives=True)(*inputs, *given)
        _, _, solved, to_matrix = made
        return [to_matrix, 2.0 * given[0][:, None] * solved, pt.zeros_like(inputs[2])]


@numba_njit
def _potri_pointer():  # type: ignore[no-untyped-def]
    with numba.objmode(pointer=types.intp):
        pointer = get_lapack_ptr(types.float64, "potri")
    return pointer


@register_funcify_default_op_cache_key(DerivativeOfLogDeterminant)
def _numba_derivative(op: Op, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    """LAPACK by its address, as PyTensor calls what it has of it: chains run side by side."""
    pointer_to: Any = val_to_int_ptr
    value_at: Any = int_ptr_to_val
    called: Any = _call_cached_ptr
    integer, numbers = types.CPointer(types.int32), types.CPointer(types.float64)
    potri_type = types.FunctionType(types.void(integer, integer, numbers, integer, integer))

    @numba_njit
    def derivative(factor):  # type: ignore[no-untyped-def]
        size = factor.shape[0]
        inverse = np.empty((size, size))
        for i in range(size):
            for j in range(size):  # an array stored into another would have numba compile what words its error: seconds
                inverse[i, j] = factor[i, j]
        failed, rows = pointer_to(0), pointer_to(size)
        potri = called(_potri_pointer, potri_type, "bayeskit.lapack.dpotri")
        potri(pointer_to(ord("U")), rows, inverse.ctypes, rows, failed)
        scale = 2.0 if value_at(failed) == 0 else np.nan
        for i in range(size):
            for j in range(i):
                inverse[i, j] *= scale
            inverse[i, i] *= 0.5 * scale
        return inverse

    return derivative, source_version(__file__)


register_funcify_and_cache_key(Terms)(as_it_is)  # LAPACK is all that they do
