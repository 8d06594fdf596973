"""Loops over a workspace against the graph they were made of: node by node, and for random graphs.

The source is run by Python here, with NumPy's functions of a number in place of those of ``math``; what numba makes of
it is held against the models themselves in ``test_native.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytensor.graph.replace import vectorize_graph
from pytensor.raise_op import Assert
from scipy import special

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.mvnormal_ops import DerivativeOfLogDeterminant
from bayeskit.graphs.rewriting import inline
from bayeskit.sampling.codegen.loop_helpers import helpers
from bayeskit.sampling.codegen.loops import Program, program
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import FAILED, NoLoops

MATHS = SimpleNamespace(
    **{
        n: getattr(np, n)
        for n in ("exp", "expm1", "log", "log1p", "log10", "sqrt", "sin", "cos", "tanh", "isinf", "copysign")
    },
    isnan=np.isnan,
    atan=np.arctan,
    erf=special.erf,
    erfc=special.erfc,
    lgamma=special.gammaln,
)


def from_python(function: Any) -> Any:
    """PyTensor's functions can be called by compiled code only."""

    @numba.njit
    def call(*arguments):  # type: ignore[no-untyped-def]
        return function(*arguments)

    return call


def run(made: Program, point: list[np.ndarray], first: int = 0) -> list[np.ndarray]:
    """The outputs of a program, by Python."""
    w, c = np.full(made.size, np.nan), np.concatenate([np.zeros(first), made.data])
    w[FAILED] = 0.0
    flat = np.concatenate([np.zeros(0), *(np.ravel(p) for p in point)])
    w[1 : 1 + flat.size] = flat
    space: dict[str, Any] = {"math": MATHS, "np": np, "INF": math.inf, "NAN": math.nan}
    space |= {name: from_python(call.function) for name, call in made.calls.items()}
    functions = "".join(
        f"def part_{k}(w, c):\n" + "".join(f"    {line}\n" for line in body) for k, body in enumerate(made.functions)
    )
    definitions = "\n".join(line for line in helpers(functions).splitlines() if not line.startswith("@"))
    with np.errstate(all="ignore"):
        exec(definitions + "\n" + functions, space)
        for k in range(len(made.functions)):
            space[f"part_{k}"](w, c)
    if w[FAILED]:
        raise AssertionError("failed")
    arrays = {"w": w, "c": c}
    return [arrays[p.array][p.addresses] for p in made.outputs]


def agree(inputs: list[Any], outputs: list[Any], point: list[np.ndarray], first: int = 0) -> Program:
    outputs = inline(outputs)
    made = program("test", inputs, outputs, point, first)
    expected = compile_small(inputs, outputs)(*point)
    for found, value in zip(run(made, point, first), expected, strict=True):
        np.testing.assert_allclose(found, np.asarray(value, dtype=float), rtol=1e-12, atol=1e-13)
    return made


RNG = np.random.default_rng(1)
MATRIX, SQUARE, CUBE = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(2, 3, 4))
DEFINITE = SQUARE @ SQUARE.T + np.eye(4)
M = pt.dmatrix("M")
S = pt.dmatrix("S")
T = pt.dtensor3("T")

