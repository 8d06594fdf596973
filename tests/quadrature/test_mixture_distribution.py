"""Finite mixtures as marginals: the distribution function at many points against the same at few, which is direct."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeskit.quadrature.distribution_series import integral_of_density, interpolated
from bayeskit.quadrature.mixture_distribution import MANY, MixtureDensity

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(300, 2, 2))
COMPONENTS = {
    "normal": stats.norm(MEANS, [[0.5, 1.0], [2.0, 3.0]]),
    "student": stats.t(3.0, MEANS, np.exp(0.3 * RNG.normal(size=(300, 2, 2)))),
    "gamma": stats.gamma(2 + RNG.gamma(2.0, size=300), scale=RNG.gamma(3.0, size=300)),
    "a spike beside a slab": stats.norm([0.0, 1.0], [1.0, 1e-4]),
    "a spike of no width": stats.norm([0.0, 1.0], [1.0, 1e-300]),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cdf", "sf"])
@pytest.mark.parametrize("name", COMPONENTS)
def test_many_points_give_what_few_give(name: str, method: str) -> None:
    components = COMPONENTS[name]
    mixture = MixtureDensity(RNG.dirichlet(np.ones(len(components.mean()))), components)
    x = mixture.rvs(4 * MANY, random_state=1)
    x[0] = components.mean()[-1]  # on the spike, where there is one
    few = x[:: len(x) // (MANY // 2)]  # some thirty a piece, of which each is one polynomial
    np.testing.assert_allclose(
        getattr(mixture, method)(x)[:: len(x) // (MANY // 2)], getattr(mixture, method)(few), rtol=0, atol=1e-12
    )


def test_smooth_functions_are_interpolated_and_steps_are_not() -> None:
    calls = []

    def counted(function):  # type: ignore[no-untyped-def]
        return lambda rows: (calls.append(len(rows)), function(rows))[1]

    x = RNG.normal(size=4 * MANY)
    smooth = interpolated(counted(stats.norm.cdf), x)
    assert smooth is not None
    assert sum(calls) < MANY
    np.testing.assert_allclose(smooth, stats.norm.cdf(x), rtol=0, atol=1e-12)
    assert interpolated(lambda rows: (rows > 0.3).astype(float), x) is None
    assert interpolated(stats.norm.cdf, np.append(x, np.inf)) is None


def test_a_series_of_the_density_is_refused_where_it_misses_something() -> None:
    x = RNG.normal(size=4 * MANY)
    right = integral_of_density(stats.norm.cdf, stats.norm.pdf, x, falling=False)
    np.testing.assert_allclose(right, stats.norm.cdf(x), rtol=0, atol=1e-12)
    spiked = lambda rows: stats.norm.cdf(rows) + 1e-12 * (rows > 0.3)  # noqa: E731
    assert integral_of_density(spiked, stats.norm.pdf, x, falling=False) is None
    assert integral_of_density(stats.norm.sf, stats.norm.pdf, x, falling=False) is None
    assert integral_of_density(lambda rows: np.full(rows.shape, np.nan), stats.norm.pdf, x, falling=False) is None
    assert integral_of_density(stats.norm.cdf, lambda rows: (rows > 0.3) + 0.0, x, falling=False) is None


@pytest.mark.parametrize("level", [0.01, 0.5, 0.975, 0.99])
def test_a_quantile_is_found_where_one_of_the_components_has_its_own_beyond_all_numbers(level: float) -> None:
    with np.errstate(all="ignore"):
        for components in (stats.t([0.001, 3.0]), stats.invgamma([0.001, 5.0], scale=[1.0, 1.5])):
            mixture = MixtureDensity(np.array([0.001, 0.999]), components)
            assert mixture.cdf(mixture.ppf(level)) == pytest.approx(level, rel=1e-12)
