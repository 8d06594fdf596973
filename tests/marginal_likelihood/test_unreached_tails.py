"""Draws whose tails are right, and draws that lack one, of densities that are drawn from independently."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
from numpy.random import Generator
from scipy import stats

from bayeskit import infer
from bayeskit.inference import importance
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import HeavyTails
from bayeskit.marginal_likelihood.unreached_tails import unreached_tail
from bayeskit.model.unconstrained import Unconstrained

SIZE = (4, 1000, 1)
BOUND = 300.0


def space_of(build: Callable[[], Any]) -> Unconstrained:
    """Of a prior, which is the posterior where there are no data."""
    with pm.Model() as model:
        build()
    return Unconstrained(model)


def slope(rng: Generator) -> np.ndarray:
    """x of density 1/(1 + x²) up to a bound, and y about twice that."""
    x = np.tan(rng.uniform(-np.arctan(BOUND), np.arctan(BOUND), SIZE))
    return np.concatenate([x, 2 * x + rng.standard_normal(SIZE)], axis=2)


def of_slope() -> None:
    x = pm.Flat("x")
    pm.Potential("tail", -pm.math.log1p(x**2) - (x / BOUND) ** 8)
    pm.Normal("y", 2 * x, 1.0)


def funnel(rng: Generator) -> np.ndarray:
    v = rng.standard_normal(SIZE)
    return np.concatenate([v, np.exp(v) * rng.standard_normal((*SIZE[:2], 2))], axis=2)


def of_funnel() -> None:
    pm.Normal("x", 0.0, pm.math.exp(pm.Normal("v")), shape=2)


RIGHT: dict[str, tuple[Callable[[], Any], Callable[[Generator], np.ndarray]]] = {
    "Student t, 3 degrees": (lambda: pm.StudentT("x", nu=3.0), lambda g: g.standard_t(3.0, SIZE)),
    "Student t, 2 degrees": (lambda: pm.StudentT("x", nu=2.0, sigma=1e-6), lambda g: 1e-6 * g.standard_t(2.0, SIZE)),
    "log of an exponential": (lambda: pm.Exponential("x", 1.0), lambda g: np.log(g.exponential(size=SIZE))),
    "log of a half Cauchy": (lambda: pm.HalfCauchy("x", 1.0), lambda g: np.log(np.abs(g.standard_cauchy(SIZE)))),
    "Normal": (lambda: pm.Normal("x"), lambda g: g.standard_normal(SIZE)),
    "two modes": (
        lambda: pm.NormalMixture("x", w=[0.7, 0.3], mu=[0.0, 6.0], sigma=1.0),
        lambda g: g.standard_normal(SIZE) + 6.0 * (g.random(SIZE) < 0.3),
    ),
    "funnel": (of_funnel, funnel),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_draws_are_not_doubted_however_heavy_their_tails(name: str) -> None:
    build, drawn = RIGHT[name]
    space = space_of(build)
    assert [unreached_tail(space, drawn(np.random.default_rng(seed)), seed) for seed in range(3)] == [""] * 3


def test_a_tail_that_holds_the_variance_and_that_no_chain_reached_is_named() -> None:
    draws = slope(np.random.default_rng(1))
    draws = draws[:, np.all(np.abs(draws[..., 0]) < 10.0, axis=0)]
    found = unreached_tail(space_of(of_slope), draws, 1)
    assert re.match(r"far out in [xy] there is a tail that the chains hardly reached: the sd is about \d", found)
    assert unreached_tail(space_of(of_slope), slope(np.random.default_rng(1)), 1) == ""


def test_draws_that_end_where_the_density_goes_on_are_doubted_by_the_share_beyond() -> None:
    draws = np.random.default_rng(1).standard_t(3.0, SIZE).clip(-4.0, 4.0)
    found = unreached_tail(space_of(lambda: pm.StudentT("x", nu=3.0)), draws, 1)
    low, high = np.quantile(draws, (0.25, 0.75))
    beyond = stats.t(3.0).sf(np.array([3.7, 5.0, 7.0]) * (high - low) / 1.349)
    shared = re.search(r"reached: (\S+) of the posterior lies where 0 of the draws do", found)
    assert shared is not None and np.min(np.abs(float(shared[1]) / beyond - 1.0)) < 0.4  # standard error 0.15


def test_many_coordinates_are_not_looked_at() -> None:
    space = space_of(lambda: pm.Normal("x", shape=31))
    assert unreached_tail(space, np.zeros((4, 10, 31)), 1) == ""


@pytest.mark.slow
def test_what_a_method_refused_for_its_tails_is_looked_at_after_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def refuse(_: Any) -> Any:
        raise HeavyTails("the importance weights have too heavy a tail")

    def unreached(space: Unconstrained, draws: np.ndarray, random_seed: int) -> str:
        looked.append(space.size)
        return "far out in x there is a tail"

    monkeypatch.setattr(importance, "answer", refuse)
    monkeypatch.setattr("bayeskit.inference.nuts.unreached_tail", unreached)
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("x", shape=4)), observed=[1, 2, 3, 4])
    post = infer(model, method="auto", draws=400, random_seed=1, sampler={"tune": 200})
    assert post.method == "nuts" and looked == [4]
    assert post.diagnostics is not None and "far out in x there is a tail" in post.diagnostics.problems
    assert not post.diagnostics.converged
    infer(model, method="nuts", draws=400, random_seed=1, sampler={"tune": 200})
    assert looked == [4]
