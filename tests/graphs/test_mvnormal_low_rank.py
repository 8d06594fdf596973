"""The terms of a multivariate Normal by a factor of few columns, against SciPy's factorisation of the whole matrix."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from scipy import linalg, stats

import bayeskit as bk
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.mvnormal_gradients import cheap_gradients, shared_factorisations
from bayeskit.graphs.mvnormal_low_rank import low_rank, normal_terms
from bayeskit.graphs.mvnormal_ops import Terms
from bayeskit.graphs.rewriting import inline, without_checks
from bayeskit.model.unconstrained import Unconstrained

SIZE = 240
RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(0, 10, SIZE))[:, None]
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=SIZE)
APART = X - X.T
ROWS = np.stack([Y, np.cos(X[:, 0]), np.ones(SIZE)])

SMOOTH = {
    "squared exponential": 1.7 * np.exp(-0.5 * (APART / 2.0) ** 2),
    "periodic": np.exp(-2.0 * np.sin(np.pi * APART / 4.0) ** 2),
    "linear": 1.0 + X @ X.T,
    "nothing": np.zeros((SIZE, SIZE)),
    "a few effects": (lambda z: z @ z.T)(RNG.normal(size=(SIZE, 7))),
}
NOT_SMOOTH = {
    "exponential": np.exp(-np.abs(APART)),
    "noise of its own": np.diag(RNG.uniform(0.5, 1.0, SIZE)),
    "no covariance": np.cos(APART) * 0.3 + 0.2 * np.sin(np.add.outer(7 * X[:, 0], 7 * X[:, 0])),
    "not symmetric": SMOOTH["squared exponential"] + 1e-6 * np.triu(np.ones((SIZE, SIZE)), 1),
    "no number": np.full((SIZE, SIZE), np.nan),
}


@pytest.mark.parametrize("noise", [1.0, 0.04])
@pytest.mark.parametrize("name", SMOOTH)
def test_few_columns_give_what_all_give(name: str, noise: float) -> None:
    matrix = SMOOTH[name] + noise * np.eye(SIZE)
    found = low_rank(matrix, noise)
    assert found is not None
    assert len(found.rows) <= SIZE // 4
    weights = (np.array([-0.5, 0.3, -1.0]), -1.5)
    terms = normal_terms(matrix, ROWS, noise, weights)
    inverse = linalg.inv(matrix)
    assert terms.half_log_determinant == pytest.approx(0.5 * np.linalg.slogdet(matrix)[1], abs=2e-8)
    np.testing.assert_allclose(terms.quadratic, np.sum(ROWS @ inverse * ROWS, axis=1), rtol=1e-8)
    np.testing.assert_allclose(terms.solved, ROWS @ inverse, rtol=1e-7, atol=1e-8 / noise)
    _derivatives_are_right(terms.to_matrix, matrix, inverse, weights)
    dense = normal_terms(matrix, ROWS, 0.0, weights)
    assert dense.half_log_determinant == pytest.approx(terms.half_log_determinant, abs=2e-8)
    _derivatives_are_right(dense.to_matrix, matrix, inverse, weights)


def _derivatives_are_right(
    found: np.ndarray | None, matrix: np.ndarray, inverse: np.ndarray, weights: tuple[np.ndarray, float]
) -> None:
    assert found is not None
    solved = ROWS @ inverse
    whole = 0.5 * weights[1] * inverse - (weights[0] * solved.T) @ solved
    expected = np.tril(whole, -1) * 2 + np.diag(np.diag(whole))
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("name", NOT_SMOOTH)
def test_what_has_no_factor_of_few_columns_is_factorised(name: str) -> None:
    assert low_rank(NOT_SMOOTH[name] + 0.5 * np.eye(SIZE), 0.5) is None


@pytest.mark.parametrize("floor", [0.0, -1.0, np.nan, np.inf, 1e-6])
def test_without_noise_there_is_none(floor: float) -> None:
    """Next to no noise: rounding in K is worth more than a hundred-millionth."""
    noise = floor if np.isfinite(floor) else 1.0
    assert low_rank(SMOOTH["squared exponential"] + abs(noise) * np.eye(SIZE), floor) is None


def test_a_noise_that_is_not_there_is_noticed() -> None:
    matrix = SMOOTH["squared exponential"] + 0.04 * np.eye(SIZE)
    assert low_rank(matrix, 0.05) is None
    assert low_rank(matrix, 0.03) is None


@pytest.mark.parametrize("size", [112, 160, 392])
def test_what_signs_do_not_see_is_seen(size: int) -> None:
    """Differences of neighbours, and of all from their mean, are zero along some vectors of signs."""
    assert low_rank(np.eye(size) - 0.9 / size, 1.0) is None
    for at in range(0, size - 1, 5):
        apart = np.zeros(size)
        apart[at : at + 2] = 1.0, -1.0
        assert low_rank(np.eye(size) - 0.4 * np.outer(apart, apart), 1.0) is None


@pytest.mark.parametrize(
    "spelling",
    [
        lambda s: pt.diag(pt.alloc(s**2, SIZE)),
        lambda s: s**2 * np.eye(SIZE),
        lambda s: s**2 * pt.eye(SIZE),
        lambda s: 2.0 * pt.diag(pt.alloc(s**2, SIZE)) * 0.5,
        lambda s: 0.5 * s**2 * np.eye(SIZE) + pt.diag(pt.alloc(0.5 * s**2, SIZE)),
    ],
)
def test_noise_is_found_however_it_is_written(spelling: Any) -> None:
    with pm.Model() as model:
        s = pm.HalfNormal("s")
        pm.MvNormal("y", 0.0, cov=SMOOTH["squared exponential"] + spelling(s), observed=Y)
    space = Unconstrained(bk.collapse(model))
    floors = {
        v.owner.inputs[2] for v in ancestors([space.graph]) if v.owner is not None and isinstance(v.owner.op, Terms)
    }
    (floor,) = floors
    assert compile_small(space.variables, floor)(np.array(np.log(0.3))) == pytest.approx(0.09)
    expected = stats.multivariate_normal(cov=SMOOTH["squared exponential"] + 0.09 * np.eye(SIZE)).logpdf(Y)
    expected += stats.halfnorm.logpdf(0.3) + np.log(0.3)
    assert space.log_density(np.array([[np.log(0.3)]]))[0] == pytest.approx(expected, rel=1e-10)


def test_the_quadratic_form_of_a_large_signal_keeps_its_digits() -> None:
    """Formed as |b|² − …, it would lose the six digits by which the signal exceeds the noise."""
    with mp.workdps(40):
        size, noise = 120, 1e-2
        direction = np.sqrt(2.0) * np.cos(np.arange(size))
        matrix = np.outer(direction, direction) + noise * np.eye(size)
        b = 1000.0 * direction + 0.1 * np.sin(7.0 * np.arange(size))
        v, w = mp.matrix(direction.tolist()), mp.matrix(b.tolist())
        dot = mp.fsum(x * y for x, y in zip(v, w, strict=True))
        norm = mp.fsum(x * x for x in v)
        exact = (mp.fsum(y * y for y in w) - dot**2 / (mp.mpf(noise) + norm)) / mp.mpf(noise)
    found = low_rank(matrix, noise)
    assert found is not None
    assert normal_terms(matrix, b[None], noise).quadratic[0] == pytest.approx(float(exact), rel=1e-10)


def test_no_covariance_is_a_density_of_zero() -> None:
    terms = normal_terms(-np.eye(3), np.ones((2, 3)), 0.0, (np.ones(2), 1.0))
    assert np.array_equal(terms.quadratic, np.zeros(2))
    assert terms.half_log_determinant == np.inf
    assert terms.to_matrix is not None
    assert np.all(np.isnan(terms.to_matrix))


def process(jitter: float = 0.0, rows: np.ndarray = Y) -> pm.Model:
    with pm.Model() as model:
        amplitude, length, noise = (pm.HalfNormal(n) for n in ("amplitude", "length", "noise"))
        latent = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.ExpQuad(1, length))
        latent.marginal_likelihood("y", X, rows, sigma=noise, jitter=jitter)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.0, 1e-6])
@pytest.mark.parametrize("noise", [0.3, 5e-3])
def test_density_and_gradient_of_a_process(jitter: float, noise: float) -> None:
    """With a noise that is found in the graph, and with one too small for a factor of few columns."""
    space = Unconstrained(bk.collapse(process(jitter)))

    def expected(x: np.ndarray) -> float:
        amplitude, length, sd = np.exp(x)
        covariance = amplitude**2 * np.exp(-0.5 * (APART / length) ** 2) + (sd**2 + jitter) * np.eye(SIZE)
        prior = np.sum(stats.halfnorm.logpdf(np.exp(x)) + x)
        return float(prior + stats.multivariate_normal(cov=covariance).logpdf(Y))

    x = np.log([1.2, 0.8, noise])
    value, gradient = space.value_and_gradient(x)
    assert value == pytest.approx(expected(x), rel=1e-6 if noise < 0.01 else 1e-9)
    assert space.log_density(x[None])[0] == pytest.approx(value, rel=1e-9)
    step = 1e-5
    differences = [
        (space.value_and_gradient(x + step * e)[0] - space.value_and_gradient(x - step * e)[0]) / (2 * step)
        for e in np.eye(3)
    ]
    assert gradient == pytest.approx(differences, rel=1e-4, abs=1e-3)


def test_value_and_gradient_share_one_factorisation() -> None:
    space = Unconstrained(bk.collapse(process()))
    graph = space._log_density
    graphs = without_checks(inline([graph, *pytensor.grad(graph, space.variables)]))
    for result, kinds in ((graphs, {True, False}), (shared_factorisations(graphs), {True})):
        nodes = {v.owner for v in ancestors(result) if v.owner is not None and isinstance(v.owner.op, Terms)}
        assert {n.op.derivatives for n in nodes} == kinds
        assert len(nodes) == len(kinds)


@pytest.mark.parametrize("several", [False, True])
def test_rows_of_one_covariance_come_from_one_node(several: bool) -> None:
    r = pt.scalar("r")
    covariance = r * SMOOTH["squared exponential"] + pt.diag(pt.alloc(pt.exp(r), SIZE))
    total: Any = pm.logp(pm.MvNormal.dist(0.0, covariance), pt.as_tensor(ROWS)).sum()
    if several:
        total = total + 0.5 * pm.logp(pm.MvNormal.dist(1.0, covariance), pt.as_tensor(Y))
    cheap = cheap_gradients(inline([total])[0])
    nodes = {v.owner for v in ancestors([cheap]) if v.owner is not None and isinstance(v.owner.op, Terms)}
    assert len(nodes) >= 1
    graphs = shared_factorisations(inline([cheap, pytensor.grad(cheap, r)]))
    value, slope = compile_small([r], graphs)(np.array(0.4))

    def expected(at: float) -> float:
        normal = stats.multivariate_normal(cov=at * SMOOTH["squared exponential"] + np.exp(at) * np.eye(SIZE))
        result = float(np.sum(normal.logpdf(ROWS)))
        return result + 0.5 * float(normal.logpdf(Y - 1.0)) if several else result

    assert value == pytest.approx(expected(0.4), rel=1e-10)
    assert slope == pytest.approx((expected(0.4 + 1e-5) - expected(0.4 - 1e-5)) / 2e-5, rel=1e-6)
    batch = pt.vector("batch")
    many = compile_small([batch], vectorize_graph(cheap, {r: batch}))(np.array([0.2, 0.4]))
    assert many == pytest.approx([expected(0.2), expected(0.4)], rel=1e-10)
    outside = compile_small([r], cheap)(np.array(-1.0))
    assert outside == -np.inf
