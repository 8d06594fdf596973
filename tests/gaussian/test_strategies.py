"""Every strategy for a Gaussian block against the same model written as one dense multivariate Normal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest
from scipy import linalg, stats

from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.plan import analyse
from bayeskit.gaussian.quadratic_form import quadratic_form
from bayeskit.gaussian.strategies import STRATEGIES, strategy_of
from bayeskit.graphs.compile import compile_small

POINTS = [(0.4, 1.3), (2.0, 0.5), (0.05, 3.0)]  # prior sd and noise sd


@dataclass(frozen=True)
class Linear:
    """y = Aθ + e with θ ~ Normal(m, V): what a model says given both sds.

    Attributes
    ----------
    build : callable
        (prior sd, noise sd, y): prior and likelihood in PyMC.
    dense : callable
        (prior sd, noise sd) → m, V, A and the variances of e.
    size : int
        Entries of y.
    """

    build: Callable
    dense: Callable
    size: int

    @property
    def y(self):
        return np.random.default_rng(5).normal(1.0, 2.0, self.size)


def regression(rows: int, columns: int, *, halves: bool = False) -> Linear:
    """Coefficients of one scale, or the second half of another."""
    x = np.random.default_rng(rows).normal(size=(rows, columns))
    half = columns // 2 if halves else columns

    def build(tau, sigma, y):
        mean = x[:, :half] @ pm.Normal("w", 0.3, tau, shape=half)
        if halves:
            mean = mean + x[:, half:] @ pm.Normal("v", 0.3, tau**2, shape=columns - half)
        pm.Normal("y", mean, sigma, observed=y)

    def dense(tau, sigma):
        sd = np.where(np.arange(columns) < half, tau, tau**2)
        return np.full(columns, 0.3), np.diag(sd**2), x, np.full(rows, sigma**2)

    return Linear(build, dense, rows)


def hierarchy(group: np.ndarray, error: np.ndarray, *, moving: bool = False) -> Linear:
    """A mean, groups around it, and rows of y with known standard errors, times the noise sd.

    Where it is moving, the mean of the mean is the groups' sd.
    """
    groups = int(group.max()) + 1

    def build(tau, sigma, y):
        theta = pm.Normal("theta", pm.Normal("mu", tau if moving else 0.5, 2.0), tau, shape=groups)
        pm.Normal("y", theta[group], sigma * error, observed=y)

    def dense(tau, sigma):
        variance = np.full((groups + 1, groups + 1), 4.0)
        variance[1:, 1:] += tau**2 * np.eye(groups)
        design = np.zeros((len(group), groups + 1))
        design[np.arange(len(group)), 1 + group] = 1.0
        return np.full(groups + 1, tau if moving else 0.5), variance, design, (sigma * error) ** 2

    return Linear(build, dense, len(group))


def nested(groups: int, kinds: int) -> Linear:
    """Groups of two rows each around the means of their kinds, with slopes, and these around a mean."""
    kind, rows = np.arange(groups) % kinds, np.arange(2 * groups) % groups
    slope = np.linspace(0.5, 1.5, groups)

    def build(tau, sigma, y):
        means = pm.Normal("kind", pm.Normal("mu", 0.5, 2.0), tau**2, shape=kinds)
        theta = pm.Normal("theta", slope * means[kind], tau, shape=groups)
        pm.Normal("y", theta[rows], sigma, observed=y)

    def dense(tau, sigma):
        of_noise = np.zeros((1 + kinds + groups, 1 + kinds + groups))  # θ = m + this @ standard Normal numbers
        of_noise[:, 0] = np.r_[2.0, np.full(kinds, 2.0), 2.0 * slope]
        of_noise[1 : 1 + kinds, 1 : 1 + kinds] = tau**2 * np.eye(kinds)
        of_noise[1 + kinds :, 1 : 1 + kinds] = tau**2 * slope[:, None] * np.eye(kinds)[kind]
        of_noise[1 + kinds :, 1 + kinds :] = tau * np.eye(groups)
        design = np.zeros((2 * groups, 1 + kinds + groups))
        design[np.arange(2 * groups), 1 + kinds + rows] = 1.0
        mean = np.r_[0.5, np.full(kinds, 0.5), 0.5 * slope]
        return mean, of_noise @ of_noise.T, design, np.full(2 * groups, sigma**2)

    return Linear(build, dense, 2 * groups)


def walk(steps: int) -> Linear:
    def build(tau, sigma, y):
        level = pm.GaussianRandomWalk("level", sigma=tau, init_dist=pm.Normal.dist(0.5, 2.0), steps=steps - 1)
        pm.Normal("y", level, sigma, observed=y)

    def dense(tau, sigma):
        below = np.tril(np.ones((steps, steps)))
        inner = np.r_[4.0, np.full(steps - 1, tau**2)]
        return np.full(steps, 0.5), below * inner @ below.T, np.eye(steps), np.full(steps, sigma**2)

    return Linear(build, dense, steps)


CASES = {
    "data side": regression(6, 20),
    "simultaneous diagonal": regression(700, 5),
    "whitened": hierarchy(np.arange(20) % 8, np.linspace(0.5, 2.0, 20)),
    "scaled": hierarchy(np.arange(200) % 80, np.linspace(0.5, 2.0, 200)),
    "scaled, as plates": hierarchy(np.arange(160) % 80, np.ones(160)),
    "scaled, groups of groups": nested(72, 9),
    "plates": hierarchy(np.arange(160) % 80, np.ones(160), moving=True),
    "banded": walk(80),
    "banded, with a border": hierarchy(np.arange(200) % 80, np.linspace(0.5, 2.0, 200), moving=True),
    "dense": regression(120, 70, halves=True),
}


def test_every_strategy_has_a_case():
    assert {name.split(",")[0] for name in CASES} == {s.name for s in STRATEGIES}
    assert len({s.name for s in STRATEGIES}) == len(STRATEGIES)


@pytest.fixture(scope="module", params=CASES)
def solved(request):
    """The case, the block, its conditional, log p(y | φ), gradients and what is needed for draws, at all points."""
    return solution(request.param, POINTS)


def solution(name, points):
    case = CASES[name]
    with pm.Model() as model:
        case.build(pm.HalfNormal("tau", 1.0), pm.HalfNormal("sigma", 1.0), case.y)
    analysis = analyse(model)
    (block,) = analysis.blocks
    form = quadratic_form(block, typical_points(analysis, 2))
    strategy = strategy_of(form)
    assert strategy.name == name.split(",")[0]
    conditional = strategy.conditional(form)
    values = analysis.joint.values
    total = form.rest + strategy.integral(form)
    gradient = pm.pytensorf.gradient(total, [values["tau"], values["sigma"]])
    function = compile_small([values["tau"], values["sigma"]], [total, gradient, *conditional.graphs])
    results = [function(*point) for point in points]
    arrays = [np.stack(column) for column in zip(*[r[2:] for r in results], strict=True)]
    return case, block, conditional, [r[0] for r in results], [r[1] for r in results], arrays


def marginal(case, tau, sigma):
    mean, variance, design, noise = case.dense(tau, sigma)
    covariance = design @ variance @ design.T + np.diag(noise)
    factor = linalg.cho_factor(covariance, lower=True)
    residual = case.y - design @ mean
    gain = linalg.cho_solve(factor, design @ variance).T
    value = -0.5 * residual @ linalg.cho_solve(factor, residual) - np.sum(np.log(np.diag(factor[0])))
    value -= 0.5 * case.size * np.log(2 * np.pi)
    return value, mean + gain @ residual, variance - gain @ design @ variance


@pytest.mark.slow
def test_the_integral_is_the_density_of_the_data(solved):
    case, _, _, values, gradients, _ = solved
    for (tau, sigma), value, gradient in zip(POINTS, values, gradients, strict=True):
        expected = marginal(case, tau, sigma)[0]
        assert value == pytest.approx(expected, rel=1e-9)
        step = 1e-5
        slopes = [
            (marginal(case, tau * (1 + step), sigma)[0] - marginal(case, tau * (1 - step), sigma)[0])
            / (2 * tau * step),
            (marginal(case, tau, sigma * (1 + step))[0] - marginal(case, tau, sigma * (1 - step))[0])
            / (2 * sigma * step),
        ]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4 * np.max(np.abs(slopes)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("scaled")])
def test_a_hierarchy_is_solved_where_its_groups_are_one(name):
    """In θ itself the constant is up to 1e20 times the integral there, and Λ has no digit of the data left."""
    points = [(1e-11, 1.3), (3e-7, 0.8), (1e-4, 2.0)]
    case, _, conditional, values, _, arrays = solution(name, points)
    mean, sd = conditional.moments(arrays)
    drawn = conditional.draw(arrays, np.random.default_rng(3))
    for k, point in enumerate(points):
        value, expected, covariance = marginal(case, *point)
        assert values[k] == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(mean[k], expected, rtol=1e-7)
        np.testing.assert_allclose(sd[k], np.sqrt(np.diag(covariance)), rtol=1e-6)
        assert abs(np.mean(drawn[k] - mean[k]) / np.sqrt(np.mean(covariance))) < 4


def test_moments_are_those_of_the_joint_normal(solved):
    case, _, conditional, _, _, arrays = solved
    mean, sd = conditional.moments(arrays)
    for k, point in enumerate(POINTS):
        _, expected, covariance = marginal(case, *point)
        np.testing.assert_allclose(mean[k], expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(sd[k], np.sqrt(np.diag(covariance)), rtol=1e-6)


@pytest.mark.slow
def test_draws_and_their_density_are_those_of_the_joint_normal(solved):
    case, _, conditional, _, _, arrays = solved
    number = 3000
    _, mean, covariance = marginal(case, *POINTS[0])
    repeated = [np.repeat(a[:1], number, axis=0) for a in arrays]
    drawn = conditional.draw(repeated, np.random.default_rng(2))
    root = np.linalg.cholesky(covariance)
    white = linalg.solve_triangular(root, (drawn - mean).T, lower=True)
    # Means and squares of each coordinate, and their sum, in standard errors.
    assert np.max(np.abs(white.mean(axis=1))) * np.sqrt(number) < 5
    assert np.max(np.abs((white**2).mean(axis=1) - 1)) * np.sqrt(number / 2) < 5
    assert abs(np.mean(white.sum(axis=0) ** 2) / len(mean) - 1) * np.sqrt(number / 2) < 5
    expected = stats.multivariate_normal(mean, covariance, allow_singular=True).logpdf(drawn[0])
    assert conditional.log_density(arrays, drawn[0]) == pytest.approx(expected, rel=1e-7, abs=1e-6)
