"""Entries whose log densities are concave, told from their graphs: against SciPy's integrals of its own densities."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

from bayeskit.elimination.entrywise import with_plates
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.environment import lightly
from bayeskit.plates.conditional import PlateRecovery
from bayeskit.plates.entry_integral import FINE, Integrals
from bayeskit.plates.plate import Plate

RNG = np.random.default_rng(31)
GROUPS, ROWS = 4, 14
#: Not in order; the third has one row, the fourth none.
GROUP = np.r_[2, RNG.integers(2, size=ROWS - 1)]
X = RNG.normal(size=ROWS)
TRIALS = np.r_[1, 40, RNG.integers(0, 9, size=ROWS - 2)]
WINS = RNG.binomial(TRIALS, 0.3)
COUNTS = RNG.poisson(np.exp(1 + X))
TIMES = RNG.exponential(np.exp(X))

Terms = Callable[[np.ndarray, float], np.ndarray]  # of the linear predictor of rows and the parameter w


def plate_of(likelihood: Callable[[Any, Any], Any], prior: Callable[[Any], Any] | None = None) -> Plate:
    with pm.Model() as model:
        w, s = pm.Normal("w", 0, 2), pm.HalfNormal("s", 1)
        b = pm.Normal("b", 0.5, s, shape=GROUPS) if prior is None else prior(s)
        likelihood(b, w)
    with lightly():
        found = with_plates(analyse(model))
    assert found is not None
    return found.plates[0]


#: The likelihood in PyMC, and SciPy's log density of each row at one b for all of them.
LIKELIHOODS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray, float], np.ndarray]]] = {
    "yes or no": (
        lambda b, w: pm.Bernoulli("y", logit_p=b[GROUP] + w * X, observed=WINS > 0),
        lambda b, w: stats.bernoulli.logpmf(WINS > 0, special.expit(b + w * X)),
    ),
    "of a number": (
        lambda b, w: pm.Binomial("y", TRIALS, logit_p=w * X - b[GROUP], observed=WINS),
        lambda b, w: stats.binom.logpmf(WINS, TRIALS, special.expit(w * X - b)),
    ),
    "counts, some of nothing": (
        lambda b, w: pm.Poisson("y", np.where(X > 2, 0, TRIALS) * pt.exp(b[GROUP] + w), observed=WINS * (X <= 2)),
        lambda b, w: stats.poisson.logpmf(WINS * (X <= 2), np.where(X > 2, 0, TRIALS) * np.exp(b + w)),
    ),
    "counts that vary": (
        lambda b, w: pm.NegativeBinomial("y", mu=pt.exp(b[GROUP] + X), alpha=pt.exp(w), observed=COUNTS),
        lambda b, w: stats.nbinom.logpmf(COUNTS, np.exp(w), 1 / (1 + np.exp(b + X - w))),
    ),
    "slopes": (
        lambda b, w: pm.Poisson("y", pt.exp(X * b[GROUP] + w), observed=COUNTS),
        lambda b, w: stats.poisson.logpmf(COUNTS, np.exp(X * b + w)),
    ),
    "slopes that remain": (
        lambda b, w: pm.Bernoulli("y", logit_p=w * b[GROUP] + X, observed=WINS > 0),
        lambda b, w: stats.bernoulli.logpmf(WINS > 0, special.expit(w * b + X)),
    ),
    "waiting times": (
        lambda b, w: pm.Exponential("y", pt.exp(-b[GROUP]) * pt.exp(w), observed=TIMES),
        lambda b, w: stats.expon.logpdf(TIMES, scale=np.exp(b - w)),
    ),
    "waiting times with a shape": (
        lambda b, w: pm.Weibull("y", pt.exp(w), pt.exp(b[GROUP] + X), observed=TIMES),
        lambda b, w: stats.weibull_min.logpdf(TIMES, np.exp(w), scale=np.exp(b + X)),
    ),
    "sds": (
        lambda b, w: pm.Normal("y", w, pt.exp(b[GROUP]), observed=X),
        lambda b, w: stats.norm.logpdf(X, w, np.exp(b)),
    ),
    "gamma": (
        lambda b, w: pm.Gamma("y", alpha=2.0, beta=2.0 / pt.exp(b[GROUP] + w), observed=TIMES),
        lambda b, w: stats.gamma.logpdf(TIMES, 2.0, scale=np.exp(b + w) / 2.0),
    ),
}


@functools.cache
def plate_named(name: str) -> Plate:
    return plate_of(LIKELIHOODS[name][0])


#: w, and the sd of the entries.
GIVEN = [(0.4, 0.7), (-1.2, 3.0), (0.1, 0.02), (5.0, 1.0), (0.3, 40.0)]


def given_of(plate: Plate, w: Any, s: Any) -> list[np.ndarray]:
    return [np.asarray({"w": w, "s": s}[name], dtype=float) for name in plate.given]


def expected(log_density: Callable[[np.ndarray], np.ndarray], far: float, nodes: int = 5_001) -> float:
    """log ∫ exp by the trapezoid rule out to where nothing is left, from −far to far at most."""
    log_density = functools.partial(lambda of, b: np.nan_to_num(of(b), nan=-np.inf), log_density)
    low, high = -far, far
    for _ in range(30):  # grids about the highest point, each a third as wide as the one before
        grid = np.linspace(low, high, 61)
        mode = grid[np.argmax(log_density(grid))]
        low, high = mode - 10 * (grid[1] - grid[0]), mode + 10 * (grid[1] - grid[0])
    top, ends = log_density(np.array([mode]))[0], []
    for side in (-1.0, 1.0):
        beyond = mode + side * np.geomspace(1e-9 * far, far, 500)
        ends.append(beyond[np.argmax(log_density(beyond) < top - 50)])
    grid = np.linspace(*ends, nodes)
    return float(top + np.log(np.sum(np.exp(log_density(grid) - top)) * (grid[1] - grid[0])))


def is_concave(plate: Plate, given: list[np.ndarray]) -> bool:
    """Whether all entries are integrated as concave ones, for all φ."""
    start = plate.starts(given, len(given[0]))
    return sum(len(rows) for rows, _ in plate.concave(given, start)) == len(start)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_integrals_are_those_of_scipy(name: str) -> None:
    _, row_density = LIKELIHOODS[name]
    plate, (w, s) = plate_named(name), np.array(GIVEN).T
    given = given_of(plate, w, s)
    with lightly(), np.errstate(all="ignore"):
        assert is_concave(plate, given)
        found, again = plate.log_integrals(given, len(w)), pickle.loads(pickle.dumps(plate)).log_integrals(given, 5)
        np.testing.assert_array_equal(found, again)
        for n in range(len(w)):
            for g in range(GROUPS):

                def log_density(b: np.ndarray, n: int = n, g: int = g) -> np.ndarray:
                    rows = row_density(b[:, None], w[n])[:, g == GROUP]
                    return np.asarray(stats.norm.logpdf(b, 0.5, s[n]) + rows.sum(axis=1))

                assert found[n, g] == pytest.approx(expected(log_density, 100 * s[n] + 1), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_nodes_are_those_of_any_density(name: str) -> None:
    """Mode, lattice and shares: what is told of concave entries, and the rule that knows nothing of them."""
    plate = plate_named(name)
    given = given_of(plate, *np.array(GIVEN).T)
    of_any = replace(plate, terms=replace(plate.terms, concave=None))
    with lightly():
        found, right = plate.integrals(given, len(GIVEN)), of_any.integrals(given, len(GIVEN))
    # Of a shape of 148, of waiting times, there are none that any density is integrated by.
    known = np.isfinite(right.log_integral)
    assert known.mean() > 0.8 and np.all(known.any(axis=1) | (np.arange(len(GIVEN)) == 3))
    np.testing.assert_allclose(found.log_integral[known], right.log_integral[known], rtol=1e-9, atol=1e-8)
    for power in (1, 2):
        moments = [np.sum(i.shares * (i.places - right.mode[:, None]) ** power, axis=1) for i in (found, right)]
        scale = right.width**power
        np.testing.assert_allclose((moments[0] / scale)[known], (moments[1] / scale)[known], atol=1e-6)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["of a number", "slopes", "waiting times with a shape"])
def test_draws_have_the_density(name: str) -> None:
    """By Kolmogorov and Smirnov, against the distribution function of SciPy's density on a fine grid."""
    _, row_density = LIKELIHOODS[name]
    plate, number, w, s = plate_named(name), 4_000, 0.3, 1.5
    given = given_of(plate, np.full(number, w), np.full(number, s))
    grid = np.linspace(-12, 12, 4_001)
    with lightly(), np.errstate(all="ignore"):
        assert is_concave(plate, given)
        drawn = PlateRecovery(plate).draw(dict(zip(plate.given, given, strict=True)), number, RNG)
    for g in range(GROUPS):
        logs = stats.norm.logpdf(grid, 0.5, s) + row_density(grid[:, None], w)[:, g == GROUP].sum(axis=1)
        cdf = integrate.cumulative_simpson(np.exp(logs - logs.max()), x=grid, initial=0.0)
        assert stats.kstest(drawn[:, g], lambda b, cdf=cdf: np.interp(b, grid, cdf / cdf[-1])).pvalue > 1e-3


