"""Which matrices are seen to be functions of the distance at evenly spaced places, with their first column."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.linalg import toeplitz

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import widen
from bayeskit.graphs.toeplitz.recognition import even_covariance, evenly_spaced

N = 24
X = -1.0 + 0.3 * np.arange(N)
COLUMN = X[:, None]
cov = pm.gp.cov


def _parameters():
    return [pm.HalfNormal.dist(name=name) for name in ("eta", "ls", "sigma")]


def _seen(kernel, inputs=COLUMN, noise=lambda sigma: cov.WhiteNoise(sigma)):
    """Whether it is seen; where it is, the first column has to be that of the matrix."""
    eta, ls, sigma = _parameters()
    found = kernel(eta, ls)
    places = pt.as_tensor_variable(inputs)
    matrix = (found + noise(sigma))(places) if isinstance(found, cov.BaseCovariance) else found + noise(sigma)(places)
    return _require_the_column([eta, ls, sigma], matrix + 1e-6 * pt.eye(N))


def _require_the_column(parameters, matrix):
    *given, matrix = widen([*parameters, matrix])
    found = even_covariance(matrix)
    if found is None:
        return False
    assert found.count == N
    function = compile_small(given, [matrix, found.first])
    for point in ([1.3, 0.4, 0.7], [0.3, 2.7, 0.1]):
        dense, first = function(*map(np.asarray, point))
        np.testing.assert_allclose(toeplitz(first), dense, rtol=1e-9, atol=1e-9)
    return True


KERNELS = {
    "smooth": lambda eta, ls: eta**2 * cov.ExpQuad(1, ls=ls),
    "rational quadratic": lambda eta, ls: cov.RatQuad(1, alpha=eta, ls=ls),
    "periodic": lambda eta, ls: eta * cov.Periodic(1, period=2.5, ls=ls),
    "unknown period": lambda eta, ls: eta * cov.Periodic(1, period=ls, ls=0.8),
    "wrapped": lambda eta, ls: eta * cov.WrappedPeriodic(cov.Matern52(1, ls=ls), period=2.5),
    "cosine": lambda eta, ls: eta * cov.Cosine(1, ls=ls),
    "circle": lambda eta, ls: eta * cov.Circular(1, period=20.0, tau=4.0 + ls),
    "power": lambda eta, ls: eta * cov.ExpQuad(1, ls=ls) ** 1.5,
    "products and sums": lambda eta, ls: (
        eta**2 * cov.ExpQuad(1, ls=ls) * cov.Periodic(1, period=2.0, ls=eta)
        + cov.Matern12(1, ls=ls) * cov.Matern32(1, ls=2.0)
        + cov.Constant(eta)
        + cov.WhiteNoise(0.1 * eta)
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_seen(name):
    assert _seen(KERNELS[name])


INPUTS = {
    "data": lambda: pytensor.shared(COLUMN, shape=(None, None)),
    "whole numbers": lambda: np.arange(N)[:, None],
    "in descending order": lambda: COLUMN[::-1],
    "shifted and scaled": lambda: (pytensor.shared(COLUMN, shape=(None, 1)) - 1.0) / 3.0,
}


@pytest.mark.parametrize("name", INPUTS)
def test_places_of_any_kind(name):
    for kernel in (cov.ExpQuad, lambda n, ls: cov.Periodic(n, period=2.0, ls=ls)):
        assert _seen(lambda eta, ls, kernel=kernel: eta * kernel(1, ls=ls), INPUTS[name]())


def test_one_column_of_two():
    both = np.column_stack([X**2, X])
    assert _seen(lambda eta, ls: eta * cov.ExpQuad(2, ls=ls, active_dims=[1]), both)
    assert not _seen(lambda eta, ls: eta * cov.ExpQuad(2, ls=ls, active_dims=[0]), both)
    assert not _seen(lambda eta, ls: eta * cov.ExpQuad(2, ls=ls), np.column_stack([X, 2.0 * X + 1.0]))


def test_no_digits_are_lost_to_places_far_from_zero():
    matrices = [cov.ExpQuad(1, ls=0.7)(pt.constant(COLUMN + shift)) for shift in (1.0, 1000.0)]
    near, far = (compile_small([], even_covariance(*widen([matrix])).first)() for matrix in matrices)
    np.testing.assert_allclose(near, np.exp(-0.5 * ((X - X[0]) / 0.7) ** 2), rtol=1e-12)
    np.testing.assert_allclose(far, near, rtol=1e-9)


WRITTEN = {
    "difference": lambda x, ls: pt.exp(-0.5 * ((x - x.T) / ls) ** 2),
    "difference of what is scaled": lambda x, ls: pt.exp(-0.5 * (x / ls - (x / ls).T) ** 2),
    "row first": lambda x, ls: pt.exp(-pt.abs(x.T - x) / ls) * pt.cos(x.T - x),
    "vectors": lambda x, ls: 1.0 / (1.0 + pt.square(x.flatten()[:, None] - x.flatten()[None, :]) / ls),
    "up to a limit": lambda x, ls: pt.clip(1.0 - pt.abs(x - x.T) / (20.0 + ls), 0.0, 1.0),
    "by a choice": lambda x, ls: pt.switch(pt.lt(pt.abs(x - x.T), 0.1), 1.0, 0.01 * pt.exp(-ls)),
    "both ways": lambda x, ls: (lambda k: 0.5 * (k + k.T))(pt.exp(-((x - x.T) ** 2) / ls)),
}


def _written(kernel, noise=lambda sigma: sigma**2 * pt.eye(N), places=COLUMN):
    eta, ls, sigma = _parameters()
    return _require_the_column([eta, ls, sigma], kernel(pt.constant(places), ls) + noise(sigma))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_covariance_that_was_written_out(name):
    assert _written(WRITTEN[name])


NEAR_MISSES = {
    "linear, too": lambda eta, ls: eta * cov.ExpQuad(1, ls=ls) + cov.Linear(1, c=0.0),
    "times a polynomial": lambda eta, ls: cov.ExpQuad(1, ls=ls) * cov.Polynomial(1, c=0.0, d=2, offset=eta),
    "length by place": lambda eta, ls: eta * cov.Gibbs(1, lambda x, ls: ls + 0.1 * x**2, (ls,)),
    "warped": lambda eta, ls: eta * cov.WarpedInput(1, cov.ExpQuad(1, ls=1.0), lambda x, ls: pt.tanh(x * ls), (ls,)),
    "bent": lambda eta, ls: eta * cov.WarpedInput(1, cov.ExpQuad(1, ls=1.0), lambda x, ls: ls * x + x**2, (ls,)),
    "scaled by place": lambda eta, ls: cov.ScaledCov(1, cov.ExpQuad(1, ls=ls), lambda x, b: b + x**2, (eta,)),
    "a change point": lambda eta, ls: cov.ScaledCov(1, cov.ExpQuad(1, ls=ls), lambda x, b: pt.sigmoid(x - b), (eta,)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name):
    assert not _seen(NEAR_MISSES[name])


WRITTEN_NEAR_MISSES = {
    "another factor": lambda x, ls: pt.exp(-0.5 * (x**2 + x.T**2 - 1.999 * x * x.T) / ls),
    "another length": lambda x, ls: pt.exp(-0.5 * (x / ls - x.T / (ls + 1e-9)) ** 2),
    "a sum": lambda x, ls: pt.exp(-0.1 * (x + x.T) ** 2 / ls) + pt.eye(N),
    "roots of places": lambda x, ls: pt.exp(-pt.abs(pt.sqrt(x + 2.0) - pt.sqrt(x + 2.0).T) / ls),
    "absolute places": lambda x, ls: pt.exp(-pt.abs(pt.abs(x) - pt.abs(x).T) / ls),
    "a threshold": lambda x, ls: pt.exp(-((x - x.T) ** 2) / ls) * pt.lt(x, 100.0) * pt.lt(x.T, 100.0),
    "a length of many": lambda x, ls: pt.exp(
        -((x - x.T) ** 2) / (ls + pt.constant(np.full((N, 1), 2.0) + 1e-6 * X[:, None]))
    ),
    "a known matrix": lambda x, ls: ls * pt.constant(np.exp(-0.5 * np.subtract.outer(X, X) ** 2)),
    "an uneven matrix": lambda x, ls: pt.exp(-((x - x.T) ** 2) / ls) * pt.constant(np.exp(-0.01 * np.outer(X, X))),
    "sorted": lambda x, ls: pt.exp(-((x - pt.sort(x.T, axis=1)) ** 2) / ls),
    "cut": lambda x, ls: pt.exp(-((x - pt.concatenate([x[1:], x[:1]]).T) ** 2) / ls) + 9.0 * pt.eye(N),
    "summed": lambda x, ls: pt.exp(-((x - x.T) ** 2) / ls).sum(axis=0, keepdims=True) + 99.0 * pt.eye(N),
}


@pytest.mark.parametrize("name", WRITTEN_NEAR_MISSES)
def test_near_misses_that_were_written_out(name):
    assert not _written(WRITTEN_NEAR_MISSES[name])


NOISES = {
    "by place": lambda sigma: pt.diag(sigma**2 * pt.constant(1.0 + 0.1 * np.arange(N))),
    "as far as the place": lambda sigma: pt.diag(sigma**2 * pt.constant(X + 3.0)),
    "the place": lambda sigma: pt.diag(pt.constant(X + 3.0)) + sigma,
    "one is larger": lambda sigma: pt.diag(sigma**2 + pt.constant(np.eye(N)[3])),
    "beside the diagonal": lambda sigma: sigma**2 * pt.eye(N) + pt.eye(N, k=1) * pt.lt(sigma, 0.0),
    "known, by place": lambda sigma: sigma**2 * pt.constant(np.diag(1.0 + 0.1 * np.arange(N))),
}


@pytest.mark.parametrize("name", NOISES)
def test_noise_that_is_not_one_number(name):
    assert not _written(WRITTEN["difference"], NOISES[name])


def test_what_is_evenly_spaced_but_for_rounding():
    assert evenly_spaced(np.linspace(0.0, 1.0, 5000)) and evenly_spaced(np.arange(0.0, 500.0, 0.1))
    assert evenly_spaced(2000.0 + np.arange(240) / 12.0)
    assert not evenly_spaced(np.full(9, 2.0)) and not evenly_spaced(np.array([0.0, 1.0, np.nan, 3.0]))
    assert not evenly_spaced(1e6 + 1e-9 * np.arange(9)), "rounding is all there is"
    for i, off in ((0, 1e-8), (7, 1e-8), (4999, 1e-8)):
        moved = np.linspace(0.0, 1.0, 5000)
        moved[i] += off
        assert not evenly_spaced(moved)
    ties = np.repeat(np.arange(12.0), 2)
    assert not evenly_spaced(ties) and not evenly_spaced(np.random.default_rng(0).permutation(X))


@pytest.mark.parametrize(
    "places", [np.sort(X + 1e-6 * np.cos(9.0 * X)), np.repeat(X[::2], 2), np.where(X > 3.0, np.inf, X)]
)
def test_uneven_places(places):
    assert not _written(WRITTEN["difference"], places=places[:, None])


def test_noise_alone_has_no_places():
    assert even_covariance(pm.HalfNormal.dist() * pt.eye(N)) is None
