"""Many matrices at once against LAPACK, one by one."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import linalg

from bayeskit.graphs.batched_linalg import LARGEST, cholesky, solve, solve_triangular, triangle
from bayeskit.graphs.compile import compile_small
from bayeskit.model.unconstrained import calls_of

SIZES = [1, 2, 3, 8, 20, LARGEST + 1]


def definite(number: int, size: int, seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(number, size, size + 2))
    return a @ np.swapaxes(a, 1, 2)


@pytest.mark.parametrize("size", SIZES)
def test_factors_are_those_of_lapack(size: int) -> None:
    matrices = definite(20, size)
    matrices[3] = -np.eye(size)
    matrices[4, -1, -1] = np.nan
    if size > 1:
        matrices[5, -1, -1] = -1.0
    found = cholesky(matrices + np.triu(np.full((size, size), 7.0), 1))  # the upper triangle is not read
    wrong = [3, 4, *([5] if size > 1 else [])]
    assert np.all(np.isnan(found[wrong]))
    for k in set(range(20)) - set(wrong):
        assert found[k] == pytest.approx(linalg.cholesky(matrices[k], lower=True), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_solutions_are_those_of_lapack(size: int, lower: bool) -> None:
    rng = np.random.default_rng(1)
    matrices = rng.normal(size=(5, 1, size, size)) + 3 * np.eye(size)
    matrices[2, 0, size // 2, size // 2] = 0.0
    right, vectors = rng.normal(size=(5, 7, size, 4)), rng.normal(size=(7, size))
    found = solve_triangular(matrices, right, lower=lower, vectors=False)
    of_vectors = solve_triangular(matrices, vectors, lower=lower, vectors=True)
    assert of_vectors.shape == (5, 7, size)
    for k in range(5):
        for j in range(7):
            if k == 2:
                assert np.all(np.isnan(found[k, j]))
                assert np.all(np.isnan(of_vectors[k, j]))
                continue
            exact = linalg.solve_triangular(matrices[k, 0], right[k, j], lower=lower)
            assert found[k, j] == pytest.approx(exact, rel=1e-12, abs=1e-13)
            exact = linalg.solve_triangular(matrices[k, 0], vectors[j], lower=lower)
            assert of_vectors[k, j] == pytest.approx(exact, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_general_systems_are_solved_where_they_can_be(size: int, singular: bool) -> None:
    rng = np.random.default_rng(3)
    matrices = rng.normal(size=(5, 1, size, size))
    if singular:
        matrices[2, 0, :, 0] = 0.0
    right, vectors = rng.normal(size=(5, 7, size, 4)), rng.normal(size=(7, size))
    found, of_vectors = solve(matrices, right, vectors=False), solve(matrices, vectors, vectors=True)
    assert of_vectors.shape == (5, 7, size)
    for k in range(5):
        for j in range(7):
            if singular and k == 2:
                assert np.all(np.isnan(found[k, j]))
                assert np.all(np.isnan(of_vectors[k, j]))
                continue
            # What is left of the equations, in units of rounding.
            for x, b in ((found[k, j], right[k, j]), (of_vectors[k, j], vectors[j])):
                assert np.abs(matrices[k, 0] @ x - b).max() < 1e-13 * size * (1 + np.abs(x).max())


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (2 * LARGEST + 2, LARGEST + 1)])
def test_triangles_are_those_of_lapack(shape: tuple[int, int]) -> None:
    matrices = np.random.default_rng(5).normal(size=(4, 7, *shape))
    matrices[0, 0], matrices[1, 1, 0, 0] = 0.0, np.nan
    found, a = triangle(matrices), pt.tensor4("a", shape=(None, None, *shape))
    assert compile_small([a], pt.linalg.qr(a, mode="r"))(matrices).tobytes() == found.tobytes()
    for k in np.ndindex(4, 7):
        expected = linalg.qr(matrices[k], mode="r", check_finite=False)[0]
        assert found[k] == pytest.approx(expected, rel=1e-12, abs=1e-13, nan_ok=True)


@pytest.mark.parametrize("size", [3, 9, LARGEST + 1])
def test_a_graph_gives_the_same_for_one_and_for_many(size: int) -> None:
    a, b = pt.tensor3("a", shape=(None, size, size)), pt.tensor3("b", shape=(None, 5, size))
    factor = pt.linalg.cholesky(a, on_error="nan")
    solved = pt.linalg.solve_triangular(factor[:, None], b, lower=True, b_ndim=1)
    function = compile_small([a, b], [factor, solved])
    matrices, right = definite(30, size), np.random.default_rng(2).normal(size=(30, 5, size))
    many = function(matrices, right)
    for k in range(30):
        one = function(matrices[k : k + 1], right[k : k + 1])
        for whole, part in zip(many, one, strict=True):
            assert whole[k] == pytest.approx(part[0], rel=1e-12, abs=1e-13)


def test_matrices_that_are_handled_one_by_one_count_as_work() -> None:
    for size, number in ((LARGEST, 0), (LARGEST + 1, 300)):
        a = pt.tensor3("a", shape=(150, size, size))
        factor = pt.linalg.cholesky(a)
        graph = pt.sum(pt.linalg.solve_triangular(factor, np.ones(size), lower=True, b_ndim=1))
        assert calls_of(graph) == number
