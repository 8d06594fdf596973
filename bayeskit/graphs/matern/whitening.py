r"""Matérn processes on the line observed with noise: whitening and pivots as an operation of PyTensor, with gradient.

With :math:`L L^\top = \operatorname{diag} d + s\,[x_i = x_j] + \sum_k c_k k_{\nu_k}(\lambda_k |x_i - x_j|)`, which is
never made, the log density of y − μ is :math:`-½ |z|^2 - \sum \log \operatorname{diag} L - \tfrac n2 \log 2\pi` with
:math:`z = L^{-1}(y - \mu)`. Both come of a Kalman filter (:mod:`bayeskit.graphs.matern.passes`) in O(n p³), with p the
sum of the orders ν + ½, and their gradient of one more pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.null_type import NullType
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayeskit.graphs.matern import adjoint, one_process, passes, state, transitions
from bayeskit.graphs.matern.adjoint import whitening_adjoint
from bayeskit.graphs.matern.passes import whitened
from bayeskit.graphs.numba_functions import source_version
from bayeskit.types import Graph

__all__ = ["MaternAdjoint", "MaternWhitening"]

CALLED = (adjoint.__file__, one_process.__file__, passes.__file__, state.__file__, transitions.__file__)


class MaternWhitening(Op):
    """(x, y, d, s, c, λ) → L⁻¹y and the diagonal of L, with x in ascending order.

    ``orders`` are those of the processes, ν + ½, with 0 for a constant. Neither output is a number where the covariance
    is not positive definite.
    """

    __props__ = ("orders",)
    gufunc_signature = "(n),(n),(n),(),(k),(k)->(n),(n)"

    def __init__(self, orders: tuple[int, ...]) -> None:
        self.orders = orders

    def make_node(self, *inputs: Any) -> Apply:
        given: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        if [v.type.ndim for v in given] != [1, 1, 1, 0, 1, 1]:
            raise TypeError("places, observations, noise, a number, variances and rates")
        return Apply(self, given, [given[1].type(), given[1].type()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        x, y, d, shared, *rest = _laid_out(inputs)
        output_storage[0][0], output_storage[1][0] = whitened(x, y, d, shared, np.array(self.orders), *rest)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[1], shapes[1]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[False, False], [True, False], *[[True, True]] * 4]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        given = [
            pt.zeros_like(o) if isinstance(c.type, NullType | DisconnectedType) else c
            for o, c in zip(outputs, cotangents, strict=True)
        ]
        return [disconnected_type(), *MaternAdjoint(self.orders).make_node(*inputs, *given).outputs]


class MaternAdjoint(Op):
    """(x, y, d, s, c, λ) and the adjoints of both outputs → those of y, d, s, c and λ."""

    __props__ = ("orders",)
    gufunc_signature = "(n),(n),(n),(),(k),(k),(n),(n)->(n),(n),(),(k),(k)"

    def __init__(self, orders: tuple[int, ...]) -> None:
        self.orders = orders

    def make_node(self, *inputs: Any) -> Apply:
        given: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        return Apply(self, given, [v.type() for v in given[1:6]])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        x, y, d, shared, *rest = _laid_out(inputs)
        found = whitening_adjoint(x, y, d, shared, np.array(self.orders), *rest)
        for storage, result in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(result)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return list(shapes[1:6])

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of the density of a Matérn process")


def _laid_out(inputs: Sequence[Any]) -> list[Any]:
    x, y, d, shared, *rest = inputs
    if not len(x) == len(y) == len(d):
        raise ValueError(f"{len(y)} observations at {len(x)} places, with {len(d)} variances of noise")
    arrays = [np.require(i, dtype=np.float64, requirements=["C", "W"]) for i in (x, y, d, *rest)]
    return [*arrays[:3], float(shared), *arrays[3:]]


@register_funcify_default_op_cache_key(MaternWhitening)
def _numba_whitening(op: MaternWhitening, node: Apply, **kwargs: Any) -> Any:
    orders = np.array(op.orders)

    @numba_basic.numba_njit
    def matern_whitening(x: Any, y: Any, d: Any, shared: Any, variances: Any, rates: Any) -> Any:
        ascontiguous = np.ascontiguousarray
        return whitened(
            ascontiguous(x),
            ascontiguous(y),
            ascontiguous(d),
            shared.item(),
            orders,
            ascontiguous(variances),
            ascontiguous(rates),
        )

    return matern_whitening, source_version(__file__, *CALLED)


@register_funcify_default_op_cache_key(MaternAdjoint)
def _numba_adjoint(op: MaternAdjoint, node: Apply, **kwargs: Any) -> Any:
    orders = np.array(op.orders)

    @numba_basic.numba_njit
    def matern_adjoint(x: Any, y: Any, d: Any, shared: Any, variances: Any, rates: Any, to_z: Any, to_root: Any) -> Any:
        ascontiguous = np.ascontiguousarray
        to_y, to_d, to_shared, to_variances, to_rates = whitening_adjoint(
            ascontiguous(x),
            ascontiguous(y),
            ascontiguous(d),
            shared.item(),
            orders,
            ascontiguous(variances),
            ascontiguous(rates),
            ascontiguous(to_z),
            ascontiguous(to_root),
        )
        return to_y, to_d, np.array(to_shared), to_variances, to_rates

    return matern_adjoint, source_version(__file__, *CALLED)
