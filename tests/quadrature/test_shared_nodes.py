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


def normal(x: np.ndarray, centre: float = 0.0, width: float = 1.0) -> np.ndarray:
    return -0.5 * ((x[:, 0] - centre) / width) ** 2


@pytest.mark.parametrize("k", [1, 2])
def test_shared_nodes_give_the_integrals_of_densities_nearby(k: int) -> None:
    of_three = log_gamma_density(np.full(k, 3.0))
    nodes = SharedNodes.of(integrate(of_three, np.full(k, 1.0)))
    for shape in (2.7, 3.0, 3.3):
        ratio = log_gamma_density(np.full(k, shape))(nodes.points) - of_three(nodes.points)
        value, error = nodes.reweighted(ratio)
        assert abs(value - k * special.gammaln(shape)) <= error <= 1e-6


def test_nodes_that_do_not_reach_say_so() -> None:
    nodes = SharedNodes.of(integrate(normal, np.zeros(1)))
    for centre, width in ((30.0, 1.0), (0.0, 40.0), (0.0, 1e-3)):
        _, error = nodes.reweighted(normal(nodes.points, centre, width) - normal(nodes.points))
        assert not error <= 1e-6
    for missing in (np.nan, -np.inf):
        _, error = nodes.reweighted(np.full(len(nodes.points), missing))
        assert error == np.inf


def test_a_density_that_is_zero_where_the_other_is_not_has_no_ratio_there() -> None:
    result = integrate(lambda x: np.where(np.abs(x[:, 0]) < 12.0, normal(x), -np.inf), np.zeros(1))
    nodes = SharedNodes.of(result)
    outside = np.abs(nodes.points[:, 0]) >= 12.0
    ratio = np.where(outside, np.nan, 0.5)
    assert nodes.reweighted(ratio)[0] == pytest.approx(result.log_integral + 0.5, abs=1e-10)
