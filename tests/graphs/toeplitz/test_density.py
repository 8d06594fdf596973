"""The recursions against dense matrices: value and gradient, matrices near to singular ones, and what is refused."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.linalg import cho_factor, cho_solve, toeplitz

from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.toeplitz import inverse
from bayeskit.graphs.toeplitz.density import ToeplitzTerms
from bayeskit.graphs.toeplitz.inverse import solved_with_sums
from bayeskit.graphs.toeplitz.recursions import levinson, schur

U = np.arange(200) / 20.0
COLUMNS = {
    "smooth": lambda u: np.exp(-0.5 * u**2),
    "rough": lambda u: np.exp(-u),
    "periodic": lambda u: np.exp(-2.0 * np.sin(np.pi * u / 3.0) ** 2),
    "negative": lambda u: np.cos(2.0 * u) * np.exp(-0.1 * u),
    "none but noise": lambda u: 0.0 * u,
}


def _problem(name, noise, n=200, seed=0):
    t = COLUMNS[name](U[:n])
    t[0] += noise
    return t, np.random.default_rng(seed).normal(size=n)


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(("noise", "digits"), [(0.3, 1e-11), (1e-3, 1e-9), (1e-7, 1e-4)])
def test_value_and_gradient_are_those_of_the_matrix(name, noise, digits):
    t, y = _problem(name, noise)
    matrix = toeplitz(t)
    factor = cho_factor(matrix, lower=True)
    inverse_matrix, alpha = cho_solve(factor, np.eye(len(t))), cho_solve(factor, y)
    form, log_determinant = schur(t, y)
    np.testing.assert_allclose(form, y @ alpha, rtol=digits)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(matrix)[1], rtol=digits)
    solved, sums = solved_with_sums(t, y)
    np.testing.assert_allclose(solved, alpha, atol=digits * np.max(np.abs(alpha)))
    expected = [np.trace(inverse_matrix, k) for k in range(len(t))]
    np.testing.assert_allclose(sums, expected, atol=digits * np.max(np.abs(expected)))


@pytest.mark.slow
def test_the_operation_in_each_of_its_forms_and_its_derivatives():
    t, y = pt.dvector(), pt.dvector()
    form, log_determinant = ToeplitzTerms().make_node(t, y).outputs
    density = -0.5 * form - 0.7 * log_determinant
    slopes = pt.grad(density, [t, y])
    at = _problem("smooth", 0.1, n=30)
    values = [pytensor.function([t, y], [density, *slopes], mode=mode)(*at) for mode in ("FAST_COMPILE", "NUMBA")]
    for found, wanted in zip(*values, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)

    def dense(column, observed):
        matrix = toeplitz(column)
        return -0.5 * observed @ np.linalg.solve(matrix, observed) - 0.7 * np.linalg.slogdet(matrix)[1]

    np.testing.assert_allclose(values[0][0], dense(*at), rtol=1e-12)
    for k in range(2):
        for i in (0, 1, 7, 29):
            step = np.zeros(30)
            step[i] = 1e-6
            ends = [dense(*[v + s * step * (j == k) for j, v in enumerate(at)]) for s in (1.0, -1.0)]
            np.testing.assert_allclose(values[0][1 + k][i], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6)
    # One of the two alone, and many at once.
    only = pytensor.function([t, y], pt.grad(log_determinant, t), mode="FAST_COMPILE")(*at)
    np.testing.assert_allclose(only[0], np.trace(np.linalg.inv(toeplitz(at[0]))), rtol=1e-10)
    rows = compile_stacked([t, y], density)(*(np.stack([v, 2.0 * v]) for v in at))
    np.testing.assert_allclose(rows, [dense(*at), dense(2.0 * at[0], 2.0 * at[1])], rtol=1e-11)


@pytest.mark.parametrize(
    "t", [[1.0, 1.2, 0.3], [0.0, 0.0, 0.0], [-1.0, 0.2, 0.1], [1.0, np.nan, 0.0], [np.inf, 1.0, 0.0]]
)
def test_what_is_not_positive_definite_has_no_numbers(t):
    t, y = np.array(t), np.ones(3)
    assert np.all(np.isnan(schur(t, y)))
    with np.errstate(all="ignore"):
        assert np.all(np.isnan(solved_with_sums(t, y)))


def test_a_matrix_that_is_nearly_singular_is_made_where_it_is_small(monkeypatch):
    t, y = _problem("smooth", 1e-13)
    _, first = levinson(t, y)
    assert not np.allclose(toeplitz(t) @ first, np.eye(len(t))[0], atol=1e-4)
    solved, _ = solved_with_sums(t, y)
    # Of a condition of 10¹⁴ the digits of a solution are the machine's; that it solves what is near by is not.
    np.testing.assert_allclose(toeplitz(t) @ solved, y, rtol=0, atol=1e-13 * np.linalg.norm(t) * np.linalg.norm(solved))
    monkeypatch.setattr(inverse, "DENSE", 100)
    assert np.all(np.isnan(solved_with_sums(t, y)))


def test_observations_and_places_have_one_length():
    with pytest.raises(ValueError, match="3 observations at 2 places"):
        ToeplitzTerms().make_node([2.0, 1.0], np.ones(3)).outputs[0].eval(mode="FAST_COMPILE")
