"""Graphs run step by step by NumPy give what PyTensor's own compiled functions give, and touch nobody's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.logprob.utils import CheckParameterValue, ParameterValueError
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.instructions import NotEvaluable
from bayeskit.graphs.interpreter import _is_alone, evaluator
from bayeskit.graphs.many_arrays import of_plain_dtype

LENGTH = 10_000  # long enough for memory to be used again
LONG = np.random.default_rng(0).uniform(0.5, 2.0, LENGTH)
MATRIX = np.random.default_rng(1).standard_normal((5, 5))


def vector(known: bool) -> Any:
    return pt.vector("x", dtype="float64", shape=(LENGTH if known else None,))


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "elementwise chain": lambda x: pt.sum(-0.5 * ((x - LONG) / pt.sqrt(x)) ** 2 - pt.log(x) + pt.gammaln(x)),
    "an argument used again later": lambda x: (y := x * 2.0) + pt.exp(y) * y - x,
    "many terms": lambda x: pt.add(x, LONG, 2 * x, x * x, 1.0) * pt.mul(x, x, 3.0, LONG),
    "a sum of one term": lambda x: pt.add(x + 1.0) * pt.mul(x),
    "a view of what is written over": lambda x: (y := x + 1.0)[::-1] - y,
    "a view that outlives its owner": lambda x: (lambda y: (pt.exp(y), y[:3]))(x + 1.0)[1] * pt.exp(x + 1.0)[:3],
    "spread": lambda x: pt.fill(x, 2.0) * x + pt.alloc(pt.sum(x), LENGTH),
    "spread to a matrix product": lambda x: pt.dot(pt.alloc(x[0], 4, LENGTH), x),
    "mixed dtypes": lambda x: x ** np.int8(2) + pt.cast(x > 1, "float64") - np.arange(LENGTH) / 3,
    "division of whole numbers": lambda x: pt.as_tensor(np.arange(LENGTH, dtype="int8")) / np.int8(7) + x,
    "choice": lambda x: pt.switch(pt.and_(x > 1, x < 1.5), x, -x),
    "what is not finite": lambda x: pt.switch(pt.isinf(LONG / (x > 1)) | pt.isnan(pt.log(LONG - 1.5)), 0.0, x),
    "clip": lambda x: pt.clip(x, 0.9, 1.1),
    "clip from below alone": lambda x: pt.clip(x, 0.9, x),
    "clip from above alone": lambda x: pt.clip(x, x, 1.1),
    "clip between bounds in the wrong order": lambda x: pt.clip(x, 1.1, 0.9),
    "sums": lambda x: pt.sum(x[: 6 * 7].reshape((6, 7)), axis=0) + pt.max(x) + pt.prod(x[:3]),
    "cumulated": lambda x: pt.cumsum(x),
    "indices": lambda x: pt.set_subtensor((x * 2)[2:5], 7.0)[np.array([1, 2, 3, 1])],
    "shapes": lambda x: x.shape[0] * x + pt.zeros_like(x),
    "stacked": lambda x: pt.stack([x, 2 * x, x[0] * pt.ones(LENGTH)]),
    "constant": lambda x: pt.log(pt.as_tensor(LONG)) + 1.0,
    "the input itself": lambda x: x,
    "factorised": lambda x: pt.linalg.cholesky(pt.eye(5) * x[0] + MATRIX @ MATRIX.T),
    "solved": lambda x: pt.linalg.solve(pt.eye(5) * x[0] + MATRIX @ MATRIX.T, x[:5]),
}


def both(x: Any, graphs: list[Variable]) -> tuple[Any, Any]:
    return evaluator([x], graphs), pytensor.function([x], graphs, mode="FAST_COMPILE", on_unused_input="ignore")


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["known shape", "unknown shape"])
@pytest.mark.parametrize("name", GRAPHS)
def test_agrees_with_a_compiled_function(name: str, known: bool) -> None:
    x = vector(known)
    graph = GRAPHS[name](x)
    graphs = [graph, graph * 1.0, graph]
    if graph.dtype == "float64" and name not in ("constant",):
        graphs.append(pytensor.grad(pt.sum(graph), x))
    mine, theirs = both(x, graphs)
    for shift in (0.0, 0.25):  # the second call finds what the first one kept
        value = np.random.default_rng(2).uniform(0.5, 2.0, LENGTH) + shift
        before = value.copy()
        found, expected = mine(value), theirs(value)
        np.testing.assert_array_equal(value, before)
        for one, two in zip(found, expected, strict=True):
            assert isinstance(one, np.ndarray) and one.dtype == two.dtype and one.shape == two.shape
            np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-13)
        for k, one in enumerate(found):
            one[...] = 0  # what is returned belongs to the caller
            assert not any(np.shares_memory(one, other) for other in [*found[:k], *found[k + 1 :], value])


def test_constants_are_left_alone() -> None:
    x = vector(True)
    constant = LONG.copy()
    function = evaluator([x], [pt.exp(pt.as_tensor(constant)) * x, pt.as_tensor(constant) + x])
    for _ in range(2):
        np.testing.assert_allclose(function(LONG)[0], np.exp(LONG) * LONG, rtol=1e-15)
    np.testing.assert_array_equal(constant, LONG)


def test_a_shared_value_is_read_at_every_call() -> None:
    held = pytensor.shared(np.ones(3), shape=(None,))
    function = evaluator([], [pt.sum(2 * held)])
    assert function()[0] == 6
    held.set_value(np.full(4, 2.0))
    assert function()[0] == 16


def test_a_check_of_shared_values_fails_at_every_call_until_they_are_mended() -> None:
    x, held = pt.scalar("x", dtype="float64"), pytensor.shared(np.array([1.0, -1.0]))
    function = evaluator([x], [x * pt.sum(CheckParameterValue("data > 0")(pt.log(pt.sqr(held)), pt.all(held > 0)))])
    for _ in range(2):
        with pytest.raises(ParameterValueError, match="data > 0"):
            function(1.0)
    held.set_value(np.array([1.0, np.e]))
    assert function(1.0)[0] == pytest.approx(2.0)


def test_stretching_a_length_that_was_not_declared_as_one_is_refused() -> None:
    x, y = pt.vector("x", dtype="float64"), pt.vector("y", dtype="float64")
    function = evaluator([x, y], [x + y])
    np.testing.assert_array_equal(function(np.ones(2), np.ones(2))[0], [2, 2])
    with pytest.raises(ValueError, match="broadcasting"):
        function(np.ones(1), np.ones(2))


def test_a_parameter_check_is_made() -> None:
    x = vector(True)
    function = evaluator([x], [pt.sum(CheckParameterValue("x > 0")(pt.log(x), pt.all(x > 0)))])
    assert np.isfinite(function(LONG)[0])
    with pytest.raises(ParameterValueError):
        function(-LONG)


def test_equal_nodes_are_computed_once_where_asked() -> None:
    x = pt.matrix("x", dtype="float64", shape=(5, 5))
    one, two = pt.linalg.cholesky(x), pt.linalg.cholesky(x)
    value = MATRIX @ MATRIX.T + np.eye(5)
    first, second = evaluator([x], [pt.exp(one), pt.exp(two) + 0.0], merge=True)(value)
    np.testing.assert_array_equal(first, np.exp(np.linalg.cholesky(value)))
    np.testing.assert_array_equal(first, second)


def test_loops_and_random_draws_are_left_to_pytensor() -> None:
    x = pt.vector("x", dtype="float64", shape=(4,))
    total = pytensor.scan(lambda v, s: s + v, sequences=[x], outputs_info=[pt.zeros(())], return_updates=False)[-1]
    for graph in (total, pm.Normal.dist(x)):
        with pytest.raises(NotEvaluable):
            evaluator([x], [graph])
    assert compile_small([x], total)(np.arange(4.0)) == 6


def test_a_graph_is_cut_at_its_inputs() -> None:
    x = vector(True)
    inner = pt.log(x)
    (value,) = evaluator([inner], [inner * 2])(LONG)
    np.testing.assert_array_equal(value, 2 * LONG)


def test_what_somebody_else_holds_is_never_alone_however_often_it_is_asked() -> None:
    """Python makes code that runs often into other code, which may count references otherwise than at import."""
    array = np.ones(3)
    for _ in range(10_000):
        assert _is_alone([np.ones(3)], 0)
        assert not any(_is_alone(values, 0) for values in ([array], [array[:2]], [array.T], [2.0], [np.float64(2.0)]))


ROWS, PLACES, GRID = 5, np.array([0, 2, 2]), np.random.default_rng(3).standard_normal((3, 4))
# Values written to places of each of many arrays, as gradients of indexing do: of x (5, 4) a row each.
WRITTEN: dict[str, Callable[[Any], Any]] = {
    "added at a number": lambda x: pt.inc_subtensor(pt.as_tensor(GRID)[:, 1], x[:3]),
    "added at numbers, some twice": lambda x: pt.inc_subtensor(x[PLACES], x[1:]),
    "added at pairs": lambda x: pt.inc_subtensor(pt.as_tensor(GRID)[PLACES, PLACES[::-1]], x[:3]),
    "added at numbers apart": lambda x: pt.inc_subtensor(pt.outer(x[:3], x)[PLACES, :], x),
    "put at a slice": lambda x: pt.set_subtensor(x[1:3], x[0]),
    "put at numbers": lambda x: pt.set_subtensor(pt.outer(x, x)[:, np.array([3, 0])], x[:, None]),
    "added once": lambda x: pt.inc_subtensor(x[np.array([3, 1])], x[:2], ignore_duplicates=True),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_values_are_written_to_places_of_many_arrays_at_once(name: str) -> None:
    x, many = pt.vector("x", shape=(4,)), pt.matrix("many", shape=(None, 4))
    graph = WRITTEN[name](x)
    one, together = evaluator([x], [graph]), evaluator([many], [vectorize_graph(graph, {x: many})])
    values = np.random.default_rng(4).standard_normal((ROWS, 4))
    (found,) = together(values)
    np.testing.assert_array_equal(found, np.stack([one(row)[0] for row in values]))


@pytest.mark.parametrize("offset", [0, 1, -2])
def test_vectors_are_put_on_diagonals_of_many_matrices_at_once(offset: int) -> None:
    many = pt.matrix("many")
    graph = vectorize_graph(pt.diag(x := pt.vector("x"), offset), {x: many})
    values = np.random.default_rng(4).standard_normal((ROWS, 4))
    (found,) = evaluator([many], [graph])(values)
    np.testing.assert_array_equal(found, np.stack([np.diag(row, offset) for row in values]))


def test_a_dtype_that_numpy_does_not_know_by_sight_is_exchanged() -> None:
    other = np.dtype(float, copy=True)
    assert other is not np.dtype(float)
    values = np.arange(6.0).view(other).reshape(3, 2)
    found = of_plain_dtype(values[:, 0])
    assert found.dtype is np.dtype(float)
    np.testing.assert_array_equal(found, [0.0, 2.0, 4.0])


def test_values_are_spread_over_a_shape_that_is_the_same_for_many_arrays() -> None:
    x, n = pt.vector("x"), pt.lscalar("n")
    many, lengths = pt.matrix("many"), pt.lvector("lengths")
    graph = pt.alloc(x, 2, n, x.shape[0])
    one, together = (
        evaluator([x, n], [graph]),
        evaluator([many, lengths], [vectorize_graph(graph, {x: many, n: lengths})]),
    )
    values = np.random.default_rng(4).standard_normal((ROWS, 4))
    (found,) = together(values, np.full(ROWS, 3))
    np.testing.assert_array_equal(found, np.stack([one(row, 3)[0] for row in values]))
    with pytest.raises(ValueError, match="size"):
        together(values, np.arange(ROWS))
    wider, m = pt.alloc(x, n), pt.lvector("m")
    stretched = evaluator([many, m], [vectorize_graph(wider, {x: many, n: m})])
    with pytest.raises(ValueError, match="Runtime broadcasting not allowed"):
        stretched(values[:, :1], np.full(ROWS, 3))
