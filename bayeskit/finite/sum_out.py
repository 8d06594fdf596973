r"""Finite discrete variables summed out of a log joint density, as a graph in everything else.

.. math:: \log p(y, \phi) = \log \sum_z p(y, z, \phi)

Three shapes of the sum, the first that applies:

* ``independent``: every factor with z in it takes its entries one by one (:mod:`bayeskit.finite.axis_dependence`), so
  that the sum over K^N allocations is a product of N sums over K states;
* ``chain``: z is a ``DiscreteMarkovChain`` and every other factor takes its entries one by one: the forward algorithm;
* ``joint``: its entries are coupled; all values are enumerated, where they are few.

The density that is left is again a :class:`bayeskit.model.log_joint.LogJoint`, with one factor in the place of those
summed, so that every other elimination goes on with it. pymc-extras' ``marginalize`` does the same for a ``pm.Model``:
it refuses one with initial values, or with a Deterministic of z, computes constants in single precision and gives no
probabilities without draws; the tests hold both against each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from bayeskit.finite.axis_dependence import EntriesMixed
from bayeskit.finite.state_tables import StateTables
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.markov_chain import varies_with_time
from bayeskit.types import Graph

__all__ = ["ROWS_LIMIT", "Summed", "TooLarge", "figures", "sum_out"]

ROWS_LIMIT = 4096  # joint values of coupled entries
NUMBERS_LIMIT = 100_000_000  # entries times states


class TooLarge(Exception):
    """The sum has too many terms; the message says how many, and why they cannot be separated."""


@dataclass(frozen=True, eq=False)
class Summed:
    """One finite variable that was summed out, and its conditional distribution given the rest.

    Attributes
    ----------
    values : numpy.ndarray
        The K values of an entry; for ``joint``, all C values of the variable, of shape (C, *shape).
    table : tensor
        The sum's terms, log p(z, … | rest): ``independent``, (K, *shape); ``chain``, without the chain's own density,
        (*shape, K); ``joint``, (C,).
    factor : str
        The name of the factor that stands for the sum.
    log_initial, log_transition : tensor or None
        Of a chain: (*batch, K) and (*batch, K, K), or (*batch, T - 1, K, K) where it varies with time.
    """

    name: str
    kind: Literal["independent", "chain", "joint"]
    values: np.ndarray
    shape: tuple[int, ...]
    table: Graph
    factor: str
    log_initial: Graph | None = None
    log_transition: Graph | None = None
    time_varying: bool = False

    @property
    def transitions(self) -> Any:
        """log A with an axis for the steps, of length one where they share it."""
        graph: Any = self.log_transition
        return graph if graph is None or self.time_varying else graph[..., None, :, :]


def sum_out(
    joint: LogJoint, name: str, values: np.ndarray, shape: tuple[int, ...], rows: int = 1
) -> tuple[LogJoint, Summed]:
    """The density of everything else, in which one factor stands for the sum over a free variable; and the sum.

    Each of its entries can take the K ``values``; ``rows`` joint values are already enumerated for other variables.
    TooLarge if the sum has too many terms.
    """
    variable = joint.values[name]
    touched = [f for f in joint.factors if name in joint.scopes[f]]
    size = int(np.prod(shape, dtype=int))
    if len(values) * size > NUMBERS_LIMIT:
        raise TooLarge(f"{size:,} entries of {len(values)} states are {len(values) * size:.3g} numbers in a density")
    chain = joint.chains.get(name)
    others = [f for f in touched if not (chain and f == name)]
    factor = f"sum over {name}"
    sums = StateTables(joint, variable, np.asarray(values, dtype=variable.type.dtype), shape)
    try:
        table = sums.separated(others)
    except EntriesMixed as reason:
        number = len(values) ** size
        if number * rows > ROWS_LIMIT:
            raise TooLarge(
                f"its entries are coupled through {reason}, so that {len(values)}^{size} = {figures(number)} values "
                f"would have to be enumerated{f', for each of {rows} of others' if rows > 1 else ''}; "
                f"the limit is {ROWS_LIMIT}"
            ) from None
        every = np.array(list(itertools.product(sums.values, repeat=size)), sums.values.dtype).reshape(-1, *shape)
        step = Summed(name, "joint", every, shape, sums.enumerated(touched, every), factor)
        total = log_sum_exp(step.table)
    else:
        if chain:
            from bayeskit.finite.hmm_op import chain_log_evidence  # numba, for those who have a chain

            sums.keep_checks(joint.factors[name])
            varying = varies_with_time(joint.model[name])
            step = Summed(name, "chain", sums.values, shape, pt.moveaxis(table, 0, -1), factor, *chain, varying)
            total = chain_log_evidence(step.log_initial, step.transitions, step.table)
        else:
            step = Summed(name, "independent", sums.values, shape, table, factor)
            total = log_sum_exp(table)
    return _without(joint, name, touched, factor, sums.checked(total)), step


def figures(number: int) -> str:
    """A whole number of any size, in a few figures."""
    digits = math.log10(number) if number else 0.0
    return f"{number:.3g}" if digits < 300 else f"1e+{int(digits)}"


def log_sum_exp(table: Graph) -> Graph:
    """log Σ exp over the first axis; −∞ where every term is."""
    # PyTensor's own is stable only after rewrites that small functions go without. The derivative in the largest
    # element cancels, so that none is taken.
    largest: Any = disconnected_grad(pt.max(table, axis=0))
    offset = pt.switch(pt.isinf(largest), 0.0, largest)
    return pt.log(pt.sum(pt.exp(table - offset), axis=0)) + offset


def _without(joint: LogJoint, name: str, touched: Sequence[str], factor: str, total: Graph) -> LogJoint:
    variable = joint.values[name]
    return replace(
        joint,
        values={n: v for n, v in joint.values.items() if n != name},
        factors={factor if f in touched else f: total if f in touched else g for f, g in joint.factors.items()},
        deterministics={n: g for n, g in joint.deterministics.items() if variable not in joint.dependence.get(g, ())},
    )
