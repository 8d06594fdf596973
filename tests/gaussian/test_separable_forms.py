"""Separable forms: Σ_r b_r(φ)[k_r] (M_r θ + a_r) against the graph itself at random θ and φ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from affine_graphs import THETA, Graph, evaluator, grow, numbers, value_of, variables
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor.raise_op import Assert

from bayeskit.gaussian.separable_forms import OFFSET, Form, NotSeparable
from bayeskit.gaussian.separated import materialised, recentred
from bayeskit.gaussian.separator import Separator

PHI = {"t": (), "u": (3,), "m": (2, 2)}  # all positive where they are evaluated
SHAPES = THETA | PHI
Variables = dict[str, Graph]


def separator_of(graph: Graph, v: Variables) -> Separator:
    targets = {v[n]: (n, v[n].type.shape) for n in v if n not in PHI}
    return Separator(targets, v.values(), value_of, lambda var: np.shape(value_of(var)))


def points(count: int = 2) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(7)
    return [
        {n: rng.normal(size=s) for n, s in THETA.items()} | {n: rng.gamma(2.0, size=s) + 0.1 for n, s in PHI.items()}
        for _ in range(count)
    ]


def value_of_form(form: Form, v: Variables, point: dict[str, np.ndarray]) -> np.ndarray:
    """Term by term, with the constants read as plain arrays."""
    phi = [v[n] for n in PHI]
    total = np.zeros(form.size)
    for term in form.terms:
        assert term.jacobian.shape == form.shape
        affine = term.offset.copy()
        for name, block in term.jacobian.blocks.items():
            if name != OFFSET:
                affine = affine + block.dense() @ np.ravel(point[name])
        if term.factor is not None:
            (factor,) = evaluator(phi, [term.factor])(*[point[n] for n in PHI])
            assert factor.ndim == 1
            affine = affine * (factor if term.index is None else factor[term.index])
            assert term.index is not None or factor.size in (1, form.size)
        total = total + affine
    return total.reshape(form.shape)


def check(graph: Graph, v: Variables) -> Form:
    form = separator_of(graph, v).form(graph)
    function = evaluator(list(v.values()), [graph])
    for point in points():
        (expected,) = function(*[point[n] for n in v])
        actual = value_of_form(form, v, point)
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max(initial=0)))
    return form


# -- one factor for each of a few things: what regressions, hierarchies and mixtures of scales do ------
def by_number(v: Variables) -> Callable[[Any, Graph], Graph]:
    def step(draw: Any, x: Graph) -> Graph:
        t = v["t"]
        factor = draw(st.sampled_from([t, t**2, pt.sqrt(t), pt.exp(-t), 1.0 / t, pt.log1p(t)]))
        return draw(st.sampled_from([x * factor, x / factor]))

    return step


def by_group(v: Variables) -> Callable[[Any, Graph], Graph]:
    def step(draw: Any, x: Graph) -> Graph:
        length = x.type.shape[-1] if x.ndim else 2
        group = np.resize(draw(st.lists(st.integers(0, 2), min_size=1, max_size=4)), length)
        factor = draw(st.sampled_from([v["u"], pt.exp(v["u"]), v["u"] * v["t"]]))[group]
        return draw(st.sampled_from([x * factor, x / factor]))

    return step


def plus_phi(v: Variables) -> Callable[[Any, Graph], Graph]:
    def step(draw: Any, x: Graph) -> Graph:
        return draw(st.sampled_from([x + v["t"], v["u"][0] - x, x + numbers(draw, x.type.shape) * v["t"]]))

    return step


def plus_theta(v: Variables) -> Callable[[Any, Graph], Graph]:
    def step(draw: Any, x: Graph) -> Graph:
        other = pt.sum(v[draw(st.sampled_from(list(THETA)))])
        return draw(st.sampled_from([x + other, other * v["t"] - x]))

    return step


@st.composite
def separable_graphs(draw: Any) -> tuple[Graph, Variables]:
    v = variables(SHAPES)
    graph = v[draw(st.sampled_from(list(SHAPES)))]
    moves = [by_number(v), by_group(v), plus_phi(v), plus_theta(v)]
    for _ in range(draw(st.integers(1, 3))):
        graph = grow(draw, graph)
        graph = grow(draw, graph, only=[draw(st.sampled_from(moves))])
    return grow(draw, graph), v


@pytest.mark.slow
@settings(max_examples=120)
@given(separable_graphs())
def test_a_graph_is_the_sum_of_its_terms(case: tuple[Graph, Variables]) -> None:
    check(*case)


GROUP = np.array([0, 2, 2, 1, 0])
LONG = np.arange(64) % 4
X = np.random.default_rng(2).normal(size=(5, 4))
LOWER = np.tril(np.ones((3, 3))) + np.eye(3)
Y = np.linspace(-1.0, 2.0, 5)
# The graph, and how many terms it has: more would be more products of residuals than there need be.
NAMED: dict[str, tuple[Callable[[Variables], Graph], int]] = {
    "residual": (lambda v: (Y - pt.dot(X, v["a"]) - v["c"]) / v["t"], 1),
    "residual with a noise of each group": (lambda v: (Y - pt.dot(X, v["a"])) / v["u"][GROUP], 1),
    "variance": (lambda v: (Y - pt.dot(X, v["a"])) / pt.sqrt(v["t"]), 1),
    "precision of each group": (lambda v: (Y - pt.dot(X, v["a"])) * pt.sqrt(v["u"] * v["t"])[GROUP], 1),
    "no variable of θ": (lambda v: (Y - v["t"]) * v["u"][GROUP], 2),
    "non-centred": (lambda v: Y[:4] - v["c"] - v["t"] * v["a"], 2),
    "autoregression": (lambda v: v["a"][1:] - v["t"] * v["a"][:-1], 2),
    "autoregression about a mean": (lambda v: v["a"][1:] - v["c"] - v["t"] * (v["a"][:-1] - v["c"]), 2),
    "loadings": (lambda v: pt.dot(pt.outer(v["a"], pt.constant([1.0, 2.0]))[LONG], v["m"]), 2),
    "loadings on the left": (lambda v: pt.dot(v["m"], v["b"][:, LONG % 3]), 2),
    "scale within a sum": (lambda v: pt.sum(v["u"] * v["b"], axis=1), 3),
    "scale within a product": (lambda v: pt.dot(X[:, :3], v["u"] * v["a"][:3]), 3),
    "scale joined": (lambda v: pt.concatenate([v["t"] * v["a"], v["a"], [v["c"]]]), 2),
    "scale set": (lambda v: pt.set_subtensor((v["t"] * v["a"])[1:3], v["b"][0, 1:]), 2),
    "scale in a switch": (lambda v: pt.switch(X > 0, v["a"] / v["t"], v["c"]), 2),
    "scale cumulated": (lambda v: pt.cumsum(v["t"] * v["a"]), 1),
    "scale chosen by φ": (lambda v: v["a"] * pt.switch(v["t"] > 1.0, v["t"], 2.0), 1),
    "checked": (lambda v: v["a"] / Assert("t > 0")(v["t"], v["t"] > 0), 1),
    "matrix of φ alone": (lambda v: pt.linalg.cholesky(pt.dot(v["m"], v["m"].T) + np.eye(2)), 1),
    "system of φ alone": (
        lambda v: pt.linalg.solve_triangular(v["t"] * LOWER, Y[:3], lower=True, b_ndim=1) + v["c"],
        2,
    ),
    "general system of φ alone": (lambda v: pt.linalg.solve(v["t"] * LOWER, Y[:3], b_ndim=1), 1),
    "cumulated product of φ alone": (lambda v: pt.cumprod(v["u"]) + v["c"], 2),
    "function of φ by group": (lambda v: pt.log(v["u"])[GROUP] * v["a"][GROUP % 4], 1),
    "sum of φ by group": (lambda v: pt.sum(v["u"][GROUP] * Y) + v["c"], 2),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_named_graph_is_the_sum_of_its_terms(name: str) -> None:
    v = variables(SHAPES)
    build, terms = NAMED[name]
    assert len(check(build(v), v).terms) == terms


@pytest.mark.parametrize("name", NAMED)
def test_about_another_origin_it_is_the_same_node(name: str) -> None:
    v = variables(SHAPES)
    graph = NAMED[name][0](v)
    form = separator_of(graph, v).form(graph)
    origin, point = points()
    shifted = {n: point[n] - origin[n] for n in THETA} | {n: point[n] for n in PHI}
    expected = value_of_form(form, v, point)
    np.testing.assert_allclose(value_of_form(recentred(form, origin), v, shifted), expected, rtol=1e-9, atol=1e-9)


def test_a_residual_of_many_rows_has_a_factor_of_a_few_numbers() -> None:
    v = variables(SHAPES)
    rows = 5_000
    group = np.arange(rows) % 3
    graph = (np.arange(rows) - v["a"][np.arange(rows) % 4]) / pt.exp(v["u"])[group]
    (term,) = separator_of(graph, v).form(graph).terms
    assert term.factor is not None
    (factor,) = evaluator([v["u"]], [term.factor])(np.ones(3))
    assert factor.shape == (3,)
    np.testing.assert_array_equal(term.index, group)


def test_a_design_matrix_is_not_copied() -> None:
    v = variables(SHAPES)
    graph = pt.dot(pt.constant(X), v["a"]) / v["t"]
    (term,) = separator_of(graph, v).form(graph).terms
    assert np.shares_memory(term.jacobian.blocks["a"].matrix, X)


def test_what_has_no_theta_always_has_a_form() -> None:
    v = variables(SHAPES)
    graph = pt.linalg.inv(pt.dot(v["m"], v["m"].T) + v["t"] * np.eye(2)) * v["u"][1]
    flat = materialised(check(graph, v))
    (point,) = points(1)
    answers = evaluator(list(v.values()), [flat, graph])(*[point[n] for n in v])
    np.testing.assert_allclose(answers[0], np.ravel(answers[1]))


def test_the_checks_on_what_remains_are_kept() -> None:
    v = variables(SHAPES)
    graph = Assert("t > 0")(v["a"] * v["t"], v["t"] > 0, True)
    separator = separator_of(graph, v)
    separator.form(graph)
    assert list(separator.conditions) == [graph.owner.inputs[1]]


NOT_SEPARABLE: dict[str, Callable[[Variables], Graph]] = {
    "product of two": lambda v: v["a"] * v["c"],
    "square": lambda v: v["a"] ** 2,
    "product of matrices of θ": lambda v: pt.dot(v["a"][:2], v["b"]),
    "exponential": lambda v: pt.exp(v["a"]) * v["t"],
    "absolute value": lambda v: pt.abs(v["a"]),
    "clipped": lambda v: pt.clip(v["a"], -1e6, 1e6),
    "divisor": lambda v: v["t"] / v["a"],
    "divisor with φ": lambda v: 1.0 / (v["a"] + v["u"][0]),
    "power of φ": lambda v: v["t"] ** v["c"],
    "power by φ": lambda v: v["a"] ** v["t"],
    "index by θ": lambda v: pt.constant(X)[pt.cast(v["c"], "int64")],
    "index by φ": lambda v: v["a"][pt.cast(v["t"], "int64")],
    "order of φ": lambda v: v["b"][0][pt.argsort(v["u"])],
    "condition on θ": lambda v: pt.switch(v["a"] > 0, v["a"], 0.0),
    "condition on φ": lambda v: pt.switch(v["t"] > 1.0, v["a"], -v["a"]),
    "square root of a matrix of φ": lambda v: pt.dot(pt.linalg.cholesky(pt.dot(v["m"], v["m"].T)), v["a"][:2]) ** 2,
    "system of φ": lambda v: pt.linalg.solve_triangular(v["m"], v["a"][:2], lower=True, b_ndim=1),
    "rounded": lambda v: pt.cast(pt.cast(v["a"], "int64"), "float64"),
    "product of φ by θ over rows": lambda v: pt.prod(v["a"]) * v["t"],
    "cumulated product": lambda v: pt.cumprod(v["a"]),
    "largest": lambda v: pt.max(v["a"], keepdims=True) - v["a"],
    "sorted": lambda v: pt.sort(v["a"]),
    "determinant": lambda v: pt.linalg.det(v["b"][:, :2]) * v["t"],
}


@pytest.mark.parametrize("name", NOT_SEPARABLE)
def test_what_is_not_separable_is_refused(name: str) -> None:
    v = variables(SHAPES)
    graph = NOT_SEPARABLE[name](v)
    with pytest.raises(NotSeparable):
        separator_of(graph, v).form(graph)


def test_a_scale_of_its_own_for_each_of_many_rows_is_not_summed_over() -> None:
    """Σ_i b_i(φ) θ_i over a thousand rows would be a thousand terms."""
    v = variables(SHAPES) | {"long": pt.vector("long", shape=(1000,))}
    graph = pt.sum(v["long"] * v["c"])
    with pytest.raises(NotSeparable):
        separator_of(graph, v).form(graph)
