"""A latent Gaussian under other data: estimates of its integral, against sums over grids, filters and closed forms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.environment import lightly, silently
from bayeskit.inference.latent import obstacle
from bayeskit.latent.approximation import approximations
from bayeskit.latent.gates import Doubtful, require_alike_when_wider, require_one_mode
from bayeskit.latent.gaussian_prior import latent_gaussian
from bayeskit.latent.importance_weights import LatentWeights
from bayeskit.latent.shared_numbers import SharedNumbers
from bayeskit.latent.split_density import SplitDensity
from bayeskit.model.unconstrained import Unconstrained
from tests.latent_oracles import LIKELIHOODS, RETURNS, STEPS, by_grid, counts, volatility


@pytest.fixture(autouse=True)
def light() -> Iterator[None]:
    with lightly(), silently():
        yield


def weights_of(model: pm.Model, phi: float | np.ndarray) -> LatentWeights:
    density = SplitDensity(Unconstrained(model, None), latent_gaussian(analyse(model)), 0)
    shared = SharedNumbers(density)
    return LatentWeights(density, shared.near(np.atleast_1d(np.asarray(phi, dtype=float))), (1,))


def near(weights: LatentWeights, number: int, spread: float = 3e-7) -> np.ndarray:
    """The same φ over and over to some seven digits, each with noise of its own."""
    return np.asarray(weights.start.phi + spread * (np.arange(number)[:, None] - number / 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_estimates_are_unbiased(name: str) -> None:
    """Against sums over a grid; where the data are Normal, the approximation is exact and so is every estimate."""
    build, log_likelihood = LIKELIHOODS[name]
    for scale in (0.15, 0.4):
        weights = weights_of(build(), np.log(scale))
        # PyMC moves a scale by its logarithm: the density has its prior, and a Jacobian.
        own = stats.halfnorm(scale=0.5).logpdf(scale) + np.log(scale)
        truth = by_grid(log_likelihood, scale) + own
        logs = weights.log_estimate(near(weights, 400)) - truth
        ratio = np.exp(logs)
        error = ratio.std(ddof=1) / np.sqrt(len(ratio))
        assert abs(ratio.mean() - 1) < 4 * error + 2e-4
        assert error < 0.1
        if name == "levels":
            np.testing.assert_allclose(logs, 0.0, atol=1e-3)  # φ differs by as much
            found = approximations(weights.density, weights.start.phi[None], weights.start)
            assert found.log_density[0] == pytest.approx(truth, abs=1e-6)


@pytest.mark.slow
def test_draws_have_the_conditional_moments() -> None:
    """Of two levels, against a fine grid."""
    data = np.array([0, 3])
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        level = pm.Normal("level", 0.5, scale, shape=2)
        pm.Poisson("y", pm.math.exp(level), observed=data)
    weights = weights_of(model, 0.0)
    rng, some = np.random.default_rng(1), near(weights, 12_000)
    # As the rung does: φ in proportion to their estimates, and then one x of each.
    drawn = weights.draw(some[rng.choice(len(some), 6_000, p=special.softmax(weights.log_estimate(some)))], rng)
    x = np.linspace(-9, 6, 4_001)
    for k, count in enumerate(data):
        log_p = stats.norm.logpdf(x, 0.5, 1.0) + stats.poisson.logpmf(count, np.exp(x))
        p = special.softmax(log_p)
        mean = p @ x
        sd = np.sqrt(p @ (x - mean) ** 2)
        assert abs(drawn[:, k].mean() - mean) < 5 * sd / np.sqrt(4_000)
        assert abs(drawn[:, k].std() - sd) < 5 * sd / np.sqrt(8_000)


def test_the_same_numbers_have_the_same_estimate_whatever_is_computed_beside_them() -> None:
    weights = weights_of(counts(), -1.0)
    some = near(weights, 40, 0.01)
    together = weights.log_estimate(some)
    np.testing.assert_allclose(weights.log_estimate(some[7:9]), together[7:9], rtol=1e-9)
    np.testing.assert_allclose(weights.log_estimate(some * (1 + 1e-15)), together, rtol=1e-9)
    assert len(np.unique(together)) == 40


@pytest.mark.slow
def test_the_hessian_is_that_of_differences_and_a_band() -> None:
    weights = weights_of(volatility(), -1.0)
    density = weights.density
    points = density.joined(weights.start.phi[None], weights.start.mode[None])
    (precision,) = density.precisions(points)
    assert precision is not None and density.layout.width == 2
    steps = np.repeat(points, 2 * STEPS, axis=0)
    size = 1e-5 * np.eye(STEPS)
    steps[:, density.latent] += np.concatenate([size, -size])
    _, slopes = density.value_and_gradient(steps)
    hessian = -(slopes[:STEPS] - slopes[STEPS:]) / 2e-5
    np.testing.assert_allclose(np.linalg.inv(precision.covariance()), hessian, atol=1e-6)


def test_the_hessian_of_crossed_effects_takes_few_products() -> None:
    """Two weights shared by all rows, eight effects crossed with thirty: eleven products, where 40 entries are."""
    rng = np.random.default_rng(4)
    one, two, x = rng.integers(0, 8, 300), rng.integers(0, 30, 300), rng.normal(size=(300, 2))
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        weights = pm.Normal("weights", 0, 2, shape=2)
        many = pm.Normal("many", 0, scale, shape=30)
        few = pm.Normal("few", 0, 1, shape=8)
        pm.Bernoulli("y", logit_p=x @ weights + few[one] + many[two], observed=rng.integers(0, 2, 300))
    density = weights_of(model, -0.5).density
    assert density._colours.max() + 1 <= 14
    point = density.joined(np.full((1, 1), -0.5), rng.normal(size=(1, density.size)))
    (precision,) = density.precisions(point)
    assert precision is not None
    hessian = density._along(point, np.eye(density.size))[0]
    np.testing.assert_allclose(np.linalg.inv(precision.covariance()), hessian, atol=1e-9)


def test_what_is_normal_beforehand_is_the_latent_gaussian() -> None:
    """With the mean of a walk; not its persistence, a Student t, or a variable with its order kept."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        persistence = pm.Normal("persistence", 0.5, 0.1)
        heavy = pm.StudentT("heavy", nu=4, shape=3)
        cuts = pm.Normal("cuts", [-1, 1], 1, shape=2, transform=pm.distributions.transforms.ordered)
        level = pm.Normal("level", mean, 1, shape=20)
        after = pm.Normal("after", persistence * level, 1, shape=20)
        pm.Poisson("y", pm.math.exp(after + heavy.sum() + cuts.sum()), observed=np.ones(20, int))
    assert latent_gaussian(analyse(model)) == ("mean", "level", "after")


