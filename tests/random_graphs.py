"""Random small PyTensor graphs, and their values by running each operation, for laws of what is proved about graphs.

All nodes are 3 × 3, so that every operation can follow every other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from hypothesis import strategies as st
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import toposort
from pytensor.raise_op import Assert

RNG = np.random.default_rng(20)
CONSTANT = RNG.uniform(0.5, 2.0, size=(3, 3))
LOWER = np.tril(RNG.uniform(0.5, 2.0, size=(3, 3)))
MASK = RNG.uniform(size=(3, 3)) < 0.5

Operation = Callable[[Any, Any], Any]

OPERATIONS: dict[str, Operation] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "negate": lambda x, y: -x,
    "shift": lambda x, y: x + CONSTANT,
    "multiply": lambda x, y: x * y,
    "scale": lambda x, y: x * CONSTANT,
    "divide": lambda x, y: x / y,
    "divide by a constant": lambda x, y: x / CONSTANT,
    "reciprocal": lambda x, y: pt.reciprocal(x),
    "square": lambda x, y: pt.sqr(x),
    "cube": lambda x, y: x**3,
    "to the power of zero": lambda x, y: x**0,
    "to several powers": lambda x, y: x ** pt.constant([1.0, 2.0, 1.0]),
    "root of the square": lambda x, y: pt.sqrt(pt.sqr(x)),
    "exponential": lambda x, y: pt.exp(x),
    "positive part": lambda x, y: pt.maximum(x, 0.0),
    "clip from below": lambda x, y: pt.clip(x, 0.0, np.inf),
    "absolute value": lambda x, y: pt.abs(x),
    "cast": lambda x, y: pt.cast(pt.cast(x, "float32"), "float64"),
    "truncate": lambda x, y: pt.cast(pt.cast(x, "int64"), "float64"),
    "fill": lambda x, y: pt.second(x, y),
    "choose by a constant": lambda x, y: pt.switch(pt.constant(MASK), x, y),
    "choose by the entries": lambda x, y: pt.switch(x > 0.3, x, y),
    "check": lambda x, y: Assert("positive")(x, pt.all(pt.exp(y) > 0)),
    "hide from the gradient": lambda x, y: disconnected_grad(x),
    "transpose": lambda x, y: x.T,
    "reverse": lambda x, y: x[::-1],
    "pick rows": lambda x, y: x[[2, 0, 0]],
    "pick columns": lambda x, y: x[:, [1, 1, 2]],
    "pick entries": lambda x, y: pt.stack([x[[0, 1, 2], [2, 0, 1]]] * 3),
    "gather by a constant": lambda x, y: x[pt.arange(3)[:, None], [[0, 2, 1]] * 3],
    "one row": lambda x, y: pt.repeat(x[:1], 3, axis=0),
    "one row, stretched": lambda x, y: pt.specify_shape(x[1:2], (1, 3)) + pt.zeros((3, 3)),
    "reshape": lambda x, y: x.reshape((9,))[::-1].reshape((3, 3)),
    "allocate": lambda x, y: pt.alloc(x[0], 3, 3),
    "diagonal": lambda x, y: pt.alloc(pt.diagonal(x), 3, 3),
    "join rows": lambda x, y: pt.concatenate([x[:1], y[1:]]),
    "join columns": lambda x, y: pt.concatenate([x[:, 1:], y[:, 1:2]], axis=1),
    "stack entries": lambda x, y: pt.stack([x[0, 0], y[1, 2], x[2, 0]])[:, None] + pt.zeros((3, 3)),
    "set a row": lambda x, y: pt.set_subtensor(x[1], y[0]),
    "set entries": lambda x, y: pt.set_subtensor(x[[0, 2], [1, 1]], y[0, :2]),
    "add to a row": lambda x, y: pt.inc_subtensor(x[1], y[0]),
    "add to entries": lambda x, y: pt.inc_subtensor(x[[0, 2, 2]], y),
    "add to a column": lambda x, y: pt.inc_subtensor(x[:, 1], y[:, 2]),
    "add to columns": lambda x, y: pt.inc_subtensor(x[:, 1:], y[:, :1]),
    "set columns": lambda x, y: pt.set_subtensor(x[:, ::2], y[0, :1]),
    "sum": lambda x, y: pt.alloc(pt.sum(x), 3, 3),
    "sum of rows": lambda x, y: pt.sum(x, axis=0, keepdims=True) + pt.zeros((3, 3)),
    "sum of columns": lambda x, y: pt.sum(x, axis=1, keepdims=True) + pt.zeros((3, 3)),
    "largest of columns": lambda x, y: pt.max(x, axis=1, keepdims=True) + pt.zeros((3, 3)),
    "cumulative sum": lambda x, y: pt.cumsum(x, axis=0),
    "cumulative sum of all": lambda x, y: pt.cumsum(x).reshape((3, 3)),
    "cumulative product": lambda x, y: pt.cumprod(x, axis=1),
    "softmax": lambda x, y: pt.special.softmax(x, axis=1),
    "product": lambda x, y: x @ y,
    "product with a constant": lambda x, y: pt.dot(pt.constant(CONSTANT), x),
    "product of batches": lambda x, y: pt.matmul(x[:, None, :], pt.stack([y] * 3))[:, 0],
    "solve": lambda x, y: pt.linalg.solve_triangular(pt.constant(LOWER), x, lower=True),
    "solve against it": lambda x, y: pt.linalg.solve_triangular(x, y, lower=True),
}


def leaf(name: str) -> Any:
    """A variable to build graphs from."""
    return pt.tensor(name, dtype="float64", shape=(3, 3))


@st.composite
def graphs(draw: st.DrawFn, leaves: Sequence[Any], length: int = 6, names: Sequence[str] = tuple(OPERATIONS)) -> Any:
    """A node built from some leaves (3 × 3) and a constant by up to a number of operations."""
    nodes = [*leaves, pt.constant(CONSTANT[::-1].copy())]
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=length)):
        # The second is drawn from all, the first from the latest: else most operations would not be used.
        first = draw(st.sampled_from(nodes[-2:]))
        nodes.append(OPERATIONS[name](first, draw(st.sampled_from(nodes))))
    return nodes[-1]


def evaluate(graph: Any, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """The value of every node and constant, by PyTensor's own Python implementation of each operation."""
    found: dict[Any, Any] = dict(values)
    if isinstance(graph, Constant):
        found[graph] = graph.data
    with np.errstate(all="ignore"):
        for node in toposort([graph]):
            storage: list[list[Any]] = [[None] for _ in node.outputs]
            found.update((i, i.data) for i in node.inputs if isinstance(i, Constant))
            inputs = [found[i] for i in node.inputs]
            node.op.perform(node, [np.copy(i) if isinstance(i, np.ndarray) else i for i in inputs], storage)
            found.update((out, cell[0]) for out, cell in zip(node.outputs, storage, strict=True))
    return found
