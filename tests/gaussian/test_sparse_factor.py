"""The sparse factor of a precision against NumPy on the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bayeskit.errors import InferenceError
from bayeskit.gaussian import factorisation
from bayeskit.gaussian.factorisation import NotPositiveDefinite, factorise
from bayeskit.gaussian.sparse_factor import SparseTriangular, elimination


def grid(side=12):
    """Neighbours on a grid, in a random order, in units from 1e-3 to 1e3."""
    rng = np.random.default_rng(3)
    line = sparse.diags_array([-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1])
    order, units = rng.permutation(side**2), sparse.diags_array(10.0 ** rng.uniform(-3, 3, side**2))
    matrix = sparse.csr_array(sparse.kronsum(line, line) + 0.1 * sparse.eye_array(side**2))[order][:, order]
    return sparse.csr_array(units @ matrix @ units)


def crossed():
    """The precision of two crossed factors, each level of one beside few of the other."""
    rng = np.random.default_rng(4)
    n, row = 500, np.arange(500)
    design = sparse.hstack(
        [sparse.csr_array((np.ones(n), (row, rng.integers(k, size=n))), shape=(n, k)) for k in (90, 70)], format="csr"
    )
    return sparse.csr_array(design.T @ design + 0.5 * sparse.eye_array(160))


@pytest.fixture
def sparsely(monkeypatch):
    """A sparse factor is worth it for matrices of any size."""
    monkeypatch.setattr(factorisation, "LARGE", 0.0)
    monkeypatch.setattr(factorisation, "SPARSE_COST", 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("build", [grid, crossed])
def test_it_is_a_factor(build, sparsely):
    matrix = build()
    precision, whole = factorise(matrix), factorise(matrix.toarray())
    assert isinstance(precision.factor, SparseTriangular)
    assert precision.factor.entries < matrix.shape[0] ** 2 / 2
    scale = np.sqrt(matrix.diagonal())
    inverse = np.linalg.inv(matrix.toarray() / np.outer(scale, scale)) / np.outer(scale, scale)
    assert precision.log_determinant == pytest.approx(np.linalg.slogdet(matrix.toarray())[1], rel=1e-12)
    np.testing.assert_allclose(precision.variances, np.diag(inverse), rtol=1e-10)
    rng = np.random.default_rng(0)
    right = rng.normal(size=(matrix.shape[0], 3)) * scale[:, None]
    for vector in (right, right[:, 0]):
        np.testing.assert_allclose(precision.solve(vector), whole.solve(vector), rtol=1e-9, atol=1e-9 / scale.max())
    deviation = right[:, 0] / scale**2
    assert precision.log_density(deviation) == pytest.approx(whole.log_density(deviation), rel=1e-11)
    # Lᵀ is a root: coloured by it and whitened again, noise is what it was.
    noise = rng.normal(size=matrix.shape[0])
    np.testing.assert_allclose(precision.whiten(precision.colour(noise)), noise, rtol=1e-9, atol=1e-10)
    square = np.stack([precision.colour(e) for e in np.eye(len(noise))], axis=1)
    np.testing.assert_allclose(
        square @ square.T / np.sqrt(np.outer(np.diag(inverse), np.diag(inverse))),
        inverse / np.sqrt(np.outer(np.diag(inverse), np.diag(inverse))),
        atol=1e-9,
    )
    assert precision.draw(rng, 7).shape == (7, matrix.shape[0])


def test_what_fills_in_is_counted_before():
    found = elimination(grid())
    factor, _ = SparseTriangular.of(grid()[found.order][:, found.order])
    assert found.entries == factor.entries
    assert found.cost == np.sum(np.diff(factor.lower.indptr).astype(float) ** 2)
    assert elimination(grid(), found.entries - 1) is None


def test_no_precision_is_refused(sparsely):
    for spoilt in (-1.0, 1e-9, np.nan):
        matrix = sparse.lil_array(grid())
        matrix[17, 17] = matrix[17, 17] * spoilt
        with pytest.raises(NotPositiveDefinite):
            factorise(sparse.csr_array(matrix))


def test_what_is_neither_banded_nor_sparse_nor_small_is_refused(monkeypatch):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(400, size=(2, 1200))
    matrix = sparse.csr_array((np.full(1200, 0.01), (rows, columns)), shape=(400, 400))
    matrix = sparse.csr_array(matrix + matrix.T + 2.0 * sparse.eye_array(400))
    monkeypatch.setattr(factorisation, "LARGE", 0.0)
    monkeypatch.setattr(factorisation, "SPARSE_COST", 1e12)
    monkeypatch.setattr(factorisation, "LARGEST_DENSE", 100)
    with pytest.raises(InferenceError, match="nor does it stay sparse"):
        factorise(matrix)
