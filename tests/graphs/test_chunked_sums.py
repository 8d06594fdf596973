"""Sums over long data, a block of rows at a time, against NumPy on the whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.logprob.utils import ParameterValueError

from bayeskit.graphs import chunked_sums as rows
from bayeskit.graphs.chunked_sums import RowFunction, compile_rows
from bayeskit.graphs.compile import small_mode
from bayeskit.graphs.gradient import gradient

RNG = np.random.default_rng(1)
X, Y, COUNTS = RNG.normal(size=(1009, 3)), RNG.normal(size=1009), RNG.poisson(2.0, size=1009)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rows, a prime number of them, in blocks of about a hundred."""
    monkeypatch.setattr(rows, "LONG", 1000)
    monkeypatch.setattr(rows, "MOST_ROWS", 100)
    monkeypatch.setattr(rows, "BLOCK", 400)


def by_rows(inputs: list[Any], outputs: list[Any]) -> RowFunction:
    function = compile_rows(inputs, outputs)
    assert function is not None
    assert len(function.blocks()) > 5
    return function


@pytest.mark.parametrize("kind", ["constant", "shared", "argument"])
def test_a_log_density_and_its_gradient_are_those_of_the_whole_arrays(kind: str) -> None:
    kinds = {"constant": pt.constant, "shared": lambda x: pytensor.shared(x, shape=x.shape)}
    design: Any = kinds.get(kind, lambda x: pt.matrix(shape=x.shape))(X)
    w, s = pt.vector("w", shape=(3,)), pt.scalar("s")
    sigma = s**0.5
    total = pt.sum(pm.logp(pm.Normal.dist(design @ w, sigma), Y)) + pt.sum(w**2)
    inputs = [w, s, design] if kind == "argument" else [w, s]
    function = by_rows(inputs, [total, *gradient(total, [w, s])])
    at, variance = np.array([0.3, -1.0, 0.5]), 1.7
    residual = Y - X @ at
    value = -0.5 * np.sum(residual**2) / variance - 0.5 * len(Y) * np.log(2 * np.pi * variance) + at @ at
    slopes = X.T @ residual / variance + 2 * at, np.sum(residual**2) / (2 * variance**2) - len(Y) / (2 * variance)
    for _ in range(2):
        found = function(*[at, np.array(variance), X][: len(inputs)])
        for one, two in zip(found, (value, *slopes), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    several = [[at, np.array(v), X][: len(inputs)] for v in (0.5, variance, 4.0)]
    for each, arguments in zip(function.at(several), several, strict=True):
        for one, two in zip(each, function(*arguments), strict=True):
            np.testing.assert_array_equal(one, two)


def test_blocks_cover_every_row_once() -> None:
    function = by_rows([s := pt.scalar("s")], [pt.sum(pt.constant(Y) * s)])
    found = np.concatenate([np.arange(len(Y))[b] for b in function.blocks()])
    assert found.tolist() == list(range(len(Y)))


def test_what_is_the_same_in_every_row_needs_no_rows() -> None:
    s = pt.scalar("s")
    filled = pt.fill(pt.constant(Y) * s, s**2)
    spread = pt.alloc(s, len(Y))
    (even, twice, total) = by_rows([s], [filled, spread * 2.0, pt.sum(filled + spread)])(np.array(1.5))
    np.testing.assert_array_equal(even, np.full(len(Y), 2.25))
    np.testing.assert_array_equal(twice, np.full(len(Y), 3.0))
    assert total == pytest.approx(3.75 * len(Y), rel=1e-14)


def test_checks_are_made_as_on_the_whole() -> None:
    s = pt.scalar("s")
    function = by_rows([s], [pt.sum(pm.logp(pm.Normal.dist(0.0, s), Y))])
    with pytest.raises(ParameterValueError, match="sigma > 0"):
        function(np.array(-1.0))


def test_checks_of_every_row_are_made_as_on_the_whole() -> None:
    s = pt.scalar("s")
    function = by_rows([s], [pt.sum(pm.logp(pm.Normal.dist(0.0, s + pt.constant(Y)), Y))])
    assert np.isfinite(function(np.array(1.0 - Y.min()))[0])
    with pytest.raises(ParameterValueError, match="sigma > 0"):
        function(np.array(-np.sort(Y)[1]))


def test_a_condition_on_every_row_holds_where_it_holds_in_every_block() -> None:
    s = pt.scalar("s")
    function = by_rows([s], [pt.all(pt.constant(Y) < s)])
    assert function(np.array(Y.max() + 1))[0]
    assert not function(np.array(Y.max()))[0]


def test_what_is_constant_is_computed_once_and_used_by_rows() -> None:
    s = pt.scalar("s")
    rate = pt.exp(pt.constant(X) @ pt.stack([s, 2 * s, s]))
    function = by_rows([s], [pt.sum(pm.logp(pm.Poisson.dist(rate), COUNTS))])
    expected = pm.logp(pm.Poisson.dist(np.exp(X @ [0.2, 0.4, 0.2])), COUNTS).eval(mode=small_mode()).sum()
    assert function(np.array(0.2))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "total",
    [
        lambda s: pt.max(pt.constant(Y) * s),
        lambda s: pt.prod(1.0 + 1e-3 * pt.constant(Y) * s),
        lambda s: pt.sum(pt.cumsum(pt.constant(Y) * s)),
        lambda s: pt.sum((pt.constant(Y) * s - pt.mean(pt.constant(Y) * s)) ** 2),
        lambda s: pt.sum(pt.constant(Y) * s * (pt.constant(Y) * s)[::-1]),
        lambda s: pt.sum(pt.dot(pt.constant(Y[:, None]) * s, pt.constant(Y[None, :]))),
        lambda s: pt.constant(Y) * s,
    ],
    ids=["max", "product", "cumulative", "two passes", "reversed", "outer", "not reduced"],
)
def test_what_is_no_sum_of_rows_is_refused(total: Any) -> None:
    s = pt.scalar("s")
    assert compile_rows([s], [total(s)]) is None


def test_short_data_is_not_cut() -> None:
    s = pt.scalar("s")
    assert compile_rows([s], [pt.sum(pt.constant(Y[:999]) * s)]) is None
