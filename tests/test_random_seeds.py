"""Seeds: every public function takes those that PyMC takes, and refuses others by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.results.records import Posterior
from bayeskit.validation.against_exact import assert_matches_exact, judge

Y = np.array([0.1, 2.2, 1.9, -0.3])
NAMES = (
    *("predict", "posterior_predictive", "prior_predictive", "recover", "map_estimate", "maximize_evidence", "draw"),
    *("em", "next_observation", "compare", "judge"),
)


def known() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=Y)
    return model


def of_two() -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", [0.4, 0.6], shape=4)
        pm.Normal("y", pm.math.stack([0.0, 2.0])[z], pm.HalfNormal("sigma"), observed=Y)
    return model


@pytest.fixture(scope="module")
def asked() -> dict[str, Callable[[Any], Any]]:
    """What is drawn with a seed, by the name of who draws it."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), pm.HalfNormal("sigma"), observed=Y)
    post = bk.infer(known(), draws=100, random_seed=1, progressbar=False)
    sigma = bk.infer(model, draws=100, random_seed=1, progressbar=False).tree["posterior"].to_dataset()[["sigma"]]
    estimate, states = bk.map_estimate(model, random_seed=1), bk.states(of_two(), at={"sigma": 1.0})

    def fresh() -> Posterior:
        return replace(post, tree=post.tree.copy())

    return {
        "predict": lambda seed: post.predict(random_seed=seed)["y"],
        "posterior_predictive": lambda seed: fresh().posterior_predictive(random_seed=seed)["y"],
        "prior_predictive": lambda seed: fresh().prior_predictive(draws=5, random_seed=seed)["y"],
        "recover": lambda seed: bk.recover(model, sigma, random_seed=seed)["posterior"]["mu"],
        "map_estimate": lambda seed: bk.map_estimate(model, random_seed=seed).point["sigma"],
        "maximize_evidence": lambda seed: bk.maximize_evidence(model, random_seed=seed).point["sigma"],
        "draw": lambda seed: estimate.draw(5, random_seed=seed)["mu"],
        "em": lambda seed: bk.em(of_two(), starts=2, random_seed=seed, progressbar=False).point["sigma"],
        "next_observation": lambda seed: states.next_observation(random_seed=seed)["y"],
        "compare": lambda seed: bk.compare([post, known()], random_seed=seed).table["elpd_loo"],
        "judge": lambda seed: judge(post, post.tree, random_seed=seed).passed,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_are_those_that_pymc_takes(name: str, asked: dict[str, Callable[[Any], Any]]) -> None:
    make: Any = {"predict": lambda: np.random.default_rng(1), "recover": lambda: [1, 2]}.get(name, lambda: np.int64(3))
    one, two = (np.asarray(asked[name](make())) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("seed", ["x", True, [1, -2]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_seed_is_refused_by_name(name: str, seed: Any, asked: dict[str, Callable[[Any], Any]]) -> None:
    with pytest.raises(bk.BayeskitError, match="random_seed is"):
        asked[name](seed)


@pytest.mark.parametrize("ask", [bk.validate, lambda model, **seed: assert_matches_exact(model, {}, **seed)])
def test_validation_refuses_it_too(ask: Callable[..., Any]) -> None:
    with pytest.raises(bk.BayeskitError, match="random_seed is"):
        ask(known(), random_seed="x")
