"""Densities of many modes of very different widths: none is lost without a word, and on the line few are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import cauchy, gamma, gumbel_r, norm

from bayeskit.quadrature.axis_density import AxisDensity
from bayeskit.quadrature.counted_density import CountedDensity
from bayeskit.quadrature.grid_distribution import GridDensity
from bayeskit.quadrature.integrate import NotIntegrable, integrate
from bayeskit.quadrature.many_scales import ManyScales
from bayeskit.quadrature.mode_search import STALE, survey

Posterior = tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, np.ndarray, float]  # and start, probes, log integral
POSTERIORS = 10  # of each kind


def normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> np.ndarray:
    """log Normal(x; mean, sd), evaluated millions of times: SciPy's takes five times as long."""
    with np.errstate(over="ignore"):
        return np.asarray(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def log_sum(terms: Any, axis: int = -1, b: Any = 1.0) -> Any:
    """log Σ b exp(terms), as :func:`scipy.special.logsumexp` has it."""
    top = np.maximum(np.max(terms, axis=axis, keepdims=True), np.finfo(float).min)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(b * np.exp(terms - top), axis=axis)) + np.squeeze(top, axis)


def mixture(rng: np.random.Generator, k: int) -> Posterior:
    """A mixture as prior, one to twelve components of widths 1e-4 to 10, and a normal likelihood."""
    n = int(rng.integers(1, 13))
    means, sds = rng.uniform(-20, 20, (n, k)), 10.0 ** rng.uniform(-4, 1, (n, k))
    if k > 1:
        sds = np.clip(sds, 0.3, 2.0)
    weights, noise = rng.dirichlet(np.ones(n)), 10.0 ** rng.uniform(-1, 2)
    y = means[rng.integers(n)] + noise * rng.normal(size=k)

    def log_density(x: np.ndarray) -> np.ndarray:
        prior = log_sum(normal(x[:, None], means, sds).sum(axis=-1), axis=1, b=weights)
        return prior + normal(y, x, noise).sum(axis=1)

    truth = log_sum(normal(y, means, np.hypot(sds, noise)).sum(axis=1), b=weights)
    chosen = rng.choice(n, 1000, p=weights)
    return log_density, weights @ means, np.concatenate([rng.normal(means[chosen], sds[chosen]), means]), float(truth)


def sinusoid(rng: np.random.Generator, k: int) -> Posterior:
    """A datum that is the sine of the variable, with a small error; a second variable is added to it."""
    rate, sd, y = rng.uniform(0.5, 4 if k > 1 else 8), 10.0 ** rng.uniform(-3 / k, 0), rng.uniform(-1.05, 1.05)

    def log_density(x: np.ndarray) -> np.ndarray:
        mean = np.sin(rate * x[:, 0]) + 0.3 * x[:, 1:].sum(axis=1)
        return normal(x).sum(axis=1) + normal(y, mean, sd)

    points = np.arange(-9_000_000, 9_000_001, 50 if k == 1 else 500) / 1e6
    log_f = normal(points) + normal(y, np.sin(rate * points), np.hypot(sd, 0.3 * (k - 1)))
    truth = log_sum(log_f) + np.log(points[1] - points[0])
    return log_density, np.zeros(k), rng.normal(size=(200, k)), float(truth)


def outliers(rng: np.random.Generator, k: int) -> Posterior:
    """Data that may each be an outlier: a needle of the likelihood at every datum, which no draw of the prior hits."""
    y, sd, prior = rng.uniform(-20, 20, 3), 10.0 ** rng.uniform(-4, 0), 10.0 ** rng.uniform(0, 1.5)

    def log_density(x: np.ndarray) -> np.ndarray:
        each = np.logaddexp(normal(y, x, sd) + np.log(0.9), normal(y, 0, 10) + np.log(0.1))
        return normal(x[:, 0], 0, prior) + each.sum(axis=1)

    terms = []
    for good in np.ndindex(2, 2, 2):
        at, precision = y[np.array(good) == 1], sum(good) / sd**2 + prior**-2
        mean = at.sum() / sd**2 / precision
        bad = np.sum(normal(y[np.array(good) == 0], 0, 10) + np.log(0.1))
        height = normal(mean, 0, prior) + np.sum(normal(at, mean, sd) + np.log(0.9)) + bad
        terms.append(height + np.log(2 * np.pi / precision) / 2)
    return log_density, np.zeros(1), np.append(prior * rng.normal(size=200), y)[:, None], float(log_sum(terms))


