"""Repeated inferences side by side give the numbers of one process, and go on from what a checkpoint holds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from distributed import Client

import bayeskit as bk
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer
from bayeskit.errors import ModelError, OptionError
from bayeskit.jobs.work import Work


@cache
def regression(degree: int, sigma: float = 0.3) -> pm.Model:
    rng = np.random.default_rng(3)
    x = np.linspace(-1, 1, 12)
    y = 1 + x + 0.3 * rng.standard_t(4, size=12)
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 1, shape=degree + 1)
        pm.StudentT("y", nu=4, mu=np.vander(x, degree + 1) @ weights, sigma=sigma, observed=y)
    return model


def coin() -> pm.Model:
    with pm.Model() as model:
        rate = pm.Beta("rate", 2, 2)
        pm.Binomial("heads", 10, rate, observed=3)
    return model


def doubled(source: int) -> Any:
    def function(job: int) -> int:
        if job < 0:
            raise NoSubsetAnswer("a model", "for a reason")
        return source * job

    return function


def test_results_come_in_the_order_of_the_jobs_and_are_kept(client: Client, tmp_path: Path) -> None:
    jobs = {f"job {k}": k for k in range(9)}
    expected = [2 * k for k in range(9)]
    for given in (None, client):
        path = tmp_path / f"{given is None}"
        work = Work(given, path, {"doubled": 1})
        assert work.results(doubled, 2, dict(list(jobs.items())[:4]), "numbers") == expected[:4]
        assert work.results(doubled, 2, jobs, "numbers") == expected
        assert len(path.read_text().splitlines()) == 1 + 9  # each once
        assert Work(None, path, {"doubled": 1}).results(doubled, 1_000, jobs, "numbers") == expected
        with pytest.raises(OptionError, match="of another run, with another doubled"):
            Work(given, path, {"doubled": 2}).results(doubled, 2, jobs, "numbers")
        with pytest.raises(NoSubsetAnswer, match="a model, for a reason") as raised:
            Work(given).results(doubled, 2, {"one": -1, "two": 1}, "numbers")
        assert raised.value.reason == "for a reason"


@pytest.mark.slow
def test_models_that_are_inferred_on_workers_have_the_same_evidence(client: Client, tmp_path: Path) -> None:
    models, kept = {"level": regression(0), "line": regression(1)}, tmp_path / "kept"
    here = bk.compare(models, random_seed=4, progressbar=False)
    there = bk.compare(models, random_seed=4, progressbar=False, client=client, checkpoint=kept)
    lines = kept.read_text().splitlines()
    again = bk.compare(models, random_seed=4, progressbar=False, checkpoint=kept)
    for other in (there, again):
        np.testing.assert_array_equal(here.table["log_evidence"], other.table["log_evidence"])
        np.testing.assert_array_equal(here.table["elpd_loo"], other.table["elpd_loo"])
    assert kept.read_text().splitlines() == lines
    assert len(lines) == 3
    with pytest.raises(OptionError, match="another seed"):
        bk.compare(models, random_seed=5, checkpoint=kept)
    # A model that was changed since has another mark: it is inferred anew, and here.
    changed = regression(1, sigma=0.5)
    other = bk.compare({"level": regression(0), "line": changed}, random_seed=4, checkpoint=kept)
    alone = bk.infer(changed, random_seed=0).log_evidence
    assert abs(other.table["log_evidence"]["line"] - alone.value) < 8 * alone.error
    assert kept.read_text().splitlines()[:3] == lines
    assert len(kept.read_text().splitlines()) == 4


def test_a_model_that_was_sent_has_the_closed_form_that_it_had() -> None:
    """A default transform is known again, and one that restricts the support is not taken for it."""
    for transform, method in (
        ({}, "exact"),
        ({"transform": pm.distributions.transforms.Interval(0.1, 0.8)}, "quadrature"),
    ):
        with pm.Model() as model:
            pm.Binomial("heads", 10, pm.Uniform("rate", 0, 1, **transform), observed=3)
        for given in (model, cloudpickle.loads(cloudpickle.dumps(model))):
            assert bk.explain(given).method == method


@pytest.mark.slow
def test_folds_on_workers_have_the_same_scores(client: Client, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "kfold", "folds": 3, "random_seed": 2, "progressbar": False}
    posterior = bk.infer(regression(0), method="importance", draws=1000, random_seed=1)
    here = bk.cross_validate({"level": posterior}, **options)
    assert here.table["label"]["level"] == "estimated"
    there = bk.cross_validate({"level": posterior}, client=client, checkpoint=tmp_path / "folds", **options)
    lines = (tmp_path / "folds").read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 3
    (tmp_path / "folds").write_text("".join(lines[:2]) + lines[2][:50])
    again = bk.cross_validate({"level": posterior}, checkpoint=tmp_path / "folds", **options)
    assert json.loads((tmp_path / "folds").read_text().splitlines()[1]) == json.loads(lines[1])
    for other in (there, again):
        np.testing.assert_array_equal(here.pointwise, other.pointwise)
        np.testing.assert_array_equal(here.errors, other.errors)


@pytest.mark.slow
def test_a_calibration_and_a_trial_do_not_depend_on_who_does_them(client: Client) -> None:
    options: dict[str, Any] = {"datasets": 3, "random_seed": 5, "progressbar": False}
    here, there = bk.calibrate(coin(), **options), bk.calibrate(coin(), client=client, **options)
    np.testing.assert_array_equal(here.table, there.table)
    trials = [
        bk.trial(["exact"], references=["coin", "normal_mean"], random_seed=3, progressbar=False, client=given)
        for given in (None, client)
    ]
    for column in ("verdict", "distance"):
        if column in trials[0].table:
            np.testing.assert_array_equal(trials[0].table[column], trials[1].table[column])
    with pytest.raises(ModelError, match="at least two"):
        bk.compare({"coin": coin()}, client=client)
