"""What is drawn is the distribution that the model's density is of; where PyMC draws from another, it is refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import Interval, ordered
from scipy import stats

from bayeskit.elimination.plan import analyse
from bayeskit.errors import InferenceError, ModelError
from bayeskit.validation.calibration.simulated_data import Simulated, simulator


def drawn(model: pm.Model, number: int = 1) -> list[Simulated]:
    draw = simulator(analyse(model))
    return [draw(np.random.default_rng(k)) for k in range(number)]


def test_data_are_drawn_given_the_parameters_that_come_with_them() -> None:
    with pm.Model() as model:
        mean = pm.Normal("mean", 3.0, 2.0)
        pm.Normal("y", mean, 0.5, observed=np.zeros(4))
    found = drawn(model, 400)
    truths, data = np.array([s.parameters["mean"] for s in found]), np.array([s.data["y"] for s in found])
    assert stats.kstest((truths - 3) / 2, "norm").pvalue > 1e-3
    assert stats.kstest(((data - truths[:, None]) / 0.5).ravel(), "norm").pvalue > 1e-3
    again = drawn(model, 2)[1]
    assert again.data["y"].tolist() == found[1].data["y"].tolist()


def test_components_in_order_are_sorted_before_the_data_are_drawn() -> None:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 3.0, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        pm.Normal("y", mean, 1e-6, observed=np.zeros(3))
    for simulated in drawn(model, 20):
        assert np.all(np.diff(simulated.parameters["mean"]) > 0)
        np.testing.assert_allclose(simulated.data["y"], simulated.parameters["mean"], atol=1e-4)


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
def test_missing_entries_are_parameters() -> None:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 3.0)
        pm.Normal("y", mean, 1e-6, observed=np.ma.masked_invalid([1.0, np.nan, 2.0]))
    (simulated,) = drawn(model)
    assert simulated.data["y_observed"].shape == (2,)
    np.testing.assert_allclose(simulated.parameters["y_unobserved"], simulated.parameters["mean"], atol=1e-4)


def no_proper_prior() -> None:
    pm.Normal("y", pm.Flat("a"), 1.0, observed=[0.0, 1.0])


def potential() -> None:
    a = pm.Normal("a")
    pm.Potential("more", -(a**2))
    pm.Normal("y", a, 1.0, observed=[0.0])


def a_part_of_the_prior() -> None:
    a = pm.Normal("a", transform=Interval(0.0, 1.0), initval=0.5)
    pm.Normal("y", a, 1.0, observed=[0.0])


def no_data() -> None:
    pm.Normal("a")


def its_own_predictor() -> None:
    y = pm.Data("values", [0.0, 1.0, 2.0])
    pm.Normal("y", pm.Normal("a") * y, 1.0, observed=y)


def a_part_of_a_container() -> None:
    values = pm.Data("values", [0.0, 1.0, 2.0])
    pm.Normal("y", pm.Normal("a"), 1.0, observed=values[1:])


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (no_proper_prior, "give every variable a proper prior"),
        (potential, "the Potential more .* nothing can be drawn from it"),
        (a_part_of_the_prior, "the prior of a is what a transform leaves of it"),
        (no_data, "no observed variable"),
        (a_part_of_a_container, "the data of y are computed from others"),
        (its_own_predictor, "the data of y are a predictor, too"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_pymc_would_draw_otherwise_is_refused(write: object, words: str) -> None:
    with pm.Model() as model:
        write()  # type: ignore[operator]
    with pytest.raises(ModelError, match=words):
        simulator(analyse(model))


def test_a_prior_whose_draws_overflow_is_said_for_that_data_set() -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("a", 1e4, 1.0)), observed=3)
    with pytest.raises(InferenceError, match="no data could be drawn"):
        drawn(model)


def test_a_likelihood_without_random_draws_is_refused() -> None:
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.CustomDist("y", a, logp=lambda value, mu: -((value - mu) ** 2), observed=np.zeros(3))
    with pytest.raises(ModelError, match=r"the model cannot be drawn from: .* give it random="):
        simulator(analyse(model))(np.random.default_rng(1))


def test_a_count_that_the_container_cannot_hold_is_not_cut() -> None:
    with pm.Model() as model:
        container = pm.Data("seen", np.array([True, False]))
        pm.Poisson("y", pm.Gamma("rate", 1e4, 1.0), observed=container)
    with pytest.raises(ModelError, match="more than the data container 'seen' of bool can hold"):
        drawn(model)
