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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.tensor.basic import ARange, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, Shape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from bayeskit.finite.axis_dependence import EntriesMixed, connection
from bayeskit.graphs.compile import vectorised
from bayeskit.graphs.rewriting import apart_from_checks, substitute
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.markov_chain import varies_with_time
from bayeskit.types import Graph

__all__ = ["ROWS_LIMIT", "Summed", "TooLarge", "figures", "sum_out"]

ROWS_LIMIT = 4096  # joint values of coupled entries
NUMBERS_LIMIT = 100_000_000  # entries times states
UNROLLED = 16  # states up to which each gets a graph of its own: parameters are then computed once, not once an entry


LENGTHS = (Subtensor, ScalarFromTensor, TensorFromScalar, ARange, Reshape, MakeVector, DimShuffle)


class TooLarge(Exception):
    """The sum has too many terms; the message says how many, and why they cannot be separated."""


@dataclass(frozen=True, eq=False)
class Summed:
    """One finite variable that was summed out, and its conditional distribution given the rest.

    Attributes
    ----------
    name : str
    kind : {"independent", "chain", "joint"}
    values : numpy.ndarray
        The K values of an entry; for ``joint``, all C values of the variable, of shape (C, *shape).
    shape : tuple of int
        Of the variable.
    table : tensor
        The sum's terms, log p(z, … | rest): ``independent``, (K, *shape); ``chain``, without the chain's own density,
        (*shape, K); ``joint``, (C,).
    log_initial, log_transition : tensor or None
        Of a chain: (*batch, K) and (*batch, K, K), or (*batch, T - 1, K, K) where it varies with time.
    factor : str
        The name of the factor that stands for the sum.
    time_varying : bool
        Whether a chain has a transition matrix for each step.
    """

    name: str
    kind: str
    values: np.ndarray
    shape: tuple[int, ...]
    table: Graph
    factor: str
    log_initial: Graph | None = None
    log_transition: Graph | None = None
    time_varying: bool = False


def sum_out(
    joint: LogJoint, name: str, values: np.ndarray, shape: tuple[int, ...], rows: int = 1
) -> tuple[LogJoint, Summed]:
    """Sum one finite variable out of a density.

    Parameters
    ----------
    joint : LogJoint
    name : str
        A free variable with finitely many values.
    values : numpy.ndarray
        The K values that each entry can take.
    shape : tuple of int
        Of the variable.
    rows : int, default 1
        Joint values already enumerated for other variables.

    Returns
    -------
    LogJoint
        Of everything else; one factor stands for the sum.
    Summed

    Raises
    ------
    TooLarge
        If the sum has too many terms.
    """
    variable = joint.values[name]
    touched = [f for f in joint.factors if name in joint.scopes[f]]
    size = int(np.prod(shape, dtype=int))
    if len(values) * size > NUMBERS_LIMIT:
        raise TooLarge(f"{size:,} entries of {len(values)} states are {len(values) * size:.3g} numbers in a density")
    chain = joint.chains.get(name)
    others = [f for f in touched if not (chain and f == name)]
    factor = f"sum over {name}"
    sums = _Sums(joint, variable, np.asarray(values, dtype=variable.type.dtype), shape)
    try:
        table = sums.separated(others)
    except EntriesMixed as error:
        reason = str(error)
    else:
        if chain:
            from bayeskit.finite.hmm_op import chain_log_evidence  # numba, for those who have a chain

            sums.hold(joint.factors[name])
            emission = pt.moveaxis(table, 0, -1)
            varying = varies_with_time(joint.model[name])
            total = chain_log_evidence(*chain, emission, time_varying=varying)
            step = Summed(name, "chain", sums.values, shape, emission, factor, *chain, varying)
        else:
            total = log_sum_exp(table)
            step = Summed(name, "independent", sums.values, shape, table, factor)
        return _without(joint, name, touched, factor, sums.checked(total)), step
    if len(values) ** size * rows > ROWS_LIMIT:
        raise TooLarge(
            f"its entries are coupled through {reason}, so that {len(values)}^{size} = "
            f"{figures(len(values) ** size)} values would have to be enumerated"
            f"{f', for each of {rows} of others' if rows > 1 else ''}; the limit is {ROWS_LIMIT}"
        )
    cells = np.array(list(itertools.product(sums.values, repeat=size)), dtype=sums.values.dtype)
    configurations = cells.reshape(-1, *shape)
    table = sums.enumerated(touched, configurations)
    step = Summed(name, "joint", configurations, shape, table, factor)
    return _without(joint, name, touched, factor, sums.checked(log_sum_exp(table))), step


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
    factors: dict[str, Variable] = {}
    for f, graph in joint.factors.items():
        if f not in touched:
            factors[f] = graph
        elif factor not in factors:
            factors[factor] = total
    variable = joint.values[name]
    return replace(
        joint,
        values={n: v for n, v in joint.values.items() if n != name},
        factors=factors,
        deterministics={n: g for n, g in joint.deterministics.items() if variable not in joint.dependence.get(g, ())},
    )


