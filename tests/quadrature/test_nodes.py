"""The nodes of a rule and their weights, against moments that are known."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.quadrature.change_of_variable import Frame, Stretch
from bayeskit.quadrature.counted_density import CountedDensity
from bayeskit.quadrature.integrate import integrate
from bayeskit.quadrature.trapezoid import Lattice

CENTRE, PRECISION = np.array([0.5, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])


def normal(points: np.ndarray) -> np.ndarray:
    return -0.5 * np.einsum("ni,ij,nj->n", points - CENTRE, PRECISION, points - CENTRE)


def test_nodes_and_weights_have_the_moments_of_the_density() -> None:
    points, weights = integrate(normal, np.zeros(2)).nodes(1e-12)
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    mean = weights @ points
    assert mean == pytest.approx(CENTRE, abs=1e-7)
    assert (weights * (points - mean).T) @ (points - mean) == pytest.approx(np.linalg.inv(PRECISION), abs=1e-6)


def test_nodes_left_out_weigh_no_more_than_allowed() -> None:
    result = integrate(normal, np.zeros(2))
    every, few = result.nodes(0.0)[0], result.nodes(0.01)
    assert len(few[0]) < len(every)
    assert few[1].sum() == pytest.approx(1, abs=1e-14)
    heights = np.exp(normal(every)), np.exp(normal(few[0]))
    assert heights[1].min() >= heights[0].min()


@pytest.mark.slow
def test_a_lattice_that_grows_for_very_many_rounds_gives_up() -> None:
    """A strip a hundred thousand nodes long: each round adds two ends to it, and looks at all of it."""
    frame = Frame.build(np.zeros(2), np.eye(2), (0, 1), Stretch(1.0))
    strip = CountedDensity(lambda x: -((x[:, 0] / 1e4) ** 2) - x[:, 1] ** 2, 1_000_000)
    lattice = Lattice(strip, frame, np.ones(2), np.zeros(2), 1e6)
    lattice.fill(np.zeros((1, 2)), 20.0)
    assert lattice.escaped and strip.count < 50_000
