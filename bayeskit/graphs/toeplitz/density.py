r"""The two terms of a Normal density whose covariance is a Toeplitz matrix, as an operation of PyTensor, with gradient.

Of K with the first column t, which is never made, :math:`q = y^\top K^{-1} y` and :math:`\log |K|` come of Schur's
recursion (:mod:`bayeskit.graphs.toeplitz.recursions`) in O(n²) time and O(n) memory. With α = K⁻¹y,

.. math::

   \frac{\partial q}{\partial y} = 2 \alpha, \qquad
   \frac{\partial q}{\partial t_k} = -w_k \sum_i \alpha_i \alpha_{i+k}, \qquad
   \frac{\partial \log |K|}{\partial t_k} = w_k \sum_i (K^{-1})_{i, i+k},

:math:`w_0 = 1` and :math:`w_k = 2` (:mod:`bayeskit.graphs.toeplitz.inverse`).
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
from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key, register_funcify_default_op_cache_key

from bayeskit.graphs.numba_functions import as_it_is, source_version
from bayeskit.graphs.toeplitz import recursions
from bayeskit.graphs.toeplitz.inverse import correlation, solved_with_sums
from bayeskit.graphs.toeplitz.recursions import schur
from bayeskit.types import Graph

__all__ = ["ToeplitzSlopes", "ToeplitzTerms"]


class ToeplitzTerms(Op):
    """(t, y) → yᵀK⁻¹y and log |K|, neither a number where K is not positive definite."""

    __props__ = ()
    gufunc_signature = "(n),(n)->(),()"
    nanoseconds_a_pair = 0.4

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, _vectors(inputs), [pt.dscalar(), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        form, log_determinant = schur(*_laid_out(inputs))
        output_storage[0][0], output_storage[1][0] = np.asarray(form), np.asarray(log_determinant)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(), ()]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True, True], [True, False]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        solved: Any
        of_form: Any
        of_log: Any
        solved, of_form, of_log = ToeplitzSlopes().make_node(*inputs).outputs
        to_form, to_log = (None if isinstance(c.type, NullType | DisconnectedType) else c for c in cotangents)
        if to_form is None:
            return [to_log * of_log, disconnected_type()]
        of_both = to_form * of_form if to_log is None else to_form * of_form + to_log * of_log
        return [of_both, 2.0 * to_form * solved]


class ToeplitzSlopes(Op):
    """(t, y) → K⁻¹y, and the derivatives of yᵀK⁻¹y and of log |K| in t."""

    __props__ = ()
    gufunc_signature = "(n),(n)->(n),(n),(n)"
    nanoseconds_a_pair = 2.0

    def make_node(self, *inputs: Any) -> Apply:
        t, y = _vectors(inputs)
        return Apply(self, [t, y], [y.type(), t.type(), t.type()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        t, y = _laid_out(inputs)
        solved, sums = solved_with_sums(t, y)
        weights = np.full(len(t), 2.0)
        weights[0] = 1.0
        output_storage[0][0] = solved
        output_storage[1][0] = -weights * correlation(solved, solved)
        output_storage[2][0] = weights * sums

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[1], shapes[0], shapes[0]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of a density with a Toeplitz matrix")


def _vectors(inputs: Sequence[Any]) -> list[Any]:
    given: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
    if [v.type.ndim for v in given] != [1, 1]:
        raise TypeError("the first column of a matrix, and observations")
    return given


def _laid_out(inputs: Sequence[Any]) -> list[np.ndarray]:
    t, y = inputs
    if len(t) != len(y):
        raise ValueError(f"{len(y)} observations at {len(t)} places")
    return [np.require(i, dtype=np.float64, requirements=["C", "W"]) for i in (t, y)]


@register_funcify_default_op_cache_key(ToeplitzTerms)
def _numba_terms(op: ToeplitzTerms, node: Apply, **kwargs: Any) -> Any:
    @numba_basic.numba_njit
    def toeplitz_terms(t: Any, y: Any) -> Any:
        form, log_determinant = schur(np.ascontiguousarray(t), np.ascontiguousarray(y))
        return np.array(form), np.array(log_determinant)

    return toeplitz_terms, source_version(__file__, recursions.__file__)


# Fourier transforms and products of SciPy's are most of what it does.
register_funcify_and_cache_key(ToeplitzSlopes)(as_it_is)
