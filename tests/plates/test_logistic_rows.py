"""Rows of yes or no, many under one logarithm: against SciPy's log density of each row; and rows that are others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import special, stats

from bayeskit.elimination.entrywise import with_plates
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.environment import lightly
from bayeskit.plates.plate import Plate

RNG = np.random.default_rng(12)
GROUPS, ROWS = 5, 40
#: Not in order; the fourth has one row, the fifth none.
GROUP = np.r_[3, RNG.integers(3, size=ROWS - 1)]
X, Y = RNG.normal(size=ROWS), RNG.integers(2, size=ROWS)


def plate_of(model: pm.Model) -> Plate:
    with lightly():
        found = with_plates(analyse(model))
    assert found is not None
    return found.plates[0]


def grouped(predictor: Callable[[Any, Any], Any], observed: Any = Y) -> pm.Model:
    with pm.Model() as model:
        w, s = pm.Normal("w", 0, 2), pm.HalfNormal("s", 1)
        b = pm.Normal("b", 0, s, shape=GROUPS)
        pm.Bernoulli("y", logit_p=predictor(w, b[GROUP]), observed=observed)
    return model


def is_fast(plate: Plate) -> bool:
    """Whether the rows of the plate are added up under few logarithms."""
    given = [np.ones((1, *g.type.shape)) for g in plate.terms.given]
    return any(rows is not None and rows.signed(given) is not None for rows in plate.terms.logistic)


def expected(w: float, s: float, places: np.ndarray, sign: float = 1.0) -> np.ndarray:
    """L at places (K, G)."""
    total = stats.norm.logpdf(places, 0, s)
    for row, group in enumerate(GROUP):
        logit = w * X[row] + sign * places[:, group]
        total[:, group] += special.log_expit(logit if Y[row] else -logit)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("within", [0.5, 15.0, 70.0, 400.0])  # of the rest of the logits: three ways to add up
@pytest.mark.parametrize("far", [1.0, 60.0, 100.0, 250.0, 1e5])
def test_sums_are_those_of_the_rows(sign: float, within: float, far: float) -> None:
    plate = plate_of(grouped(lambda w, b: sign * b + w * X))
    assert is_fast(plate)
    w = within / np.abs(X).max() * np.array([1.0, -0.9, 0.1])
    s, places = np.array([0.5, 2.0, 30.0]), far * RNG.uniform(-1, 1, size=(3, 7, GROUPS))
    given = [{"w": w, "s": s}[name] for name in plate.given]
    with lightly():
        found = plate.on_line(given)(np.arange(3), places)
        some = plate.on_line(given)(np.array([2, 0]), places[[2, 0]])
    for k in range(3):
        np.testing.assert_allclose(found[k], expected(w[k], s[k], places[k], sign), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(some, found[[2, 0]], rtol=1e-14)


def test_answers_in_a_table_and_a_copy() -> None:
    answers = RNG.integers(2, size=(11, 6))
    with pm.Model() as model:
        ability, difficulty = pm.Normal("b", 0, 1, shape=11), pm.Normal("d", 0, 2, shape=6)
        pm.Bernoulli("y", logit_p=ability[:, None] - difficulty, observed=answers)
    plate, d, places = plate_of(model), RNG.normal(size=(1, 6)), RNG.normal(size=(1, 4, 11))
    assert is_fast(plate)
    logits = places[0, :, :, None] - d[0]
    right = stats.norm.logpdf(places[0]) + np.where(answers, special.log_expit(logits), special.log_expit(-logits)).sum(
        2
    )
    for one in (plate, pickle.loads(pickle.dumps(plate))):
        with lightly():
            np.testing.assert_allclose(one.on_line([d])(np.zeros(1, int), places)[0], right, rtol=1e-13)


def test_data_that_are_exchanged() -> None:
    """Signs of answers that ``pm.set_data`` may exchange are not kept."""
    with pm.Model() as model:
        answers = pm.Data("answers", Y)
        s = pm.HalfNormal("s", 1)
        pm.Bernoulli("y", logit_p=pm.Normal("b", 0, s, shape=GROUPS)[GROUP], observed=answers)
    plate, places = plate_of(model), RNG.normal(size=(1, 3, GROUPS))
    with lightly():
        np.testing.assert_allclose(
            plate.on_line([np.ones(1)])(np.zeros(1, int), places)[0], expected(0.0, 1.0, places[0]), rtol=1e-13
        )
    assert is_fast(plate)
    assert all(rows is None or not rows.kept for rows in plate.terms.logistic)
    fixed = plate_of(grouped(lambda w, b: b + w * X))
    assert is_fast(fixed) and any(rows is not None and rows.kept for rows in fixed.terms.logistic)


def test_of_no_parameters_there_are_no_integrals() -> None:
    plate = plate_of(grouped(lambda w, b: b + w * X))
    with lightly():
        assert plate.log_integrals([np.ones(0) for _ in plate.given], 0).shape == (0, GROUPS)


@pytest.mark.parametrize(
    "predictor",
    [
        lambda w, b: w * b,
        lambda w, b: b * X + w,
        lambda w, b: (1 + 1e-9) * b + w * X,
        lambda w, b: pt.exp(b) + w,
        lambda w, b: b + 0.1 * b**2 + w,
    ],
)
def test_other_rows_are_left_as_they_are(predictor: Callable[[Any, Any], Any]) -> None:
    assert not is_fast(plate_of(grouped(predictor)))


def test_impossible_answers_have_no_density() -> None:
    answers = np.where(np.arange(ROWS) == 7, 2, Y)
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        b = pm.Normal("b", 0, s, shape=GROUPS)
        pm.CustomDist(
            "y",
            b[GROUP],
            logp=lambda value, eta: pt.switch(
                pt.or_(pt.lt(value, 0), pt.gt(value, 1)),
                -np.inf,
                pt.switch(pt.eq(value, 1), pt.log(pt.sigmoid(eta)), pt.log1p(-pt.sigmoid(eta))),
            ),
            observed=answers,
        )
    plate = plate_of(model)
    assert not is_fast(plate)
    with lightly():
        values = plate.on_line([np.ones(1)])(np.zeros(1, int), np.zeros((1, 1, GROUPS)))[0, 0]
    np.testing.assert_array_equal(values == -np.inf, np.arange(GROUPS) == GROUP[7])
