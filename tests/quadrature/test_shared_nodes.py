"""Integrals over the nodes of another density: against closed forms, and what the nodes do not reach is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from bayeskit.quadrature.integrate import integrate
from bayeskit.quadrature.shared_nodes import SharedNodes
from bayeskit.types import ArrayFunction


def log_gamma_density(shape: np.ndarray) -> ArrayFunction:
    """x = log of Gamma(shape) variables, normalised by nothing: log ∫ = log Γ(shape) in each."""
    return lambda x: np.sum(shape * x - np.exp(x), axis=1)


@pytest.mark.parametrize("k", [1, 2])
def test_shared_nodes_give_the_integrals_of_densities_nearby(k: int) -> None:
    first = integrate(log_gamma_density(np.full(k, 3.0)), np.full(k, 1.0))
    nodes = SharedNodes.of(first)
    for shape in (2.7, 3.0, 3.3):
        value, error = nodes.log_integral(log_gamma_density(np.full(k, shape)))
        assert abs(value - k * special.gammaln(shape)) <= error <= 1e-6


def test_nodes_that_do_not_reach_say_so() -> None:
    nodes = SharedNodes.of(integrate(lambda x: -0.5 * x[:, 0] ** 2, np.zeros(1)))
    for centre, width in ((30.0, 1.0), (0.0, 40.0), (0.0, 1e-3)):
        _, error = nodes.log_integral(lambda x, c=centre, w=width: -0.5 * ((x[:, 0] - c) / w) ** 2)
        assert not error <= 1e-6
