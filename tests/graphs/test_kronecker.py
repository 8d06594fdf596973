"""S⁻¹y and log |S| of Kronecker products with noise, and their derivatives, against the whole matrix."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from scipy.optimize import approx_fprime

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.kronecker import kronecker_terms

RNG = np.random.default_rng(11)


def _covariance(length, rows):
    x = np.linspace(0.0, 1.0, rows)
    return np.exp(-0.5 * (x[:, None] - x) ** 2 / length**2)


def _dense(matrices, variance):
    return reduce(np.kron, matrices) + variance * np.eye(int(np.prod([len(m) for m in matrices])))


@pytest.mark.parametrize("rows", [(5,), (3, 4), (4, 1, 3), (2, 3, 2, 2)])
def test_terms_and_their_derivatives_are_those_of_the_whole_matrix(rows):
    # Smooth covariances: most eigenvalues are zero to rounding, where eigenvectors have no derivatives.
    lengths, n = 0.9 + 0.2 * np.arange(len(rows)), int(np.prod(rows))
    y, weights = RNG.normal(size=(2, n))

    def whole(parameters):
        *of_factors, variance, scale = parameters
        matrices = [_covariance(length, k) for length, k in zip(of_factors, rows, strict=True)]
        covariance = _dense(matrices, variance)
        return weights @ np.linalg.solve(covariance, scale * y) + np.linalg.slogdet(covariance)[1]

    given = pt.dvector("given")
    factors = []
    for i, k in enumerate(rows):
        x = np.linspace(0.0, 1.0, k)
        factors.append(pt.exp(-0.5 * pt.constant((x[:, None] - x) ** 2) / given[i] ** 2))
    solved, log_determinant = kronecker_terms(given[-1] * y, given[-2], factors)
    total = pt.sum(weights * solved) + log_determinant
    at = np.array([*lengths, 0.3, 1.7])
    value, gradient = compile_small([given], [total, pt.grad(total, given)])(at)
    np.testing.assert_allclose(value, whole(at), rtol=1e-11)
    np.testing.assert_allclose(gradient, approx_fprime(at, whole, 1e-7), rtol=2e-5, atol=1e-5)


def test_a_solution_has_second_derivatives():
    """Weights in a mean are integrated out by the first, and what is left differentiated again."""
    y, matrices = RNG.normal(size=6), [_covariance(0.5, 2), _covariance(0.8, 3)]
    right, variance = pt.dvector("right"), pt.dscalar("variance")
    solved, _ = kronecker_terms(right, variance, matrices)
    slope = pt.grad(0.5 * pt.sum(right * solved), right)
    turned = pt.grad(pt.sum(slope**2), variance)
    inverse = np.linalg.inv(_dense(matrices, 0.2))
    found = compile_small([right, variance], [slope, turned])(y, 0.2)
    np.testing.assert_allclose(found[0], inverse @ y, rtol=1e-10)
    np.testing.assert_allclose(found[1], -2.0 * y @ inverse @ inverse @ inverse @ y, rtol=1e-10)


def test_several_at_once():
    y, matrices = RNG.normal(size=(5, 6)), [_covariance(0.5, 2), _covariance(0.8, 3)]
    right, rows = pt.dvector("right"), pt.dmatrix("rows")
    solved, _ = kronecker_terms(right, 0.2, matrices)
    found = compile_small([rows], vectorize_graph(solved, {right: rows}))(y)
    np.testing.assert_allclose(found, np.linalg.solve(_dense(matrices, 0.2), y.T).T, rtol=1e-10)


def test_what_is_no_covariance_has_no_number():
    scale = pt.dscalar("scale")
    factors = [scale * _covariance(0.5, 2), _covariance(0.8, 3)]
    solved, log_determinant = kronecker_terms(np.ones(6), 0.1, factors)
    function = compile_small([scale], [solved, log_determinant])
    for bad in (-1.0, np.inf, np.nan):
        assert np.isnan(function(np.array(bad))[1])
    assert np.all(np.isfinite(function(np.array(1.0))[0]))


def test_other_inputs_are_refused():
    with pytest.raises(TypeError, match="covariances"):
        kronecker_terms(np.ones(4), np.ones(2), [np.eye(2), np.eye(2)])
