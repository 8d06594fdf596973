"""All subsets of a matrix at once, against NumPy one by one."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.comparison.subsets import sweep as sweeping
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


def test_a_row_that_others_give_is_found() -> None:
    a, b = matrix(4)
    a[3], b[3] = a[0] + a[1], b[0] + b[1]
    a[:, 3] = a[:, 0] + a[:, 1]
    with pytest.raises(NotDefinite):
        sweep(a, b)
