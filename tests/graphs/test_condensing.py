"""Condensed graphs have the values of those that they stand for, from fewer nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.raise_op import Assert
from random_graphs import evaluate, graphs, leaf

from bayeskit.graphs.condensing import condensed
from bayeskit.graphs.interpreter import evaluator

X = leaf("x")
VALUE = np.random.default_rng(3).normal(size=(3, 3))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(graph=graphs([X, X + 0.0, X * 1.0, pt.second(X, 2.0)]))
def test_random_graphs_keep_their_values(graph: Any) -> None:
    (found,) = condensed([graph])
    assert found.type.dtype == graph.type.dtype and found.type.ndim == graph.type.ndim
    np.testing.assert_array_equal(evaluate(found, {X: VALUE})[found], evaluate(graph, {X: VALUE})[graph])


def nodes(graph: Any) -> int:
    return len(list(toposort([graph])))


@pytest.mark.parametrize(
    ("graph", "left"),
    [
        (pt.exp(X) + pt.exp(X * 1.0), 2),
        (X + pt.log(pt.constant(2.0)) * np.ones((3, 3)), 1),
        (pt.second(pt.exp(X), 0.0) + X, 0),
        (pt.sum(X[0, 0].reshape((1,))), 3),
        (X[0].reshape((3,)), 1),
        (pt.switch(pt.constant(np.ones((3, 3), bool)), X, pt.exp(X)), 0),
    ],
)
def test_nothing_is_left_of_what_changes_nothing(graph: Any, left: int) -> None:
    (found,) = condensed([graph])
    assert nodes(found) == left
    np.testing.assert_array_equal(evaluator([X], [found])(VALUE)[0], evaluator([X], [graph])(VALUE)[0])


def test_values_of_shared_variables_may_be_exchanged() -> None:
    data = pytensor.shared(np.array(2.0), name="data")
    (found,) = condensed([pt.exp(data) * X])
    data.set_value(3.0)
    assert data in set(graph_inputs([found]))
    np.testing.assert_allclose(evaluator([X], [found])(VALUE)[0], np.exp(3.0) * VALUE, rtol=1e-15)


def test_a_check_of_constants_is_kept() -> None:
    (found,) = condensed([Assert("never")(X, pt.constant(False))])
    assert any(isinstance(node.op, Assert) for node in toposort([found]))


def test_what_stretches_is_kept() -> None:
    """A sum with zeros that are wider than the rest; a choice between a number and a matrix."""
    row = pt.tensor("row", dtype="float64", shape=(1, 3))
    for graph in (row + np.zeros((3, 3)), row * np.ones((2, 1)), pt.switch(pt.constant(True), row, np.zeros((3, 3)))):
        (found,) = condensed([graph])
        assert found.type.shape == graph.type.shape and not isinstance(found, Constant)
        assert evaluator([row], [found])(np.ones((1, 3)))[0].shape == graph.type.shape
