"""Evidence as data arrive, against closed forms of each prefix and of each forecast."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.comparison.prequential_scores import Sequential, sequential
from bayeskit.errors import ModelError, OptionError

Y = np.random.default_rng(2).normal(0.5, 1.0, size=12)


def normal(prior_sd: float, name: str = "y", y: np.ndarray = Y) -> pm.Model:
    with pm.Model() as model:
        pm.Normal(name, pm.Normal("mu", 0.0, prior_sd), 1.0, observed=y)
    return model


def evidence(y: np.ndarray, prior_sd: float) -> float:
    return float(stats.multivariate_normal(cov=np.eye(len(y)) + prior_sd**2).logpdf(y)) if len(y) else 0.0


@pytest.fixture(scope="module")
def arrived() -> Sequential:
    return sequential({"narrow": normal(0.3), "wide": normal(5.0)}, random_seed=1)


def test_each_prefix_has_its_evidence_and_bayes_factor(arrived: Sequential) -> None:
    table = arrived.table.set_index(["observations", "model"])
    for n in range(13):
        narrow, wide = evidence(Y[:n], 0.3), evidence(Y[:n], 5.0)
        assert abs(table.loc[(n, "narrow"), "log_evidence"] - narrow) < 1e-10
        assert abs(table.loc[(n, "wide"), "log_bayes_factor"] - (wide - narrow)) < 1e-10
        share = table.loc[(n, "wide"), "posterior_probability"]
        assert abs(share - 1 / (1 + np.exp(narrow - wide))) < 1e-10
    assert (table["label"] == "exact").all()
    assert (table["error"] < 1e-10).all()


def test_scores_are_those_of_the_forecasts(arrived: Sequential) -> None:
    precision, total = 1 / 0.3**2, 0.0
    for n, y in enumerate(Y):
        forecast = stats.norm(total / precision, np.sqrt(1 + 1 / precision))
        assert abs(arrived.log_scores["narrow"].iloc[n] - forecast.logpdf(y)) < 1e-10
        precision, total = precision + 1, total + y
    assert list(arrived.log_scores.columns) == ["narrow", "wide"]
    assert "12 observations (entry) in 12 blocks" in str(arrived)


def test_blocks_and_order() -> None:
    order = np.random.default_rng(3).permutation(12).tolist()
    found = sequential(normal(2.0), blocks=[1, 4, 7], order=order).table
    assert found["observations"].tolist() == [0, 1, 5, 12]
    for n, value in zip(found["observations"], found["log_evidence"], strict=True):
        assert abs(value - evidence(Y[order][:n], 2.0)) < 1e-10
    assert sequential(normal(2.0), blocks=5).table["observations"].tolist() == [0, 3, 6, 8, 10, 12]
    assert (found["posterior_probability"] == 1.0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"blocks": [1, 2]},
        {"blocks": [0, 12]},
        {"order": [0, 1]},
        {"order": [0] * 12},
        {"observations": "row"},
        {"order": np.array("abc")},
        {"blocks": np.array([0.5, 11.5])},
    ],
)
def test_wrong_blocks_orders_and_units(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        sequential(normal(1.0), **wrong)  # type: ignore[arg-type]


def test_what_cannot_be_paired_or_has_no_evidence() -> None:
    with pm.Model() as improper:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=Y)
    with pytest.raises(ModelError, match="improper"):
        sequential(improper)
    with pytest.raises(ModelError, match="do not explain the same data"):
        sequential([normal(1.0), normal(1.0, y=Y[:-1])])
    with pm.Model() as rows:
        pm.MvNormal("y", pm.Normal("mu", shape=2), np.eye(2), observed=Y.reshape(6, 2))
    with pm.Model() as entries:
        pm.Normal("y", pm.Normal("mu", shape=2), 1.0, observed=Y.reshape(6, 2))
    with pytest.raises(ModelError, match=r"6 observations \(entry\) in model 1, 12"):
        sequential([rows, entries])
    with pytest.raises(ModelError, match="there are no models"):
        sequential([])


def test_quadrature_and_what_the_public_name_is() -> None:
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.HalfNormal("sigma", 2.0), observed=Y[:3])
    table = bk.sequential(model).table
    assert (table["label"] == "quadrature").all()
    sigma = np.linspace(1e-4, 30.0, 300_001)
    for n in (1, 2, 3):
        density = np.exp(stats.norm(0, sigma[:, None]).logpdf(Y[:n]).sum(axis=1)) * stats.halfnorm(scale=2).pdf(sigma)
        by_sum = np.log(np.trapezoid(density, sigma))
        assert abs(table["log_evidence"].iloc[n] - by_sum) < 1e-7 + table["error"].iloc[n]
