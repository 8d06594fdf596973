"""Distances as PyMC softens them, against dense matrices: by the filter, by a matrix, and where one takes over."""

from __future__ import annotations

import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from matern_shapes import SHAPES, SLOPES

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.matern.left_out import left_out
from bayeskit.graphs.matern.passes import whitened
from bayeskit.graphs.matern.softened import (
    ROWS,
    TOLERANCE,
    asks_for_matrix,
    bound_of_softened,
    for_filter,
    softened_adjoint,
    softened_whitening,
    whitened_each,
)
from bayeskit.graphs.matern.whitening import MaternWhitening

SOFTENING = {0: 0.0, 1: 1e-6, 2: np.sqrt(3.0) * 1e-6, 3: np.sqrt(5.0) * 1e-6}


def _problem(orders, n, sd, span, near, seed=0):
    """Places of which a third are as near to others as ``near``, two are equal, and data that are far from zero."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, span, n)
    x[: n // 3] = x[n // 3 : 2 * (n // 3)] + near * rng.normal(size=n // 3)
    x[-1] = x[-2]
    x, k = np.sort(x), len(orders)
    softening = np.array([SOFTENING[o] for o in orders])
    y, d = np.sin(x) + sd * rng.normal(size=n), sd**2 * rng.uniform(0.5, 2.0, n)
    return x, y, d, np.array(orders), rng.uniform(0.5, 2.0, k), rng.uniform(0.5, 2.0, k), softening


def _asks(x, y, d, orders, variances, rates, softening):
    shared, scaled = for_filter(orders, variances, softening)
    z, root = whitened(x, y, d, shared, orders, scaled, rates)
    return asks_for_matrix(x, d, shared, orders, variances, rates, softening, z, root)


def _dense(x, y, d, orders, variances, rates, softening):
    """The log density, but for a constant, and its slopes in y, d, c and λ."""
    gaps = np.abs(x[:, None] - x)
    softened = [np.sqrt((r * gaps) ** 2 + h**2) for r, h in zip(rates, softening, strict=True)]
    parts = [SHAPES[o](u) for o, u in zip(orders, softened, strict=True)]
    matrix = sum(c * part for c, part in zip(variances, parts, strict=True)) + np.diag(d)
    inverse = np.linalg.inv(matrix)
    alpha = np.linalg.solve(matrix, y)
    slope = 0.5 * (np.outer(alpha, alpha) - inverse)
    to_rates = [
        np.sum(slope * c * SLOPES[o](u) * r * gaps**2 / u) if o else 0.0
        for o, c, r, u in zip(orders, variances, rates, softened, strict=True)
    ]
    value = -0.5 * y @ alpha - 0.5 * np.linalg.slogdet(matrix)[1]
    return value, [-alpha, np.diag(slope), [np.sum(slope * part) for part in parts], to_rates]


def _require_as_the_matrix(given):
    z, root = softened_whitening(*given)
    value, slopes = _dense(*given)
    bound = bound_of_softened(*given)
    assert bound <= TOLERANCE
    np.testing.assert_allclose(-0.5 * z @ z - np.log(root).sum(), value, rtol=1e-12, atol=1e-8 + bound)
    close = 1e-7 + 10.0 * bound
    for found, wanted in zip(softened_adjoint(*given, -z, -1.0 / root), slopes, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=close, atol=close * np.max(np.abs(wanted), initial=1e-3))


@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 3), (1, 0), (1, 1)])
@pytest.mark.parametrize("sd", [0.003, 1.0])
@pytest.mark.parametrize("near", [1e-7, 1e-5, 1e-2])
def test_value_and_gradient_are_those_of_the_softened_matrix(orders, sd, near):
    _require_as_the_matrix(_problem(orders, 40, sd, 5.0, near))


@pytest.mark.parametrize(
    ("orders", "n", "sd", "span", "near", "asked"),
    [
        ((1,), 40, 0.003, 5.0, 1e-5, True),
        ((1,), 200, 0.3, 5.0, 1e-2, False),
        ((1,), 40, 1.0, 1000.0, 1e-1, False),
        ((1, 2), 40, 0.003, 5.0, 1e-5, True),
        ((2,), 200, 0.3, 5.0, 1e-5, False),
        ((2,), 200, 0.003, 5.0, 1e-5, False),
        ((3,), 200, 0.1, 5.0, 1e-5, False),
        ((1,), ROWS + 1, 0.003, 5.0, 1e-5, False),
    ],
)
def test_a_matrix_is_made_where_the_filter_would_be_off(orders, n, sd, span, near, asked):
    given = _problem(orders, n, sd, span, near)
    assert _asks(*given) == asked
    assert not _asks(*given[:-1], np.zeros(len(orders)))


@pytest.mark.parametrize(("orders", "near"), [((1,), 1e-5), ((1, 2), 1e-5)])
def test_both_agree_where_the_matrix_takes_over(orders, near):
    said = []
    for sd in np.geomspace(1e-3, 300.0, 25):
        given = _problem(orders, 30, sd, 20.0, near, seed=4)
        said.append(_asks(*given))
        _require_as_the_matrix(given)
    assert said[0]
    assert not said[-1]
    assert np.sum(np.diff(said)) == 1


@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 2)])
def test_what_is_left_out_is_less_than_the_bound(orders):
    """To first order, of which a matrix that leaves it out, too, knows every digit."""
    ratios = []
    for seed in range(24):
        sd, span, near = 10.0 ** -(seed % 3), 10.0 ** (seed % 4 - 1), 10.0 ** -(2 + seed % 5)
        x, y, d, kinds, c, r, h = given = _problem(orders, 30, sd, span, near, seed)
        shared, scaled = for_filter(kinds, c, h)
        z, root = whitened(x, y, d, shared, kinds, scaled, r)
        gaps = np.abs(x[:, None] - x)
        matrix, missing = np.diag(d) + shared * (gaps == 0.0), np.zeros_like(gaps)
        for order, variance, full, rate, soft in zip(kinds, scaled, c, r, h, strict=True):
            u = rate * gaps
            v = np.sqrt(u**2 + soft**2)
            matrix += variance * SHAPES[order](u)
            if order == 1:
                missing += np.where(gaps > 0.0, full * np.exp(-u) * np.expm1(-(soft**2) / (u + v)), 0.0)
            else:
                missing += full * soft**2 * np.exp(-u) * (u / 2.0 if order == 2 else u**2 / 18.0)
        alpha, inverse = np.linalg.solve(matrix, y), np.linalg.inv(matrix)
        bound, _ = left_out(x, d, shared, kinds, c, r, h, z, root, False)
        assert bound <= left_out(x, d, shared, kinds, c, r, h, z, root, True)[0]
        parts = 0.5 * alpha @ missing @ alpha, -0.5 * np.sum(inverse * missing)
        assert abs(sum(parts)) <= bound * (1.0 + 1e-6), given
        ratios.append(max(map(abs, parts)) / bound)
    assert np.median(ratios) > 0.005


def test_a_matrix_that_only_its_softening_makes_positive_definite():
    x, one = np.array([0.0, 1e-8, 1.0]), np.ones(1)
    given = (x, np.array([0.1, 0.2, 0.3]), np.full(3, 2e-9), np.array([1]), one, one, np.array([1e-6]))
    shared, scaled = for_filter(*given[3:5], given[-1])
    assert np.all(np.isnan(whitened(*given[:3], shared, np.array([1]), scaled, one)[0]))
    with mpmath.workdps(40):
        places = [mpmath.mpf(float(v)) for v in x]
        matrix = mpmath.matrix(3, 3)
        for i in range(3):
            for j in range(3):
                matrix[i, j] = mpmath.exp(-mpmath.sqrt((places[i] - places[j]) ** 2 + mpmath.mpf(1e-6) ** 2))
                matrix[i, j] += mpmath.mpf(2e-9) if i == j else 0
        y = mpmath.matrix([mpmath.mpf(float(v)) for v in given[1]])
        expected = float((y.T * mpmath.lu_solve(matrix, y))[0] + mpmath.log(mpmath.det(matrix)))
    z, root = softened_whitening(*given)
    np.testing.assert_allclose(z @ z + 2.0 * np.log(root).sum(), expected, rtol=1e-6)


def test_what_is_no_covariance_is_no_number():
    one, soft = np.ones(1), np.array([1e-6])
    for d in ([0.0, 0.0, 1.0], [1.0, 1.0, -3.0], [1.0, np.nan, 1.0], [1.0, np.inf, np.inf]):
        given = (np.array([0.0, 0.0, 1.0]), np.ones(3), np.array(d), np.array([1]), one, one, soft)
        z, root = softened_whitening(*given)
        assert np.all(np.isnan(z))
        assert np.all(np.isnan(root))
        assert all(np.all(np.isnan(v)) for v in softened_adjoint(*given, z, root))


def test_many_at_once_are_as_each_by_itself():
    x, y, d, orders, c, r, softening = _problem((1,), 20, 10.0, 200.0, 1e-6)
    scale, rate = np.array([1.0, 1e-9, 2.0, np.nan]), np.array([0.5, 1.0, 2.0, 1.0])
    given = x[None], y[None], scale[:, None] * d, orders, c[None], rate[:, None] * r, softening
    asked = [_asks(x, y, s * d, orders, c, a * r, softening) for s, a in zip(scale, rate, strict=True)]
    assert asked == [False, True, False, False]
    for k, (z, root) in enumerate(zip(*whitened_each(*given), strict=True)):
        one = softened_whitening(x, y, scale[k] * d, orders, c, rate[k] * r, softening)
        np.testing.assert_array_equal([z, root], one)
    assert whitened_each(*given[:2], np.empty((0, 20)), *given[3:])[0].shape == (0, 20)


@pytest.mark.slow
def test_compiled_by_numba_it_is_the_same_with_a_matrix_and_without():
    x, y, d, orders, c, r, softening = _problem((1,), 20, 10.0, 200.0, 1e-6)
    log_c, log_r, scale = pt.dvector(), pt.dvector(), pt.dscalar()
    operation = MaternWhitening(tuple(map(int, orders)), tuple(map(float, softening)))
    z, root = operation.make_node(x, y, scale * d, pt.exp(log_c), pt.exp(log_r)).outputs
    density, inputs = -0.5 * pt.sum(z**2) - pt.sum(pt.log(root)), [log_c, log_r, scale]
    outputs = [density, *pt.grad(density, inputs)]
    slow, fast = compile_small(inputs, outputs), pytensor.function(inputs, outputs, mode="NUMBA")
    for noise, asked in ((1.0, False), (1e-9, True)):
        given = (x, y, noise * d, orders, c, r, softening)
        assert _asks(*given) == asked
        value, (_, to_d, to_c, to_r) = _dense(*given)
        close = 1e-7 + 10.0 * bound_of_softened(*given)
        at = np.log(c), np.log(r), np.array(noise)
        for found in (slow(*at), fast(*at)):
            for one, wanted in zip(found, (value, c * to_c, r * to_r, d @ to_d), strict=True):
                np.testing.assert_allclose(one, wanted, rtol=close, atol=close)