def test_copies_are_drawn_of_their_entries() -> None:
    """In whatever order they come."""
    plate, number = plate_named("of a number"), 2_000
    given = given_of(plate, np.full(number, 0.3), np.full(number, 1.5))
    copies = np.array([3, 0, 1, 0])
    with lightly():
        ((_, numbers),) = plate.concave(given, plate.starts(given, number))
        drawn = numbers.draw(plate.rule, copies, lambda shares: np.full_like(shares[:, 0], 1.5), RNG)
        right = plate.integrals(given[:1] and [g[:1] for g in given], 1)
    mean = np.sum(right.shares * right.places, axis=1)[0, copies]
    sd = np.sqrt(np.sum(right.shares * right.places**2, axis=1)[0, copies] - mean**2)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * sd / np.sqrt(number))
    assert len(np.unique(drawn)) == drawn.size


def test_entries_without_an_integral_are_not_drawn() -> None:
    """Of a rule that no lattice satisfies."""
    plate = plate_named("of a number")
    given = given_of(plate, *np.array(GIVEN).T)
    with lightly():
        ((_, numbers),) = plate.concave(given, plate.starts(given, len(GIVEN)))
        drawn = numbers.draw(replace(FINE, agreed=-1.0), np.arange(GROUPS), lambda s: np.ones_like(s[:, 0]), RNG)
    assert np.isnan(drawn).all()


