"""Densities that an author wrote: those of the data pass, those of something else are refused or noted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayeskit as bk
from bayeskit.comparison.own_densities import require_normalised
from bayeskit.errors import ModelError

Y = np.array([0.3, 1.8, 0.9, 2.2, 1.1, 0.4])


def own(log_density: Callable[[Any, Any], Any]) -> bk.Posterior:
    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("mu", 0.0, 2.0), logp=log_density, observed=Y)
    return bk.infer(model, draws=100, random_seed=1, progressbar=False)


def normal(value: Any, mu: Any, sd: float = 1.0) -> Any:
    return pm.logp(pm.Normal.dist(mu, sd), value)


def of_the_logarithm(value: Any, mu: Any) -> Any:
    return normal(pt.log(value), mu)


RIGHT: dict[str, Callable[[Any, Any], Any]] = {
    "normal": normal,
    "narrow": partial(normal, sd=0.01),
    "log normal": lambda y, mu: of_the_logarithm(y, mu) - pt.log(y),
    "an edge": lambda y, mu: pm.logp(pm.Exponential.dist(scale=pt.exp(mu)), y),
    "heavy tails": lambda y, mu: pm.logp(pm.Cauchy.dist(mu, 1.0), y),
}


@pytest.mark.parametrize("case", RIGHT)
def test_densities_of_the_data_pass(case: str) -> None:
    assert require_normalised(own(RIGHT[case]), "a") == []


@pytest.mark.parametrize("factor", [1.05, 3.0])
def test_more_than_one_is_refused(factor: float) -> None:
    with pytest.raises(ModelError, match=r"a: its author's density of y integrates to .* is missing"):
        require_normalised(own(lambda y, mu: normal(y, mu) + np.log(factor)), "a")


def test_less_than_one_is_a_note() -> None:
    (note,) = require_normalised(own(lambda y, mu: normal(y, mu) + np.log(0.7)), "a")
    assert "a: its author's density of y integrates to 0.7 over a value of it" in note


def test_a_jacobian_that_is_missing_is_refused_where_models_are_compared() -> None:
    with pm.Model() as log_normal:
        pm.LogNormal("y", pm.Normal("mu", 0.0, 2.0), 1.0, observed=Y)
    with pytest.raises(ModelError, match=r"b: .* Jacobian of a transformation, is missing"):
        bk.compare({"a": log_normal, "b": own(of_the_logarithm)}, loo=False)
    right = bk.compare({"a": log_normal, "b": own(RIGHT["log normal"])}, loo=False)
    assert abs(right.log_bayes_factor("a", "b")) < 1e-8
