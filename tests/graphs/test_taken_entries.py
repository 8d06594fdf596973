"""Functions of entries that are taken many times: the same values, computed of each entry once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.elemwise import Elemwise

from bayeskit.graphs.interpreter import evaluator
from bayeskit.graphs.taken_entries import computed_before_taken

X, Y, S = pt.matrix("x"), pt.matrix("y"), pt.scalar("s")
POINT = [np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(3, 4)), np.asarray(0.7)]
ROWS = np.random.default_rng(2).integers(3, size=50)
INDEX = pt.as_tensor(ROWS)
WIDE = np.random.default_rng(3).normal(size=(50, 4))
TAKEN, OTHER = X[INDEX], Y[INDEX]


def shapes_of(graphs: list[Any]) -> dict[Any, tuple[int, ...]]:
    every = [v for v in ancestors(graphs) if v.owner is not None]
    values = evaluator([X, Y, S], every)(*POINT)
    leaves = {v: np.shape(v.data) for v in ancestors(graphs) if v.owner is None and hasattr(v, "data")}
    inputs = dict(zip((X, Y, S), map(np.shape, POINT), strict=True))
    return leaves | inputs | {v: np.shape(x) for v, x in zip(every, values, strict=True)}


def most(graphs: list[Any]) -> int:
    """The entries of the largest array of which a function is computed."""
    shapes = shapes_of(graphs)
    nodes = [n for n in toposort(graphs) if isinstance(n.op, Elemwise)]
    return max(math.prod(shapes[n.outputs[0]]) for n in nodes)


@pytest.mark.parametrize(
    ("graph", "entries"),
    [
        (pt.exp(TAKEN), 12),
        (pt.log1p(pt.exp(-TAKEN)), 12),
        (pt.exp(S * TAKEN + 2.0), 12),
        (TAKEN * pt.exp(OTHER), 12),
        (TAKEN * pt.exp(WIDE + OTHER), 200),
        (pt.exp(X[ROWS][:, [0, 3, 1]]), 150),
        (pt.exp(TAKEN) * Y[(ROWS + 1) % 3], 200),
        (pt.exp(X[:, [0, 1, 1, 2, 3, 3]]) ** 2, 12),
        (pt.exp(X[[0, 2]]), 8),
        (pt.exp(X[[0, 2, 1]]), 12),
    ],
)
def test_values_are_kept_and_computed_of_each_entry_once(graph: Any, entries: int) -> None:
    found = computed_before_taken([graph], shapes_of([graph]))
    (expected,), (values,) = (evaluator([X, Y, S], [g])(*POINT) for g in (graph, found[0]))
    np.testing.assert_array_equal(values, expected)
    assert found[0].type.dtype == graph.type.dtype and found[0].type.ndim == graph.type.ndim
    assert most(found) == entries


def test_a_gradient_and_its_value_share_what_is_computed() -> None:
    value = pt.sum(pt.switch(WIDE > 0, -pt.softplus(-TAKEN), -pt.softplus(TAKEN)))
    graphs = [value, pytensor.grad(value, X)]
    found = computed_before_taken(graphs, shapes_of(graphs))
    for one, other in zip(evaluator([X], found)(POINT[0]), evaluator([X], graphs)(POINT[0]), strict=True):
        np.testing.assert_array_equal(one, other)
    wide = [n for n in toposort(found) if isinstance(n.op, Elemwise) and "oftplus" in str(n.op)]
    assert all(shapes_of(found)[n.outputs[0]] == (3, 4) for n in wide) and wide


def test_what_takes_no_entries_stays_as_it_is() -> None:
    graphs = [pt.exp(X + WIDE[:3]), pt.exp(X[0])]
    assert computed_before_taken(graphs, shapes_of(graphs)) is graphs