def test_what_is_integrated_again_has_no_shares_left_of_before() -> None:
    """A lattice of seven nodes, and then one of three for the same φ."""
    flat = [np.full((1, 2), v) for v in (0.0, 0.0, 1.0, 0.5, -1.0)]
    parts = [Integrals(flat[0], *(np.full((1, k, 2), 1 / k) for _ in range(2)), *flat[1:]) for k in (7, 3)]
    both = Integrals.joined([(np.array([0]), part) for part in parts], 1, 2)
    np.testing.assert_allclose(both.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(both.places, 1 / 3)


@pytest.mark.parametrize(("count", "sd"), [(10_000, 100.0), (0, 100.0), (10_000_000, 2.0), (3, 1e-5)])
def test_a_mode_far_from_the_prior_is_found(count: int, sd: float) -> None:
    """Where Newton's steps lead beyond it by hundreds, and come back by one at a time."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        b = pm.Normal("b", 0, s, shape=5)
        pm.Poisson("y", pt.exp(b), observed=np.full(5, count))
    with lightly():
        found = with_plates(analyse(model))
        assert found is not None
        value = found.plates[0].log_integrals([np.array([sd])], 1)[0]
        assert is_concave(found.plates[0], [np.array([sd])])

    def log_density(b: np.ndarray) -> np.ndarray:
        return np.asarray(
            stats.norm.logpdf(b, 0, sd) + count * b - np.exp(np.minimum(b, 600.0)) - special.gammaln(count + 1)
        )

    np.testing.assert_allclose(value, expected(log_density, 100 * sd, 40_001), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [160.0, -160.0, 1e4])
def test_rows_beyond_what_products_are_of(offset: float) -> None:
    plate = plate_of(lambda b, w: pm.Bernoulli("y", logit_p=b[GROUP] + w * (GROUP + 1), observed=WINS > 0))
    given = given_of(plate, [offset], [2.0])
    with lightly():
        assert is_concave(plate, given)
        found = plate.log_integrals(given, 1)[0]
    for g in range(GROUPS):
        wins, losses = (np.sum((WINS > 0)[g == GROUP] == k) for k in (1, 0))

        def log_density(b: np.ndarray, g: int = g, wins: Any = wins, losses: Any = losses) -> np.ndarray:
            logit = b + offset * (g + 1)
            rows = wins * special.log_expit(logit) + losses * special.log_expit(-logit)
            return np.asarray(stats.norm.logpdf(b, 0.5, 2.0) + rows)

        assert found[g] == pytest.approx(expected(log_density, 300.0), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("sd", [1.0, 1e-3, 1e-4, 1e-6])
def test_measurements_a_thousand_of_their_sds_from_the_prior(sd: float) -> None:
    """About the prior's mean the quadratic is rounded to the cube of how far they are: it is read where the mode is."""
    measured, answers = np.array([5.0, 100.0, -3.0, 0.2]), np.array([1, 0, 1, 1])

    def likelihood(b: Any, w: Any) -> None:
        pm.Normal("q", b, sd, observed=measured)
        pm.Bernoulli("z", logit_p=b + w, observed=answers)

    plate = plate_of(likelihood, lambda s: pm.Normal("b", 0, 100 * s, shape=GROUPS))
    given = given_of(plate, [0.3], [1.0])
    with lightly():
        assert is_concave(plate, given)
        found = plate.log_integrals(given, 1)[0]
        draws = PlateRecovery(plate).draw(dict(zip(plate.given, given, strict=True)), 1, RNG)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for g in range(GROUPS):  # the product of both Normals, and the answer under it
        mean, deviation = measured[g] / (1 + (sd / 100) ** 2), sd / np.sqrt(1 + (sd / 100) ** 2)
        answer = special.expit((2 * answers[g] - 1) * (mean + deviation * nodes + 0.3))
        right = stats.norm.logpdf(measured[g], 0, np.hypot(100, sd)) + np.log(answer @ weights / np.sqrt(2 * np.pi))
        assert found[g] == pytest.approx(right, rel=1e-7)
    np.testing.assert_allclose(draws.ravel(), measured, rtol=0, atol=7 * sd)


@pytest.mark.parametrize(("trials", "wins", "sd"), [(1_000, 1_000, 2e8), (10**6, 10**6, 1e6), (10**6, 0, 2e4)])
def test_priors_beside_which_rows_are_rounded(trials: int, wins: int, sd: float) -> None:
    """About half of the prior, one side of which says the answers for sure; or no number, of what is all but a step."""
    plate = plate_of(
        lambda b, w: pm.Binomial("y", trials, logit_p=b + w, observed=np.full(GROUPS, wins)),
        lambda s: pm.Normal("b", 0.5, s, shape=GROUPS),
    )
    with lightly():
        found = plate.log_integrals(given_of(plate, [5.0], [sd]), 1)[0]
    # Where rows change from one to nothing, over a handful of b, the prior is flat.
    edge = -5.0 + (np.log(trials) if wins else -np.log(trials))
    right = stats.norm.logsf((edge - 0.5) / sd) if wins else stats.norm.logcdf((edge - 0.5) / sd)
    assert np.all(np.isnan(found) | (np.abs(found - right) < 1e-6 + 4 / sd))


SDS = np.array([0.4, 1.0, 2.7, 7.4, 20.0, 55.0, 400.0, 3e3, 2e4, 1.6e5, 1e7, 1e11, 1e15])


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["counts of zero", "all no"])
@pytest.mark.parametrize("mean", [-30.0, -8.0, -2.0, 0.0, 3.0, 12.0])
def test_wide_priors_that_rows_cut_off(rows: str, mean: float) -> None:
    """By parts, ∫ N(b) S(b) db = ∫ Φ((b − mean) / sd) (−S′(b)) db, of which −S′ is as wide as one whatever the sd."""
    plate = plate_of(
        lambda b, w: (
            pm.Poisson("y", pt.exp(b), observed=np.zeros(GROUPS, int))
            if rows == "counts of zero"
            else pm.Bernoulli("y", logit_p=b, observed=np.zeros(GROUPS, int))
        ),
        lambda s: pm.Normal("b", mean, s, shape=GROUPS),
    )
    with lightly():
        found = plate.log_integrals([SDS], len(SDS))
    b, step = np.linspace(-700.0, 700.0 if rows == "all no" else 6.0, 700_001, retstep=True)
    slope = special.log_expit(b) + special.log_expit(-b) if rows == "all no" else b - np.exp(b)
    for sd, values in zip(SDS, found, strict=True):
        right = special.logsumexp(special.log_ndtr((b - mean) / sd) + slope) + np.log(step)
        np.testing.assert_allclose(values, right, rtol=0, atol=1e-9)


