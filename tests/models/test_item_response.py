"""Item response: graphs against SciPy, the marginal likelihood against Gauss and Hermite's rule and published fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats
from scipy.optimize import minimize

import bayeskit as bk
from bayeskit.datasets import example_data, prepare
from bayeskit.elimination.entrywise import with_plates
from bayeskit.elimination.plan import analyse
from bayeskit.errors import OptionError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

ITEMS = load_model("item_response")
SCHOOL = example_data(ITEMS.EXAMPLE, ITEMS.VARIABLES)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
RNG = np.random.default_rng(8)
FEW = RNG.integers(2, size=(6, 3)).astype(float)


def dataset(answers: np.ndarray) -> xr.Dataset:
    columns = [f"q{k}" for k in range(answers.shape[1])]
    return prepare(pd.DataFrame(answers, columns=columns), ITEMS.VARIABLES, {"answers": tuple(columns)})


def log_likelihood(answers: np.ndarray, difficulty: Any, slope: Any, spread: float = 1.0) -> np.ndarray:
    """Of each person, the ability integrated out; missing answers say nothing."""
    logit = slope * (spread * NODES[:, None] - difficulty)
    right, wrong = (special.log_expit(sign * logit) for sign in (1, -1))
    table = np.where(answers == 1, 1.0, 0.0) @ right.T + np.where(answers == 0, 1.0, 0.0) @ wrong.T
    return np.asarray(special.logsumexp(table, b=WEIGHTS / np.sqrt(2 * np.pi), axis=1))


def fitted(discrimination: bool) -> tuple[float, np.ndarray]:
    """The maximum of the marginal likelihood, and where it is."""
    patterns, counts = np.unique(SCHOOL["answers"].to_numpy(), axis=0, return_counts=True)

    def loss(v: np.ndarray) -> float:
        slope, spread = (np.exp(v[5:]), 1.0) if discrimination else (1.0, np.exp(v[5]))
        return -float(counts @ log_likelihood(patterns, v[:5], slope, spread))

    found = minimize(loss, np.r_[-np.ones(5), np.zeros(5 if discrimination else 1)], method="BFGS")
    return -found.fun, found.x


def test_data_are_those_of_published_fits() -> None:
    """Rizopoulos (2006), Journal of Statistical Software 17(5), rasch and ltm of the LSAT data: log likelihoods.

    The Rasch model there has one discrimination, 0.755, and standard Normal abilities: the same likelihood.
    """
    value, rasch = fitted(discrimination=False)
    assert value == pytest.approx(-2466.938, abs=1e-3)
    assert np.exp(rasch[5]) == pytest.approx(0.755, abs=1e-3)
    assert rasch[:5] / np.exp(rasch[5]) == pytest.approx([-3.615, -1.322, -0.318, -1.730, -2.780], abs=2e-3)
    assert fitted(discrimination=True)[0] == pytest.approx(-2466.653, abs=1e-3)


@pytest.mark.parametrize("discrimination", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_log_joint_against_scipy(discrimination: bool, missing: bool) -> None:
    answers = FEW.copy()
    if missing:
        answers[[0, 3, 3], [1, 0, 2]] = np.nan
    options = {"discrimination_scale": 0.4} if discrimination else {"spread": "exponential", "spread_scale": 1.5}
    model = ITEMS.build(dataset(answers), discrimination=discrimination, difficulty_scale=2.0, **options)
    ability, difficulty = RNG.normal(size=6), RNG.normal(size=3)
    slope = np.array([0.6, 1.0, 1.7]) if discrimination else np.ones(3)
    p = special.expit(slope * (ability[:, None] - difficulty))
    rows = np.where(answers == 1, np.log(p), np.where(answers == 0, np.log1p(-p), 0.0))
    expected = rows.sum() + stats.norm(0, 2).logpdf(difficulty).sum()
    point = {"difficulty": difficulty, "ability": ability}
    if discrimination:
        expected += stats.norm.logpdf(ability).sum() + stats.lognorm(0.4).logpdf(slope).sum()
        point["discrimination"] = slope
    else:
        expected += stats.norm(0, 0.8).logpdf(ability).sum() + stats.expon(scale=1.5).logpdf(0.8)
        point["spread"] = np.array(0.8)
    assert LogJoint.from_model(model).logp(point) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
def test_abilities_are_integrated_one_by_one(missing: bool) -> None:
    """Each as Gauss and Hermite's rule has it; of 1,000 persons there are as many as there are rows of answers."""
    data = SCHOOL.astype(float)
    if missing:
        data["answers"][::3, 4] = np.nan
    found = with_plates(analyse(ITEMS.build(data)))
    assert found is not None
    (plate,) = found.plates
    answers = data["answers"].to_numpy()
    assert plate.one_each is not None
    assert plate.one_each.terms.size == len(np.unique(np.nan_to_num(answers, nan=-1.0), axis=0))
    difficulty, spread = np.array([-2.7, -1.0, -0.2, -1.3, -2.1]), np.array(0.8)
    values = {"difficulty": difficulty[None], "spread": spread[None]}
    integrals = plate.log_integrals([values[n] for n in plate.given], 1)[0]
    np.testing.assert_allclose(integrals, log_likelihood(answers, difficulty, 1.0, 0.8), atol=1e-8)


def test_explain_names_the_way() -> None:
    plan = bk.explain(ITEMS.build(SCHOOL))
    assert plan.method == "importance"
    assert plan.remaining == ("difficulty", "spread")
    assert "integrated once, which leaves 30" in str(plan)


def test_options_without_effect_are_refused() -> None:
    for options in ({"spread": "half_cauchy"}, {"spread_scale": 1.0}):
        with pytest.raises(OptionError, match="discrimination=false"):
            ITEMS.build(dataset(FEW), discrimination=True, **options)
    with pytest.raises(OptionError, match="discrimination=true"):
        ITEMS.build(dataset(FEW), discrimination_scale=1.0)