def test_where_all_is_normal_beforehand_the_smallest_variable_is_given() -> None:
    with pm.Model() as model:
        difficulty = pm.Normal("difficulty", 0, 2, shape=3)
        ability = pm.Normal("ability", 0, 1, shape=20)
        pm.Bernoulli("right", logit_p=ability[:, None] - difficulty, observed=np.ones((20, 3), int))
    assert latent_gaussian(analyse(model)) == ("ability",)


@pytest.mark.parametrize("student", [False, True])
def test_the_mean_of_returns_is_not_taken_with_their_volatility(student: bool) -> None:
    """The density of returns is not log-concave in both; the level of the volatility is another matter."""
    with pm.Model() as model:
        mean, level = pm.Normal("mean", 0, 1), pm.Normal("level", 0, 1)
        walk = pm.GaussianRandomWalk("walk", sigma=0.2, init_dist=pm.Normal.dist(0, 1), steps=19)
        sd = pm.math.exp((level + walk) / 2)
        data = RETURNS[:20]
        if student:
            pm.StudentT("y", nu=5, mu=mean, sigma=sd, observed=data)
        else:
            pm.Normal("y", mean, sd, observed=data)
    assert latent_gaussian(analyse(model)) == ("level", "walk")


@pytest.mark.parametrize(
    ("data", "said"), [([-4.0, -4.1, 4.0, 4.1], "no mode"), ([0.0, 0.1, -0.1, 6.0], "several modes")]
)
def test_several_modes_are_doubted(data: list[float], said: str) -> None:
    """A level that two clusters of data see through noise of heavy tails has a mode near each, or between none."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 5.0)
        level = pm.Normal("level", 0, 10 * scale, shape=12)
        pm.StudentT("y", nu=2, mu=level[:, None], sigma=0.3, observed=np.tile(data, (12, 1)))
    weights = weights_of(model, 0.0)
    with pytest.raises(Doubtful, match=said):
        require_one_mode(weights, near(weights, 20), np.random.default_rng(1))


def test_the_gates_pass_what_is_log_concave() -> None:
    weights = weights_of(volatility(), -1.0)
    some = near(weights, 200, 0.01)
    require_one_mode(weights, some, np.random.default_rng(1))
    require_alike_when_wider(weights, some)


def test_obstacles_say_why() -> None:
    with pm.Model() as closed:
        scale = pm.HalfNormal("scale", 1.0)
        level = pm.Normal("level", 0, scale, shape=20)
        pm.Normal("y", level, 1.0, observed=np.zeros(20))
    assert "without a closed form" in obstacle(analyse(closed))
    assert obstacle(analyse(counts())) == ""
    with pm.Model() as discrete:
        which = pm.Bernoulli("which", 0.5)
        level = pm.Normal("level", 0, 1, shape=20)
        pm.Poisson("y", pm.math.exp(level + which), observed=np.ones(20, int))
    assert "discrete" in obstacle(analyse(discrete))
    plan = bk.explain(counts())
    assert plan.method == "importance" and "level (70 numbers, Normal before the data are seen)" in plan.outlook