#: The sd of the prior, and of each row its slope, offset and answer: the row that bends most is not the nearest.
STEEP = [
    (100.0, [(-0.029, -0.25, 0), (-17.8, -2.4, 0), (-0.081, 13.1, 0)]),
    (100.0, [(1.34, -15.8, 1), (957.0, -8.2, 1), (0.22, 0.25, 0)]),
    (20.0, [(1.09, 15.9, 0), (47.1, 6.64, 0), (-0.014, 0.25, 1)]),
    (20.0, [(-0.83, -16.0, 1), (4.0, -0.95, 0)]),
]


@pytest.mark.parametrize(("sd", "rows"), STEEP)
def test_slopes_of_very_different_sizes(sd: float, rows: list[tuple[float, float, int]]) -> None:
    x, offset, answer = np.array(rows).T
    group = np.repeat(np.arange(GROUPS), len(x))

    def likelihood(b: Any, w: Any) -> None:
        logit = np.tile(x, GROUPS) * b[group] + np.tile(offset, GROUPS)
        pm.Bernoulli("y", logit_p=logit, observed=np.tile(answer, GROUPS).astype(int))

    plate = plate_of(likelihood, lambda s: pm.Normal("b", 0.5, s, shape=GROUPS))
    with lightly():
        found = plate.log_integrals([np.array([sd])], 1)[0]

    def density(b: float) -> float:
        rows = special.log_expit((2 * answer - 1) * (x * b + offset)).sum()
        return float(np.exp(stats.norm.logpdf(b, 0.5, sd) + rows))

    bends = (-offset / x)[:, None] + np.array([-60, -20, -6, -2, 0, 2, 6, 20, 60]) / np.abs(x)[:, None]
    ends = np.unique(np.clip(np.r_[bends.ravel(), np.linspace(-12, 12, 25) * sd], -12 * sd, 12 * sd))
    parts = [integrate.quad(density, *pair, epsabs=0, epsrel=1e-12)[0] for pair in itertools.pairwise(ends)]
    np.testing.assert_allclose(found, np.log(np.sum(parts)), rtol=0, atol=1e-9)


