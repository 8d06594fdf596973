"""Quadrature over one to three variables: closed forms, shapes that break integrators, and refusals.

Every case states its true log integral; an answer whose error exceeds its own bound is the one thing that must not
happen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate as si
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

import bayeskit as bk
from bayeskit.quadrature.axis_density import AxisDensity
from bayeskit.quadrature.change_of_variable import OntoInterval
from bayeskit.quadrature.grid_distribution import GridDensity
from bayeskit.quadrature.integrate import NotIntegrable, Quadrature, integrate
from bayeskit.quadrature.mixture_distribution import MixtureDensity

Density = Callable[[np.ndarray], np.ndarray]
SHEAR = np.array([[1.0, 0, 0], [0.7, 1, 0], [-0.5, 0.4, 1]])


def gaussian(k: int, correlation: float, sd: float = 1.0, mean: float = 0.0) -> Density:
    covariance = sd**2 * ((1 - correlation) * np.eye(k) + correlation)
    return stats.multivariate_normal(np.full(k, mean), covariance, allow_singular=False).logpdf


def log_gamma(*shapes: float) -> Density:
    """Logarithms of independent gamma variables, sheared: an exponential left tail and a far lighter right one."""
    a, k = np.array(shapes), len(shapes)

    def log_density(x: np.ndarray) -> np.ndarray:
        z = np.linalg.solve(SHEAR[:k, :k], x.T).T
        return (a * z - np.exp(z) - gammaln(a)).sum(1)

    return log_density


def half_cauchy(x: np.ndarray) -> np.ndarray:
    """Independent half-Cauchy scales on the log scale."""
    return (np.log(2 / np.pi) + x - np.logaddexp(0, 2 * x)).sum(1)


def funnel(x: np.ndarray) -> np.ndarray:
    return (
        stats.norm(0, 1).logpdf(x[:, 0])
        + stats.norm(0, 1).logpdf(x[:, 1:] * np.exp(-x[:, :1] / 2)).sum(1)
        - (x.shape[1] - 1) / 2 * x[:, 0]
    )


def banana(x: np.ndarray) -> np.ndarray:
    return stats.norm(0, 1).logpdf(x[:, 0]) + stats.norm(x[:, 0] ** 2, 0.5).logpdf(x[:, 1])


def mixture(weights: Any, means: Any, sds: Any) -> Density:
    """Spherical normal components; rows of means."""
    weights, means, sds = np.array(weights), np.array(means, float), np.array(sds, float)

    def log_density(x: np.ndarray) -> np.ndarray:
        square = ((x[:, None] - means) ** 2).sum(-1) / sds**2
        return logsumexp(-square / 2 - means.shape[1] * np.log(sds * np.sqrt(2 * np.pi)), axis=1, b=weights)

    return log_density


@dataclass(frozen=True)
class Case:
    log_density: Density
    start: tuple[float, ...]
    truth: float = 0.0


ANSWERED = {
    "normal 1": Case(gaussian(1, 0), (0.5,)),
    "normal 2, correlation 0.99": Case(gaussian(2, 0.99), (0.5, -0.5)),
    "normal 3, correlation 0.99": Case(gaussian(3, 0.99), (0.5, -0.5, 0)),
    "normal 2, sd 1e-6, start at 1e3 sd": Case(gaussian(2, 0.5, 1e-6, 2.0), (2.001, 2.001)),
    "normal 1, sd 1e4": Case(gaussian(1, 0, 1e4), (3.0,)),
    "log gamma 0.5": Case(log_gamma(0.5), (0.0,)),
    "log gamma 0.3: left tail to -70": Case(log_gamma(0.3), (3.0,)),
    "log gamma 2": Case(log_gamma(0.5, 2), (0, 0)),
    "log gamma 3": Case(log_gamma(0.5, 2, 5), (0, 0, 0)),
    "half-Cauchy 1": Case(half_cauchy, (0.3,)),
    "half-Cauchy 2": Case(half_cauchy, (0.3, 1)),
    "Cauchy": Case(lambda x: stats.cauchy.logpdf(x[:, 0]), (3.0,)),
    "Student 3 in two dimensions": Case(stats.multivariate_t([1, 2], [[1, 0.8], [0.8, 1]], df=3).logpdf, (0, 0)),
    "funnel": Case(funnel, (0, 0)),
    "banana": Case(banana, (0, 0)),
    "plateau": Case(lambda x: -(x[:, 0] ** 8) / 8, (0.2,), np.log(2 * 8**0.125) + gammaln(1.125)),
    "two close modes": Case(mixture([0.4, 0.6], [[0, 0], [2.5, 1]], [1, 0.7]), (0, 0)),
    "two far modes": Case(mixture([0.4, 0.6], [[0], [60]], [1, 2]), (0,)),
    "two far modes in two dimensions": Case(mixture([0.9, 0.1], [[0, 0], [20, 15]], [1, 1.5]), (0, 0)),
    "nan far out": Case(
        lambda x: np.where(np.abs(x[:, 0]) > 9, np.nan, -(x[:, 0] ** 2) / 2), (0.1,), 0.5 * np.log(2 * np.pi)
    ),
    "zero far out": Case(
        lambda x: np.where(x[:, 0] < -9, -np.inf, -(x[:, 0] ** 2) / 2), (0.1,), 0.5 * np.log(2 * np.pi)
    ),
}
MAY_REFUSE = {
    "kink": Case(lambda x: -np.abs(x[:, 0]), (0.1,), np.log(2)),
    "jump at the mode": Case(lambda x: np.where(x[:, 0] > 0, -x[:, 0], -np.inf), (1.0,)),
    "jump beside the mode": Case(
        lambda x: np.where(x[:, 0] > -1, -(x[:, 0] ** 2) / 2, -np.inf),
        (1.0,),
        float(stats.norm.logsf(-1) + 0.5 * np.log(2 * np.pi)),
    ),
    "box": Case(lambda x: np.where(np.all(np.abs(x) < 1, axis=1), 0.0, -np.inf), (0.1, 0.2), np.log(4)),
    "half plane": Case(
        lambda x: np.where(x.sum(1) > -1, -(x**2).sum(1) / 2, -np.inf),
        (0.1, 0.2),
        float(np.log(2 * np.pi) + stats.norm.logsf(-1 / np.sqrt(2))),
    ),
    "three far modes": Case(mixture([0.3, 0.3, 0.4], [[0, 0, 0], [9, 9, 0], [-40, 5, 30]], [1, 0.5, 3]), (0, 0, 0)),
    "funnel 3": Case(funnel, (0, 0, 0)),
    "Cauchy 2": Case(lambda x: stats.cauchy.logpdf(x).sum(1), (1, 1)),
    "spike on a plain": Case(mixture([0.01, 0.99], [[0, 0], [0.3, 0]], [0.01, 3]), (0, 0)),
}
ANSWERED_THOUGH_HARD = ("jump beside the mode",)
REASON = r"^[a-z].{20,}[^.]$"
IMPROPER = {
    "constant": (lambda x: np.zeros(len(x)), 2),
    "exponential": (lambda x: x.sum(1), 2),
    "exponential to the left": (lambda x: -3 * x[:, 0], 1),
    "one direction is flat": (lambda x: -(x[:, 0] ** 2) / 2, 2),
    "a floor 60 nats below the mode": (lambda x: np.logaddexp(-(x**2).sum(1) / 2, -60), 1),
    "1/|x|": (lambda x: -0.5 * np.log1p(x[:, 0] ** 2), 1),
    "no mass anywhere": (lambda x: np.full(len(x), -np.inf), 2),
    "infinite": (lambda x: np.where(np.abs(x[:, 0]) < 0.2, np.inf, -(x[:, 0] ** 2)), 1),
    "nan where it matters": (lambda x: np.where(np.abs(x[:, 0] - 4) < 0.5, np.nan, -(x[:, 0] ** 2) / 2), 1),
}


def attempt(case: Case, **options: Any) -> Quadrature | None:
    """An answer within its own bound, or None after a refusal that says why."""
    try:
        result = integrate(case.log_density, np.array(case.start), **options)
    except NotIntegrable as refusal:
        assert re.search(REASON, str(refusal))
        return None
    assert abs(result.log_integral - case.truth) <= result.error
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERED)
def test_answers_within_the_stated_bound(name: str) -> None:
    result = attempt(ANSWERED[name], tolerance=1e-7)
    assert result is not None
    assert result.error <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", MAY_REFUSE)
def test_an_answer_if_any_is_within_the_stated_bound(name: str) -> None:
    budget = 150_000 if name in ANSWERED_THOUGH_HARD else 60_000
    result = attempt(MAY_REFUSE[name], tolerance=1e-6, acceptable=1e-3, budget=budget)
    assert result is not None or name not in ANSWERED_THOUGH_HARD


def test_no_hard_case_is_lost() -> None:
    assert len(MAY_REFUSE) >= 9
    assert set(ANSWERED_THOUGH_HARD) <= set(MAY_REFUSE)


@pytest.mark.parametrize("name", IMPROPER)
def test_refuses_what_has_no_integral(name: str) -> None:
    log_density, k = IMPROPER[name]
    with pytest.raises(NotIntegrable, match=REASON):
        integrate(log_density, np.full(k, 0.3), budget=100_000)


def test_a_mode_that_only_a_probe_finds() -> None:
    case = Case(mixture([0.5, 0.5], [[0, 0], [30, -20]], [1, 0.4]), (0, 0))
    result = integrate(case.log_density, np.zeros(2), probes=np.array([[29.5, -20.3]]), tolerance=1e-6)
    assert abs(result.log_integral) <= result.error


def test_the_budget_is_kept() -> None:
    count = 0

    def log_density(x: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(x)
        return -(x**2).sum(1) / 2

    result = integrate(log_density, np.zeros(2))
    assert result.evaluations == count < 10_000
    with pytest.raises(NotIntegrable, match="within 3000 evaluations"):
        integrate(log_density, np.zeros(3), budget=3000)


def test_a_lattice_is_given_up_once_those_of_the_other_variables_will_not_fit() -> None:
    count, shear = 0, np.array([[1.0, 0.8, 0.3], [0.0, 1.0, 0.6], [0.0, 0.0, 1.0]])

    def log_density(x: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(x)
        z = x @ shear
        return (0.5 * z - np.exp(z)).sum(1)

    with pytest.raises(NotIntegrable, match="within 190000 evaluations"):  # it takes 490,000
        integrate(log_density, np.zeros(3), tolerance=1e-6, budget=190_000)
    assert count < 120_000


def test_refuses_five_variables() -> None:
    with pytest.raises(NotIntegrable, match="one to four"):
        integrate(gaussian(5, 0), np.zeros(5))


def test_scale_and_shift_change_nothing() -> None:
    f = log_gamma(0.5, 2)
    matrix, shift = np.array([[1e-3, 0], [2e2, 1e3]]), np.array([5.0, -3e4])
    moved = integrate(lambda x: f(np.linalg.solve(matrix, (x - shift).T).T) + 700, shift, tolerance=1e-7)
    assert abs(moved.log_integral - 700 - np.linalg.slogdet(matrix)[1]) <= moved.error


@st.composite
def random_mixtures(draw: st.DrawFn) -> Case:
    k = draw(st.integers(1, 2))
    n = draw(st.integers(1, 3))
    numbers = st.floats(-8, 8)
    means = [[draw(numbers) for _ in range(k)] for _ in range(n)]
    sds = [draw(st.floats(0.3, 3)) for _ in range(n)]
    weights = np.array([draw(st.floats(0.05, 1)) for _ in range(n)])
    return Case(mixture(weights / weights.sum(), means, sds), tuple(means[0]))


@pytest.mark.slow
def test_random_mixtures_are_within_the_bound_or_refused() -> None:
    answered = []

    @settings(max_examples=15)
    @given(random_mixtures())
    def attempt_each(case: Case) -> None:
        answered.append(attempt(case, tolerance=1e-6, budget=100_000) is not None)

    attempt_each()
    assert sum(answered) >= 13


# --- marginals ---------------------------------------------------------------------------------------------------


def distribution(axis: AxisDensity, **transform: Any) -> GridDensity:
    return GridDensity(np.array(axis, dtype=object), **transform)


def quantiles_agree(axis: GridDensity, reference: Any, tolerance: float = 1e-5) -> None:
    q = np.array([1e-4, 0.025, 0.25, 0.5, 0.75, 0.975, 0.9999])
    expected = reference.ppf(q)
    sd = (reference.ppf(0.84) - reference.ppf(0.16)) / 2
    assert np.max(np.abs(axis.ppf(q) - expected)) <= tolerance * sd
    assert_allclose(axis.cdf(expected), q, atol=1e-6)
    assert_allclose(axis.sf(expected), 1 - q, atol=1e-6)
    assert_allclose(axis.pdf(expected), reference.pdf(expected), rtol=1e-4, atol=2e-6 * reference.pdf(expected).max())
    assert_allclose(axis.isf(1 - q), expected, atol=1e-5 * sd, rtol=1e-7)


def test_marginals_of_a_correlated_normal() -> None:
    covariance = np.array([[4.0, 1.8, -0.6], [1.8, 1.0, 0.1], [-0.6, 0.1, 0.9]])
    mean = np.array([1.0, -20.0, 300.0])
    result = integrate(stats.multivariate_normal(mean, covariance).logpdf, mean + 3, tolerance=1e-6)
    for j, axis in enumerate(map(distribution, result.marginals)):
        quantiles_agree(axis, stats.norm(mean[j], np.sqrt(covariance[j, j])))
        assert_allclose(axis.expect(lambda x: x), mean[j], atol=1e-6)


def test_marginals_of_skewed_variables() -> None:
    result = integrate(log_gamma(0.5, 2), np.zeros(2))
    quantiles_agree(distribution(result.marginals[0]), stats.loggamma(0.5))
    # The second is 0.7 times one log gamma variable plus another: its distribution by one-dimensional integrals.
    u = np.linspace(-80, 8, 2_001)  # of half as many the sum is the same to 1e-12
    for q in (0.025, 0.5, 0.975):
        x = float(distribution(result.marginals[1]).ppf(q))
        cdf = (stats.loggamma(0.5).pdf(u) * stats.loggamma(2).cdf(x - 0.7 * u)).sum() * (u[1] - u[0])
        assert abs(cdf - q) < 1e-6


def test_marginals_of_two_separate_modes() -> None:
    result = integrate(mixture([0.25, 0.75], [[0], [60]], [1, 2]), np.zeros(1))
    axis = grid(result)
    assert_allclose(axis.cdf([30.0, 60.0]), [0.25, 0.25 + 0.375], atol=1e-7)
    assert_allclose(axis.ppf([0.125, 0.625]), [0, 60], atol=1e-5)


def grid(result: Quadrature, **transform: Any) -> GridDensity:
    return distribution(result.marginals[0], **transform)


LOG = {"onto": OntoInterval(0.0)}


class Falling(OntoInterval):
    """The same backwards: it decreases."""

    def forward(self, y: np.ndarray) -> np.ndarray:
        return -super().forward(y)

    def backward(self, x: np.ndarray) -> np.ndarray:
        return super().backward(-x)


def test_a_positive_variable() -> None:
    shape = 2.5
    density = grid(integrate(log_gamma(shape), np.zeros(1)), **LOG)
    reference = stats.gamma(shape)
    y = np.array([0.01, 0.5, 2.0, 9.0])
    assert_allclose(density.pdf(y), reference.pdf(y), rtol=1e-5)
    assert_allclose(density.cdf(y), reference.cdf(y), rtol=1e-5)
    assert_allclose(density.sf(y), reference.sf(y), rtol=1e-5)
    for name in ("mean", "var", "std", "median"):
        assert_allclose(getattr(density, name)(), getattr(reference, name)(), rtol=1e-6)
    assert_allclose(density.interval(0.9), reference.interval(0.9), rtol=1e-5)
    assert density.pdf(-1.0) == density.cdf(-1.0) == 0.0
    assert density.sf(-1.0) == 1.0
    assert np.isnan(density.ppf(1.5)) and np.isnan(density.cdf(np.nan))
    assert density.ppf(0.0) == 0.0 and density.ppf(1.0) == np.inf
    assert np.ndim(density.mean()) == 0


def test_a_decreasing_transform_and_a_bounded_one() -> None:
    result = integrate(
        lambda x: stats.beta(2, 3).logpdf(expit(x[:, 0])) + np.log(expit(x[:, 0]) * expit(-x[:, 0])), np.zeros(1)
    )
    rising = grid(result, onto=OntoInterval(0.0, 1.0))
    falling = grid(result, onto=Falling(0.0, 1.0))
    y = np.array([0.05, 0.4, 0.9])
    for density, reference in ((rising, stats.beta(2, 3)), (falling, stats.beta(3, 2))):
        assert_allclose(density.pdf(y), reference.pdf(y), rtol=1e-5)
        assert_allclose(density.cdf(y), reference.cdf(y), rtol=1e-5)
        assert_allclose(density.ppf(y), reference.ppf(y), rtol=1e-5)
        assert_allclose([density.mean(), density.var()], [reference.mean(), reference.var()], rtol=1e-6)


def test_moments_that_do_not_exist() -> None:
    half = grid(integrate(half_cauchy, np.zeros(1)), **LOG)
    assert_allclose(half.median(), 1.0, rtol=1e-6)
    assert not np.isfinite(half.mean()) and not np.isfinite(half.var())
    cauchy = grid(integrate(lambda x: stats.cauchy.logpdf(x[:, 0]), np.ones(1)))
    assert not np.isfinite(cauchy.mean()) and not np.isfinite(cauchy.var())
    assert_allclose(cauchy.ppf([0.01, 0.3, 0.999]), stats.cauchy.ppf([0.01, 0.3, 0.999]), rtol=1e-5)


@pytest.mark.parametrize("df", [1.5, 2.0, 3.0, 6.0])
def test_moments_of_an_algebraic_tail(df: float) -> None:
    density = grid(integrate(lambda x: stats.t(df).logpdf(x[:, 0]), np.ones(1)))
    assert_allclose(density.mean(), 0, atol=1e-4)
    if df > 2:
        assert_allclose(density.var(), df / (df - 2), rtol=1e-4)
    else:
        assert not np.isfinite(density.var())


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.5, 4.0])
def test_moments_of_a_scale_with_a_power_tail(power: float) -> None:
    """1/gamma(power): moments of order below ``power`` exist."""
    density = grid(integrate(lambda x: -power * x[:, 0] - np.exp(-x[:, 0]), np.zeros(1)), **LOG)
    reference = stats.invgamma(power)
    if power > 1:
        assert_allclose(density.mean(), reference.mean(), rtol=1e-5)
    else:
        assert not np.isfinite(density.mean())
    if power > 2:
        assert_allclose(density.var(), reference.var(), rtol=1e-4)
    else:
        assert not np.isfinite(density.var())


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("share", [1e-7, 1e-9, 1e-10])
def test_moments_towards_an_end_of_the_support_need_no_tail(share: float, falling: bool) -> None:
    """A Gamma variable with a share from an Exponential one: nodes end on its shoulder, where no tail is to be seen."""
    main = stats.gamma(60, scale=1 / 60)
    x = np.linspace(-1.75, 0.65, 85)
    log_p = np.logaddexp(main.logpdf(np.exp(x)), np.log(share) - np.exp(x)) + x
    sign = -1.0 if falling else 1.0
    axis = np.empty((), object)
    axis[()] = AxisDensity((sign * x)[:: int(sign)], log_p[:: int(sign)])
    density = GridDensity(axis, (Falling if falling else OntoInterval)(0.0))
    assert_allclose(density.mean(), 1.0, rtol=1e-6)
    assert_allclose(density.var(), 1 / 60, rtol=1e-5)


def test_an_infinite_variance_is_infinite_and_not_nothing() -> None:
    cauchy = grid(integrate(lambda x: stats.cauchy.logpdf(x[:, 0]), np.ones(1)))
    assert cauchy.var() == np.inf
    heavy = MixtureDensity(np.array([0.5, 0.5]), stats.invgamma(np.array([[0.8, 3.0], [1.5, 4.0]])))
    assert heavy.var()[0] == heavy.mean()[0] == np.inf
    mean = (1 / 2 + 1 / 3) / 2
    assert_allclose(heavy.var()[1], (1 / 4 + 1 / 18) / 2 + ((1 / 2 - mean) ** 2 + (1 / 3 - mean) ** 2) / 2)


def test_an_array_of_densities_broadcasts_like_scipy() -> None:
    sds = np.array([0.5, 1.0, 4.0])
    t = np.linspace(-8, 8, 65)
    axes = np.empty(3, object)
    for i, sd in enumerate(sds):
        axes[i] = AxisDensity(t, -(t**2) / 2, scale=sd)
    density, reference = GridDensity(axes), stats.norm(0, sds)
    assert density.shape == (3,)
    assert_allclose(density.mean(), 0, atol=1e-12)
    assert_allclose(density.std(), sds, rtol=1e-9)
    for x in (0.3, np.array([[0.1], [2.0]]), np.array([1.0, 2.0, 3.0])):
        assert_allclose(density.cdf(x), reference.cdf(x), rtol=1e-9)
        assert_allclose(density.logpdf(x), reference.logpdf(x), rtol=1e-9)
        assert np.shape(density.pdf(x)) == np.shape(reference.pdf(x))
    assert np.shape(density.rvs(random_state=1)) == (3,)
    assert np.shape(density.rvs((5, 3), random_state=1)) == (5, 3)
    assert_allclose(density.ppf(1e-40), reference.ppf(1e-40), rtol=0.2)


# --- draws -------------------------------------------------------------------------------------------------------


def test_draws_have_the_right_distribution() -> None:
    result = integrate(log_gamma(0.5, 2), np.zeros(2), tolerance=1e-6)
    draws = result.draw(np.random.default_rng(7), 20_000)
    z = np.linalg.solve(SHEAR[:2, :2], draws.T)
    assert draws.shape == (20_000, 2)
    assert stats.kstest(z[0], stats.loggamma(0.5).cdf).pvalue > 1e-3
    assert stats.kstest(z[1], stats.loggamma(2).cdf).pvalue > 1e-3
    # Independent uniform variables: a chi-squared test on a 10 by 10 table.
    u = np.stack([stats.loggamma(0.5).cdf(z[0]), stats.loggamma(2).cdf(z[1])])
    table = np.histogram2d(*u, bins=10, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(table.ravel()).pvalue > 1e-3
    again = result.draw(np.random.default_rng(7), 20_000)
    assert np.array_equal(draws, again)


def test_draws_visit_both_modes() -> None:
    result = integrate(mixture([0.25, 0.75], [[0, 0], [20, 15]], [1, 1.5]), np.zeros(2), tolerance=1e-6)
    draws = result.draw(np.random.default_rng(3), 8000)
    share = np.mean(draws[:, 0] < 10)
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 8000)
    assert stats.kstest(draws[draws[:, 0] > 10, 0], stats.norm(20, 1.5).cdf).pvalue > 1e-3


def test_moments_on_a_bounded_support_are_numbers_whatever_the_tails() -> None:
    y = np.array([3.0, -3.1, 2.9, -2.8, 3.1])
    with pm.Model() as model:
        direction = pm.Uniform("direction", -2 * np.pi, 2 * np.pi)  # two modes, and mass up to both ends
        pm.VonMises("y", direction, 3.0, observed=y)
    marginal = bk.infer(model, draws=4, random_seed=1).marginal("direction")
    x = np.linspace(-2 * np.pi, 2 * np.pi, 200_001)
    weights = np.exp(3.0 * np.cos(x[:, None] - y).sum(axis=1))
    weights[[0, -1]] /= 2
    weights /= weights.sum()
    mean = weights @ x
    assert abs(marginal.mean() - mean) < 1e-7
    assert abs(marginal.std() - np.sqrt(weights @ (x - mean) ** 2)) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "width", "mean", "sd"),
    [
        (50_000.0, 1.0, lambda u: u, 0.5),
        (-1e5, 1.0, lambda u: u, 0.5),
        (30_000.0, 1.0, lambda u: u, 1.0),
        (1e6, 1.0, lambda u: u**2, 1.0),
        (1e8, 1.0, np.exp, 1.0),
        (1.6e9, 60.0, lambda u: (u - 20) / 5, 1.0),
    ],
)
def test_a_narrow_support_far_from_zero(low: float, width: float, mean: Callable[[Any], Any], sd: float) -> None:
    with pm.Model() as model:
        x = pm.Uniform("x", low, low + width)
        pm.Normal("y", mean(x - low), sd, observed=0.4)
    posterior = bk.infer(model, random_seed=1)
    at = np.linspace(0, width, 20_001)
    likelihood = stats.norm.pdf(0.4, mean(at), sd)
    mass = si.simpson(likelihood, x=at)
    expected = si.simpson(at * likelihood, x=at) / mass
    variance = si.simpson((at - expected) ** 2 * likelihood, x=at) / mass
    assert posterior.method == "quadrature"
    found = posterior.marginals["x"]
    assert_allclose(found.mean() - low, expected, rtol=0, atol=1e-8 * width + 32 * abs(np.spacing(low)))
    assert_allclose(found.std(), np.sqrt(variance), rtol=1e-6)
    assert_allclose(found.cdf(low + width / 2), si.simpson(likelihood[:10_001], x=at[:10_001]) / mass, atol=1e-6)
    draws = posterior.tree["posterior"]["x"].values
    assert low <= draws.min() and draws.max() <= low + width
    assert abs(draws.mean() - low - expected) < 5 * np.sqrt(variance / draws.size)
    assert abs(posterior.log_evidence.value - np.log(mass / width)) < posterior.log_evidence.error + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [4.0, 6.0])
def test_a_density_with_missing_values_far_out_is_refused_or_its_marginal_that_of_the_sum(beyond: float) -> None:
    def log_density(x: np.ndarray) -> np.ndarray:
        missing = (x[:, 0] < -beyond) & (np.sin(1e6 * x[:, 0]) > 0.5)
        return np.where(missing, -np.inf, stats.norm.logpdf(x[:, 0]))

    try:
        marginal = integrate(log_density, np.zeros(1)).marginals[0]
    except NotIntegrable:
        return
    assert_allclose([marginal.expect(lambda x: x), marginal.probability(0.0, 0)], [0, 0.5], atol=1e-5)