def attempts(kind: Callable[[np.random.Generator, int], Posterior], k: int, number: int) -> int:
    """How many are answered, each within its stated error."""
    answered = 0
    for seed in range(number):
        log_density, start, probes, truth = kind(np.random.default_rng([20261122, seed]), k)
        try:
            result = integrate(log_density, start, probes=probes, tolerance=1e-8 if k == 1 else 1e-6, budget=300_000)
        except NotIntegrable:
            continue
        # The sum over a grid that some are held against is good to 1e-9.
        assert abs(result.log_integral - truth) <= result.error + 1e-9, (kind.__name__, seed)
        answered += 1
    return answered


@pytest.mark.slow
@pytest.mark.parametrize("kind", [mixture, sinusoid, outliers])
def test_every_mode_on_the_line_is_integrated(kind: Callable[[np.random.Generator, int], Posterior]) -> None:
    assert attempts(kind, 1, POSTERIORS) == POSTERIORS


@pytest.mark.slow
@pytest.mark.parametrize("kind", [mixture, sinusoid])
def test_answers_in_two_variables_are_within_their_error(
    kind: Callable[[np.random.Generator, int], Posterior],
) -> None:
    assert attempts(kind, 2, 2) >= 1


def test_two_modes_in_one_basin_are_both_found() -> None:
    for gap in (1e-3, 1e-2, 0.3):
        # Modes at ±gap: the valley between them is a nat deep.
        result = integrate(lambda x, gap=gap: -((x[:, 0] ** 2 / gap**2 - 1) ** 2), np.array([0.123]))
        # ∫ exp(−(u² − 1)²) du, by the trapezoidal rule.
        u = np.arange(-8, 8, 1e-3)
        assert abs(result.log_integral - np.log(np.exp(-((u**2 - 1) ** 2)).sum() * 1e-3 * gap)) <= result.error + 1e-12
        assert len(result.modes) == 2


def test_draws_and_moments_of_many_scales() -> None:
    weights, means, sds = np.array([0.3, 0.1, 0.6]), np.array([-7.0, 0.2, 5.0]), np.array([1e-4, 2e-2, 3.0])
    result = integrate(
        lambda x: log_sum(normal(x, means, sds), axis=1, b=weights), np.array([4.0]), probes=means[:, None]
    )
    axis = result.marginals[0]
    assert abs(result.log_integral) <= result.error
    np.testing.assert_allclose(
        axis.probability(np.array([-7.0, 0.2]), 0),
        weights @ norm.cdf([[-7.0, 0.2]], means[:, None], sds[:, None]),
        atol=1e-9,
    )
    assert axis.expect(lambda x: x) == pytest.approx(weights @ means, abs=1e-8)
    draws = result.draw(np.random.default_rng(1), 20_000)[:, 0]
    assert abs(np.mean(np.abs(draws + 7) < 1e-3) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 20_000)


def test_moments_where_the_grid_would_end_on_the_shoulder_of_a_narrow_mode() -> None:
    y = np.array([-10.33, -15.82, -10.64, 8.17, -13.33, -10.06])

    def log_density(x: np.ndarray) -> np.ndarray:
        return normal(x[:, 0], 0, 21) + cauchy.logpdf(y, x, 0.005).sum(axis=1)

    axis = integrate(log_density, np.zeros(1), probes=y[:, None]).marginals[0]
    # A component about each datum, and what lies between: the trapezoidal rule on equal steps of a fifth of a width.
    x = np.arange(-40_000, 40_001)[:, None] / 1000.0
    p = np.exp(log_density(x) - log_density(x).max())
    assert axis.expect(lambda x: x) == pytest.approx(p @ x[:, 0] / p.sum(), abs=1e-6)
    assert np.isfinite(axis.expect(np.square))


