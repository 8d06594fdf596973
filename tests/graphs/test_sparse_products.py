"""Products with sparse matrices against SciPy's own, and what must not be taken for another matrix."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from pytensor.sparse.type import SparseTensorType
from scipy import sparse

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.constant_matrices import with_constant_matrices
from bayeskit.graphs.sparse_products import WRITTEN_OUT, sparse_product

ROWS, COLUMNS = 700, 300
assert ROWS * COLUMNS > WRITTEN_OUT
RNG = np.random.default_rng(5)


def at(counts, values=None):
    """A matrix with so many entries in each row."""
    rows = np.repeat(np.arange(ROWS), counts)
    columns = np.concatenate([RNG.choice(COLUMNS, size=k, replace=False) for k in counts])
    data = RNG.normal(size=len(rows)) if values is None else np.full(len(rows), values)
    return sparse.csr_matrix((data, (rows, columns)), shape=(ROWS, COLUMNS))


MATRICES = {
    "one-hot": at(np.ones(ROWS, int), 1.0),
    "one an entry": at(np.ones(ROWS, int)),
    "three each": at(np.full(ROWS, 3)),
    "any number": at(RNG.integers(0, 6, size=ROWS)),
    "by columns": sparse.csc_matrix(at(RNG.integers(0, 6, size=ROWS))),
    "single precision": at(np.full(ROWS, 3)).astype("float32"),
    "whole numbers": (10 * at(np.full(ROWS, 3))).astype("int64"),
    "nothing": sparse.csr_matrix((ROWS, COLUMNS)),
    "full": sparse.csr_matrix(RNG.normal(size=(ROWS, COLUMNS))),
    "entries twice": sparse.csr_matrix(
        (np.ones(2 * ROWS), np.repeat(RNG.integers(COLUMNS, size=ROWS), 2), 2 * np.arange(ROWS + 1)),
        shape=(ROWS, COLUMNS),
    ),
    "small": at(np.full(ROWS, 2))[:40],
}


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("shape", [(COLUMNS,), (COLUMNS, 1), (COLUMNS, 3)])
@pytest.mark.parametrize("name", MATRICES)
def test_products_are_those_of_scipy(name, shape, always):
    matrix, value = MATRICES[name], RNG.normal(size=shape)
    right = pt.tensor("b", shape=shape)
    before = matrix.copy()
    product = sparse_product(matrix, right, always=always)
    np.testing.assert_allclose(compile_small([right], product)(value), matrix @ value, rtol=1e-13, atol=1e-12)
    assert (before != matrix).nnz == 0 and before.nnz == matrix.nnz


X = MATRICES["any number"]
SPELLINGS = {
    "dot": lambda b: ps.dot(ps.as_sparse_variable(X), b),
    "a matrix of SciPy": lambda b: ps.dot(X, b),
    "from the left": lambda b: ps.dot(b, ps.as_sparse_variable(sparse.csc_matrix(X.T))),
    "structured": lambda b: ps.structured_dot(ps.as_sparse_variable(X), b[:, None])[:, 0],
    "structured, from the left": lambda b: ps.structured_dot(b[None], ps.as_sparse_variable(X).T)[0],
    "true": lambda b: ps.true_dot(ps.as_sparse_variable(X), b[:, None]).toarray()[:, 0],
    "transposed": lambda b: ps.dot(ps.as_sparse_variable(sparse.csr_matrix(X.T)).T, b),
    "scaled by numbers": lambda b: ps.dot(ps.multiply(ps.as_sparse_variable(X), pt.constant(np.ones(COLUMNS))), b),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_of_a_product_becomes_a_dense_graph(name):
    b = pt.vector("b", shape=(COLUMNS,))
    (graph,) = with_constant_matrices([SPELLINGS[name](b)])
    assert not any(isinstance(v.type, SparseTensorType) for v in ancestors([graph]))
    value = RNG.normal(size=COLUMNS)
    np.testing.assert_allclose(compile_small([b], graph)(value), X @ value, rtol=1e-13, atol=1e-12)
    gradient = pytensor.grad(pt.sum(graph * np.arange(ROWS)), b)
    np.testing.assert_allclose(compile_small([b], gradient)(value), X.T @ np.arange(ROWS), rtol=1e-12, atol=1e-9)


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(ModelError, match="300 columns is multiplied by what has 301 rows"):
        sparse_product(X, pt.vector("b", shape=(COLUMNS + 1,)))
    unknown = pt.vector("b")
    with pytest.raises(AssertionError):
        compile_small([unknown], sparse_product(X, unknown))(np.zeros(COLUMNS + 1))


def test_a_matrix_of_random_numbers_stays_what_it_is():
    b, s = pt.vector("b", shape=(COLUMNS,)), pt.vector("s", shape=(COLUMNS,))
    product = ps.dot(ps.multiply(ps.as_sparse_variable(X), s), b)
    assert with_constant_matrices([product]) == [product]