# One matrix or three axes, and what is made of them.
OF_MATRIX: dict[str, Callable[[Any], Any]] = {
    "a constant": lambda m: pt.constant(MATRIX),
    "the input": lambda m: m,
    "transposed": lambda m: m.T,
    "transposed and added": lambda m: m.T + pt.arange(3),
    "axes put in": lambda m: m[:, None, :, None] * m.T[None, :, None, :].sum(),
    "a slice": lambda m: m[1:, ::2],
    "a slice backwards": lambda m: m[::-1, 3:0:-2] * 2,
    "an entry": lambda m: m[1, -1],
    "a row": lambda m: m[-2],
    "an empty slice": lambda m: pt.sum(m[3:]) + pt.prod(m[:, 4:]),
    "a diagonal": lambda m: pt.diagonal(m),
    "a diagonal above": lambda m: pt.diagonal(m, offset=2) + 1.0,
    "a diagonal below": lambda m: pt.diagonal(m, offset=-1),
    "reshaped": lambda m: m.reshape((2, 6)) + 1.0,
    "reshaped, transposed": lambda m: m.T.reshape((6, 2)),
    "split": lambda m: pt.split(m, [1, 3], n_splits=2, axis=1)[1] + 1.0,
    "joined": lambda m: pt.join(1, m, m[:, 1:], pt.ones((3, 1))),
    "joined, last axis": lambda m: pt.join(-1, m, m[:, 1:]),
    "stacked": lambda m: pt.stack([m[0, 0], m[1, 1], 3.0 * m[2, 2]]),
    "spread": lambda m: pt.alloc(m[0, 1], 2, 3) * m[:2, :3],
    "gathered": lambda m: m[np.array([2, 0, 2])],
    "gathered by two": lambda m: m[np.array([[2, 0], [1, 1]]), np.array([0, 3])],
    "gathered and sliced": lambda m: m.T[1:, np.array([2, 0])],
    "gathered by truth values": lambda m: m[np.array([True, False, True])],
    "set": lambda m: pt.set_subtensor(m[1:, 0], -1.0) + m,
    "added": lambda m: pt.inc_subtensor(m[:, 1:3], pt.arange(2.0)),
    "added, backwards": lambda m: pt.inc_subtensor(m[::-1], pt.arange(4.0)),
    "scattered": lambda m: pt.set_subtensor(m[np.array([2, 0])], m[:2]),
    "scattered, the same place twice": lambda m: pt.inc_subtensor(m[:, np.array([1, 1, 0])], m[:, :3]),
    "scattered to zeros": lambda m: pt.diag(m[0]) + 1.0,
    "sums": lambda m: pt.sum(m * m) + pt.sum(m, axis=0)[0] + pt.sum(m.T, axis=0)[0],
    "sums along axes": lambda m: pt.sum(m, axis=1),
    "sums, transposed": lambda m: pt.sum(pt.exp(m).T, axis=1),
    "products": lambda m: pt.prod(m, axis=0) + pt.prod(m),
    "largest": lambda m: pt.max(m, axis=1) + pt.max(pt.log(m)),  # the logarithms are no numbers
    "smallest": lambda m: pt.min(m, axis=0) + pt.min(m),
    "all and any": lambda m: pt.stack([pt.all(m > 0), pt.any(m > 0), pt.all(m > -9), pt.any(m > 9)]) * 1.0,
    "all and any along axes": lambda m: pt.all(m > -1, axis=0) * 1.0 + pt.any(m.T > 1, axis=1),
    "how many": lambda m: pt.sum(m > 0) + pt.sum(m > 0, axis=0),
    "vector products": lambda m: pt.dot(m[0], m[1]) + pt.dot(m, m[2])[0] + pt.dot(m[:, 0], m)[1],
    "a matrix product": lambda m: pt.dot(m, m.T) + pt.dot(m.T, m)[:3, :3],
    "a product with one row": lambda m: pt.dot(m[:1], m.T),
    "a product with one column": lambda m: pt.dot(m, m.T[:, :1]),
    "a choice": lambda m: pt.switch(m > 0, m, 0.0) + pt.switch(pt.and_(m > -1, pt.invert(m > 1)), 1, m),
    "a choice by integers": lambda m: pt.switch(pt.constant(np.array([0, 1, 0, 2])), m, -m),
    "a choice of truth values": lambda m: pt.or_(m > 0, m < -1) * 1.0 + pt.eq(m, m) + pt.neq(m, 0.0),
    "a product of truth values": lambda m: (pt.ge(m, 0.0) * pt.le(m, 1.0)) * m,
    "numbers of truth values": lambda m: pt.cast(m > 0, "float64") + (m > 0) - 1.0,
    "elementary": lambda m: pt.exp(m) - pt.log(pt.abs(m)) / pt.sqrt(pt.abs(m) + 1) + pt.sqr(m) * pt.cos(m) ** 3,
    "more elementary": lambda m: pt.expm1(m) + pt.log1p(pt.exp(m)) + pt.tanh(m) + pt.sin(m) + pt.arctan(m),
    "special": lambda m: pt.erf(m) + pt.erfc(m) + pt.gammaln(m) + pt.sigmoid(m) - pt.reciprocal(m),
    "softplus and log1mexp": lambda m: pt.softplus(40 * m) + pt.log1mexp(-pt.abs(m)) - pt.log1mexp(-9 * pt.abs(m)),
    "maximum and minimum": lambda m: pt.maximum(m, 0.5) + pt.minimum(pt.log(m), 0.1) + pt.clip(m, -0.5, 0.5),
    "infinite": lambda m: pt.switch(pt.isinf(m / 0.0), 1.0, 2.0) + pt.switch(pt.isnan(pt.log(m)), 1.0, 2.0),
    "small constants": lambda m: pt.log(pt.constant(np.float32(15.0))) + m + pt.constant(np.int8(3)),
}
OF_SQUARE: dict[str, Callable[[Any], Any]] = {
    "a factor": lambda s: pt.linalg.cholesky(s),
    "an upper factor": lambda s: pt.linalg.cholesky(s, lower=False),
    "no factor": lambda s: pt.linalg.cholesky(-s, on_error="nan"),
    "a lower system": lambda s: pt.linalg.solve_triangular(s, s[:, :2], lower=True),
    "an upper system": lambda s: pt.linalg.solve_triangular(s, s[:, :2], lower=False),
    "a transposed system": lambda s: pt.linalg.solve_triangular(s, s[:, :2], lower=True, trans="T"),
    "a system of a vector": lambda s: pt.linalg.solve_triangular(s.T, s[0], lower=True),
    "a singular system": lambda s: pt.linalg.solve_triangular(s * (1 - np.eye(4)[1]), s, lower=True),
    "by the factor": lambda s: pt.linalg.cho_solve((pt.linalg.cholesky(s), True), s[1]),
    "the derivative of a log determinant": lambda s: DerivativeOfLogDeterminant()(pt.linalg.cholesky(s)) * 2.0,
    "by the upper factor": lambda s: pt.linalg.cho_solve((pt.linalg.cholesky(s, lower=False), False), s[:, 1:]),
}
OF_CUBE: dict[str, Callable[[Any], Any]] = {
    "axes exchanged": lambda t: t.transpose(2, 0, 1) + 1.0,
    "sums along two axes": lambda t: pt.sum(t, axis=(0, 2)),
    "sums along the first": lambda t: pt.max(t, axis=0),
    "an axis of one": lambda t: pt.sum(t, axis=1, keepdims=True) * t,
    "many products": lambda t: pt.matmul(t, t.transpose(0, 2, 1)),
    "many products with one matrix": lambda t: pt.matmul(t, t[0].T),
    "set within": lambda t: pt.set_subtensor(t[:, 1, :2], 0.0),
    "gathered within": lambda t: t[:, np.array([2, 0]), 1:],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_MATRIX)