def test_a_mean_where_the_nodes_end_next_to_zero() -> None:
    """Beyond −0.001 the value itself grows faster than the density falls, for a little while."""

    def axis(mean: float) -> AxisDensity:
        return integrate(lambda x: normal(x[:, 0], mean, 0.3), np.array([mean])).marginals[0]

    mean = -1e-3 - float(axis(0.0).position(axis(0.0).t[0]))
    assert -2e-3 < axis(mean).position(axis(mean).t[0]) < 0
    marginal = GridDensity(np.array(axis(mean), dtype=object))
    assert marginal.mean() == pytest.approx(mean, abs=1e-9) and marginal.std() == pytest.approx(0.3, abs=1e-8)


def test_a_narrow_mode_far_below_which_there_is_a_wide_one_falls_off() -> None:
    """The other mode begins 1e5 widths of the first away."""
    weights, means, sds = np.array([1.0, 1e-6]), np.array([0.0, 11.0]), np.array([1e-4, 2.0])
    result = integrate(lambda x: log_sum(normal(x, means, sds), axis=1, b=weights), np.zeros(1), probes=means[:, None])
    assert abs(result.log_integral - np.log1p(1e-6)) <= result.error < 1e-8


@pytest.mark.slow
def test_rounding_of_the_density_is_in_the_error() -> None:
    """The terms of this log density are a few 1e9, which are good to 2e-7."""
    result = integrate(lambda x: gamma.logpdf(x[:, 0], 1e8), np.array([1e8]))
    assert 1e-10 < abs(result.log_integral) <= result.error < 1e-5


@pytest.mark.parametrize("roots", [(1.0, 2.0, 40.0), (-3.0, 0.4, 90.0)])
def test_a_needle_between_two_points_of_the_grid_is_seen_from_their_slopes(roots: tuple[float, ...]) -> None:
    """A datum that is a polynomial of the variable: its far root is so narrow that points beside it are 1e9 lower."""
    sd, polynomial = 1e-4, np.polynomial.Polynomial.fromroots(roots)
    result = integrate(
        lambda x: normal(x[:, 0], 0, 30) + normal(0, polynomial(x[:, 0]), sd),
        np.array([roots[0]]),
        probes=np.linspace(-100, 100, 51)[:, None],
    )
    # By Laplace's formula, each root by itself: the next term is smaller than (sd / p' / distance)².
    truth = log_sum(normal(np.array(roots), 0, 30) - np.log(np.abs(polynomial.deriv()(np.array(roots)))))
    assert len(result.modes) == 3
    assert result.log_integral == pytest.approx(truth, abs=1e-6)


def test_a_start_in_a_tail_too_steep_to_climb() -> None:
    """At 0 the Gumbel density is e^(−1e66)."""
    result = integrate(
        lambda x: gumbel_r.logpdf(x[:, 0], 7.6, 0.05), np.zeros(1), probes=np.array([[1.0], [7.0], [8.2]])
    )
    assert abs(result.log_integral) <= result.error


def test_the_widest_gap_on_the_line_is_said() -> None:
    probes = np.random.default_rng(1).normal(size=(100, 1))
    result = integrate(lambda x: normal(x[:, 0]), np.zeros(1), probes=probes)
    assert 0 < result.unseen <= np.ptp(probes) / 200
    assert len(result.modes) == 1


