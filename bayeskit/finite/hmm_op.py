"""The log evidence of a finite Markov chain as a PyTensor operation, with its gradient, in time linear in its length.

With l_tk = log p(y_t | z_t = k), the log evidence log Σ_z π_{z_1} Π_t A_{z_t z_{t+1}} exp(Σ_t l_{t z_t}) is a
log-sum-exp, so that its derivatives are expectations under p(z | y) (Fisher's identity):

    ∂ log p(y) / ∂ log π_k = p(z_1 = k | y)
    ∂ log p(y) / ∂ log A_ij = Σ_t p(z_t = i, z_{t+1} = j | y)
    ∂ log p(y) / ∂ l_tk = p(z_t = k | y)

all of one forward and one backward pass (:mod:`bayeskit.finite.forward_backward`). They are zero, never NaN, where a
probability is zero. pymc-extras' ``marginalize`` gives the same density as a ``scan``; there, value and gradient of a
model of 500 steps and three states take fifteen to twenty times as long, both compiled by numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.blockwise import Blockwise

from bayeskit.finite import chain_arithmetic, forward_backward
from bayeskit.finite.forward_backward import evidence_and_filter, evidence_gradient
from bayeskit.graphs.numba_functions import source_version
from bayeskit.types import Graph

__all__ = ["ChainGradient", "ChainLogEvidence", "chain_log_evidence"]

CALLED = (chain_arithmetic.__file__, forward_backward.__file__)


class _ChainOp(Op):
    __props__ = ("time_varying",)

    def __init__(self, time_varying: bool = False) -> None:
        self.time_varying = time_varying

    @property
    def _matrices(self) -> str:
        return "(s,k,k)" if self.time_varying else "(k,k)"

    def _stack(self, log_transition: np.ndarray) -> np.ndarray:
        return log_transition if self.time_varying else log_transition[None]


class ChainLogEvidence(_ChainOp):
    """(log π, log A, l) → log p(y), filtered probabilities, and whether these are logarithms.

    All outputs but the first are for the gradient, and have none of their own.
    """

    @property
    def gufunc_signature(self) -> str:
        return f"(k),{self._matrices},(t,k)->(),(t,k),()"

    def make_node(self, *inputs: Any) -> Apply:
        initial, transition, likelihood = _float64(inputs, (1, 3 if self.time_varying else 2, 2))
        outputs = [
            pt.TensorType("float64", ())(),
            pt.TensorType("float64", likelihood.type.shape)(),
            pt.TensorType("bool", ())(),
        ]
        return Apply(self, [initial, transition, likelihood], outputs)

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        initial, transition, likelihood = (np.require(i, requirements=["C", "W"]) for i in inputs)
        value, filtered, logarithms = evidence_and_filter(initial, self._stack(transition), likelihood)
        output_storage[0][0] = np.asarray(value)
        output_storage[1][0] = filtered
        output_storage[2][0] = np.asarray(logarithms)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(), shapes[2], ()]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        to_value, *to_others = cotangents
        if not all(_disconnected(c) for c in to_others):
            raise NotImplementedError("second derivatives of the log evidence of a chain")
        _, filtered, logarithms = outputs
        smoothed: Graph
        pairs: Graph
        op = ChainGradient(self.time_varying)
        smoothed, pairs = op.make_node(inputs[1], filtered, logarithms).outputs
        return [to_value * smoothed[0], to_value * pairs, to_value * smoothed]


class ChainGradient(_ChainOp):
    """(log A, filtered, whether these are logarithms) → smoothed probabilities and those of pairs, shaped as A."""

    @property
    def gufunc_signature(self) -> str:
        return f"{self._matrices},(t,k),()->(t,k),{self._matrices}"

    def make_node(self, *inputs: Any) -> Apply:
        *numbers, logarithms = inputs
        transition, filtered = _float64(numbers, (3 if self.time_varying else 2, 2))
        outputs = [filtered.type(), transition.type()]
        return Apply(self, [transition, filtered, pt.as_tensor_variable(logarithms)], outputs)

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        transition, filtered = (np.require(i, requirements=["C", "W"]) for i in inputs[:2])
        smoothed, pairs = evidence_gradient(self._stack(transition), filtered, bool(inputs[2]))
        output_storage[0][0] = smoothed
        output_storage[1][0] = pairs if self.time_varying else pairs[0]

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[1], shapes[0]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of the log evidence of a chain")


def _float64(values: Sequence[Any], dimensions: Sequence[int]) -> list[Any]:
    tensors = [pt.cast(pt.as_tensor_variable(value), "float64") for value in values]
    if [t.type.ndim for t in tensors] != list(dimensions):
        raise TypeError(f"the arguments have {[t.type.ndim for t in tensors]} dimensions instead of {list(dimensions)}")
    return tensors


def _disconnected(variable: Any) -> bool:
    return type(variable.type).__name__ == "DisconnectedType"


@register_funcify_default_op_cache_key(ChainLogEvidence)
def _numba_value(op: ChainLogEvidence, node: Apply, **kwargs: Any) -> Any:
    time_varying = op.time_varying

    @numba_basic.numba_njit
    def chain_log_evidence(log_initial: Any, log_transition: Any, log_likelihood: Any) -> Any:
        transition = np.ascontiguousarray(log_transition)
        value, filtered, logarithms = evidence_and_filter(
            np.ascontiguousarray(log_initial),
            transition if time_varying else transition.reshape((1, *transition.shape)),
            np.ascontiguousarray(log_likelihood),
        )
        return np.array(value), filtered, np.array(logarithms)

    return chain_log_evidence, source_version(__file__, *CALLED)


@register_funcify_default_op_cache_key(ChainGradient)
def _numba_gradient(op: ChainGradient, node: Apply, **kwargs: Any) -> Any:
    time_varying = op.time_varying

    @numba_basic.numba_njit
    def chain_gradient(log_transition: Any, filtered: Any, logarithms: Any) -> Any:
        transition = np.ascontiguousarray(log_transition)
        smoothed, pairs = evidence_gradient(
            transition if time_varying else transition.reshape((1, *transition.shape)),
            np.ascontiguousarray(filtered),
            logarithms.item(),
        )
        return smoothed, pairs if time_varying else pairs[0]

    return chain_gradient, source_version(__file__, *CALLED)


def chain_log_evidence(
    log_initial: Any, log_transition: Any, log_likelihood: Any, *, time_varying: bool = False
) -> Graph:
    """log p(y), with the states summed out, as a graph.

    Parameters
    ----------
    log_initial : tensor of shape (…, K)
        log π.
    log_transition : tensor of shape (…, K, K), or (…, T-1, K, K) if ``time_varying``
        log A. :func:`bayeskit.model.markov_chain.log_probability` of a matrix that has zeros.
    log_likelihood : tensor of shape (…, T, K)
        l. A missing observation is a row of zeros.

    Returns
    -------
    tensor of shape (…)
        One number a sequence; the leading axes broadcast. −inf, with gradient zero, where the observations are
        impossible. It has a gradient, but no second derivatives.

    Notes
    -----
    The probabilities are not checked: rows that do not sum to one are weights, and the result is the log of their sum.
    """
    op = Blockwise(ChainLogEvidence(time_varying))
    value: Graph = op.make_node(log_initial, log_transition, log_likelihood).outputs[0]
    return value