@pytest.mark.parametrize("first", [0, 5])
def test_nodes_of_a_matrix(name: str, first: int) -> None:
    agree([M], [OF_MATRIX[name](M)], [MATRIX], first)


@pytest.mark.parametrize("name", OF_SQUARE)
def test_linear_algebra(name: str) -> None:
    agree([S], [OF_SQUARE[name](S)], [DEFINITE])


@pytest.mark.parametrize("name", OF_CUBE)
def test_nodes_of_three_axes(name: str) -> None:
    agree([T], [OF_CUBE[name](T)], [CUBE])


@pytest.mark.parametrize("name", OF_SQUARE)
def test_many_matrices(name: str) -> None:
    many = vectorize_graph(inline([OF_SQUARE[name](S)])[0], {S: T})
    made = agree([T], [many], [np.stack([DEFINITE, DEFINITE + np.eye(4), 2 * DEFINITE])])
    assert not made.calls


@pytest.mark.slow
def test_what_has_no_loop_is_called() -> None:
    made = agree([S], [pt.linalg.inv(S) + pt.linalg.slogdet(S)[1], pt.psi(pt.abs(S))], [DEFINITE])
    assert len(made.calls) == 3


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (5, 1), (1, 1)])
def test_triangular_factors(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape)
    a[1:, :1] *= shape[0] != 4  # a column that is zero below its first
    made = agree([M], [pt.linalg.qr(M, mode="r"), pt.linalg.qr(M.T, mode="r")], [a])
    assert not made.calls