def test_a_power_of_nothing_is_nothing() -> None:
    """A choice by whether (c exp b)² is zero, where c is for some rows."""
    c = np.where(X > 0, 0.0, 1.0)

    def likelihood(b: Any, w: Any) -> None:
        rows = b[GROUP]
        of_one = pt.switch(pt.eq((c * pt.exp(rows)) ** 2, 0.0), -pt.softplus(rows), -pt.exp(rows * w))
        of_other = pt.switch(pt.eq((c * pt.exp(rows)) ** w, 0.0), -pt.softplus(rows), 0.0)
        pm.Potential("p", of_one + of_other)

    plate, (w, s) = plate_of(likelihood), np.array(GIVEN[:1]).T
    with lightly():
        found = plate.log_integrals(given_of(plate, w, s), 1)[0]
    for g in range(GROUPS):

        def log_density(b: np.ndarray, g: int = g) -> np.ndarray:
            rows = np.where(c == 0, -2 * np.logaddexp(0, b[:, None]), -np.exp(b[:, None] * w))
            return np.asarray(stats.norm.logpdf(b, 0.5, s) + rows[:, g == GROUP].sum(axis=1))

        assert found[g] == pytest.approx(expected(log_density, 50.0), rel=1e-8)


NEAR_MISSES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any] | None]] = {
    "a prior that is not Normal": (
        lambda b, w: pm.Poisson("y", pt.exp(b[GROUP] + w), observed=COUNTS),
        lambda s: pm.StudentT("b", nu=4, mu=0, sigma=s, shape=GROUPS),
    ),
    "bent": (lambda b, w: pm.Poisson("y", pt.exp(b[GROUP] + w + 1e-9 * b[GROUP] ** 3), observed=COUNTS), None),
    "of a square": (lambda b, w: pm.Bernoulli("y", logit_p=w - b[GROUP] ** 2, observed=WINS > 0), None),
    "a choice by the entry": (
        lambda b, w: pm.Poisson("y", pt.exp(pt.switch(b[GROUP] > 0.2, 1.0, 2.0) * b[GROUP] + w), observed=COUNTS),
        None,
    ),
    "probits": (lambda b, w: pm.Bernoulli("y", p=pm.math.invprobit(b[GROUP] + w), observed=WINS > 0), None),
    "a sum of two": (lambda b, w: pm.Poisson("y", pt.exp(b[GROUP]) + pt.exp(w), observed=COUNTS), None),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_others_are_not_told(name: str) -> None:
    plate = plate_of(*NEAR_MISSES[name])
    assert plate.terms.concave is None


def test_what_is_not_concave_is_left_to_the_rule_of_any_density() -> None:
    """log(1 + exp b) added, and not taken off: convex."""

    def likelihood(b: Any, w: Any) -> None:
        pm.Normal("y", w, 1, observed=0.3)
        pm.Potential("more", 3 * pt.softplus(2 * b))

    plate = plate_of(likelihood)
    given = [np.array([0.7]) for _ in plate.given]
    with lightly():
        assert plate.terms.concave is not None and not is_concave(plate, given)
        found = plate.log_integrals(given, 1)[0]
    right = expected(lambda b: np.asarray(stats.norm.logpdf(b, 0.5, 0.7) + 3 * np.logaddexp(0, 2 * b)), 50.0)
    np.testing.assert_allclose(found, right, rtol=1e-9)


def test_impossible_rows_leave_nothing() -> None:
    plate = plate_of(
        lambda b, w: pm.Binomial("y", TRIALS, logit_p=b[GROUP] + w, observed=np.where(X[3] == X, 99, WINS))
    )
    given = given_of(plate, [0.1], [1.0])
    with lightly():
        found = plate.log_integrals(given, 1)[0]
    np.testing.assert_array_equal(np.isfinite(found), np.arange(GROUPS) != GROUP[3])
