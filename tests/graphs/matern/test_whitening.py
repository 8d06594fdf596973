"""The filter against dense matrices: transitions, value and gradient, tied and near places, and against mpmath."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytensor.tensor as pt
import pytest
from matern_shapes import SHAPES, SLOPES
from scipy.linalg import expm, solve_triangular

from bayeskit.graphs.compile import compile_small, compile_stacked
from bayeskit.graphs.matern.adjoint import whitening_adjoint
from bayeskit.graphs.matern.passes import passes, whitened
from bayeskit.graphs.matern.transitions import stationary, transition
from bayeskit.graphs.matern.whitening import MaternWhitening

COMPANIONS = {1: [[-1.0]], 2: [[0.0, 1.0], [-1.0, -2.0]], 3: [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]]}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("u", [0.0, 1e-3, 0.3, 1.99, 2.01, 30.0, 1000.0])
def test_transition_is_the_exponential_of_the_companion_matrix(order, u):
    a, q, p = np.zeros((3, order, order))
    transition(order, u, 0, a, q, np.empty(5))
    stationary(order, 0, p)
    expected = expm(np.array(COMPANIONS[order]) * u)
    np.testing.assert_allclose(a, expected, atol=1e-13)
    np.testing.assert_allclose(q, p - expected @ p @ expected.T, atol=1e-13)


@pytest.mark.parametrize(("order", "leading"), [(1, 2.0), (2, 4.0 / 3.0), (3, 4.0 / 15.0)])
def test_what_is_new_over_a_short_gap_is_known_to_full_precision(order, leading):
    a, q = np.zeros((2, order, order))
    transition(order, 1e-9, 0, a, q, np.empty(5))
    np.testing.assert_allclose(q[0, 0], leading * 1e-9 ** (2 * order - 1), rtol=1e-8)


def _matrix(x, d, shared, orders, variances, rates):
    u = np.abs(x[:, None] - x)
    parts = [c * SHAPES[o](r * u) for o, c, r in zip(orders, variances, rates, strict=True)]
    return sum(parts) + np.diag(d) + shared * (u == 0)


def _problem(orders, scale, n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, scale, n))
    x[10], x[15:18] = x[11], x[15]
    k = len(orders)
    return np.sort(x), rng.normal(size=n), rng.uniform(0.01, 0.1, n), -1e-3, rng.uniform(0.5, 2.0, (2, k))


@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 3), (2, 3, 0), (0,)])
@pytest.mark.parametrize("scale", [1e-3, 5.0, 1e4])
def test_value_and_gradient_are_those_of_the_matrix(orders, scale):
    _require_as_the_matrix(orders, *_problem(orders, scale))


@pytest.mark.parametrize("orders", [(1,), (2, 3)])
@pytest.mark.parametrize("exact", [15, 16, 17])
def test_one_of_several_at_a_place_may_have_no_noise(orders, exact):
    x, y, d, _, rest = _problem(orders, 5.0)
    d[np.flatnonzero(x == x[16])[exact - 15]] = 0.0
    _require_as_the_matrix(orders, x, y, d, 0.0, rest)


def _require_as_the_matrix(orders, x, y, d, shared, rest):
    c, r = rest
    z, root = whitened(x, y, d, shared, np.array(orders), c, r)
    factor = np.linalg.cholesky(_matrix(x, d, shared, orders, c, r))
    expected = solve_triangular(factor, y, lower=True)
    np.testing.assert_allclose(z @ z, expected @ expected, rtol=1e-9)
    np.testing.assert_allclose(np.log(root).sum(), np.log(np.diag(factor)).sum(), rtol=1e-9, atol=1e-9)

    to_y, to_d, to_shared, to_c, to_r = whitening_adjoint(x, y, d, shared, np.array(orders), c, r, -z, -1.0 / root)
    inverse = np.linalg.inv(factor @ factor.T)
    alpha = inverse @ y
    slope = 0.5 * (np.outer(alpha, alpha) - inverse)  # of the log density in the matrix
    u = np.abs(x[:, None] - x)
    for found, wanted in [
        (to_y, -alpha),
        (to_d, np.diag(slope)),
        (to_shared, np.sum(slope * (u == 0))),
        (to_c, [np.sum(slope * SHAPES[o](k * u)) for o, k in zip(orders, r, strict=True)]),
        (to_r, [np.sum(slope * v * u * SLOPES[o](k * u)) for o, v, k in zip(orders, c, r, strict=True)]),
    ]:
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.max(np.abs(wanted), initial=1e-3))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_one_process_is_filtered_as_several_are(order):
    x, y, d, shared, (c, r) = _problem((order,), 5.0)
    z, root = whitened(x, y, d, shared, np.array([order]), c, r)
    _, others, roots, *_ = passes(x, y, d, shared, np.array([order]), c, r)
    np.testing.assert_allclose(z, others, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(root, roots, rtol=1e-12)


def _exact(x, y, d, order, rate):
    """½|z|² + Σ log diag L with sixty digits."""
    with mpmath.workdps(60):
        shape = {1: lambda u: 1, 2: lambda u: 1 + u, 3: lambda u: 1 + u + u * u / 3}[order]
        places, n = [mpmath.mpf(float(v)) for v in x], len(x)
        matrix = mpmath.matrix(n, n)
        for i, j in product(range(n), repeat=2):
            u = mpmath.mpf(rate) * abs(places[i] - places[j])
            matrix[i, j] = shape(u) * mpmath.exp(-u) + (mpmath.mpf(float(d[i])) if i == j else 0)
        factor = mpmath.cholesky(matrix)
        z = mpmath.lu_solve(factor, mpmath.matrix([mpmath.mpf(float(v)) for v in y]))
        return float(sum(v * v for v in z) / 2 + sum(mpmath.log(factor[i, i]) for i in range(n)))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("rate", [1e-5, 1.0])
def test_near_places_and_little_noise_lose_no_digits(order, rate):
    rng = np.random.default_rng(5)
    x = np.sort(np.r_[rng.uniform(size=6), 0.5 + 1e-7 * rng.uniform(size=5), [0.3, 0.3]])
    d = np.full(len(x), 1e-12)  # a Cholesky factorisation of the matrix is off by up to a hundredth
    y = (np.sin(3.0 * x) if rate == 1.0 else 0.3) + 1e-6 * rng.normal(size=len(x))
    z, root = whitened(x, y, d, 0.0, np.array([order]), np.ones(1), np.array([rate]))
    np.testing.assert_allclose(0.5 * z @ z + np.log(root).sum(), _exact(x, y, d, order, rate), rtol=1e-9)


def test_what_is_no_covariance_is_no_number():
    x, one = np.array([0.0, 0.0, 1.0]), np.ones(1)
    for d in ([0.0, 0.0, 1.0], [1.0, 1.0, -3.0], [1.0, np.nan, 1.0], [1.0, np.inf, np.inf]):
        z, root = whitened(x, np.ones(3), np.array(d), 0.0, np.array([2]), one, one)
        assert np.all(np.isnan(z))
        assert np.all(np.isnan(root))
        found = whitening_adjoint(x, np.ones(3), np.array(d), 0.0, np.array([2]), one, one, z, root)
        assert all(np.all(np.isnan(v)) for v in found)


def _density(orders=(2,)):
    x, y, d, _, (c, r) = _problem(orders, 5.0, n=20)
    log_c, log_r = pt.dvector(), pt.dvector()
    given = (x, y, d, pt.exp(log_c), pt.exp(log_r))
    z, root = MaternWhitening(orders, (0.0,) * len(orders)).make_node(*given).outputs
    return [log_c, log_r], -0.5 * pt.sum(z**2) - pt.sum(pt.log(root)), (np.log(c), np.log(r))


def test_operation_has_a_gradient_and_takes_many_values_at_once():
    inputs, density, at = _density()
    gradient = compile_small(inputs, pt.grad(density, inputs))(*at)
    value = compile_small(inputs, density)
    for k, slope in enumerate(gradient):
        step = np.eye(2)[k] * 1e-4
        moved = [value(at[0] + s * step[0], at[1] + s * step[1]) for s in (1.0, -1.0)]
        np.testing.assert_allclose(slope, (moved[0] - moved[1]) / 2e-4, rtol=1e-5)
    many = compile_stacked(inputs, density)(np.stack([at[0], at[0] + 1.0]), np.stack([at[1], at[1]]))
    np.testing.assert_allclose(many, [value(*at), value(at[0] + 1.0, at[1])], rtol=1e-12)


def test_lengths_have_to_agree():
    with pytest.raises(ValueError, match="3 observations at 2 places"):
        MaternWhitening((1,), (0.0,)).make_node(np.zeros(2), np.zeros(3), np.ones(3), [1.0], [1.0]).outputs[0].eval(
            mode="FAST_COMPILE"
        )