def test_large_products_are_left_to_blas() -> None:
    a = RNG.normal(size=(40, 30))
    made = agree([M], [pt.dot(M, M.T), pt.dot(M.T, M), pt.dot(M.T, pt.constant(a)), pt.dot(M[::2], M.T)], [a])
    assert sum("multiply(" in line for body in made.functions for line in body) == 4
    tall = RNG.normal(size=(300, 120))
    made = agree([M], [pt.dot(M, M[0]), pt.dot(M[:, 0], M), pt.dot(M.T, M[:, :1])], [tall])
    assert sum("multiply(" in line for body in made.functions for line in body) == 3


@pytest.mark.slow
def test_large_factorisations_are_left_to_lapack() -> None:
    a = RNG.normal(size=(60, 60))
    a = a @ a.T + np.eye(60)
    factor = pt.linalg.cholesky(S)
    outputs = [factor, pt.linalg.solve_triangular(factor, S[0], lower=True), DerivativeOfLogDeterminant()(factor)]
    made = agree([S], outputs, [a])
    assert len(made.calls) == 3
    assert all(call.key is not None for call in made.calls.values())


def test_gradients_of_a_mixture() -> None:
    """A graph as it comes: of several inputs and outputs, with repetitions."""
    mean, weight = pt.dvector("mean"), pt.dvector("weight")
    y = RNG.normal(size=(7, 1))
    log_terms = pt.log(pt.special.softmax(weight)) - 0.5 * (y - mean) ** 2
    value = pt.sum(pt.logsumexp(log_terms, axis=1))
    agree([mean, weight], [value, *pytensor.grad(value, [mean, weight])], [np.array([0.1, 2.0]), np.array([0.3, -1.0])])


def test_an_assertion_that_fails_is_noticed() -> None:
    x = pt.dvector("x")
    checked = Assert("positive")(pt.sum(x), pt.all(x > 0))
    made = program("test", [x], [checked], [np.ones(2)])
    assert run(made, [np.array([1.0, 2.0])])[0] == 3.0
    with pytest.raises(AssertionError, match="failed"):
        run(made, [np.array([1.0, -2.0])])


def test_what_cannot_be_done_is_refused() -> None:
    x, at = pt.dvector("x"), pt.lvector("at")
    refused: list[tuple[list[Any], Any, list[np.ndarray]]] = [
        ([x], x[pt.cast(pt.argmax(x), "int64")], [np.arange(3.0)]),
        ([x, at], x[at], [np.arange(3.0), np.array([0, 2])]),
        ([x], pt.real(pt.exp(x * 1j)), [np.arange(3.0)]),
        ([x], pt.cast(x, "int64"), [np.arange(3.0)]),
    ]
    for inputs, graph, point in refused:
        with pytest.raises(NoLoops):
            program("test", inputs, inline([graph]), point, 0)


