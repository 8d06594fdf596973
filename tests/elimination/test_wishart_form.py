"""Wishart forms, against their values along lines of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pytensor.raise_op import Assert
from random_graphs import LOWER, evaluate

from bayeskit.elimination.symbols import NotProved
from bayeskit.elimination.wishart_form import is_wishart_form
from bayeskit.graphs.rewriting import inline

RNG = np.random.default_rng(12)
W = pt.tensor("W", dtype="float64", shape=(3, 3))
V = RNG.normal(size=3)
M = RNG.normal(size=(3, 3))
SLOPE = M @ M.T
FACTOR = pt.linalg.cholesky(W)
OF_INVERSE = pt.linalg.cholesky(pt.linalg.inv(W))


def logs(factor: Any) -> Any:
    return pt.log(pt.diagonal(factor))


def solve(matrix: Any, right: Any, **options: Any) -> Any:
    return pt.linalg.solve_triangular(matrix, right, **{"lower": True, **options})


PROVED: dict[str, Any] = {
    "trace of a product": pt.trace(M @ W),
    "sum of entries": pt.sum(W),
    "entries joined": pt.sum(pt.concatenate([W[0], W[:, 1] * V]) * 2.0),
    "log determinant": pt.sum(logs(FACTOR)),
    "log determinant of the inverse": -3.0 * pt.sum(logs(OF_INVERSE)),
    "twice inverted": pt.sum(pt.linalg.inv(pt.linalg.inv(W)) * M),
    "transposed": pt.sum(logs(pt.linalg.cholesky(W.T))),
    "quadratic form": pt.sum(solve(OF_INVERSE, V, b_ndim=1) ** 2),
    "quadratic forms of columns": pt.sum(pt.sqr(solve(OF_INVERSE, M)), axis=0)[1],
    "trace of a ratio": pt.sum(pt.sqr(solve(pt.constant(LOWER), FACTOR))),
    "checked": Assert("positive")(pt.trace(W), pt.all(pt.diagonal(W) > 0)),
    "checked to be positive definite": Assert("positive")(pt.trace(W), pt.all(pt.diagonal(OF_INVERSE) > 0)),
    "checked twice": Assert("positive")(pt.trace(W), pt.and_(pt.all(pt.diagonal(FACTOR) > 0), pt.all(pt.diag(W) > -1))),
    "cumulative sum": pt.cumsum(W @ V)[2],
    "entries added": pt.sum(pt.inc_subtensor((W * M)[1], W[0] * V)),
}
REFUSED: dict[str, Any] = {
    "square": pt.sum(W**2),
    "exponential": pt.sum(pt.exp(W)),
    "inverse": pt.sum(pt.linalg.inv(W) * M),
    "logarithm of an entry": pt.log(W[0, 0]),
    "logarithm of one of the diagonal": logs(FACTOR)[1],
    "logarithms weighted": pt.sum(logs(FACTOR) * V),
    "logarithms as a column": pt.sum(logs(FACTOR)[:, None], axis=1)[0],
    "logarithms of another diagonal": pt.sum(pt.log(pt.diagonal(FACTOR, offset=-1) ** 2)),
    "of another diagonal": pt.sum(pt.log(pt.diagonal(FACTOR, offset=-1))),
    "upper factor": pt.sum(pt.sqr(solve(pt.constant(LOWER), pt.linalg.cholesky(W, lower=False)))),
    "solve that reads the wrong half": pt.sum(pt.sqr(solve(OF_INVERSE, V, b_ndim=1, lower=False))),
    "solve of a unit diagonal": pt.sum(pt.sqr(solve(OF_INVERSE, V, b_ndim=1, unit_diagonal=True))),
    "solves of the rows of a factor": pt.sum(pt.sqr(solve(pt.constant(LOWER), FACTOR, b_ndim=1))),
    "a part of a quadratic form": pt.sqr(solve(OF_INVERSE, V, b_ndim=1))[1],
    "part of a trace": pt.sum(pt.sqr(solve(pt.constant(LOWER), FACTOR)), axis=0)[0],
    "logarithms added": pt.sum(pt.inc_subtensor(logs(FACTOR)[1:], V[1:])),
    "step": pt.switch(W[0, 0] > 1.0, 1.0, 2.0),
    "diagonal cut off": Assert("large")(pt.trace(W), pt.all(pt.diagonal(W) > 1.0)),
    "an entry cut off": Assert("large")(pt.trace(W), W[0, 0] > 1.0),
    "cut off from above": Assert("small")(pt.trace(W), pt.all(pt.diagonal(W) < 9.0)),
    "its trace cut off": Assert("large")(pt.trace(W), pt.trace(W) > 0.5),
    "its factor cut off": Assert("large")(pt.sum(logs(FACTOR)), pt.all(pt.diagonal(FACTOR) > 0.1)),
    "a negative diagonal": Assert("never")(pt.trace(W), pt.all(pt.diagonal(-W) > 0)),
    "the diagonal negated": Assert("never")(pt.trace(W), pt.all(-pt.diagonal(W) > 0)),
    "one of two checks": Assert("large")(pt.trace(W), pt.all(pt.diagonal(W) > 0), W[1, 0] > 0.0),
    "either of two": Assert("large")(pt.trace(W), pt.or_(pt.all(pt.diagonal(W) > 0), W[1, 0] > 0.0)),
    "not positive": Assert("never")(pt.trace(W), ~pt.all(pt.diagonal(W) > 0)),
    "product of two": W[0, 0] * W[1, 1],
    "added to": pt.sum(logs(pt.linalg.cholesky(W + np.eye(3)))),
}


def proved(graph: Any) -> bool:
    """Whether the proof goes through; where it does, f(A + tB) = a + bt + c log|A + tB| with one c for all lines."""
    (graph,) = inline([graph])
    try:
        is_wishart_form(graph, W)
    except NotProved:
        return False
    rows, values = [], []
    for line in range(2):
        start = np.eye(3) * (1 + line) + SLOPE[::-1, ::-1] / 5
        for t in np.linspace(0, 1, 5):
            matrix = start + t * SLOPE
            ends = [float(line == k) for k in (0, 1)]
            rows.append([*ends, *[t * e for e in ends], np.linalg.slogdet(matrix)[1]])
            values.append(np.asarray(evaluate(graph, {W: matrix})[graph]))
    coefficients, *_ = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)
    np.testing.assert_allclose(np.array(rows) @ coefficients, values, rtol=1e-8, atol=1e-8)
    return True


@pytest.mark.parametrize("name", PROVED)
def test_a_wishart_form_is_proved(name: str) -> None:
    assert proved(PROVED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused(name: str) -> None:
    assert not proved(REFUSED[name])


STEPS: dict[str, Any] = {
    "factor": pt.linalg.cholesky,
    "inverse": pt.linalg.inv,
    "transpose": lambda x: x.T,
    "negate": lambda x: -x,
    "scale": lambda x: 2.5 * x,
    "weigh": lambda x: x * M,
    "shift": lambda x: x + M,
    "square": pt.sqr,
    "logarithm": lambda x: pt.log(x),
    "diagonal": lambda x: pt.diag(pt.diagonal(x)),
    "diagonal repeated": lambda x: pt.alloc(pt.diagonal(x), 3, 3),
    "logarithms of the diagonal": lambda x: pt.alloc(pt.log(pt.diagonal(x)), 3, 3),
    "divide": lambda x: solve(pt.constant(LOWER), x),
    "divide by": lambda x: solve(x, pt.constant(M)),
    "divide a vector": lambda x: pt.alloc(solve(x, V, b_ndim=1), 3, 3),
    "product": lambda x: pt.constant(M) @ x,
    "sum": lambda x: pt.alloc(pt.sum(x), 3, 3),
    "sum of rows": lambda x: pt.alloc(pt.sum(x, axis=0), 3, 3),
    "sum of columns": lambda x: pt.alloc(pt.sum(x, axis=1), 3, 3),
}


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(names=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5), entry=st.integers(0, 2))
def test_what_is_proved_is_a_wishart_form(names: list[str], entry: int) -> None:
    graph = W
    for name in names:
        graph = STEPS[name](graph)
    if not proved(graph[entry, 1]):
        reject()