def folded(graphs: Sequence[Any], replacements: Mapping[Any, Any]) -> dict[Any, Any]:
    """What each node becomes where some are replaced, with whole numbers that are known, such as lengths, computed."""
    memo: dict[Any, Any] = dict(replacements)
    for node in toposort(list(graphs)):
        inputs: list[Any] = [memo.get(i, i) for i in node.inputs]
        op: Any = node.op
        if isinstance(op, Shape) and None not in inputs[0].type.shape:
            memo[node.outputs[0]] = pt.constant(np.array(inputs[0].type.shape, dtype=np.int64))
        elif isinstance(op, LENGTHS) and all(isinstance(i, Constant) and np.size(i.data) <= 8 for i in inputs):
            storage: list[list[Any]] = [[None] for _ in node.outputs]
            op.perform(node, [i.data for i in inputs], storage)
            memo[node.outputs[0]] = (
                node.outputs[0].type.clone(shape=np.shape(storage[0][0])).make_constant(storage[0][0])
            )
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True))
    return memo


def _stretches(node: Any, axes: Mapping[Any, Sequence[Any]], memo: Mapping[Any, Any]) -> bool:
    """Whether an axis of the variable may have length one at a node, instead of its own.

    PyTensor stretches an axis only where it is known to have length one; and nothing may pick entries from it.
    """
    lengths = memo.get(node, node).type.shape
    if any(n is None or a.positions is not None for a, n in zip(axes[node], lengths, strict=True) if a is not None):
        return False
    if node.owner is None or not isinstance(node.owner.op, AdvancedSubtensor):
        return True
    value, *indices = node.owner.inputs
    # An arange that was computed when the length was another, as in the density of a nested indicator.
    return not any(a is not None for a in axes.get(value, ())) or all(
        memo.get(i, i).type.shape == (1,) * i.type.ndim for i in indices
    )


