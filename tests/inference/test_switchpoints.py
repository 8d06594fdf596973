"""Counts whose rate changes once or twice, in every way of writing it: one plan, one evidence, as enumerated by SciPy.

Given when it changes, each rate has a Gamma posterior; what is left is a table with a row for each time, or pair.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import ImputationWarning
from scipy import special, stats

import bayeskit as bk
from bayeskit.model.support import support_without_transform

YEARS = 111
T = np.arange(YEARS)
COUNTS = np.random.default_rng(0).poisson(np.where(T < 40, 3.0, 1.0))
MISSING = (17, 83)

type Rate = Callable[[Any, Any, Any], Any]


def log_evidence_of(counts: np.ndarray, rate: float = 1.0) -> float:
    """log p(y) of counts of one Poisson mean with an Exponential prior, in closed form; NaN are not there."""
    y = counts[np.isfinite(counts)]
    total, number = y.sum(), len(y)
    return float(
        math.log(rate)
        - special.gammaln(y + 1).sum()
        + special.gammaln(1 + total)
        - (1 + total) * math.log(rate + number)
    )


def enumerated(counts: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The log evidence, p(tau | y), and the means of both rates, by every year in which the rate may change."""
    parts = [(counts[: k + 1], counts[k + 1 :]) for k in range(YEARS)]
    logs = np.array([log_evidence_of(a) + log_evidence_of(b) for a, b in parts]) - math.log(YEARS)
    value = special.logsumexp(logs)
    given = [[(1 + np.nansum(y)) / (1 + np.isfinite(y).sum()) for y in pair] for pair in parts]
    share = np.exp(logs - value)
    return float(value), share, share @ np.array(given)


def by_mask(tau: Any, a: Any, b: Any) -> Any:
    rates = pt.stack([a, b])
    later = pt.gt(T, tau)
    return rates[later.astype("int64")]


WRITINGS: dict[str, Rate] = {
    "switch": lambda tau, a, b: pm.math.switch(tau >= T, a, b),
    "switch, the other way": lambda tau, a, b: pm.math.switch(tau < T, b, a),
    "stack": by_mask,
    "where": lambda tau, a, b: pt.where(pt.le(T, tau), a, b),
}


def coal(writing: Rate, counts: Any = COUNTS) -> pm.Model:
    with pm.Model() as model:
        tau = pm.DiscreteUniform("tau", 0, YEARS - 1)
        a, b = pm.Exponential("a", 1.0), pm.Exponential("b", 1.0)
        pm.Poisson("y", writing(tau, a, b), observed=counts)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("writing", WRITINGS.values(), ids=WRITINGS)
