"""The climb to a local maximum, on functions whose maximum is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayeskit.model.ascent import climb

CENTRE, PRECISION = np.array([1.0, -2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])


def quadratic(x: np.ndarray) -> tuple[float, np.ndarray]:
    slope = -PRECISION @ (x - CENTRE)
    return 3.0 + 0.5 * float(slope @ (x - CENTRE)), slope


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_it_ends_at_the_top(scale: float) -> None:
    top, height = climb(quadratic, np.zeros(2), scale=scale, ftol=1e-15, gtol=1e-10)
    assert top == pytest.approx(CENTRE, abs=1e-6)
    assert height == pytest.approx(3.0, abs=1e-9)


def test_it_stays_within_bounds() -> None:
    """With x₀ ≤ 0 the best x₁ is where its slope vanishes at x₀ = 0: −2 + 0.5 (1 − 0) / 1."""
    top, height = climb(quadratic, np.zeros(2), bounds=[(None, 0.0), (None, None)])
    assert top == pytest.approx([0.0, -1.5], abs=1e-5)
    assert height == pytest.approx(quadratic(np.array([0.0, -1.5]))[0])


def test_a_few_steps_go_uphill() -> None:
    _, one = climb(quadratic, np.zeros(2), steps=1)
    assert quadratic(np.zeros(2))[0] < one < 3.0


@pytest.mark.parametrize("hole", [math.nan, -math.inf, math.inf])
def test_it_steps_back_from_where_the_density_is_not_finite(hole: float) -> None:
    """log x − x with its maximum at 1; from 0.01 the first step goes far beyond 3."""

    def density(x: np.ndarray) -> tuple[float, np.ndarray]:
        if not 0 < x[0] < 3:
            return hole, np.full(1, np.nan)
        return math.log(x[0]) - x[0], 1 / x - 1

    top, height = climb(density, np.array([0.01]))
    assert top == pytest.approx([1.0], abs=1e-4)
    assert height == pytest.approx(-1.0, abs=1e-8)