def test_the_source_does_not_change_and_holds_no_data() -> None:
    """So that compiled code is found again, also for other data of the same shape."""

    def build(seed: int) -> Program:
        x = pt.dvector("x")
        design = np.random.default_rng(seed).normal(size=(9, 3))
        value = pt.sum(pt.log1p(pt.exp(pt.dot(design, x))) * design[:, 0]) + pt.sum(x[np.array([0, 2, 0])] ** 2)
        return program("test", [x], [value, pytensor.grad(value, x)], [np.zeros(3)], 0)

    first, second = build(1), build(2)
    assert first.functions == second.functions == build(1).functions
    assert not np.array_equal(first.data, second.data)


shapes = st.sampled_from([(), (1,), (4,), (3, 1), (1, 4), (3, 4), (2, 3, 4)])
UNARY: list[Callable[[Any], Any]] = [
    pt.exp,
    pt.neg,
    pt.sqr,
    pt.sigmoid,
    lambda x: pt.switch(x > 0, x, -2.0 * x),
    lambda x: x.T,
    lambda x: x[None],
    lambda x: pt.sum(x),
    lambda x: pt.sum(x, axis=-1) if x.type.ndim else x,
    lambda x: pt.max(x, axis=0) if x.type.ndim else x,
    lambda x: x[::-1] if x.type.ndim else x,
    lambda x: x[..., :1] if x.type.ndim else x,
    lambda x: x.ravel(),
    lambda x: x[..., np.array([0, 0])] if x.type.ndim else x,
]
BINARY: list[Callable[[Any, Any], Any]] = [pt.add, pt.mul, pt.sub, pt.maximum, lambda a, b: pt.switch(a > b, a, b)]


@given(st.data())
def test_random_graphs(data: Any) -> None:
    seed = data.draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    point, known = [], []
    for k in range(2):
        shape = data.draw(shapes)
        known.append(pt.tensor(f"x{k}", shape=shape, dtype="float64"))
        point.append(rng.normal(scale=0.3, size=shape))
    inputs = list(known)
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            new = data.draw(st.sampled_from(UNARY))(data.draw(st.sampled_from(known)))
        else:
            a, b = data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known))
            try:
                new = data.draw(st.sampled_from(BINARY))(a, b)
                compile_small(inputs, new)(*point)
            except (ValueError, TypeError):  # shapes that do not go together
                continue
        known.append(new)
    agree(inputs, known, point)


@given(st.data())
def test_places_are_numpy_views(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    offset = data.draw(st.integers(0, 5))
    place = Place.row_major("w", offset, shape)
    view = place.addresses
    assert np.array_equal(view, np.arange(offset, offset + np.prod(shape)).reshape(shape))
    for _ in range(data.draw(st.integers(0, 4))):
        kind = data.draw(st.sampled_from(["transpose", "index", "broadcast", "diagonal"]))
        if kind == "transpose":
            view = view.transpose(data.draw(st.permutations(range(view.ndim))))
        elif kind == "index" and view.ndim:
            ends = st.one_of(st.none(), st.integers(-4, 4))
            steps = st.sampled_from([None, 1, 2, -1, -2])
            index = [slice(data.draw(ends), data.draw(ends), data.draw(steps))]
            if data.draw(st.booleans()):
                index = [data.draw(st.integers(-view.shape[0], view.shape[0] - 1))] if view.shape[0] else index
            view = view[(*index, ...)]
        elif kind == "broadcast":
            view = np.broadcast_to(view, (2, *(3 if n == 1 else n for n in view.shape)))
        elif kind == "diagonal" and view.ndim >= 2:
            view = np.diagonal(view, data.draw(st.integers(-2, 2)), 0, 1)
    place = place.seen(view)
    assert (place.shape, place.size) == (view.shape, view.size)
    steps_from_first = sum((s * i for s, i in zip(place.strides, np.indices(view.shape), strict=True)), start=0)
    assert np.array_equal(np.broadcast_to(place.offset + steps_from_first, view.shape), view)
    if place.contiguous and place.size:
        assert np.array_equal(np.arange(place.offset, place.offset + place.size), np.ravel(view))
