"""``prior_check``: summaries of priors against SciPy, and what is absurd or not foreseen is named."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.errors import ModelError, OptionError

ROWS = 20


def said(model: pm.Model, words: str, **given: object) -> bool:
    return any(words in sentence for sentence in bk.prior_check(model, draws=500, random_seed=1, **given).sentences)


def level(scale: float, data: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, scale), 2.0, observed=data)
    return model


def test_the_tables_are_those_of_the_prior() -> None:
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        rate = pm.Gamma("rate", 3.0, 2.0, dims="k")
        pm.Deterministic("log rate", pm.math.log(rate[0]))
        pm.Normal("many", shape=50)
        pm.Poisson("n", rate[0], observed=np.array([1, 2, 0, 3]))
    found = bk.prior_check(model, draws=1500, random_seed=1)
    assert list(found.parameters.index) == ["rate[a]", "rate[b]", "many (50 entries)", "log rate"]
    law = stats.gamma(3, scale=1 / 2)
    for label, transform in (("rate[a]", float), ("rate[b]", float), ("log rate", np.log)):
        row = found.parameters.loc[label]
        for column, probability in (("low", 0.03), ("median", 0.5), ("high", 0.97)):
            error = np.sqrt(probability * (1 - probability) / 1500)
            ends = [transform(law.ppf(probability + side * 5 * error)) for side in (-1, 1)]
            assert ends[0] < row[column] < ends[1]
        assert row["not_finite"] == 0 and np.isnan(row["outside"])
    row = found.predicted.loc["n"]
    counts = stats.nbinom(3, 2 / 3)
    assert (row["median"], row["low"], row["high"]) == tuple(counts.ppf([0.5, 0.03, 0.97]))
    assert (row["observed_min"], row["observed_max"]) == (0, 3)
    assert not found.sentences
    assert "nothing implausible in 1,500 draws" in str(found)


def test_probabilities_of_the_data_are_those_of_the_prior_predictive_distribution() -> None:
    """The mean of 20 values is Normal(0, 9 + 4/20), and 19 s²/4 of them chi-squared, a priori."""
    data = np.random.default_rng(2).normal(4.0, 2.5, ROWS)
    row = bk.prior_check(level(3.0, data), draws=2000, random_seed=3).predicted.loc["y"]
    mean = 2 * stats.norm.sf(abs(data.mean()) / np.sqrt(9 + 4 / ROWS))
    side = stats.chi2(ROWS - 1).sf(ROWS * data.var() / 4)
    for found, expected in ((row["tail_mean"], mean), (row["tail_sd"], 2 * min(side, 1 - side))):
        assert abs(found - expected) < 2 * 5 * np.sqrt(expected / 2 / 2000) + 1e-3


def test_absurd_priors_and_conflicts_are_named() -> None:
    data = np.random.default_rng(1).normal(20.0, 2.0, ROWS)
    assert said(level(1e6, data), "half of the prior predictive draws lie beyond")
    assert said(level(1.0, data), "prior and data disagree")
    assert not said(level(20.0, data), "y:")
    assert said(level(20.0, data), "outside of what was said to be plausible", plausible={"y": (0, 40)})
    assert said(level(20.0, data), "mu: ", plausible={"mu": (0, 40)})


def test_probabilities_at_the_ends_are_named() -> None:
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 100.0)
        pm.Bernoulli("z", pm.Deterministic("p", pm.math.sigmoid(slope * np.ones(ROWS))), observed=np.arange(ROWS) % 2)
    assert said(model, "p: 9")
    assert said(model, "all values are the same")


def test_what_cannot_be_drawn_is_named() -> None:
    with pm.Model() as model:
        flat = pm.Flat("flat")
        pm.Normal("y", flat, 1.0, observed=np.zeros(3))
        pm.Normal("own")
        pm.Potential("penalty", -(flat**2))
    found = bk.prior_check(model, draws=50, random_seed=1)
    assert found.sentences == ("flat: its prior is improper (Flat): nothing can be drawn from it",)
    assert list(found.parameters.index) == ["own"] and found.predicted.empty
    assert found.notes == (
        "y depends on an improper prior and was not drawn",
        "the draws know nothing of the Potential penalty",
    )
    with pm.Model() as heavy:
        rate = pm.math.exp(pm.Normal("log rate", 0.0, 40.0))
        pm.Poisson("n", rate, observed=np.array([1, 2]))
    assert said(heavy, "too large to be drawn")  # a rate of 1e20 has no count of 64 bits


def test_a_model_without_data_has_a_check_and_a_picture() -> None:
    with pm.Model() as model:
        pm.Deterministic("double", 2 * pm.Normal("single"))
    found = bk.prior_check(model, draws=100, random_seed=1)
    assert found.predicted.empty and len(found.parameters) == 2
    assert found.plot(backend="none") is not None
    level_check = bk.prior_check(level(1.0, np.zeros(3)), draws=100, random_seed=1)
    assert level_check.plot(backend="none") is not None


def test_wrong_ranges_and_empty_models_are_refused() -> None:
    model = level(1.0, np.zeros(3))
    for wrong in ({"no": (0, 1)}, {"y": (1, 0)}, {"y": (1,)}, {"y": ("a", "b")}):
        with pytest.raises((OptionError, bk.BayeskitError), match="plausible"):
            bk.prior_check(model, plausible=wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no variable"):
        bk.prior_check(pm.Model())


@pytest.mark.parametrize("data", [np.array([]), np.full(4, np.nan)])
@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
def test_an_observed_variable_without_entries_is_left_out(data: np.ndarray) -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=data)
    assert bk.prior_check(model, draws=50, random_seed=1).predicted.empty
    draws = {"mu": np.zeros((2, 50)), "y_unobserved": np.zeros((2, 50, 4))}
    with pytest.raises(ModelError, match="nothing to check"):
        bk.posterior_check(az.from_dict({"posterior": draws}), model)


def test_a_row_of_categories_says_what_it_leaves_open() -> None:
    with pm.Model() as model:
        pm.OrderedLogistic("grade", eta=pm.Normal("ability"), cutpoints=[-1.0, 1.0], observed=np.arange(6) % 3)
    found = bk.prior_check(model, draws=50, random_seed=1)
    assert found.predicted.loc["grade", ["median", "low", "high"]].isna().all()
    assert [note for note in found.notes if note.startswith("the values of grade are categories")]
