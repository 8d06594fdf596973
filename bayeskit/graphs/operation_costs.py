"""What the instructions of a graph cost: counted and not measured, so that a choice by cost is the same everywhere.

A clock tells what this machine takes at this moment: a model near a threshold would be answered by quadrature on one
machine, and sampled on another or while something else runs. What is counted are numbers, each at a price: what its
operation took on one machine, once. It need be right to a factor of two, no better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast, Clip, Identity, Second, Switch
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import Dot

from bayeskit.graphs.batched_linalg import LARGEST
from bayeskit.graphs.instructions import one_by_one

__all__ = ["OperationCosts", "charge", "cost_of", "counted", "operations_counted", "static_cost"]

CALL = 1_500.0  # nanoseconds of a call from Python, whatever it does
NUMBER = 0.8  # of a number of the result: writing it takes as long as a sum, a product, exp or log
FUNCTIONS = {"sin": 9.0, "cos": 9.0, "tan": 15.0, "where": 3.0, "logaddexp": 20.0, "power": 2.0}  # of NumPy's
SPECIAL = 25.0  # of SciPy's special functions: gammaln 15, erf 11, log_ndtr 21, i0e 32
SERIES = 300.0  # of those that are series of many terms
SERIES_OF = ("betainc", "gammainc", "gammaincc", "gammau", "gammal", "hyp2f1", "kve", "jv", "ive")
PYTHON = 500.0  # of an operation that has no NumPy function
MATRIX = 5_000.0  # of a matrix that LAPACK is called for by itself
SQUARE, CUBE = 4.0, 0.1  # for each of the m² and m³ of a factorisation or a product of matrices
READ = 20.0  # of a number that goes through a recursion of the library's own, compiled
STEP = 30.0  # for each operation within a step of a compiled loop
LAPACK = "pytensor.tensor.linalg"


class OperationCosts:
    """Nanoseconds that instructions have cost."""

    nanoseconds: float = 0.0


_COUNTED: ContextVar[OperationCosts | None] = ContextVar("operations counted", default=None)


@contextmanager
def operations_counted() -> Iterator[OperationCosts]:
    """Within it, what is computed in this thread is added up."""
    costs = OperationCosts()
    token = _COUNTED.set(costs)
    try:
        yield costs
    finally:
        _COUNTED.reset(token)
        if (around := _COUNTED.get()) is not None:
            around.nanoseconds += costs.nanoseconds


def counted() -> OperationCosts | None:
    """What is being added to; None where nobody asks."""
    return _COUNTED.get()


def charge(nanoseconds: float) -> None:
    """Add what is computed by other means than the instructions of a graph."""
    if (costs := _COUNTED.get()) is not None:
        costs.nanoseconds += nanoseconds


def cost_of(node: Apply, arguments: Sequence[Any], result: Any) -> float:
    """Nanoseconds of a node that was run: by the sizes of what it read and made."""
    made = sum(np.size(r) for r in (result if isinstance(result, list) else [result]))
    op: Any = node.op
    core = op.core_op if isinstance(op, Blockwise) else op
    if isinstance(core, Elemwise):
        return CALL + _price(core) * made
    if isinstance(core, CAReduce):
        return CALL + NUMBER / 2 * sum(np.size(a) for a in arguments)
    if isinstance(core, Dot):
        return CALL + made * (NUMBER + CUBE * np.shape(arguments[0])[-1])
    if (pairs := getattr(core, "nanoseconds_a_pair", None)) is not None:  # of a recursion over the pairs of its numbers
        length = np.shape(arguments[0])[-1]
        return CALL + np.size(arguments[0]) * (MATRIX / max(1, length) + pairs * length)
    if one_by_one(node) and not type(core).__module__.startswith(LAPACK):
        first = result[0] if isinstance(result, list) else result
        return CALL + MATRIX * np.prod(np.shape(first)[: op.batch_ndim(node)]) + READ * sum(map(np.size, arguments))
    if type(core).__module__.startswith(LAPACK):
        size = np.shape(arguments[0])[-1] if np.ndim(arguments[0]) else 1
        matrices = max(1, np.size(arguments[0]) // max(1, size**2))
        apart = MATRIX if one_by_one(node) or size > LARGEST else 0.0
        return CALL + NUMBER * made + matrices * (apart + SQUARE * size**2 + CUBE * size**3)
    return CALL + NUMBER * made


@cache
def _price(op: Elemwise) -> float:
    """Of one number that an elementwise operation makes."""
    if isinstance(op.scalar_op, Switch):
        return FUNCTIONS["where"]
    if isinstance(op.scalar_op, Cast | Clip | Identity | Second | Softplus):
        return NUMBER
    if isinstance(op.scalar_op, Log1mexp):
        return SPECIAL
    if op.nfunc_spec is None:
        return PYTHON
    home, _, name = str(op.nfunc_spec[0]).rpartition(".")
    if home.endswith("special"):
        return SERIES if name in SERIES_OF else SPECIAL
    return FUNCTIONS.get(name, NUMBER)


def static_cost(graphs: Iterable[Variable]) -> float:
    """Nanoseconds of a compiled function, which no instruction shows: by static shapes, and the steps of loops."""
    total = 0.0
    for node in {v.owner for v in ancestors(graphs) if v.owner is not None}:
        shapes = [getattr(v.type, "shape", ()) for v in [*node.inputs, *node.outputs]]
        total += CALL + NUMBER * math.prod(n or 1 for n in shapes[-1])
        if isinstance(node.op, Scan):
            steps = max((s[0] or 1 for s in shapes if s), default=1)
            total += STEP * steps * len(node.op.fgraph.apply_nodes)
    return total
