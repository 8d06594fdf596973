"""Observations that exclude parameters, known by hand: the largest, the least, the one failure; and scores without."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.excluded_parameters import excluding
from bayeskit.comparison.folds import Fold
from bayeskit.comparison.leave_one_out import leave_one_out, pointwise_loo
from bayeskit.comparison.left_out_scores import scores_from_draws
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer

RNG = np.random.default_rng(3)
VALUES = np.array([1.0, 4.0, 2.5, 3.0, 0.7])
SERIAL = np.array([3, 17, 5, 9, 2])
FLIPS = np.array([1, 1, 1, 0, 1])
TIMES = np.array([1.0, 1.5, 2.0, 5.0, 7.0])


def dataset(**draws: Any) -> xr.Dataset:
    """As two chains."""
    arrays = {n: np.asarray(v).reshape(2, -1, *np.shape(v)[1:]) for n, v in draws.items()}
    return xr.Dataset({n: (("chain", "draw", *(f"{n}_{k}" for k in range(v.ndim - 2))), v) for n, v in arrays.items()})


def flagged(model: pm.Model, number: int = 5, **draws: Any) -> list[int]:
    return np.flatnonzero(excluding(model, dataset(**draws), None, number)).tolist()


def above(end: float, shape: float, number: int = 600) -> np.ndarray:
    """Draws of p(t) ∝ t^−shape above an end, by the inverse of its distribution."""
    return np.asarray(end * RNG.uniform(size=number) ** (-1 / (shape - 1)))


@pytest.mark.parametrize("rate", [0.5, 1e-6], ids=["a prior near", "a prior that is far off"])
def test_the_largest_of_uniform_values(rate: float) -> None:
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Gamma("t", 1.0, rate), observed=VALUES)
    assert flagged(model, t=above(4.0, 5.0)) == [1]


@pytest.mark.slow
def test_what_cannot_be_vectorised_goes_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr("bayeskit.comparison.excluded_parameters.over_draws", none)
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Gamma("t", 1.0, 0.5), observed=VALUES)
    assert flagged(model, t=above(4.0, 5.0)) == [1]


def test_of_two_that_are_largest_neither_excludes_what_the_other_allows() -> None:
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Gamma("t", 1.0, 0.5), observed=[1.0, 4.0, 4.0])
    assert flagged(model, 3, t=above(4.0, 3.0)) == []


def test_both_ends_beside_many_other_parameters() -> None:
    with pm.Model() as model:
        low, high = pm.Normal("low", 0.0, 5.0), pm.Normal("high", 0.0, 5.0)
        pm.Normal("others", 0.0, 1.0, shape=60)
        pm.Uniform("y", low, high, observed=VALUES)
    low_draws, high_draws = 0.7 - RNG.exponential(0.8, 600), 4.0 + RNG.exponential(0.8, 600)
    assert flagged(model, low=low_draws, high=high_draws, others=RNG.normal(size=(600, 60))) == [1, 4]


def test_the_least_beyond_an_unknown_shift() -> None:
    with pm.Model() as model:
        shift = pm.Uniform("shift", -2.0, 3.0)
        pm.Truncated("y", pm.Exponential.dist(1.0), lower=pm.math.maximum(shift, 0.0), observed=TIMES)
    assert flagged(model, shift=1.0 - RNG.exponential(0.2, 600)) == [0]


@pytest.mark.slow
def test_the_failure_that_excludes_a_hypothesis() -> None:
    with pm.Model() as model:
        coin = pm.Categorical("coin", [0.5, 0.3, 0.2])
        pm.Bernoulli("y", pm.math.stack([0.5, 1.0, 0.9])[coin], observed=FLIPS)
    assert flagged(model, coin=RNG.choice([0, 2], size=600)) == [3]


def count(rate: Any) -> None:
    pm.Poisson("y", rate, observed=[2, 0, 5, 1, 1])


def duration(rate: Any) -> None:
    pm.Gamma("y", 2.0, rate, observed=VALUES)


def bounded(rate: Any) -> None:
    pm.Uniform("y", 0.0, 5.0, observed=VALUES)
    pm.Potential("rate_matters", -rate)


def flip(rate: Any) -> None:
    pm.Bernoulli("y", rate / (1.0 + rate), observed=FLIPS)


@pytest.mark.parametrize("likelihood", [count, duration, bounded, flip])
def test_where_the_support_is_that_of_all_parameters_nothing_is_excluded(likelihood: Any) -> None:
    with pm.Model() as model:
        likelihood(pm.Gamma("rate", 1.0, 0.5))
    assert flagged(model, rate=RNG.gamma(4.0, 0.4, size=600)) == []


def tanks() -> pm.Model:
    with pm.Model() as model:
        number = pm.DiscreteUniform("number", 1, 30)
        pm.DiscreteUniform("y", 1, number, observed=SERIAL)
    return model


def tanks_evidence(at: np.ndarray) -> float:
    numbers = np.arange(1, 31)
    likely = np.where(numbers >= max(SERIAL[at], default=0), 1.0 / numbers ** len(at), 0.0)
    return float(np.log(likely.mean()))


@pytest.mark.slow
def test_an_impossible_observation_of_weight_zero_is_absent() -> None:
    posterior = bk.infer(tanks(), random_seed=1)
    found = bk.cross_validate(posterior, random_seed=1)
    everything = np.arange(5)
    right = [tanks_evidence(everything) - tanks_evidence(np.delete(everything, i)) for i in everything]
    assert np.max(np.abs(found.pointwise["model"] - right)) < 1e-10
    assert np.isnan(found.table.at["model", "psis_elpd"])
    for places in (everything, np.array([1, 0, 2, 3, 4])):
        arrived = bk.sequential(posterior, order=places, blocks=np.ones(5, dtype=int)).table
        assert np.max(np.abs(arrived["log_evidence"] - [tanks_evidence(places[:k]) for k in range(6)])) < 1e-10


@pytest.mark.slow
def test_what_no_draw_can_see_has_an_exact_score_where_evidences_are_known() -> None:
    posterior, everything = bk.infer(tanks(), random_seed=1), np.arange(5)
    right = [tanks_evidence(everything) - tanks_evidence(np.delete(everything, i)) for i in everything]
    assert np.max(np.abs(pointwise_loo(posterior).elpd - right)) < 1e-10
    numbers, note = leave_one_out(posterior)
    assert abs(numbers[0] - sum(right)) < 1e-9 and numbers[2] == 0 and not note


def test_compare_has_no_leave_one_out_from_draws_that_cannot_see() -> None:
    posterior = bk.infer(tanks(), random_seed=1)
    posterior = replace(posterior, log_evidence=replace(posterior.log_evidence, label="estimated"))
    numbers, note = leave_one_out(posterior)
    assert np.isnan(numbers).all()
    assert "1 observation(s) exclude parameters" in note
    assert "cross_validate" in note
    assert not pointwise_loo(posterior).known


@pytest.mark.slow
def test_a_sampled_model_is_run_without_the_observation() -> None:
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Gamma("t", 3.0, 0.5), observed=VALUES)
    found = bk.cross_validate(model, random_seed=1)

    def integral(end: float, power: int) -> float:
        return float(integrate.quad(lambda t: stats.gamma.pdf(t, 3.0, scale=2.0) * t**-power, end, np.inf)[0])

    right = [np.log(integral(4.0, 5) / integral(max(np.delete(VALUES, i)), 4)) for i in range(5)]
    assert np.max(np.abs(found.pointwise["model"] - right)) < 0.15
    assert abs(right[1] - right[0]) > 0.9  # what draws given all observations take for the same
    for said in ("1 observation(s) exclude parameters", "its draws are not", "the draws without observation 1 are not"):
        assert any(said in note for note in found.notes)


def test_a_score_that_no_draw_has_is_refused() -> None:
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Gamma("t", 3.0, 0.5), observed=VALUES)
    tree = xr.DataTree.from_dict({"posterior": dataset(t=RNG.uniform(3.1, 3.9, 600))})
    given = SimpleNamespace(diagnostics=None, tree=tree)
    subsets: Any = SimpleNamespace(
        name="m",
        given_as=(),
        given=lambda kept, run: given,
        posterior=SimpleNamespace(model=model, snapshot=None),
        observations=SimpleNamespace(members={"y": np.arange(5)}, labels=range(5)),
    )
    with pytest.raises(NoSubsetAnswer, match="no density at any draw"):
        scores_from_draws(subsets, [Fold(np.array([1]), np.arange(5) != 1)], False)
    seen = scores_from_draws(subsets, [Fold(np.array([0]), np.arange(5) != 0)], False)
    likely = special.logsumexp(-np.log(tree["posterior"]["t"].to_numpy())) - np.log(600)
    assert abs(seen.values[0] - likely) < 1e-10
