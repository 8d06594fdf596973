"""The modes of the M step: a mixture of directions against its own fixed-point equations."""

from __future__ import annotations

import numpy as np
import pymc as pm
from numpy.testing import assert_allclose
from scipy import special

import bayeskit as bk


def test_a_mixture_of_directions_has_a_closed_m_step() -> None:
    """At the maximum each direction is that of Σ r e^{iy}, and each weight the mean of r (Banerjee and others 2005)."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 300)
    y = rng.vonmises(np.array([2.9, -0.5])[label], 6.0)
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", [1.0, 1.0])
        mu = pm.Uniform("mu", -np.pi, np.pi, shape=2, default_transform=pm.distributions.transforms.circular)
        pm.VonMises("y", mu[pm.Categorical("z", weights, shape=300)], 6.0, observed=y)
    result = bk.em(model, random_seed=1, tolerance=0.0, max_iterations=60)
    assert "mu: von mises, closed form" in str(result)
    log_density = np.log(result.point["weights"]) + 6 * np.cos(y[:, None] - result.point["mu"])
    responsibility = special.softmax(log_density, axis=1)
    assert_allclose(result.point["weights"], responsibility.mean(axis=0), atol=1e-9)
    assert_allclose(result.point["mu"], np.angle((responsibility * np.exp(1j * y[:, None])).sum(axis=0)), atol=1e-9)
