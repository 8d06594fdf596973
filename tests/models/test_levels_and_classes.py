"""Ordered and softmax regression: graphs against SciPy, modes against a published fit and statsmodels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.cli import main
from bayeskit.datasets import example_data, prepare
from bayeskit.errors import BayeskitError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

ORDERED, SOFTMAX = load_model("ordered_regression"), load_model("softmax_regression")
WINE = example_data(ORDERED.EXAMPLE, ORDERED.VARIABLES)


def dataset(module: Any, **columns: Any) -> xr.Dataset:
    features = tuple(name for name in columns if name.startswith("x"))
    return prepare(pd.DataFrame(columns), module.VARIABLES, {"x": features})


@pytest.mark.slow
def test_ordered_mode_under_vague_priors_is_the_published_fit() -> None:
    """Christensen (2015), Analysis of ordinal data with cumulative link models, section 3: clm of R's ordinal."""
    found = bk.map_estimate(ORDERED.build(WINE, standardise=False, prior_scale=1e4), random_seed=1).point
    below = np.cumsum(found["probability"])[:-1]
    assert np.round(found["weights"], 4).tolist() == [2.5031, 1.5278]
    assert np.round(special.logit(below), 4).tolist() == [-1.3444, 1.2508, 3.4669, 5.0064]


@pytest.mark.parametrize("first", [0, 1])
def test_log_joint_of_levels_against_scipy(first: int) -> None:
    x, y = WINE["x"].to_numpy(), WINE["y"].to_numpy() - 1
    model = ORDERED.build(WINE.assign(y=WINE["y"] - 1 + first), standardise=False, concentration=2.0)
    w, p = np.array([1.2, -0.4]), np.array([0.1, 0.3, 0.25, 0.2, 0.15])
    cumulated = special.expit(special.logit(np.cumsum(p)[:-1]) - (x @ w)[:, None])
    cumulated = np.column_stack([np.zeros(len(y)), cumulated, np.ones(len(y))])
    expected = stats.norm(0, 2.5).logpdf(w).sum() + stats.dirichlet(np.full(5, 2.0)).logpdf(p)
    expected += np.log(np.diff(cumulated, axis=1)[np.arange(len(y)), y]).sum()
    assert LogJoint.from_model(model).logp({"weights": w, "probability": p}) == pytest.approx(expected, rel=1e-12)
    assert model.coords["level"] == tuple(range(first, first + 5))


@pytest.mark.slow
def test_two_levels_on_the_command_line_against_a_dense_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two levels it is a logistic regression whose intercept is logistic: p is uniform."""
    x, y = np.array([0.2, 1.1, -0.7, 2.0, 0.4, -1.3]), np.array([1, 2, 1, 2, 1, 1])
    pd.DataFrame({"grade": y, "dose": x}).to_csv(tmp_path / "grades.csv", index=False)
    given = ["--data", str(tmp_path / "grades.csv"), "--columns", "y=grade,x=dose", "--set", "standardise=false"]
    assert main(["infer", "ordered_regression", *given, "--draws", "100", "--json"]) == 0
    c, w = np.linspace(-20, 20, 801), np.linspace(-20, 20, 801)
    sign = np.where(y == 2, 1.0, -1.0)
    log = stats.logistic.logpdf(c)[:, None] + stats.norm(0, 2.5).logpdf(w)
    log = log + special.log_expit(sign * (x * w[:, None] - c[:, None, None])).sum(axis=-1)
    expected = special.logsumexp(log) + 2 * np.log(c[1] - c[0])
    assert json.loads(capsys.readouterr().out)["log_evidence"]["value"] == pytest.approx(expected, abs=1e-7)


def test_softmax_mode_under_vague_priors_is_that_of_statsmodels() -> None:
    """Which of three ratings a wine gets, without their order."""
    rating = np.array(["poor", "poor", "fair", "good", "good"])[WINE["y"].to_numpy() - 1]
    x = WINE["x"].to_numpy()[:, 1]
    data = dataset(SOFTMAX, y=rating, x1=x)
    vague = {"standardise": False, "intercept_scale": 1e4, "prior_scale": 1e4, "reference": "poor"}
    found = bk.map_estimate(SOFTMAX.build(data, **vague), random_seed=1).point
    codes = np.array([["poor", "fair", "good"].index(r) for r in rating])
    fit = sm.MNLogit(codes, sm.add_constant(x)).fit(disp=0)
    assert found["intercept"] == pytest.approx(fit.params[0], abs=1e-5)
    assert found["weights"][0] == pytest.approx(fit.params[1], abs=1e-5)


def test_log_joint_of_classes_against_scipy_and_of_two_against_logistic_regression() -> None:
    data = example_data(SOFTMAX.EXAMPLE, SOFTMAX.VARIABLES)
    x, codes = data["x"].to_numpy(), np.unique(data["y"], return_inverse=True)[1]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    b, w = np.array([-1.0, 0.5]), np.array([[0.3, -0.7], [1.1, 0.2]])
    eta = np.insert(b + z @ w, 1, 0.0, axis=1)  # of setosa, versicolor, virginica
    expected = stats.norm(0, 5).logpdf(b).sum() + stats.norm(0, 2.5).logpdf(w).sum()
    expected += special.log_softmax(eta, axis=1)[np.arange(len(codes)), codes].sum()
    joint = LogJoint.from_model(SOFTMAX.build(data, reference="versicolor"))
    assert joint.logp({"intercept": b, "weights": w}) == pytest.approx(expected, rel=1e-12)
    logistic = load_model("logistic_regression")
    two = LogJoint.from_model(SOFTMAX.build(dataset(SOFTMAX, y=["no", "yes", "no"], x1=[1.0, 2.0, 4.0])))
    one = LogJoint.from_model(logistic.build(dataset(logistic, y=[0, 1, 0], x1=[1.0, 2.0, 4.0])))
    of_one = one.logp({"intercept": np.array(0.3), "weights": np.array([0.8])})
    of_two = two.logp({"intercept": np.array([0.3]), "weights": np.array([[0.8]])})
    assert of_two == pytest.approx(of_one, rel=1e-12)


@pytest.mark.parametrize(
    ("module", "y", "options", "message"),
    [
        (ORDERED, [2, 2, 2], {}, "column 'y' has one level, 2"),
        (ORDERED, [5, 7, 6], {}, "column 'y' has no level below 5; number the levels from 0 or 1"),
        (ORDERED, [1.0, 2.5, 2.0], {}, "column 'y', row 2"),
        (SOFTMAX, ["a", "a", "a"], {}, "column 'y' has one class, a"),
        (SOFTMAX, ["a", "b", "a"], {"reference": "c"}, "option reference is 'c'; it must be one of a, b, or none"),
    ],
)
def test_levels_and_classes_that_have_no_model_are_refused(
    module: Any, y: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BayeskitError, match=message):
        module.build(dataset(module, y=y, x1=[0.0, 1.0, 2.0]), **options)
