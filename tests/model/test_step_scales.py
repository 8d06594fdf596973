"""Scales over which densities change, told from differences over steps of many magnitudes."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.model.step_scales import step_scales


def test_they_are_the_sds_of_normals_that_are_far_apart() -> None:
    sd = np.array([1e-7, 3e-4, 1.0, 5e5])
    found = step_scales(lambda x: -0.5 * np.sum((x / sd) ** 2, axis=1), np.zeros(4))
    np.testing.assert_allclose(found, sd, rtol=1e-3)


def test_they_are_one_where_numbers_are_of_like_size() -> None:
    sd = np.array([0.01, 1.0, 50.0])
    found = step_scales(lambda x: -0.5 * np.sum((x / sd) ** 2, axis=1), np.zeros(3))
    assert np.array_equal(found, np.ones(3))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_density_that_overflows_is_followed_as_far_as_it_can_be(scale: float) -> None:
    """Log of a Poisson rate with one count of one, of a predictor of scale 1 / ``scale``."""

    def log_density(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(x[:, 0] / scale - np.exp(x[:, 0] / scale))

    (found,) = step_scales(log_density, np.zeros(1))
    assert 0.5 * scale < found < 2 * scale


def test_a_density_that_is_nowhere_else_has_no_scale() -> None:
    assert step_scales(lambda x: np.where(np.any(x != 0, axis=1), -np.inf, 0.0), np.zeros(2)) == pytest.approx([1, 1])