def test_every_writing_has_one_plan_and_one_evidence(writing: Rate) -> None:
    post = bk.infer(coal(writing), draws=400, random_seed=1)
    steps = [(s.variables, s.family, s.given) for s in post.plan.eliminated]
    assert steps == [(("b",), "gamma", ("tau",)), (("a",), "gamma", ("tau",)), (("tau",), "categorical", ())]
    assert post.plan.eliminated[-1].note == "a table of 111 hypotheses"
    value, share, means = enumerated(COUNTS.astype(float))
    assert post.log_evidence.label == "exact"
    assert post.log_evidence.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(post.marginal("tau").pmf(T), share, atol=1e-10)
    assert [float(post.marginal(n).mean()) for n in "ab"] == pytest.approx(list(means), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("index", ["integers", "booleans"])
def test_a_vector_of_rates_is_the_same_model(index: str) -> None:
    with pm.Model() as model:
        tau = pm.DiscreteUniform("tau", 0, YEARS - 1)
        rate = pm.Exponential("rate", 1.0, shape=2)
        later = pt.gt(T, tau)
        mean = rate[later.astype("int64")] if index == "integers" else rate[(tau < T) * 1]
        pm.Poisson("y", mean, observed=COUNTS)
    post = bk.infer(model, draws=400, random_seed=1)
    assert [(s.variables, s.family) for s in post.plan.eliminated] == [(("rate",), "gamma"), (("tau",), "categorical")]
    value, _, means = enumerated(COUNTS.astype(float))
    assert post.log_evidence.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(post.marginal("rate").mean(), means, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("writing", ["switch", "stack"])
def test_missing_counts_are_those_of_no_year(writing: str) -> None:
    counts = COUNTS.astype(float)
    counts[list(MISSING)] = np.nan
    with pytest.warns(ImputationWarning):
        model = coal(WRITINGS[writing], np.ma.masked_array(COUNTS, mask=np.isnan(counts)))
    post = bk.infer(model, draws=400, random_seed=1)
    assert [s.variables for s in post.plan.eliminated] == [("y_unobserved",), ("b",), ("a",), ("tau",)]
    value, share, means = enumerated(counts)
    assert post.log_evidence.label == "exact"
    assert post.log_evidence.value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(post.marginal("tau").pmf(T), share, atol=1e-10)
    drawn = post.tree["posterior"]["y_unobserved"].values.reshape(-1, 2)
    np.testing.assert_allclose(drawn.mean(axis=0), means, atol=5 * np.sqrt(means.max() / 400))


def of_pairs(counts: np.ndarray, pairs: Iterable[Sequence[int]]) -> np.ndarray:
    """log p(y) of three rates, given each pair of switchpoints.

    The segment of a year is how many of the two it is later than, in whichever order they are.
    """
    t = np.arange(len(counts))
    segments = [(t > i).astype(int) + (t > j) for i, j in pairs]
    return np.array([sum(log_evidence_of(counts[s == k].astype(float)) for k in range(3)) for s in segments])


@pytest.mark.slow
def test_two_switchpoints_are_a_table_of_pairs() -> None:
    years = 16
    t = np.arange(years)
    counts = np.random.default_rng(2).poisson(np.where(t < 5, 3.0, np.where(t < 11, 0.7, 4.0)))
    with pm.Model() as model:
        tau = pm.DiscreteUniform("tau", 0, years - 1, shape=2)
        rate = pm.Exponential("rate", 1.0, shape=3)
        pm.Poisson("y", rate[pt.gt(t, tau[0]).astype("int64") + pt.gt(t, tau[1])], observed=counts)
    post = bk.infer(model, draws=400, random_seed=1)
    assert [(s.variables, s.family) for s in post.plan.eliminated] == [(("rate",), "gamma"), (("tau",), "categorical")]
    pairs = list(itertools.product(range(years), repeat=2))
    logs = of_pairs(counts, pairs)
    value = special.logsumexp(logs) - 2 * math.log(years)
    assert post.log_evidence.label == "exact"
    assert post.log_evidence.value == pytest.approx(value, abs=1e-9)
    share = special.softmax(logs)
    first = np.bincount([i for i, _ in pairs], weights=share, minlength=years)
    found = np.stack([np.asarray(post.marginal("tau").pmf(k))[0] for k in t])
    np.testing.assert_allclose(found, first, atol=1e-10)


@pytest.mark.slow
def test_two_ordered_switchpoints_with_rates_of_their_own() -> None:
    """The second is after the first: its prior depends on it, and the table has the pairs in order only."""
    years = 14
    t = np.arange(years)
    counts = np.random.default_rng(4).poisson(np.where(t < 5, 3.0, np.where(t < 9, 0.7, 4.0)))
    with pm.Model() as model:
        first = pm.DiscreteUniform("first", 0, years - 1)
        later = pm.DiscreteUniform("later", 0, years - 1)
        pm.Potential("order", pt.switch(pt.lt(first, later), 0.0, -np.inf))
        a, b, c = (pm.Gamma(name, 2.0, 1.5) for name in "abc")
        pm.Poisson("y", pm.math.switch(t <= first, a, pm.math.switch(t <= later, b, c)), observed=counts)
    post = bk.infer(model, draws=400, random_seed=1)
    assert post.method == "exact"

    def of(y: np.ndarray) -> float:
        total, number = y.sum(), len(y)
        prior = 2.0 * math.log(1.5) - special.gammaln(2.0)
        return float(
            prior + special.gammaln(2 + total) - (2 + total) * math.log(1.5 + number) - special.gammaln(y + 1).sum()
        )

    pairs = [(i, j) for i in range(years) for j in range(i + 1, years)]
    logs = [of(counts[t <= i]) + of(counts[(t > i) & (t <= j)]) + of(counts[t > j]) for i, j in pairs]
    assert post.log_evidence.value == pytest.approx(special.logsumexp(logs) - 2 * math.log(years), abs=1e-9)
    drawn = post.tree["posterior"]
    assert bool((drawn["first"] < drawn["later"]).all())


def test_a_switchpoint_that_is_drawn_after_another_is_summed_out_with_it() -> None:
    """``DiscreteUniform("later", first + 1, ...)``: its range depends on the first, and the pairs are a table."""
    years = 14
    t = np.arange(years)
    counts = np.random.default_rng(4).poisson(np.where(t < 5, 3.0, np.where(t < 9, 0.7, 4.0)))
    with pm.Model() as model:
        first = pm.DiscreteUniform("first", 0, years - 2)
        later = pm.DiscreteUniform("later", first + 1, years - 1)
        rate = pm.Exponential("rate", 1.0, shape=3)
        pm.Poisson("y", rate[pt.gt(t, first).astype("int64") + pt.gt(t, later)], observed=counts)
    post = bk.infer(model, draws=400, random_seed=1)
    pairs = np.array([(i, j) for i in range(years - 1) for j in range(i + 1, years)])
    logs = of_pairs(counts, pairs)
    logs -= np.log(years - 1) + np.log(years - 1 - pairs[:, 0])
    assert post.log_evidence.label == "exact"
    assert post.log_evidence.value == pytest.approx(special.logsumexp(logs), abs=1e-9)
    share = special.softmax(logs)
    for name, place in (("first", 0), ("later", 1)):
        found = [float(post.marginal(name).pmf(k)) for k in t]
        np.testing.assert_allclose(found, np.bincount(pairs[:, place], share, years), atol=1e-10)
    assert bool((post.tree["posterior"]["first"] < post.tree["posterior"]["later"]).all())


RANGES: dict[str, tuple[Callable[[Any], Any], list[int] | None]] = {
    "after": (lambda z: pm.DiscreteUniform.dist(z + 1, 9), [2, 3, 4, 5, 6, 7, 8, 9]),
    "before": (lambda z: pm.DiscreteUniform.dist(-1, z), [-1, 0, 1, 2, 3, 4, 5]),
    "impossible after the last": (lambda z: pm.DiscreteUniform.dist(z, 4), None),
    "least where the other is largest": (lambda z: pm.DiscreteUniform.dist(6 - z, 9), None),
    "of a count without end": (lambda z: pm.DiscreteUniform.dist(0, z + pm.Poisson.dist(2.0)), None),
    "of several": (lambda z: pm.DiscreteUniform.dist(0, z, size=2), [0, 1, 2, 3, 4, 5]),
}


@pytest.mark.parametrize(("of", "values"), RANGES.values(), ids=RANGES)
def test_the_values_of_a_range_that_depends_on_another_variable(
    of: Callable[[Any], Any], values: list[int] | None
) -> None:
    support = support_without_transform(of(pm.DiscreteUniform.dist(1, 5)))
    assert support.kind == ("finite" if values else "other")
    np.testing.assert_array_equal([] if support.values is None else support.values, values or [])


def test_the_closed_form_of_the_oracle() -> None:
    rates = np.linspace(1e-6, 30, 20_001)
    y = COUNTS[:9]
    density = stats.expon.pdf(rates) * np.exp(stats.poisson(rates[:, None]).logpmf(y).sum(axis=1))
    assert log_evidence_of(y.astype(float)) == pytest.approx(math.log(np.trapezoid(density, rates)), abs=1e-8)
