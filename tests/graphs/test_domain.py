"""What operations are said to mean, against what they do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from pytensor.graph.traversal import toposort
from random_graphs import OPERATIONS, evaluate, graphs, leaf

from bayeskit.graphs.axes import followed_axes
from bayeskit.graphs.domain import (
    GraphAnalysis,
    Kind,
    coefficients,
    entry_sources,
    exponents,
    kind_of,
    linear_argument,
    parts,
    sum_targets,
)

RNG = np.random.default_rng(3)
X, Y = leaf("x"), leaf("y")
VALUES = {X: RNG.normal(size=(3, 3)), Y: RNG.normal(size=(3, 3))}
NODES = {name: operation(X, Y).owner for name, operation in OPERATIONS.items()}
KINDS = {
    Kind.LINEAR: {"add", "subtract", "negate", "shift", "cast", "fill"},
    Kind.PRODUCT: {"multiply", "scale", "divide", "square", "cube", "reciprocal", "to the power of zero"},
    Kind.CHOICE: {"choose by a constant", "choose by the entries"},
    Kind.FUNCTION: {"to several powers", "exponential", "positive part", "absolute value"},
    Kind.CHECK: {"check"},
    Kind.MOVE: {"hide from the gradient", "transpose", "reverse", "pick rows", "allocate", "reshape", "diagonal"},
    Kind.JOIN: {"join rows", "join columns", "set a row", "set entries", "pick entries"},
    Kind.SUM: {"cumulative sum", "add to a row", "add to entries", "add to columns"},
    Kind.BILINEAR: {"product", "product with a constant"},
    Kind.SOLVE: {"solve", "solve against it"},
    Kind.OTHER: {"softmax", "cumulative product"},
}


def numbers(node: Any) -> list[Any]:
    """The values of a node's inputs."""
    values = evaluate(node.outputs[0], VALUES)
    return [values[i] for i in node.inputs]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in sorted(names)])
def test_the_kind_of_an_operation(kind: Kind, name: str) -> None:
    assert kind_of(NODES[name]) is kind


@pytest.mark.parametrize("name", sorted(KINDS[Kind.LINEAR] | KINDS[Kind.PRODUCT]))
def test_coefficients_and_exponents_give_the_value(name: str) -> None:
    node, values = NODES[name], [np.asarray(v) for v in numbers(NODES[name])]
    if kind_of(node) is Kind.LINEAR:
        found: Any = sum(c * v for c, v in zip(coefficients(node) or (), values, strict=True))
    else:
        found = math.prod(v**e for v, e in zip(values, exponents(node) or (), strict=True))
    np.testing.assert_allclose(found, evaluate(node.outputs[0], VALUES)[node.outputs[0]], rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(graph=graphs([X, Y]))
def test_moves_joins_and_sums_say_where_entries_come_from(graph: Any) -> None:
    values = evaluate(graph, VALUES)
    for node in toposort([graph]):
        inputs = [values[i] for i in node.inputs]
        if kind_of(node) in (Kind.MOVE, Kind.JOIN):
            entries = np.concatenate([np.ravel(inputs[k]) for k in parts(node)])
            shapes = [np.shape(v) if k in parts(node) else v for k, v in enumerate(inputs)]
            for out, source in zip(node.outputs, entry_sources(node, shapes), strict=True):
                np.testing.assert_array_equal(entries[source], values[out])
        if type(node.op).__name__ == "Sum":
            targets, shape = sum_targets(node, np.shape(inputs[0]))
            total = np.bincount(targets, np.ravel(inputs[0]), minlength=int(np.prod(shape, dtype=int)))
            np.testing.assert_allclose(total.reshape(shape), values[node.outputs[0]])


@settings(max_examples=100, deadline=None)
@given(graph=graphs([X, Y]))
def test_an_output_that_follows_an_axis_depends_on_nothing_else_along_it(graph: Any) -> None:
    values = evaluate(graph, VALUES)
    for node in toposort([graph]):
        inputs = [values[i] for i in node.inputs]
        for position, var in enumerate(node.inputs):
            axes = followed_axes(node.outputs[0], position) if np.ndim(inputs[position]) else None
            for axis, followed in enumerate(axes or ()):
                if (
                    followed is None
                    or np.shape(inputs[position])[followed] == 1
                    or not var.type.dtype.startswith("float")
                ):
                    continue
                moved = np.moveaxis(np.array(inputs[position], dtype=float), followed, 0)
                moved[1:] += RNG.normal(size=moved[1:].shape)
                storage: list[list[Any]] = [[None] for _ in node.outputs]
                changed = [np.moveaxis(moved, 0, followed) if k == position else v for k, v in enumerate(inputs)]
                with np.errstate(all="ignore"):
                    node.op.perform(node, changed, storage)
                for one, two in [(storage[0][0], values[node.outputs[0]])]:
                    np.testing.assert_array_equal(np.take(one, 0, axis=axis), np.take(two, 0, axis=axis))


def test_a_solve_is_linear_in_its_argument() -> None:
    assert linear_argument(NODES["solve"]) == 1
    assert linear_argument(NODES["product"]) is None


class Reached(GraphAnalysis[bool]):
    """No rule at all: everything reached is unknown."""

    def constant(self, var: Any) -> bool:
        return False

    def unknown(self, out: Any, values: list[bool]) -> bool:
        return True


@settings(max_examples=50, deadline=None)
@given(graph=graphs([X, Y]))
def test_without_rules_everything_that_depends_on_a_leaf_is_unknown(graph: Any) -> None:
    values = Reached({X: True}).walk([graph])
    one, two = (evaluate(graph, {**VALUES, X: VALUES[X] + shift}) for shift in (0.0, 0.3))
    for var in one:
        if not np.array_equal(np.nan_to_num(one[var]), np.nan_to_num(two[var])):
            assert values.get(var)
