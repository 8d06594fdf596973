"""Importance sampling at quasi-random points, on priors as densities: their integral is one, by their definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import special, stats

from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.integral import ImportanceIntegral, Wanted, importance_integral
from bayeskit.marginal_likelihood.quasi_monte_carlo.one_of_images import one_of_images
from bayeskit.marginal_likelihood.quasi_monte_carlo.skewed_coordinates import SkewedCoordinates, axes_of
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighted_mixture import SobolPoints, balanced, guarded, mixtures_of
from bayeskit.model.unconstrained import Unconstrained

Build = Callable[[], object]
WANTED = Wanted(draws=1_000, most=150_000)


def two(size: int, apart: float, share: float = 0.5, scale: float = 1.0) -> Build:
    """Two Normals, the second with a share and a scale of its own."""
    centre = np.zeros(size)
    centre[0] = apart
    parts = lambda: [pm.MvNormal.dist(np.zeros(size), np.eye(size)), pm.MvNormal.dist(centre, scale**2 * np.eye(size))]  # noqa: E731
    return lambda: pm.Mixture("x", [1 - share, share], parts())


def banana(bend: float) -> None:
    a = pm.Normal("a", 0, 3)
    pm.Normal("c", bend * (a**2 - 9), 1)
    pm.Normal("rest", 0, 1, shape=2)


def funnel(size: int, sd: float) -> None:
    driver = pm.Normal("driver", 0, sd)
    pm.Normal("x", 0, pt.exp(driver / 2), shape=size - 1)


def horseshoe(size: int) -> None:
    whole, local = pm.HalfCauchy("whole", 1), pm.HalfCauchy("local", 1, shape=size)
    pm.Normal("b", 0, whole * local, shape=size)


def twisted(size: int) -> None:
    a = pm.Normal("a", 0, 1, shape=size)
    pm.Normal("c", pt.sin(3 * a), 0.3, shape=size)


def rounded() -> None:
    """A Beta(0.1, 0.1) on the interval to three, whose values near the end are three to rounding."""
    x = pm.Uniform("x", 0, 3, shape=3)
    inside = pt.log(3.0) - special.betaln(0.1, 0.1) - 0.9 * (pt.log(x / 3) + pt.log(1 - x / 3))
    pm.Potential("scaled", pt.sum(pt.switch(pt.lt(x, 3), inside, -np.inf)))


ANSWERED: dict[str, Build] = {
    "correlated by 0.9999": lambda: pm.MvNormal("x", np.zeros(6), 0.9999 + 1e-4 * np.eye(6)),
    "twenty numbers": lambda: pm.MvNormal("x", np.zeros(20), 0.9 + 0.1 * np.eye(20)),
    "scales of 1e-6 to 1e6": lambda: pm.Normal("x", 0, np.geomspace(1e-6, 1e6, 7), shape=7),
    "tails along the axes": lambda: pm.StudentT("x", nu=6, mu=0, sigma=1, shape=5),
    "heavy tails": lambda: pm.MvStudentT("x", nu=3, mu=np.zeros(4), scale=np.eye(4)),
    "skewed": lambda: pm.Gamma("x", 0.3, 1, shape=4),
    "beyond what is one to rounding": lambda: pm.Beta("x", 0.1, 0.1, shape=3),
    "bounded": lambda: pm.Uniform("x", 0, 1, shape=6),
    "simplex": lambda: pm.Dirichlet("x", np.full(5, 2.0)),
    "slightly bent": lambda: banana(0.03),
    "bent": lambda: banana(0.1),
    "two modes nearby": two(4, 3.0),
    "two modes far apart": two(4, 40.0),
    "a narrow mode apart": two(6, 6.0, 0.1, 0.1),
    "a spike upon a slab": two(5, 0.0, 0.5, 0.01),
    "a slab under a spike": two(8, 0.0, 0.5, 10.0),
    "a shallow funnel": lambda: funnel(4, 0.3),
}

REFUSED: dict[str, Build] = {
    "a funnel": lambda: funnel(10, 3.0),
    "a horseshoe": lambda: horseshoe(2),
    "a sharp bend": lambda: banana(0.5),
    "many bends": lambda: twisted(4),
    "Cauchy": lambda: pm.Cauchy("x", 0, 1, shape=8),
    "cut off by rounding": rounded,
}


@contextmanager
def density_of(build: Build) -> Iterator[Unconstrained]:
    with pm.Model() as model:
        build()
    with lightly(), on_one_thread(), silently():
        yield Unconstrained(model)


@cache
def answered(name: str) -> tuple[Unconstrained, ImportanceIntegral]:
    with density_of(ANSWERED[name]) as space:
        return space, importance_integral(space, WANTED, np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERED)
def test_the_integral_is_one(name: str) -> None:
    _, found = answered(name)
    assert abs(found.value) < 4 * found.error
    assert found.error < 5e-3
    assert found.pareto_k <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_wrong_is_refused(name: str) -> None:
    with density_of(REFUSED[name]) as space, pytest.raises(NoProposal):
        importance_integral(space, WANTED, np.random.default_rng(1))


@pytest.mark.slow
def test_tails_along_the_axes_are_refused_where_the_weights_look_well() -> None:
    """Pareto k 0.31, and an integral 5.8 standard errors low."""
    with (
        density_of(lambda: pm.StudentT("x", nu=2, mu=0, sigma=1, shape=5)) as space,
        pytest.raises(NoProposal, match="tail"),
    ):
        importance_integral(space, WANTED, np.random.default_rng(7))


def test_draws_are_of_the_density_and_none_comes_twice() -> None:
    space, found = answered("skewed")
    draws = space.backward(found.draw(np.random.default_rng(3), 1_000))["x"]
    assert len(np.unique(draws[:, 0])) == 1_000
    for column in draws.T:
        assert stats.kstest(column, stats.gamma(0.3).cdf).pvalue > 1e-3


def test_draws_from_uneven_weights_come_in_proportion() -> None:
    """One point in ten has nine tenths of the weight: kept points would be too few."""
    weights = np.where(np.arange(10_000) % 10 == 0, 81.0, 1.0)
    points = (np.arange(10_000) % 10 == 0)[:, None].astype(float)
    found = ImportanceIntegral(0.0, 0.0, 0.0, 0.1, 0, points, np.log(weights))
    draws = found.draw(np.random.default_rng(0), 4_000)
    assert draws.shape == (4_000, 1)
    assert draws.mean() == pytest.approx(0.9, abs=0.02)


def test_coordinates_go_there_and_back_with_their_volume() -> None:
    rng = np.random.default_rng(0)
    root, inverse = axes_of(np.diag([1e12, 1.0, 1e-12]) + 0.3 * np.outer([1e6, 1, 1e-6], [1e6, 1, 1e-6]))  # type: ignore[misc]
    skewed = np.array([0.7, -0.4, 0.0])
    there = SkewedCoordinates(np.zeros(3), root, inverse, np.array([0.5, 1.0, 2.0]), skewed)
    z = rng.normal(size=(50, 3))
    x, volume = there.forward(z)
    np.testing.assert_allclose(there.backward(x), z, atol=1e-8)
    step = 1e-5 * np.eye(3)
    for point, log_volume in zip(z[:5], volume, strict=False):
        ahead, behind = (there.forward(point + sign * step)[0] for sign in (1, -1))
        jacobian = (ahead - behind) / 2e-5
        assert np.linalg.slogdet(jacobian)[1] == pytest.approx(log_volume, abs=1e-6)


def test_points_of_a_mixture_have_its_density() -> None:
    parts = Proposal(np.zeros(2), np.eye(2), 8.0), Proposal(np.array([4.0, 0.0]), 0.5 * np.eye(2), 5.0)
    mixture = balanced(np.array([0.7, 0.3]), parts)
    assert np.log2(mixture.weights / mixture.weights[0]).tolist() == [0.0, -1.0]
    points = SobolPoints(mixture, np.random.default_rng(0)).next(12)
    assert len(points) == 4096 + 2048
    assert np.mean(points[:, 0] > 3) == pytest.approx(2 / 3 * stats.t(8).sf(3) + 1 / 3 * stats.t(5).cdf(2), abs=2e-3)
    assert stats.kstest(points[:4096, 1], stats.t(8).cdf).statistic < 5e-3
    guard = guarded(mixture)
    assert len(guard.components) == 3 and guard.weights.sum() == pytest.approx(1.0)


def test_a_mixture_is_fitted_to_weighted_points() -> None:
    """Uniform points weighted by two Normals: the fit of two components finds them."""
    rng = np.random.default_rng(0)
    points = rng.uniform([-6, -4], [10, 4], size=(20_000, 2))
    truth = MixtureProposal(
        np.array([0.75, 0.25]), (Proposal(np.zeros(2), np.eye(2)), Proposal(np.array([5.0, 0.0]), 0.7 * np.eye(2)))
    )
    weights = np.exp(truth.log_density(points))
    found = next(m for m in mixtures_of(points, weights / weights.sum(), rng) if len(m.components) == 2)
    centres = sorted(component.centre[0] for component in found.components)
    np.testing.assert_allclose(centres, [0.0, 5.0], atol=0.15)


@pytest.mark.parametrize("degrees", [np.inf, 2.0])
def test_a_proposal_has_the_gradient_of_its_density(degrees: float) -> None:
    centre, root = np.array([0.3, -1.0]), np.array([[1.2, 0.0], [0.7, 0.4]])
    q, points = Proposal(centre, root, degrees), np.random.default_rng(3).normal(size=(4, 2))
    scipys = stats.multivariate_t(centre, root @ root.T, df=degrees)
    for k, step in enumerate(1e-5 * np.eye(2)):
        slope = (scipys.logpdf(points + step) - scipys.logpdf(points - step)) / 2e-5
        np.testing.assert_allclose(q.gradient(points)[:, k], slope, rtol=1e-6, atol=1e-8)


def test_the_share_of_one_image_has_the_integral_of_all_and_the_gradient_that_it_says() -> None:
    """Of two humps that are images by exchange of x and y, a third of a standard deviation off the line x = y."""
    with pm.Model() as model:
        pair = pm.Normal("pair", 0.0, 1.5, shape=2)
        pm.Normal("low", pm.math.minimum(pair[0], pair[1]), 0.6, observed=-0.3)
        pm.Normal("high", pm.math.maximum(pair[0], pair[1]), 0.9, observed=0.4)
    space = Unconstrained(model)
    share = one_of_images(space, np.random.default_rng(1), 1)
    assert share is not None and len(share.share.symmetries) == 2
    rng = np.random.default_rng(2)
    for point in rng.normal(size=(5, 2)):
        value, gradient = share.value_and_gradient(point)
        assert value == pytest.approx(share.log_density(point)[0], rel=1e-12)
        for k, step in enumerate(1e-5 * np.eye(2)):
            ends = share.log_density(np.stack([point + step, point - step]))
            assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)
    line = np.linspace(-9.0, 9.0, 601)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    whole, one = special.logsumexp(space.log_density(grid)), special.logsumexp(share.log_density(grid))
    assert one == pytest.approx(whole, abs=1e-6)  # its share is weighted by the number of images


def test_a_map_that_is_a_symmetry_only_near_the_start_is_refused() -> None:
    """A likelihood that tells the labels apart above twenty, where no point near the start is."""
    with pm.Model() as model:
        pair = pm.Normal("pair", 0.0, 5.0, shape=2)
        pm.Normal("low", pm.math.minimum(pair[0], pair[1]), 0.7, observed=-2.0)
        pm.Normal("high", pm.math.maximum(pair[0], pair[1]), 0.7, observed=2.0)
        pm.Potential("apart", pm.math.switch(pair[0] > 20.0, -3.0, 0.0))
    share = one_of_images(Unconstrained(model), np.random.default_rng(1), 1)
    assert share is not None
    share.require_same_everywhere(np.array([[15.0, 1.0], [1.0, 2.0]]))
    with pytest.raises(NoProposal, match="not the same where the mass is"):
        share.require_same_everywhere(np.array([[25.0, 1.0], [1.0, 2.0]]))
