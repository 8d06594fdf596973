"""The parameters of a ``DiscreteMarkovChain`` of pymc-extras, read from the random variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import resolve_shapes
from pytensor.graph.basic import Variable
from pytensor.tensor.shape import SpecifyShape

__all__ = ["chain_parameters", "is_chain", "log_probability", "states_of_chain", "varies_with_time"]


def is_chain(rv: Variable) -> bool:
    """Whether a random variable is a Markov chain of finitely many states; by the class of its operation."""
    # By name: pymc-extras takes a second to import, and most models have no chain.
    return rv.owner is not None and type(rv.owner.op).__name__ == "DiscreteMarkovChainRV"


def varies_with_time(rv: Variable) -> bool:
    """Whether a chain has a transition matrix for each step; its dimensions do not tell, as sequences may share it."""
    return bool(getattr(rv.owner.op, "time_varying_P", False)) if rv.owner is not None else False


def states_of_chain(rv: Variable) -> int | None:
    """How many states a chain has, where its transition matrix says so."""
    owner: Any = rv.owner
    states: int | None = owner.inputs[0].type.shape[-1]
    return states


def chain_parameters(rv: Variable) -> tuple[Variable, Variable] | None:
    """log π and log A of a first-order chain, as graphs of random variables.

    log p(z₁ = k) is of shape (*batch, K), and log p(zₜ₊₁ = j | zₜ = i) of shape (*batch, K, K), or with T − 1 before
    the last two where it varies with time. None for a chain of higher order, or one whose number of states or first
    distribution is of another kind.
    """
    owner: Any = rv.owner
    states = states_of_chain(rv)
    transition, _, initial, _ = owner.inputs
    while isinstance(initial.owner.op, SpecifyShape):  # of lengths that were set aside when the model was read
        initial = initial.owner.inputs[0]
    if owner.op.n_lags != 1 or states is None or getattr(initial.owner.op, "ndim_supp", None) != 0:
        return None
    shape = resolve_shapes(tuple(initial.shape))
    first = [pm.logp(initial, pt.full(shape, k, dtype=initial.dtype))[..., 0] for k in range(states)]
    return pt.stack(first, axis=-1), log_probability(transition)


def log_probability(probability: Any) -> Any:
    """log p, with gradient zero where p = 0.

    There the derivative of log p is infinite, and times the zero that a chain's log evidence gives it is NaN: the whole
    gradient of a model with an impossible transition would be lost. Right for a p that is zero whatever the parameters.
    """
    probability = pt.as_tensor_variable(probability)
    possible = probability > 0
    return pt.switch(possible, pt.log(pt.switch(possible, probability, 1.0)), -np.inf)
