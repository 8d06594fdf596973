"""A block's Jacobians are kept from one answer to the next, and found anew where what they rest on has changed."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from bayeskit.elimination.plan import analyse
from bayeskit.gaussian import gram
from bayeskit.inference.ladder import answer

RNG = np.random.default_rng(5)
COVARIATES, SCALES, RESPONSES = RNG.normal(size=(3, 6)), RNG.uniform(0.5, 2.0, size=(3, 6)), RNG.normal(size=(3, 6))


def log_evidence(x: np.ndarray, s: np.ndarray, y: np.ndarray) -> float:
    """Of y ~ N(0.5 x + s (w₀ + w₁x), 0.7²) and w ~ N(0, 3²), by the covariance of y."""
    design = s[:, None] * np.column_stack([np.ones(6), x])
    covariance = 9.0 * design @ design.T + 0.49 * np.eye(6)
    return float(stats.multivariate_normal(0.5 * x, covariance).logpdf(y))


def test_other_data_of_every_part_of_the_mean() -> None:
    with pm.Model() as model:
        x, s = pm.Data("x", COVARIATES[0]), pm.Data("s", SCALES[0])
        w = pm.Normal("w", 0.0, 3.0, shape=2)
        pm.Normal("y", 0.5 * x + s * (w[0] + w[1] * x), 0.7, observed=RESPONSES[0])
    analysis = analyse(model)
    for i, j, k in [(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 2, 1), (1, 2, 2), (0, 2, 2), (0, 0, 0)]:
        given = {"x": COVARIATES[i], "s": SCALES[j], "y": RESPONSES[k]}
        found = answer(analysis.with_data(given), random_seed=1)
        assert found.method == "exact"
        assert abs(found.log_evidence.value - log_evidence(*given.values())) < 1e-10


@pytest.mark.parametrize("order", ["C", "F", "neither", "single"])
def test_a_matrix_times_itself(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram, "LARGE", 10)
    whole = RNG.normal(size=(400, 16))
    laid_out = {"neither": whole[::2, ::2], "single": whole.astype("float32")}
    given = laid_out[order] if order in laid_out else np.array(whole, order=order)  # type: ignore[call-overload]
    expected = np.einsum("ij,ik->jk", given.astype(float), given.astype(float))
    found = gram.symmetric_product(given)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-3 if order == "single" else 1e-13)
    np.testing.assert_array_equal(found, found.T)
