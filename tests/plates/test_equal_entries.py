"""Entries with equal data integrated once: their classes are those of the densities, evaluated; and near-misses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeskit.elimination.entrywise import with_plates
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.model.data_slots import with_slots
from bayeskit.plates.conditional import PlateRecovery
from bayeskit.plates.plate import Plate
from bayeskit.plates.plate_op import log_integrals

RNG = np.random.default_rng(5)
N, ITEMS = 12, 3
ANSWERS = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]])[RNG.integers(4, size=N)]
PERSON, ITEM = (a.ravel() for a in np.indices((N, ITEMS)))
SHUFFLED = RNG.permutation(N * ITEMS)
AGE = np.array([0.5, -1.0])[RNG.integers(2, size=N)]
DESIGN = np.column_stack([np.ones(N), AGE])
COUNTS = np.array([0, 2, 2, 5])[RNG.integers(4, size=N)]
SIZES = np.array([4, 7])[RNG.integers(2, size=N)]


def item_response(logit: Callable[[Any, Any], Any], answers: np.ndarray, size: int = N, **kwargs: Any) -> pm.Model:
    with pm.Model() as model:
        sd, difficulty = pm.HalfNormal("sd", 1), pm.Normal("d", 0, 2, shape=ITEMS)
        ability = pm.Normal("b", kwargs.get("mu", 0.0), sd * kwargs.get("scale", 1.0), shape=size)
        pm.Bernoulli("y", logit_p=logit(ability, difficulty), observed=answers)
    return model


def counts(rate: Callable[[Any, Any], Any], **others: Any) -> pm.Model:
    with pm.Model() as model:
        sd, w = pm.HalfNormal("sd", 1), pm.Normal("w", 0, 1, shape=2)
        b = pm.Normal("b", 0, sd, shape=N)
        pm.Poisson("y", pt.exp(rate(b, w)), observed=COUNTS)
        for name, values in others.items():
            pm.Normal(name, b, 1, observed=values)
    return model


def binomial_and_gamma() -> pm.Model:
    """A positive entry, under two factors."""
    with pm.Model() as model:
        shape, scale, w = pm.Exponential("a", 1), pm.Exponential("s", 1), pm.Normal("w", 0, 1, shape=2)
        b = pm.LogNormal("b", pt.log(shape), 1, shape=N)
        pm.Poisson("y", b * scale, observed=COUNTS)
        pm.Binomial("z", SIZES, pm.math.sigmoid(w[0] + w[1] * pt.log(b)), observed=np.minimum(COUNTS, SIZES))
    return model


CODES = RNG.integers(2, size=N)
MODELS: dict[str, Callable[[], pm.Model]] = {
    "a table": lambda: item_response(lambda b, d: b[:, None] - d, ANSWERS),
    "a column a person": lambda: item_response(lambda b, d: b - d[:, None], ANSWERS.T),
    "long": lambda: item_response(lambda b, d: b[PERSON] - d[ITEM], ANSWERS[PERSON, ITEM]),
    "long, in any order": lambda: item_response(
        lambda b, d: b[PERSON[SHUFFLED]] - d[ITEM[SHUFFLED]], ANSWERS[PERSON, ITEM][SHUFFLED]
    ),
    "long, some not asked": lambda: item_response(
        lambda b, d: b[PERSON[:-7]] - d[ITEM[:-7]], ANSWERS[PERSON, ITEM][:-7]
    ),
    "scales by entry": lambda: item_response(lambda b, d: b[:, None] - d, ANSWERS, scale=np.where(AGE > 0, 1.0, 2.0)),
    "a covariate": lambda: counts(lambda b, w: w[0] + w[1] * AGE + b),
    "a product": lambda: counts(lambda b, w: DESIGN @ w + b),
    "a parameter by code": lambda: counts(lambda b, w: w[CODES] + b),
    "two factors": lambda: counts(lambda b, w: w[0] + w[1] * b, z=np.round(AGE)),
    "positive": binomial_and_gamma,
}


def plate_of(model: pm.Model) -> Plate:
    found = with_plates(analyse(model))
    assert found is not None
    (plate,) = found.plates
    return plate


@cache
def plate_named(name: str) -> Plate:
    return plate_of(MODELS[name]())


def some(plate: Plate, number: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.exp(0.3 * rng.normal(size=(number, *v.type.shape))) for v in plate.terms.given]


def told_apart(plate: Plate) -> np.ndarray:
    """For each entry its class by its density itself, at random places and φ."""
    phi = some(plate, 4)
    at = np.exp(np.random.default_rng(1).normal(size=(4, 3, 1))) * np.ones((1, 1, plate.terms.size))
    values = plate.terms.at(phi)(np.arange(4), at).reshape(12, -1)
    return np.unique(np.round(values.T, 9), axis=0, return_inverse=True)[1].reshape(-1)


def same_partition(one: np.ndarray, other: np.ndarray) -> bool:
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_classes_are_those_of_the_densities(name: str) -> None:
    plate = plate_named(name)
    assert plate.copies is not None
    assert plate.one_each is not None
    assert plate.one_each.terms.size < N
    assert same_partition(plate.copies, told_apart(plate))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_integrals_and_slopes_are_those_of_every_entry(name: str) -> None:
    plate = plate_named(name)
    alone = replace(plate, one_each=None, copies=None)
    phi = some(plate, 5)
    np.testing.assert_allclose(plate.log_integrals(phi, 5), alone.log_integrals(phi, 5), atol=1e-9)
    values = []
    for own in (plate, alone):
        graph = log_integrals(own)
        slopes = pytensor.grad(pt.sum(graph * np.arange(N)), list(own.terms.given))
        with silently():
            values.append(compile_small(list(own.terms.given), [graph, *slopes])(*[p[0] for p in phi]))
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


def test_entries_are_drawn_one_by_one() -> None:
    plate = plate_named("a table")
    phi = {n: np.broadcast_to(p, (4_000, *p.shape[1:])) for n, p in zip(plate.given, some(plate, 1), strict=True)}
    drawn = PlateRecovery(plate).draw(phi, 4_000, np.random.default_rng(0))
    assert plate.copies is not None
    first, second = np.flatnonzero(plate.copies == np.argmax(np.bincount(plate.copies)))[:2]
    assert abs(np.corrcoef(drawn[:, first], drawn[:, second])[0, 1]) < 4 / np.sqrt(4_000)
    pooled = np.sqrt(np.var(drawn[:, first]) + np.var(drawn[:, second]))
    assert abs(drawn[:, first].mean() - drawn[:, second].mean()) < 4 * pooled / np.sqrt(4_000)


def almost(values: np.ndarray, by: float = 1e-12) -> np.ndarray:
    return values + by * np.arange(values.size).reshape(values.shape)


DIFFERENT: dict[str, Callable[[], pm.Model]] = {
    "covariates to rounding": lambda: counts(lambda b, w: w[0] + w[1] * almost(AGE) + b),
    "a design to rounding": lambda: counts(lambda b, w: almost(DESIGN) @ w + b),
    "a second factor": lambda: counts(lambda b, w: w[0] + w[1] * b, z=almost(AGE)),
    "another scale each": lambda: item_response(lambda b, d: b[:, None] - d, ANSWERS, scale=1.0 + np.arange(N)),
    "another mean each": lambda: item_response(lambda b, d: b[:, None] - d, ANSWERS, mu=np.arange(N)),
    "an offset each": lambda: item_response(lambda b, d: b[:, None] - d + np.arange(N)[:, None], ANSWERS),
    "another row of a matrix": lambda: counts(lambda b, w: pt.outer(pt.arange(N), w)[:, 1] + b),
    "cumulated": lambda: counts(lambda b, w: pt.cumsum(w[CODES]) + b),
    "softmax over all": lambda: counts(lambda b, w: pt.special.softmax(w[1] * AGE * np.arange(N)) + b),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_integrated_each(name: str) -> None:
    plate = plate_of(DIFFERENT[name]())
    assert plate.one_each is None
    assert plate.copies is None


def test_answers_of_other_items_are_no_copies() -> None:
    """The same sums of answers, each to other items: two persons who were asked other questions."""
    person, item = np.repeat(np.arange(N), 2), np.r_[np.tile([0, 1], N // 2), np.tile([1, 2], N // 2)]
    plate = plate_of(item_response(lambda b, d: b[person] - d[item], np.tile([1, 0], N)))
    assert plate.copies is not None
    np.testing.assert_array_equal(plate.copies[: N // 2] == plate.copies[0], True)
    np.testing.assert_array_equal(plate.copies[N // 2 :] == plate.copies[0], False)


def with_containers() -> pm.Model:
    with pm.Model(coords={"person": np.arange(N), "item": np.arange(ITEMS)}) as model:
        person, item = pm.Data("person_code", PERSON), pm.Data("item_code", ITEM)
        sd, difficulty = pm.HalfNormal("sd", 1), pm.Normal("d", 0, 2, dims="item")
        ability = pm.Normal("b", 0, sd, dims="person")
        answers = pm.Data("answers", ANSWERS[PERSON, ITEM])
        pm.Bernoulli("y", logit_p=ability[person] - difficulty[item], observed=answers)
    return model


def with_dims() -> pm.Model:
    with pm.Model(coords={"person": np.arange(N), "item": np.arange(ITEMS)}) as model:
        sd, difficulty = pm.HalfNormal("sd", 1), pm.Normal("d", 0, 2, dims="item")
        ability = pm.Normal("b", 0, sd, dims="person")
        pm.Bernoulli("y", logit_p=ability[:, None] - difficulty, observed=ANSWERS, dims=("person", "item"))
    return model


def test_dims_of_which_pytensor_knows_no_length() -> None:
    """The integrals, and the classes, of the same model without dims."""
    plate, plain = plate_of(with_dims()), plate_named("a table")
    assert plate.copies is not None
    assert plain.copies is not None
    assert same_partition(plate.copies, plain.copies)
    assert plate.weight == plain.weight
    phi = dict(zip(plain.given, some(plain, 5), strict=True))
    other = plate.log_integrals([phi[n] for n in plate.given], 5)
    np.testing.assert_allclose(other, plain.log_integrals(list(phi.values()), 5), atol=1e-9)


def test_data_in_containers_are_read_as_they_are_now() -> None:
    model = with_containers()
    analysis = analyse(model)
    for answers in (ANSWERS[PERSON, ITEM], 1 - ANSWERS[PERSON[::-1], ITEM]):
        model.set_data("answers", answers)
        found, known = with_plates(analysis), plate_named("a table")
        assert found is not None
        (plate,) = found.plates
        assert plate.copies is not None
        of_table = np.unique(answers.reshape(N, ITEMS), axis=0, return_inverse=True)[1].reshape(-1)
        assert same_partition(plate.copies, of_table)
        assert plate.one_each is not None and known.one_each is not None
        phi = dict(zip(known.given, some(known, 3), strict=True))
        alone = replace(plate, one_each=None, copies=None)
        given = [phi[n] for n in plate.given]
        np.testing.assert_allclose(plate.log_integrals(given, 3), alone.log_integrals(given, 3), atol=1e-9)


def test_data_that_will_be_exchanged_are_not_looked_at() -> None:
    assert plate_of(with_slots(MODELS["a table"]())[0]).copies is None


@pytest.mark.slow
@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_whatever_the_rows(seed: int) -> None:
    """Rows of persons, items, groups and covariates at random: no class holds two densities, and none is left out."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(N, 4 * N))
    person = np.r_[np.arange(N), rng.integers(N, size=rows - N)]
    item, x, y = rng.integers(ITEMS, size=rows), rng.integers(2, size=rows), rng.integers(2, size=rows)
    kind = rng.integers(3)
    logit = {
        0: lambda b, d: b[person] - d[item],
        1: lambda b, d: b[person] * x + d[0],
        2: lambda b, d: np.column_stack([x, 1 - x, x]) @ d + b[person],
    }[int(kind)]
    plate = plate_of(item_response(logit, y))
    apart = told_apart(plate)
    if plate.copies is None:
        assert len(set(apart.tolist())) > 0.7 * N or len(set(apart.tolist())) == 1
    else:
        assert same_partition(plate.copies, apart)
