"""Distributions over finitely many values, against SciPy's where each entry has one."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy import stats

from bayeskit.finite.discrete_distribution import FiniteDensity


def test_moments_and_ends_are_those_of_scipy() -> None:
    values, probabilities = np.array([0, 1, 3]), np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    density = FiniteDensity(values, probabilities)
    references = [stats.rv_discrete(values=(values, p)) for p in probabilities]
    expected = np.transpose([reference.stats(moments="mvsk") for reference in references])
    assert_allclose(density.stats("mvsk"), expected, rtol=1e-12)
    assert density.support() == references[0].support() == (0, 3)
    assert_allclose(FiniteDensity(values, probabilities[0]).stats("mv"), references[0].stats(), rtol=1e-12)