class _Sums:
    """The terms of one sum; keeps the checks of the factors, which hold for every state."""

    def __init__(self, joint: LogJoint, variable: Any, values: np.ndarray, shape: tuple[int, ...]) -> None:
        self.joint, self.variable, self.values, self.shape = joint, variable, values, shape
        self.checks: list[tuple[Any, Variable]] = []

    def hold(self, graph: Variable) -> None:
        """Keep the checks of a factor that is not evaluated: those that do not depend on the variable."""
        _, conditions, operations = apart_from_checks(graph)
        for operation, condition in zip(operations, conditions, strict=True):
            if self.variable not in self.joint.dependence.get(condition, ()):
                self.checks.append((operation, condition))

    def separated(self, factors: Sequence[str]) -> Graph:
        """Σ of the factors with every entry in state k: (K, *shape).

        Raises
        ------
        EntriesMixed
            If a factor mixes entries.
        """
        terms = []
        for factor in factors:
            graph, conditions, operations = apart_from_checks(self.joint.factors[factor])
            try:
                axes, below = connection(graph, self.variable, self.shape)
            except EntriesMixed as error:
                raise EntriesMixed(f"{error} in the log density of {factor!r}") from None
            table, *checks = self._everywhere([graph, *conditions], below)
            self.checks += [(o, pt.all(c)) for o, c in zip(operations, checks, strict=True)]
            terms.append(self._aligned(table, axes))
        size = (len(self.values), *self.shape)
        return pt.broadcast_to(pt.add(*terms) if len(terms) > 1 else terms[0], size)

    def enumerated(self, factors: Sequence[str], configurations: np.ndarray) -> Graph:
        """Σ of the factors at each value of the variable: (C,)."""
        terms = []
        for factor in factors:
            graph, conditions, operations = apart_from_checks(self.joint.factors[factor])
            table, *checks = self._at([graph, *conditions], self.variable, configurations)
            self.checks += [(o, pt.all(c)) for o, c in zip(operations, checks, strict=True)]
            terms.append(pt.sum(table, axis=tuple(range(1, table.type.ndim))))
        return pt.add(*terms) if len(terms) > 1 else terms[0]

    def checked(self, total: Graph) -> Graph:
        """The sum, with the checks of all its factors."""
        for operation, condition in self.checks:
            total = operation(total, condition)
        return total

    def _everywhere(self, graphs: list[Graph], axes: Mapping[Variable, Any]) -> list[Graph]:
        """The graphs with all entries in state k."""
        points = self.values.reshape(-1, *[1] * len(self.shape))
        # One number stands for all entries: mu[z] is then K rows, not one for each entry and state.
        alone = self.variable.type.clone(shape=(1,) * len(self.shape))()
        try:
            memo = folded(graphs, {self.variable: alone})
        except (IndexError, TypeError, ValueError):
            memo = {}  # a mask, or an operation that asks for the length
        if memo and all(_stretches(node, axes, memo) for node in axes):
            return self._at([memo.get(g, g) for g in graphs], alone, points)
        return self._at(graphs, self.variable, np.broadcast_to(points, (len(points), *self.shape)))

    def _at(self, graphs: list[Graph], variable: Any, points: np.ndarray) -> list[Graph]:
        """The graphs at each point, along a new first axis."""
        if len(points) > UNROLLED:
            every = pt.constant(points)
            found: Any = vectorize_graph(graphs, {variable: every})
            return [
                new if new.type.ndim > old.type.ndim else pt.broadcast_to(new, (len(points), *new.shape))
                for new, old in zip(found, graphs, strict=True)
            ]
        rows = []
        for point in points:
            held: Any = pt.constant(np.asarray(point, dtype=points.dtype))
            rows.append(substitute(graphs, {variable: held}))
        return [vectorised(pt.stack(column)) for column in zip(*rows, strict=True)]

    def _aligned(self, table: Graph, axes: Sequence[Any]) -> Graph:
        """A table whose later axes are those of a factor, with those of the variable instead."""
        extra = [i + 1 for i, axis in enumerate(axes) if axis is None]
        table = pt.sum(table, axis=extra) if extra else table
        kept = [axis for axis in axes if axis is not None]
        for place, axis in enumerate(kept):
            length = axis.length(self.shape)
            indices = axis.indices(length)
            if not np.array_equal(indices, np.arange(length)):
                # Entries that the factor has not are without a term; one that it has twice has two.
                front = pt.moveaxis(table, place + 1, 0)
                empty = pt.zeros((length, *[front.shape[i] for i in range(1, front.type.ndim)]))
                table = pt.moveaxis(pt.inc_subtensor(empty[indices], front), 0, place + 1)
        present = [a for axis in kept for a in axis.all]
        if len(present) > len(kept):
            table = table.reshape((table.shape[0], *[self.shape[a] for a in present]))
        order = sorted(range(len(present)), key=lambda i: present[i])
        table = table.transpose(0, *[i + 1 for i in order])
        present = sorted(present)
        pattern = [0] + [present.index(a) + 1 if a in present else "x" for a in range(len(self.shape))]
        return table.dimshuffle(*pattern)
