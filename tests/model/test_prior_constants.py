"""The numbers of priors: their names and values, and copies in which they are containers, or others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from bayeskit.graphs.compile import small_mode
from bayeskit.model.prior_constants import prior_constant, prior_constants, with_containers, with_values

SHARED = pt.constant(2.5)

# What is written, and the numbers by their names.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "scale": (lambda: pm.HalfCauchy("tau", 5), {"tau.beta": 5}),
    "rate": (lambda: pm.Gamma("g", alpha=2, beta=3), {"g.alpha": 2, "g.beta": 3}),
    "rate of an exponential": (lambda: pm.Exponential("e", 2.0), {"e.lam": 2}),
    "scale of an exponential": (lambda: pm.Exponential("e", scale=4.0), {"e.scale": 4}),
    "precision": (lambda: pm.Normal("a", 0, tau=4.0), {"a.mu": 0, "a.tau": 4}),
    "precision of a Student": (lambda: pm.StudentT("a", 3, 0, lam=2.0), {"a.nu": 3, "a.mu": 0, "a.lam": 2}),
    "no location": (lambda: pm.HalfNormal("h", 2.0), {"h.sigma": 2}),
    "mean and size": (lambda: pm.Beta("b", mu=0.3, nu=10), {"b.alpha": 3, "b.beta": 7}),
    "written once": (lambda: pm.Normal("a", 0, 2, shape=3), {"a.mu": 0, "a.sigma": 2}),
    "written for each": (lambda: pm.Normal("a", [0, 1, 2.0], 2), {"a.mu": [0, 1, 2], "a.sigma": 2}),
    "vector": (lambda: pm.Dirichlet("w", np.ones(3)), {"w.a": [1, 1, 1]}),
    "in arithmetic": (
        lambda: pm.Normal("a", 0, 10 * pm.InverseGamma("s", 2, 1) ** 0.5),
        {"s.alpha": 2, "s.beta": 1, "a.mu": 0, "a.sigma": 10},
    ),
    "form": (lambda: pm.Normal("a", 1 - pm.Normal("b", 0, 3), 2), {"b.mu": 0, "b.sigma": 3, "a.sigma": 2}),
    "two in one": (
        lambda: pm.Normal("a", 2 * pm.Normal("b", 0, 3) + 5, 1),
        {"b.mu": 0, "b.sigma": 3, "a.mu.1": 2, "a.mu.2": 5, "a.sigma": 1},
    ),
    "one for two": (lambda: (pm.Normal("a", 0, SHARED), pm.HalfNormal("b", SHARED)), {"a.mu": 0, "a.sigma": 2.5}),
    "container": (lambda: pm.HalfNormal("h", 3 * pm.Data("scale", 2.0)), {"h.sigma.1": 3, "scale": 2}),
    "counts": (lambda: pm.DiscreteUniform("d", 0, 9), {}),
    "matrix": (lambda: pm.MvNormal("m", np.zeros(2), np.eye(2)), {"m.mu": [0, 0]}),
    "infinite end": (
        lambda: pm.Truncated("t", pm.Normal.dist(1, 2), lower=0),
        {"t.mu": 1, "t.sigma": 2, "t.lower": 0},
    ),
    "inside": (
        lambda: pm.GaussianRandomWalk("x", sigma=0.5, init_dist=pm.Normal.dist(1, 10), steps=3),
        {"x.init_dist.mu": 1, "x.init_dist.sigma": 10, "x.innovation_dist.mu": 0, "x.innovation_dist.sigma": 0.5},
    ),
}


def model_of(write: Any) -> pm.Model:
    with pm.Model() as model:
        write()
    return model


@pytest.mark.parametrize("name", CASES)
def test_numbers_by_name(name: str) -> None:
    write, expected = CASES[name]
    found = {n: c.value for n, c in prior_constants(model_of(write)).items()}
    assert set(found) == set(expected)
    for number, value in expected.items():
        np.testing.assert_allclose(found[number], value)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_copies_have_the_same_density(name: str) -> None:
    model = model_of(CASES[name][0])
    numbers = prior_constants(model)
    point = model.initial_point()
    expected = [
        np.sum(v) for v in model.compile_fn(model.logp(sum=False), inputs=model.value_vars, mode=small_mode())(point)
    ]
    for copy in (with_containers(model, numbers), with_values(model, {n: c.value for n, c in numbers.items()})):
        found = [
            np.sum(v) for v in copy.compile_fn(copy.logp(sum=False), inputs=copy.value_vars, mode=small_mode())(point)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # whole numbers are logged in float32


def test_one_number_in_two_places_moves_in_both() -> None:
    model = model_of(CASES["one for two"][0])
    by_other_name = prior_constant(model, "b.sigma")
    assert by_other_name is not None and by_other_name.places == ("a.sigma", "b.sigma")
    moved = with_values(model, {"a.sigma": 4.0})
    assert {prior_constants(moved)[n].value.item() for n in ("a.sigma",)} == {4.0}
    assert prior_constants(model)["a.sigma"].value == 2.5


def test_missing_data_have_no_numbers_of_their_own() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        with pytest.warns(UserWarning, match="imput"):
            pm.Normal("y", mu, 2.0, observed=np.array([1.0, np.nan]))
    assert set(prior_constants(model)) == {"mu.mu", "mu.sigma"}
