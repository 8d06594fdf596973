"""Jacobians of affine graphs: differences of an affine function are exact whatever the step, so they are the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from affine_graphs import THETA, Graph, evaluator, grow, value_of, variables
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from bayeskit.gaussian.gram import jacobians
from bayeskit.gaussian.jacobians import Jacobian
from bayeskit.graphs.polynomial_degree import degrees

Theta = dict[str, Graph]


def jacobian_of(graph: Graph, theta: Theta) -> Jacobian:
    degree = degrees([graph], dict.fromkeys(theta.values(), 1.0))
    targets = {v: (n, THETA[n]) for n, v in theta.items()}
    return jacobians([graph], targets, degree, value_of)[graph]


def differences(graph: Graph, theta: Theta) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """f(θ + e_i) − f(θ) for every entry i of every variable, one column each."""
    function = evaluator(list(theta.values()), [graph])
    rng = np.random.default_rng(5)
    origin = {n: rng.normal(size=THETA[n]) for n in theta}
    (base,) = function(*origin.values())
    columns: dict[str, np.ndarray] = {}
    for name, value in origin.items():
        size = int(np.prod(THETA[name], dtype=int))
        table = np.zeros((base.size, size))
        for i in range(size):
            moved = value + np.eye(size)[i].reshape(THETA[name])
            table[:, i] = np.ravel(function(*(origin | {name: moved}).values())[0] - base)
        columns[name] = table
    return base.shape, columns


def check(graph: Graph, theta: Theta) -> None:
    jacobian = jacobian_of(graph, theta)
    shape, columns = differences(graph, theta)
    assert jacobian.shape == shape
    for name, expected in columns.items():
        block = jacobian.blocks.get(name)
        actual = np.zeros_like(expected) if block is None else block.dense()
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * (1 + np.abs(expected).max(initial=0)))


@st.composite
def affine_graphs(draw: Any) -> tuple[Graph, Theta]:
    theta = variables(THETA)

    def with_another(draw: Any, x: Graph) -> Graph:
        other = theta[draw(st.sampled_from(list(THETA)))]
        return draw(st.sampled_from([x + pt.sum(other), pt.sum(other * 2.0) - x]))

    graph = theta[draw(st.sampled_from(list(THETA)))]
    for _ in range(draw(st.integers(1, 6))):
        graph = grow(draw, graph, [with_another])
    return graph, theta


@pytest.mark.slow
@settings(max_examples=200)
@given(affine_graphs())
def test_the_jacobian_of_an_affine_graph_is_its_differences(case: tuple[Graph, Theta]) -> None:
    check(*case)


GROUP = np.array([0, 2, 2, 1, 3])
X = np.random.default_rng(2).normal(size=(7, 4))
NAMED: dict[str, Callable[[Theta], Graph]] = {
    "regression": lambda t: pt.dot(X, t["a"]) + t["c"],
    "transposed": lambda t: pt.dot(t["b"].T, X[:2, :2]),
    "two-sided": lambda t: pt.dot(X[:, :2], pt.dot(t["b"], X[:3])),
    "groups": lambda t: t["a"][GROUP] - t["c"] * X[:5, 0],
    "differences": lambda t: t["a"][1:] - 0.9 * t["a"][:-1],
    "random walk": lambda t: t["c"] + pt.cumsum(pt.concatenate([[0.0], t["a"]])),
    "interaction": lambda t: t["b"][np.array([0, 1, 1]), np.array([2, 0, 2])] + t["a"][:3],
    "zero-sum": lambda t: pt.concatenate([t["a"], -pt.sum(t["a"], keepdims=True)]),
    "two variables joined": lambda t: pt.concatenate([t["b"].flatten(), [1.0], t["a"]])[::-2],
    "both sides set": lambda t: pt.set_subtensor(t["a"][1:3], t["b"][0, :2]),
    "repeated in a switch": lambda t: pt.switch(X > 0, t["a"], t["c"]),
    "batch of columns": lambda t: pt.matmul(np.stack([X, 2 * X]), t["a"][:, None]),
    "itself twice": lambda t: t["a"] + t["a"],
    "nothing left of it": lambda t: t["a"] - t["a"],
    "no rows": lambda t: t["a"][0:0] + 1.0,
}


@pytest.mark.parametrize("name", NAMED)
def test_the_jacobian_of_a_named_graph_is_its_differences(name: str) -> None:
    theta = variables(THETA)
    check(NAMED[name](theta), theta)


def test_a_design_matrix_is_not_copied() -> None:
    theta = variables(THETA)
    block = jacobian_of(2.0 * pt.dot(pt.constant(X), theta["a"]), theta).blocks["a"]
    assert np.shares_memory(block.matrix, X)
    assert block.scale == 2.0


def test_what_is_sparse_stays_sparse() -> None:
    long = pt.vector("long", shape=(200,))
    steps = long[1:] - long[:-1]
    degree = degrees([steps], {long: 1.0})
    matrix = jacobians([steps], {long: ("long", (200,))}, degree, value_of)[steps].blocks["long"].plain()
    assert sparse.issparse(matrix)
    assert matrix.nnz == 2 * 199


def test_what_mixes_a_few_entries_of_many_is_sparse_in_the_others() -> None:
    """As the whitened first effects of a season."""
    long = pt.vector("long", shape=(200,))
    lower = np.tril(X[:3, :3] + 2.0)
    for mixed, matrix in (
        (pt.linalg.solve_triangular(pt.constant(lower), long[2:5], lower=True), np.linalg.inv(lower)),
        (pt.dot(X[:, :3], long[2:5]), X[:, :3]),
    ):
        degree = degrees([mixed], {long: 1.0})
        block = jacobians([mixed], {long: ("long", (200,))}, degree, value_of)[mixed].blocks["long"]
        assert sparse.issparse(block.matrix)
        assert block.matrix.nnz <= matrix.size
        np.testing.assert_allclose(block.dense()[:, 2:5], matrix, atol=1e-12)


NOT_AFFINE: dict[str, Callable[[Theta], Graph]] = {
    "product": lambda t: t["a"] * t["c"],
    "square": lambda t: t["a"] ** 2,
    "product of matrices": lambda t: pt.dot(t["a"][:2], t["b"]),
    "exponential": lambda t: pt.exp(t["a"]),
    "absolute value": lambda t: pt.abs(t["a"]),
    "clipped": lambda t: pt.clip(t["a"], -1e6, 1e6),
    "rounded": lambda t: pt.cast(pt.cast(t["a"], "int64"), "float64"),
    "divisor": lambda t: 1.0 / t["a"],
    "index": lambda t: pt.constant(X)[pt.cast(t["c"], "int64")],
    "shape": lambda t: pt.repeat(t["a"], pt.cast(t["c"], "int64")),
    "condition": lambda t: pt.switch(t["a"] > 0, t["a"], 0.0),
    "truncation": lambda t: pt.concatenate([pt.max(t["a"], keepdims=True), t["a"]]),
    "sorted": lambda t: pt.sort(t["a"]),
    "cumulated product": lambda t: pt.cumprod(t["a"]),
    "square root of a matrix": lambda t: pt.linalg.cholesky(pt.diag(t["a"])),
}


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_what_is_not_affine_has_a_higher_degree(name: str) -> None:
    theta = variables(THETA)
    graph = NOT_AFFINE[name](theta)
    assert degrees([graph], dict.fromkeys(theta.values(), 1.0))[graph] > 1


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_what_is_not_affine_has_no_jacobian(name: str) -> None:
    theta = variables(THETA)
    with pytest.raises(NotImplementedError, match="no Jacobian rule for"):
        jacobian_of(NOT_AFFINE[name](theta), theta)


def test_what_is_constant_in_theta_is_not_looked_into() -> None:
    """The values of what it is computed from are not asked for: they may be unknown, or not affine."""
    theta, phi = variables(THETA), pt.vector("phi", shape=(4,))
    zeros = pt.second(pt.exp(theta["a"]), phi)
    graph = theta["a"] * 3.0 + zeros
    degree = degrees([graph], dict.fromkeys(theta.values(), 1.0))
    known = {zeros: np.ones(4)}
    answer = jacobians(
        [graph], {theta["a"]: ("a", (4,))}, degree, lambda v: known[v] if v in (zeros, phi) else value_of(v)
    )
    np.testing.assert_array_equal(answer[graph].blocks["a"].dense(), 3.0 * np.eye(4))