def test_a_density_that_rounding_makes_infinite_far_out_is_not_one_with_a_pole() -> None:
    """As where a small sd is the difference of squares of large ones; a pole rises on the way to it."""
    far = CountedDensity(lambda x: np.where(np.abs(x[:, 0]) > 1e3, np.inf, -(x[:, 0] ** 2)), 1000)
    values = far(np.array([[0.1], [900.0]]))
    assert np.array_equal(values, [-(0.1**2), -(900.0**2)])
    assert far(np.array([[1e4], [-7e5], [0.0]])).tolist() == [-np.inf, -np.inf, 0.0]
    pole = CountedDensity(lambda x: -0.5 * np.log(np.abs(x[:, 0] - 3.0)), 1000)
    pole(np.zeros((1, 1)))
    with np.errstate(divide="ignore"), pytest.raises(NotIntegrable, match=r"infinite at \(3\)"):
        pole(np.full((1, 1), 3.0))


def test_many_scales_are_inverted_to_rounding() -> None:
    scales = ManyScales(np.array([-30.0, 0.0, 0.01, 2.0, 1e4]), np.array([1e-4, 1.0, 1e-6, 3.0, 10.0]))
    t = np.linspace(-150, 150, 4001)
    z = scales.forward(t)
    assert np.all(np.diff(z) > 0)
    # To the rounding of z next to the narrowest.
    np.testing.assert_allclose(scales.backward(z), t, atol=1e-9)
    step = 1e-4
    numeric = np.log((scales.forward(t + step) - scales.forward(t - step)) / (2 * step))
    np.testing.assert_allclose(scales.log_slope(t), numeric, atol=1e-5)


def test_a_search_that_breaks_off_is_refused() -> None:
    means = 10.0 * np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2)

    def log_density(x: np.ndarray) -> np.ndarray:
        return log_sum(normal(x[:, None], means, 1.0).sum(axis=-1), axis=1)

    with pytest.raises(NotIntegrable, match="modes"):
        integrate(log_density, means[0], probes=means)


def test_climbs_end_when_they_find_nothing_new() -> None:
    centres = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0], [12.0, 12.0], [30.0, -5.0], [-20.0, 3.0], [5.0, 40.0]])
    centres = np.concatenate([centres, centres + 60])  # more of them than climbs that may fail

    def log_density(x: np.ndarray) -> np.ndarray:
        return log_sum(normal(x[:, None], centres, 1.0).sum(axis=-1), axis=1)

    assert len(centres) > STALE
    land = survey(CountedDensity(log_density, 10**6), np.zeros(2), centres + 0.5, 20.0, np.random.default_rng(1))
    assert len(land.modes) == len(centres)


def test_a_refusal_hands_on_the_modes_that_it_knows() -> None:
    means, sds = np.array([[19.0] * 3, [20.0] * 3]), np.array([[1e-3] * 3, [5.0] * 3])

    def log_density(x: np.ndarray) -> np.ndarray:
        return log_sum(normal(x[:, None], means, sds).sum(axis=-1), axis=1)

    with pytest.raises(NotIntegrable) as refusal:
        integrate(log_density, means[1], probes=means, budget=100_000)
    assert refusal.value.modes is not None
    np.testing.assert_allclose(np.sort(refusal.value.modes, axis=0), means, atol=1e-2)


@pytest.mark.slow
def test_narrow_modes_that_hold_little_are_found_by_the_probes_in_them() -> None:
    """Nine narrow modes far apart; the highest probes and the first ones all lie in some of them."""
    rng = np.random.default_rng(8)
    centres, share = rng.uniform(-20, 20, (9, 2)), np.array([0.3, 0.25, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01])
    sd = np.linspace(0.012, 0.03, 9)  # the less it holds, the wider and lower it is
    which = rng.choice(9, size=1_000, p=share)
    probes = centres[which] + sd[which, None] * rng.standard_normal((1_000, 2))

    def log_density(x: np.ndarray) -> np.ndarray:
        squares = np.sum((x[:, None] - centres) ** 2, axis=-1) / sd**2
        return log_sum(-squares / 2 - np.log(2 * np.pi * sd**2), axis=1, b=share)

    answer = integrate(log_density, centres[0], probes=probes, tolerance=1e-8)
    assert abs(answer.log_integral) < answer.error < 1e-6
    assert len(answer.modes) == 9
