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
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.blockwise import Blockwise

from bayeskit.finite import chain_arithmetic, forward_backward
from bayeskit.finite.forward_backward import evidence_and_filter, evidence_gradient
from bayeskit.finite.hmm_arguments import stacked_chains
from bayeskit.finite.sequences import evidences_and_filters
from bayeskit.graphs import numba_functions
from bayeskit.graphs.numba_functions import own, source_version
from bayeskit.types import Array, Graph

__all__ = ["ChainGradient", "ChainLogEvidence", "chain_log_evidence", "evidences_of_many"]

CALLED = (chain_arithmetic.__file__, forward_backward.__file__, numba_functions.__file__)


class ChainLogEvidence(Op):
    """(log π, log A, l) → log p(y), filtered probabilities, and whether these are logarithms.

    All outputs but the first are for the gradient, and have none of their own.
    """

    __props__ = ()
    gufunc_signature = "(k),(s,k,k),(t,k)->(),(t,k),()"
    # PyTensor calls it for all chains together; by itself it would call ``perform`` for one after the other.
    gufunc_spec = (f"{__name__}.evidences_of_many", 3, 3)

    def make_node(self, *inputs: Any) -> Apply:
        chain: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        return Apply(self, chain, [pt.dscalar(), chain[2].type(), pt.scalar(dtype="bool")])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        value, filtered, logarithms = evidence_and_filter(*(np.require(i, requirements=["C", "W"]) for i in inputs))
        output_storage[0][0] = np.asarray(value)
        output_storage[1][0] = filtered
        output_storage[2][0] = np.asarray(logarithms)

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(), shapes[2], ()]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        to_value, *to_others = cotangents
        if not all(isinstance(c.type, DisconnectedType) for c in to_others):
            raise NotImplementedError("second derivatives of the log evidence of a chain")
        smoothed: Graph
        pairs: Graph
        smoothed, pairs = ChainGradient().make_node(inputs[1], *outputs[1:]).outputs
        return [to_value * smoothed[0], to_value * pairs, to_value * smoothed]


def evidences_of_many(initial: Array, transition: Array, likelihood: Array) -> tuple[Array, Array, np.ndarray]:
    """What ``ChainLogEvidence`` gives of each chain; the leading axes broadcast."""
    chains = stacked_chains(initial, transition, likelihood)
    values, filtered, logarithms = evidences_and_filters(*chains.arrays)
    return chains.shaped(values), chains.shaped(filtered), chains.shaped(logarithms)


class ChainGradient(Op):
    """(log A, filtered, whether these are logarithms) → smoothed probabilities and those of pairs, shaped as A."""

    __props__ = ()
    gufunc_signature = "(s,k,k),(t,k),()->(t,k),(s,k,k)"

    def make_node(self, *inputs: Any) -> Apply:
        transition, filtered, logarithms = (pt.as_tensor_variable(value) for value in inputs)
        return Apply(self, [transition, filtered, logarithms], [filtered.type(), transition.type()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        transition, filtered = (np.require(i, requirements=["C", "W"]) for i in inputs[:2])
        smoothed, pairs = evidence_gradient(transition, filtered, bool(inputs[2]))
        output_storage[0][0] = smoothed
        output_storage[1][0] = pairs

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[1], shapes[0]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of the log evidence of a chain")


@register_funcify_default_op_cache_key(ChainLogEvidence)
def _numba_value(op: ChainLogEvidence, node: Apply, **kwargs: Any) -> Any:
    @numba_basic.numba_njit
    def chain_log_evidence(initial: Any, transition: Any, likelihood: Any) -> Any:
        value, filtered, logarithms = evidence_and_filter(own(initial), own(transition), own(likelihood))
        return np.array(value), filtered, np.array(logarithms)

    return chain_log_evidence, source_version(__file__, *CALLED)


@register_funcify_default_op_cache_key(ChainGradient)
def _numba_gradient(op: ChainGradient, node: Apply, **kwargs: Any) -> Any:
    @numba_basic.numba_njit
    def chain_gradient(transition: Any, filtered: Any, logarithms: Any) -> Any:
        return evidence_gradient(own(transition), own(filtered), logarithms.item())

    return chain_gradient, source_version(__file__, *CALLED)


def chain_log_evidence(log_initial: Any, log_transition: Any, log_likelihood: Any) -> Graph:
    """log p(y) of each sequence, with the states summed out, as a graph: (…).

    The arguments are those of :mod:`bayeskit.finite.hmm`, and the leading axes broadcast. −inf, with gradient zero,
    where the observations are impossible. The probabilities are not checked: rows that do not sum to one are weights,
    and the result is the log of their sum.
    """
    value: Graph = Blockwise(ChainLogEvidence()).make_node(log_initial, log_transition, log_likelihood).outputs[0]
    return value
