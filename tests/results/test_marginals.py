"""What may be asked of a marginal posterior."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.results.marginals import Marginal

MARGINAL = Marginal("b", stats.norm([0.0, 2.0], [1.0, 3.0]), "normal", ("q",), {"q": ["x", "y"]})


def test_an_interval_is_scipys() -> None:
    low, high = MARGINAL.interval(0.95)
    np.testing.assert_allclose(high, [1.959964, 2 + 3 * 1.959964], rtol=1e-6)
    np.testing.assert_allclose(low, [-1.959964, 2 - 3 * 1.959964], rtol=1e-6)
    assert MARGINAL.interval(0)[0].tolist() == [0.0, 2.0]
    assert np.isinf(MARGINAL.interval(1)).all()


@pytest.mark.parametrize(
    ("given", "error"), [(95, OptionError), (-0.1, OptionError), (np.nan, OptionError), ("x", DataError)]
)
def test_a_probability_is_from_zero_to_one(given: Any, error: type[BayeskitError]) -> None:
    for asked in (MARGINAL.interval, MARGINAL.ppf):
        with pytest.raises(error, match=r"0.95 for 95 %" if error is OptionError else "not numbers"):
            asked(given)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
@pytest.mark.parametrize("method", ["exact", "nuts"])
def test_data_beside_missing_entries_have_no_spread(method: str) -> None:
    y = np.array([1.3, np.nan, 2.7, 0.4])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=y)
        pm.Deterministic("always", 0.1 + 0.0 * mu)
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False, method=method)
    table = post.summary()
    seen = table.loc[["y[0]", "y[2]", "y[3]"]]
    assert seen["mean"].tolist() == y[~np.isnan(y)].tolist()
    assert (seen[["sd", "mcse_mean"]] == 0.0).all(axis=None)
    assert seen["label"].tolist() == ["observed"] * 3
    assert table.at["y[1]", "label"] == "estimated" and table.at["y[1]", "sd"] > 0.5
    # A Deterministic that does not change is no data.
    assert table.at["always", "label"] == "estimated" and table.at["always", "sd"] == 0.0
    assert "observed" not in set(table.loc[["mu", "y_unobserved[0]"], "label"])
    if method == "nuts":
        assert seen[["r_hat", "ess_bulk", "ess_tail"]].isna().all(axis=None)
        assert np.isfinite(table.loc[["mu", "y[1]"], ["r_hat", "ess_bulk"]]).all(axis=None)


@pytest.fixture(scope="module")
def post() -> bk.Posterior:
    with pm.Model() as model:
        x = pm.Data("x", np.arange(3.0))
        a = pm.Normal("a", shape=2)
        pm.Deterministic("doubled", 2 * a)
        pm.Normal("y", a[0] + a[1] * x, 1.0, observed=np.ones(3))
    return bk.infer(model, draws=40, random_seed=1, progressbar=False)


@pytest.mark.slow
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("doubled", r"'doubled' is a Deterministic, .* its draws are in tree\['posterior'\]\['doubled'\]"),
        ("y", r"'y' is observed, .* posterior_predictive\(\)\['y'\]"),
        ("x", r"'x' is data, .* free variables are a$"),
        ("b", r"no variable 'b': the model's free variables are a$"),
        ("a[0]", r"no variable 'a\[0\]': .* marginal\('a'\) is that of its entries"),
    ],
)
def test_another_than_a_free_variable_is_said_to_be_one(
    post: bk.Posterior, name: str, words: str, loaded: bool, tmp_path: Path
) -> None:
    one = bk.load(post.save(tmp_path / "post.nc")) if loaded else post
    with pytest.raises(ModelError, match=words) as caught:
        one.marginal(name)
    assert "\n" not in str(caught.value)
    if name == "doubled":
        np.testing.assert_allclose(one.tree["posterior"][name], 2 * one.tree["posterior"]["a"])
    assert one.marginal("a").mean().shape == (2,)


def test_quantiles_at_several_probabilities_of_one_entry_have_no_label() -> None:
    with pm.Model(coords={"group": ["a"]}) as model:
        mean = pm.Normal("mean", 0, 1, dims="group")
        pm.Normal("y", mean, 1, observed=np.ones(1), dims="group")
    marginal = bk.infer(model, draws=4).marginal("mean")
    assert marginal.ppf(0.5).dims == ("group",)
    np.testing.assert_allclose(marginal.ppf([0.1, 0.9]), stats.norm(0.5, np.sqrt(0.5)).ppf([0.1, 0.9]))
