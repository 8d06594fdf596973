"""All subsets of a matrix at once, against NumPy one by one."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.comparison.subsets import sweep as sweeping
from bayeskit.comparison.subsets.populations import AllSubsets
from bayeskit.comparison.subsets.sweep import NotDefinite, sweep, sweep_moments


def matrix(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2 * size, size)) * 10.0 ** rng.integers(-3, 4, size=size)
    return rows.T @ rows, rows.T @ rng.normal(size=2 * size)


def subsets(size: int) -> list[list[int]]:
    return [[j for j in range(size) if k >> j & 1] for k in range(1 << size)]


@pytest.mark.parametrize("together", [18, 3])
def test_every_subset_has_its_determinant_and_its_gain(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", together)
    a, b = matrix(6)
    found = sweep(a, b)
    for k, s in enumerate(subsets(6)):
        part = a[np.ix_(s, s)]
        assert np.isclose(found.log_determinant[k], np.linalg.slogdet(part)[1], rtol=0, atol=1e-11)
        assert np.isclose(found.gain[k], b[s] @ np.linalg.solve(part, b[s]), rtol=1e-11, atol=0)


@pytest.mark.parametrize("together", [18, 2])
def test_derivatives_of_sums_over_subsets_are_sums_of_inverses_and_means(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", together)
    a, b = matrix(5, seed=1)
    rng = np.random.default_rng(2)
    u, v = rng.normal(size=32), rng.normal(size=32)
    of_matrix, of_vector = np.zeros((5, 5)), np.zeros(5)
    for k, s in enumerate(subsets(5)):
        inverse = np.linalg.inv(a[np.ix_(s, s)])
        mean = inverse @ b[s]
        of_matrix[np.ix_(s, s)] += v[k] * inverse - u[k] * np.outer(mean, mean)
        of_vector[s] += 2 * u[k] * mean
    found = sweep_moments(a, b, u, v)
    root = np.sqrt(np.diag(a))
    assert np.allclose(found[0] * np.outer(root, root), of_matrix * np.outer(root, root), rtol=1e-10, atol=1e-10)
    assert np.allclose(found[1] * root, of_vector * root, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("together", [18, 2])
def test_subsets_that_agree_on_the_first_rows(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", together)
    a, b = matrix(6, seed=3)
    u, v = np.random.default_rng(4).normal(size=(2, 64))
    whole, slopes = sweep(a, b), sweep_moments(a, b, u, v)
    pieces, added = AllSubsets(6).branches(4), [np.zeros((6, 6)), np.zeros(6)]
    assert [p.taken for p in pieces] == [(False, False), (True, False), (False, True), (True, True)]
    for first, piece in enumerate(pieces):
        places = np.arange(first, 64, 4)
        found = sweep(a, b, piece.taken)
        np.testing.assert_allclose(found.log_determinant, whole.log_determinant[places], rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.gain, whole.gain[places], rtol=1e-12)
        assert found.pivot >= whole.pivot
        np.testing.assert_array_equal(piece.sizes, AllSubsets(6).sizes[places])
        assert [piece.members(k) for k in range(16)] == [AllSubsets(6).members(int(k)) for k in places]
        terms = np.arange(1.0, 7.0)
        expected = AllSubsets(6).with_terms(np.zeros(64), terms)[places]
        np.testing.assert_array_equal(piece.with_terms(np.zeros(16), terms), expected)
        inside, outside = piece.inclusion(u[places])
        marks = np.array([[j in piece.members(k) for j in range(6)] for k in range(16)])
        np.testing.assert_allclose(inside, u[places] @ marks, atol=1e-12)
        np.testing.assert_allclose(outside, u[places] @ ~marks, atol=1e-12)
        for total, part in zip(added, sweep_moments(a, b, u[places], v[places], piece.taken), strict=True):
            total += part
    root = np.sqrt(np.diag(a))
    np.testing.assert_allclose(added[0] * np.outer(root, root), slopes[0] * np.outer(root, root), atol=1e-9)
    np.testing.assert_allclose(added[1] * root, slopes[1] * root, atol=1e-9)


def test_a_row_that_others_give_is_found() -> None:
    a, b = matrix(4)
    a[3], b[3] = a[0] + a[1], b[0] + b[1]
    a[:, 3] = a[:, 0] + a[:, 1]
    with pytest.raises(NotDefinite):
        sweep(a, b)
