"""Central differences are exact for a quadratic function."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.quadrature.finite_differences import stencil_derivatives, stencil_of


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_quadratic_function_has_its_gradient_and_hessian(k: int) -> None:
    rng = np.random.default_rng(k)
    root, slope = rng.normal(size=(k, k)), rng.normal(size=k)
    hessian = root + root.T
    points = stencil_of(k)
    gradient, curved = stencil_derivatives(points @ slope + 0.5 * np.sum(points @ hessian * points, axis=1) - 3.0, k)
    np.testing.assert_allclose(gradient, slope, atol=1e-12)
    np.testing.assert_allclose(curved, hessian, atol=1e-12)
