"""Densities in four variables: what is integrated is within its bound, and what it is not for is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate as scipy_integrate
from scipy.special import gammaln
from scipy.stats import chi2

from bayeskit.quadrature.integrate import NotIntegrable, Quadrature, integrate
from bayeskit.quadrature.mass_by_depth import mass_below

Density = Callable[[np.ndarray], np.ndarray]

K = 4
SHEAR = np.tril(np.random.default_rng(3).normal(size=(K, K))) + 2 * np.eye(K)
SHAPES = np.array([2.0, 5.0, 9.0, 3.0])


def normal(x: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum(x**2, axis=1) - 0.5 * K * np.log(2 * np.pi)


def sheared(x: np.ndarray) -> np.ndarray:
    return normal(x @ SHEAR.T) + np.log(np.prod(np.diag(SHEAR)))


def log_gammas(x: np.ndarray) -> np.ndarray:
    return np.sum(SHAPES * x - np.exp(x) - gammaln(SHAPES), axis=1)


def banana(curvature: float) -> Density:
    return lambda x: normal(np.column_stack([x[:, 0], x[:, 1] - curvature * (x[:, 0] ** 2 - 1), x[:, 2:]]))


def funnel(sd: float, rate: float) -> Density:
    def log_density(x: np.ndarray) -> np.ndarray:
        v = x[:, :1]
        return normal(np.column_stack([v / sd, x[:, 1:] * np.exp(-rate * v)])) - np.log(sd) - (K - 1) * rate * v[:, 0]

    return log_density


def two_modes(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(normal(x - 2.5), normal(x + 2.5)) - np.log(2)


def modes_of_two_widths(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(normal(x - 8), normal((x + 8) / 0.5) - K * np.log(0.5)) - np.log(2)


def small_mode_aside(x: np.ndarray) -> np.ndarray:
    aside = (x - np.array([6.0, 0.0, 0.0, 0.0])) / 0.1
    return np.logaddexp(np.log(0.99) + normal(x), np.log(0.01) + normal(aside) - K * np.log(0.1))


def student(nu: float) -> Density:
    constant = gammaln((nu + K) / 2) - gammaln(nu / 2) - K / 2 * np.log(nu * np.pi)
    return lambda x: constant - (nu + K) / 2 * np.log1p(np.sum(x**2, axis=1) / nu)


def laplace(x: np.ndarray) -> np.ndarray:
    return -np.abs(x).sum(axis=1) - K * np.log(2)


def shell(x: np.ndarray) -> np.ndarray:
    return -0.5 * ((np.linalg.norm(x, axis=1) - 4) / 0.5) ** 2


def box(x: np.ndarray) -> np.ndarray:
    return np.where(np.all(np.abs(x) < 1, axis=1), 0.0, -np.inf)


def answer(log_density: Density) -> Quadrature:
    probes = 3 * np.random.default_rng(0).normal(size=(1000, K))
    return integrate(log_density, np.full(K, 0.1), probes=probes, tolerance=8e-5, acceptable=2e-4, budget=150_000)


RIGHT = {
    "sheared": sheared,
    "log gammas": log_gammas,
    "banana": banana(0.3),
    "curved banana": banana(1.0),
    "funnel": funnel(1.0, 0.5),
    "two modes": two_modes,
    "t of 20 degrees": student(20.0),
}
WRONG = {
    "narrow funnel": funnel(1.5, 1.0),
    "modes of two widths": modes_of_two_widths,
    "small mode aside": small_mode_aside,
    "t of 2 degrees": student(2.0),
    "t of 5 degrees": student(5.0),
    "kinks": laplace,
    "shell": shell,
    "edges": box,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_the_integral_is_within_its_bound(name: str) -> None:
    result = answer(RIGHT[name])
    assert abs(result.log_integral) <= result.error <= 2e-4
    assert result.marginals == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_what_it_is_not_for_is_refused(name: str) -> None:
    with pytest.raises(NotIntegrable):
        answer(WRONG[name])


def test_draws_have_the_density() -> None:
    draws = answer(log_gammas).draw(np.random.default_rng(5), 8_000)
    kept = np.exp(draws)  # independent Gammas of scale one
    z = (kept.mean(axis=0) - SHAPES) / np.sqrt(SHAPES / len(kept))
    assert np.abs(z).max() < 4
    assert np.abs(np.corrcoef(kept.T) - np.eye(K)).max() < 4 / np.sqrt(len(kept))
    # The kurtosis of a Gamma is 3 + 6 / shape.
    np.testing.assert_allclose(kept.var(axis=0), SHAPES, rtol=0.1)


@pytest.mark.parametrize("cut", [9.0, 11.0, 13.0])
def test_what_lies_below_a_depth_is_bounded(cut: float) -> None:
    # On a fine grid of radii, without a node deeper than the cut: all that is there is unseen.
    radius = np.linspace(0, 12, 200_001)
    depth, weights = radius**2 / 2, radius ** (K - 1) * np.exp(-(radius**2) / 2)
    seen = depth <= cut
    unseen = chi2.sf(2 * cut, K) * 2.0 / (radius[1] - radius[0])  # ∫ r³ exp(−r²/2) = 2
    assert unseen <= mass_below(depth[seen], weights[seen], cut) <= 1.5 * unseen


def test_a_heavy_tail_is_not_taken_for_a_light_one() -> None:
    nu, cut = 3.0, 12.0
    end = np.sqrt(nu * np.expm1(2 * cut / (nu + K)))
    radius = np.linspace(0, end, 200_001)
    depth = (nu + K) / 2 * np.log1p(radius**2 / nu)
    weights = radius ** (K - 1) * np.exp(-depth)
    density = lambda r: r ** (K - 1) * (1 + r * r / nu) ** (-(nu + K) / 2)  # noqa: E731
    unseen = scipy_integrate.quad(density, end, np.inf)[0] / (radius[1] - radius[0])
    assert 0.9 * unseen <= mass_below(depth, weights, cut) <= 2 * unseen
