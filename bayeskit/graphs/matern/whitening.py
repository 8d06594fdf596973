r"""Matérn processes on the line observed with noise: whitening and pivots as an operation of PyTensor, with gradient.

With :math:`L L^\top = \operatorname{diag} d + \sum_k c_k k_{\nu_k}(\sqrt{\lambda_k^2 (x_i - x_j)^2 + h_k^2})`, which is
seldom made, the log density of y − μ is :math:`-½ |z|^2 - \sum \log \operatorname{diag} L - \tfrac n2 \log 2\pi` with
:math:`z = L^{-1}(y - \mu)`. Both come of a Kalman filter (:mod:`bayeskit.graphs.matern.passes`) in O(n p³), with p the
sum of the orders ν + ½, and their gradient of one more pass. h is zero, or so small that a filter can do without it
but for near places with little noise (:mod:`bayeskit.graphs.matern.softened`).
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

from bayeskit.graphs import numba_functions
from bayeskit.graphs.matern import softened
from bayeskit.graphs.matern.softened import softened_adjoint, softened_whitening, whitened_each
from bayeskit.graphs.numba_functions import own, source_version
from bayeskit.types import Graph

__all__ = ["MaternAdjoint", "MaternWhitening", "laid_out"]

CALLED = (softened.__file__, *softened.CALLED, numba_functions.__file__)


class MaternWhitening(Op):
    """(x, y, d, c, λ) → L⁻¹y and the diagonal of L, with x in ascending order.

    ``orders`` are those of the processes, ν + ½, with 0 for a constant, and ``softening`` has h of each. Neither output
    is a number where the covariance is not positive definite.
    """

    __props__ = ("orders", "softening")
    gufunc_signature = "(n),(n),(n),(k),(k)->(n),(n)"

    def __init__(self, orders: tuple[int, ...], softening: tuple[float, ...]) -> None:
        self.orders = orders
        self.softening = softening

    def make_node(self, *inputs: Any) -> Apply:
        given: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        if [v.type.ndim for v in given] != [1, 1, 1, 1, 1]:
            raise TypeError("places, observations, noise, variances and rates")
        return Apply(self, given, [given[1].type(), given[1].type()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        z, root = self.of_many(*inputs)
        output_storage[0][0], output_storage[1][0] = z, root

    def of_many(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """Both outputs for inputs with any axes in front, of which each may be one."""
        batch = np.broadcast_shapes(*(i.shape[:-1] for i in inputs))
        x, y, d, variances, rates = (_rows(i, batch) for i in inputs)
        _require_one_length(x.shape[1], y.shape[1], d.shape[1])
        found = whitened_each(x, y, d, np.array(self.orders), variances, rates, np.array(self.softening))
        return [f.reshape(*batch, x.shape[1]) for f in found]

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[1], shapes[1]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[False, False], [True, False], *[[True, True]] * 3]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        given = [
            pt.zeros_like(o) if isinstance(c.type, NullType | DisconnectedType) else c
            for o, c in zip(outputs, cotangents, strict=True)
        ]
        return [disconnected_type(), *MaternAdjoint(self.orders, self.softening).make_node(*inputs, *given).outputs]


class MaternAdjoint(Op):
    """(x, y, d, c, λ) and the adjoints of both outputs → those of y, d, c and λ."""

    __props__ = ("orders", "softening")
    gufunc_signature = "(n),(n),(n),(k),(k),(n),(n)->(n),(n),(k),(k)"

    def __init__(self, orders: tuple[int, ...], softening: tuple[float, ...]) -> None:
        self.orders = orders
        self.softening = softening

    def make_node(self, *inputs: Any) -> Apply:
        given: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        return Apply(self, given, [v.type() for v in given[1:5]])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        x, y, d, variances, rates, *given = laid_out(inputs)
        orders, softening = np.array(self.orders), np.array(self.softening)
        found = softened_adjoint(x, y, d, orders, variances, rates, softening, *given)
        for storage, result in zip(output_storage, found, strict=True):
            storage[0] = result

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return list(shapes[1:5])

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of the density of a Matérn process")


def _rows(value: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """A matrix with a row for each of a batch, or with one for all."""
    one = all(n == 1 for n in value.shape[:-1])
    rows = value if one else np.broadcast_to(value, (*batch, value.shape[-1]))
    return np.require(rows.reshape(-1, value.shape[-1]), dtype=np.float64, requirements=["C", "W"])


def _require_one_length(places: int, observations: int, variances: int) -> None:
    if not places == observations == variances:
        raise ValueError(f"{observations} observations at {places} places, with {variances} variances of noise")


def laid_out(inputs: Sequence[Any]) -> list[np.ndarray]:
    _require_one_length(*map(len, inputs[:3]))
    return [i if _is_laid_out(i) else np.array(i, dtype=np.float64, order="C") for i in inputs]


def _is_laid_out(value: np.ndarray) -> bool:  # np.require takes ten times as long
    return value.dtype == np.float64 and value.flags.c_contiguous and value.flags.writeable


@register_funcify_default_op_cache_key(MaternWhitening)
def _numba_whitening(op: MaternWhitening, node: Apply, **kwargs: Any) -> Any:
    orders, softening, whitening = (
        np.array(op.orders),
        np.array(op.softening),
        numba_basic.numba_njit(softened_whitening),
    )

    @numba_basic.numba_njit
    def matern_whitening(x: Any, y: Any, d: Any, variances: Any, rates: Any) -> Any:
        return whitening(
            own(x),
            own(y),
            own(d),
            own(orders),
            own(variances),
            own(rates),
            own(softening),
        )

    return matern_whitening, source_version(__file__, *CALLED)


@register_funcify_default_op_cache_key(MaternAdjoint)
def _numba_adjoint(op: MaternAdjoint, node: Apply, **kwargs: Any) -> Any:
    orders, softening = np.array(op.orders), np.array(op.softening)
    adjoint = numba_basic.numba_njit(softened_adjoint)

    @numba_basic.numba_njit
    def matern_adjoint(x: Any, y: Any, d: Any, variances: Any, rates: Any, to_z: Any, to_root: Any) -> Any:
        return adjoint(
            own(x),
            own(y),
            own(d),
            own(orders),
            own(variances),
            own(rates),
            own(softening),
            own(to_z),
            own(to_root),
        )

    return matern_adjoint, source_version(__file__, *CALLED)
