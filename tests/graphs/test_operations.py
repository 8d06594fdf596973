"""What operations are said to mean, against what they do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from affine_graphs import value_of
from hypothesis import given, settings
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from random_graphs import OPERATIONS as SPELLED
from random_graphs import evaluate, graphs, leaf

import bayeskit as bk
from bayeskit.elimination.symbols import NotProved
from bayeskit.elimination.wishart_form import is_wishart_form
from bayeskit.finite.axis_dependence import Axis, EntriesMixed, connection
from bayeskit.gaussian.separable_forms import NotSeparable
from bayeskit.gaussian.separator import Separator
from bayeskit.graphs.constant_factors import constants_in_front
from bayeskit.graphs.operations import (
    OPERATIONS,
    Kind,
    Meaning,
    coefficients,
    entry_sources,
    exponents,
    followed_axes,
    kind_of,
    linear_argument,
    parts,
    sum_targets,
)
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.graphs.rewriting import depends_on
from bayeskit.point_estimates.column_forms import Columns, NotReduced
from bayeskit.point_estimates.sufficient_statistics import form_of

RNG = np.random.default_rng(3)
X, Y = leaf("x"), leaf("y")
VALUES = {X: RNG.normal(size=(3, 3)), Y: RNG.normal(size=(3, 3))}
NODES = {name: operation(X, Y).owner for name, operation in SPELLED.items()}
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


# --- an operation that is new -----------------------------------------------------------------------------------------
class Turned(Op):
    """The last axis the other way round, as no operation of the library does it."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor(x)], [pt.as_tensor(x).type()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0][..., ::-1].copy()


def turned(x: Any) -> Any:
    return Turned()(x)


PHI = pt.tensor("phi", dtype="float64", shape=(3,))
SCALAR, LONG = pt.scalar("s"), RNG.normal(size=(30, 30))
Z = pt.tensor("z", dtype="int64", shape=(3,))


def degree_is_one() -> bool:
    graph = turned(2.0 * X)
    return degrees([graph], {X: 1.0})[graph] == 1.0


def is_separable() -> bool:
    separator = Separator({X: ("x", (3, 3))}, [X], value_of, lambda var: np.shape(value_of(var)))
    return separator.form(turned(2.0 * X)).shape == (3, 3)


def has_a_constant_in_front() -> bool:
    total = pt.sum(pt.exp(-turned(LONG * SCALAR)))
    return constants_in_front(total) is not total


def is_conjugate() -> bool:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0, shape=3)
        pm.Poisson("y", turned(rate), observed=[3, 0, 1])
    return not bk.explain(model).remaining


def is_of_a_wishart_matrix() -> bool:
    is_wishart_form(pt.sum(turned(X) * VALUES[Y]), X)
    return True


def rows_follow_a_finite_variable() -> bool:
    return connection(turned(Z[:, None] + pt.zeros((3, 3))), Z, (3,))[0] == (Axis(0), None)


def rows_of_data_are_reduced() -> bool:
    graph = turned(VALUES[X] * PHI)
    return bool(form_of(graph, 0, Columns(3, depends_on([graph], [PHI]), ())).keys)


ANALYSES: tuple[Callable[[], bool], ...] = (
    degree_is_one,
    is_separable,
    has_a_constant_in_front,
    is_conjugate,
    is_of_a_wishart_matrix,
    rows_follow_a_finite_variable,
    rows_of_data_are_reduced,
)


def answers(analysis: Callable[[], bool]) -> bool:
    try:
        return analysis()
    except (EntriesMixed, NotProved, NotReduced, NotSeparable):
        return False


def test_one_row_teaches_an_operation_to_every_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(map(answers, ANALYSES))
    row = Meaning(Kind.MOVE, lambda node, k: (*range(node.inputs[k].type.ndim - 1), None))
    monkeypatch.setitem(OPERATIONS, Turned, row)
    assert all(map(answers, ANALYSES))
