"""Solves with a positive definite band matrix as a PyTensor operation, with gradient, in time linear in its size.

The lower band of A, one diagonal a row (SciPy's lower form), is factorised as L Lᵀ. The operation gives log |A|, A⁻¹B
for several right-hand sides and the band of A⁻¹, which the gradient of log |A| needs; nothing else of the inverse is
ever formed (Takahashi, Fagan and Chin 1973). PyTensor's Cholesky and solves know dense matrices only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayeskit.graphs.numba_functions import as_written, source_version
from bayeskit.types import Graph

__all__ = ["BandedSolve", "band_of_inverse", "banded_solve"]


@as_written()
def _factorise(band: np.ndarray) -> tuple[np.ndarray, bool]:
    width, size = band.shape
    factor = band.copy()
    for j in range(size):
        if not factor[0, j] > 0:
            return factor, False
        pivot = np.sqrt(factor[0, j])
        factor[0, j] = pivot
        reach = min(width - 1, size - 1 - j)
        for i in range(1, reach + 1):
            factor[i, j] /= pivot
        for k in range(1, reach + 1):
            multiple = factor[k, j]
            for i in range(k, reach + 1):
                factor[i - k, j + k] -= factor[i, j] * multiple
    return factor, True


@as_written()
def _solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    width, size = factor.shape
    count = right.shape[1]
    result = right.copy()
    for j in range(size):
        reach = min(width - 1, size - 1 - j)
        for c in range(count):
            value = result[j, c] / factor[0, j]
            result[j, c] = value
            for i in range(1, reach + 1):
                result[j + i, c] -= factor[i, j] * value
    for j in range(size - 1, -1, -1):
        reach = min(width - 1, size - 1 - j)
        for c in range(count):
            value = result[j, c]
            for i in range(1, reach + 1):
                value -= factor[i, j] * result[j + i, c]
            result[j, c] = value / factor[0, j]
    return result


@as_written()
def band_of_inverse(factor: np.ndarray) -> np.ndarray:
    """The band of (L Lᵀ)⁻¹ from that of L, in O(size · width²) (Takahashi, Fagan and Chin 1973)."""
    width, size = factor.shape
    result = np.zeros((width, size))
    for j in range(size - 1, -1, -1):
        reach = min(width - 1, size - 1 - j)
        # Column j of the inverse within the band, from the columns after it.
        for i in range(reach, 0, -1):
            total = 0.0
            for k in range(1, reach + 1):
                low, high = min(i, k), max(i, k)
                total -= factor[k, j] * result[high - low, j + low]
            result[i, j] = total / factor[0, j]
        total = 1.0 / factor[0, j]
        for k in range(1, reach + 1):
            total -= factor[k, j] * result[k, j]
        result[0, j] = total / factor[0, j]
    return result


@as_written()
def _solve_all(band: np.ndarray, right: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    factor, definite = _factorise(band)
    if not definite:
        return np.nan, np.full(right.shape, np.nan), np.full(band.shape, np.nan)
    log_determinant = 2.0 * np.sum(np.log(factor[0]))
    return log_determinant, _solve(factor, right), band_of_inverse(factor)


class BandedSolve(Op):
    """(A, B) → log |A|, A⁻¹B, band of A⁻¹; not a number where A is not positive definite.

    The third output is for the gradient of the first and has no gradient of its own.
    """

    __props__ = ()
    gufunc_signature = "(w,n),(n,c)->(),(n,c),(w,n)"

    def make_node(self, band: Any, right: Any) -> Apply:  # type: ignore[override]
        band, right = pt.as_tensor_variable(band), pt.as_tensor_variable(right)
        if band.type.ndim != 2 or right.type.ndim != 2:
            raise TypeError("the band and the right-hand sides must be matrices")
        shapes = (), right.type.shape, band.type.shape
        return Apply(self, [band, right], [pt.tensor(dtype="float64", shape=shape) for shape in shapes])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        band, right = (np.ascontiguousarray(i, dtype=np.float64) for i in inputs)
        for storage, result in zip(output_storage, _solve_all(band, right), strict=True):
            storage[0] = np.asarray(result)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(), shapes[1], shapes[0]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        (band, right), (_, solution, inverse) = inputs, outputs
        to_determinant, to_solution, to_inverse = cotangents
        if not isinstance(to_inverse.type, DisconnectedType):
            raise NotImplementedError("second derivatives of a band solve")
        to_band: Any = pt.zeros_like(band)
        to_right: Any = pt.zeros_like(right)
        if not isinstance(to_determinant.type, DisconnectedType):
            # Each diagonal but the main one stands for two entries of A.
            twice = np.where(np.arange(band.type.shape[0])[:, None] > 0, 2.0, 1.0)
            to_band = to_band + to_determinant * inverse * twice
        if not isinstance(to_solution.type, DisconnectedType):
            _, to_right, _ = banded_solve(band, to_solution)
            diagonals = []
            for k in range(band.type.shape[0]):
                size = solution.shape[0] - k
                both = to_right[k:] * solution[:size]
                if k:
                    both = both + to_right[:size] * solution[k:]
                diagonals.append(pt.concatenate([pt.sum(both, axis=1), pt.zeros(k)]))
            to_band = to_band - pt.stack(diagonals)
        return [to_band, to_right]


@register_funcify_default_op_cache_key(BandedSolve)
def _numba_banded_solve(op: BandedSolve, node: Apply, **kwargs: Any) -> Any:
    @numba_basic.numba_njit
    def banded_solve(band: Any, right: Any) -> Any:
        log_determinant, solution, inverse = _solve_all(band, right)
        return np.array(log_determinant), solution, inverse

    return banded_solve, source_version(__file__)


def banded_solve(band: Any, right: Any) -> list[Graph]:
    """log |A|, A⁻¹B and the band of A⁻¹ from the lower band of A, of which entry [k, j] is A[j + k, j].

    The number of diagonals must be known beforehand.
    """
    return BandedSolve()(band, right)  # type: ignore[return-value]
