"""What a page says against an answer: priors that the data contradict or that decide, and single observations."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pymc.exceptions import ImputationWarning
from scipy import stats

import bayeskit as bk
from bayeskit.comparison.leave_one_out import pointwise_loo
from bayeskit.errors import ModelError, OptionError
from bayeskit.reporting.dates import plain_dates
from bayeskit.reporting.html import render
from bayeskit.results.records import Posterior

PEOPLE = ["ann", "bob", "cy", "dee", "eve", "fay", "guy", "hal", "ida", "jo"]
Y = np.array([0.1, -0.4, 0.6, 0.3, -0.2, 0.5, 0.0, 0.2, -0.3, 9.0])


@cache
def mean_of(prior_mean: float, prior_sd: float, sd: float = 1.0) -> Posterior:
    with pm.Model(coords={"person": PEOPLE}) as model:
        mu = pm.Normal("mu", prior_mean, prior_sd)
        pm.Normal("y", mu, sd, observed=Y, dims="person")
    return bk.infer(model, draws=4000, random_seed=1, progressbar=False)


def test_the_interval_of_the_prior_and_how_much_narrower_it_became() -> None:
    section = bk.report_section(mean_of(0.0, 2.0), "learning")
    name, low, high, after_low, after_high, narrower = section.tables[0].rows[0]
    precision = 1 / 4 + len(Y)
    posterior = stats.norm(Y.sum() / precision, precision**-0.5)
    assert name == "mu"
    # Quantiles of 4,000 draws: five standard errors, each about 0.03 of the sd.
    assert [low, high] == pytest.approx(stats.norm(0, 2).interval(0.89), abs=5 * 0.035 * 2)
    assert [after_low, after_high] == pytest.approx(posterior.interval(0.89), rel=1e-6)
    assert narrower == pytest.approx(2 * precision**0.5, rel=0.1)
    assert not section.doubts


def test_a_prior_that_the_data_contradict_is_a_doubt_of_the_verdict() -> None:
    section = bk.report_section(mean_of(-5.0, 1.0), "learning")
    assert section.doubts == ("the data contradict the prior of mu: the posterior mean lies in its tail",)
    assert section.doubts[0] in bk.report_section(mean_of(-5.0, 1.0), "verdict").paragraphs[0]


@pytest.mark.parametrize(("half", "far"), [(1.0, False), (1000.0, True)])
def test_an_infinite_mean_says_nothing_about_the_prior_and_a_median_does(half: float, far: bool) -> None:
    with pm.Model() as model:
        x = pm.HalfCauchy("x", 1.0)
        pm.Bernoulli("y", p=x / (x + half), observed=[1] * (60 if far else 1))
    post = bk.infer(model, method="quadrature", random_seed=1, progressbar=False)
    assert not np.isfinite(post.summary().loc["x", "mean"])
    section = bk.report_section(post, "learning")
    assert bool(section.doubts) == far
    assert all("or the median where there is no mean" in doubt for doubt in section.doubts)


def test_predictions_at_many_places_are_no_parameters_to_compare() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.Normal("y", mu, 1.0, observed=Y)
        later = pm.Normal("later", mu, 1.0, shape=12)
        pm.Normal("after", later, 1.0, shape=12)
        few = pm.Normal("few", mu, 1.0, shape=2)
        pm.Normal("last", few[0], 1.0, shape=12)
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    section = bk.report_section(post, "learning")
    assert "predictions, which no data depend on: later, after and last" in " ".join(section.paragraphs)
    assert [row[0] for row in section.tables[0].rows] == ["mu", "few[0]", "few[1]"]


def test_an_improper_prior_is_said_to_have_no_draws() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=Y)
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    assert "cannot be drawn from" in bk.report_section(post, "learning").paragraphs[0]


def test_leave_one_out_is_the_closed_form_and_names_who_decides_too_much() -> None:
    section = bk.report_section(mean_of(0.0, 10.0, 3.0), "loo")
    rows = {row[0]: row[1:] for row in section.tables[0].rows}
    others = Y[:-1]
    precision = 1 / 100 + len(others) / 9
    exact = stats.norm.logpdf(Y[-1], others.sum() / 9 / precision, np.sqrt(9 + 1 / precision))
    assert rows["jo"][0] == pytest.approx(exact, abs=0.1)
    assert next(iter(rows)) == "jo"  # the least expected comes first
    decides = bk.report_section(mean_of(0.0, 10.0, 0.3), "loo")
    assert "1 observation has a high Pareto k (jo)" in decides.doubts[0]


def test_power_scaling_finds_the_prior_that_decides() -> None:
    weak = bk.report_section(mean_of(0.0, 100.0), "sensitivity")
    assert not weak.doubts
    gradient = bk.report_section(mean_of(0.0, 100.0), "gradient").tables[0]
    found = mean_of(0.0, 100.0).sensitivity().table
    assert [row[:3] for row in gradient.rows] == [
        (n, *row[:2]) for n, row in zip(found.index, found.values, strict=True)
    ]
    strong = bk.report_section(mean_of(-5.0, 0.5), "sensitivity")
    assert strong.doubts[0].startswith("the answer depends on the prior for mu")


@pytest.mark.slow
def test_the_steps_of_a_series_are_part_of_the_model() -> None:
    """Their prior to a power is smoother: it was called the reason for every entry, and for the noise."""
    y = np.cumsum(np.random.default_rng(1).normal(0, 0.3, 20))
    with pm.Model() as model:
        noise = pm.HalfNormal("noise", 2.0)
        walk = pm.GaussianRandomWalk("walk", sigma=0.3, init_dist=pm.Normal.dist(), shape=20)
        pm.Normal("y", walk, noise, observed=y)
    section = bk.report_section(bk.infer(model, draws=2000, random_seed=1, progressbar=False), "sensitivity")
    assert section.tables and not section.doubts


def test_rows_of_one_predictive_mean_are_not_drawn_over_its_noise() -> None:
    words = [p.caption for p in bk.report_section(mean_of(0.0, 2.0), "predictive").pictures]
    assert any("deviations, along the rows" in caption for caption in words)


def test_the_digits_of_the_answer_follow_its_interval() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 10.0), 1e-4, observed=np.linspace(4.999, 5.001, 40))
    verdict = bk.report_section(bk.infer(model, draws=400, random_seed=1, progressbar=False), "verdict")
    half = stats.norm.ppf(0.945) * 1e-4 / np.sqrt(40)
    assert f"mu 5 (89 % interval {5 - half:.6f} to {5 + half:.6f})" in verdict.paragraphs[0]


@pytest.mark.slow
def test_missing_entries_are_counted_once_and_data_never() -> None:
    y = np.array([0.5, np.nan, -0.3, 0.8])
    with pytest.warns(ImputationWarning), pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 2.0), 1.0, observed=y)
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    assert ", and 1 more below" in bk.report_section(post, "verdict").paragraphs[0]


@pytest.mark.slow
def test_dates_without_a_time_are_days(tmp_path: Path) -> None:
    for text in ("2024-03-01T00:00:00.000000", "2024-03-01 00:00:00", "2024-03-01T00:00:00.000000000"):
        assert plain_dates(f"level[{text}, a]") == "level[2024-03-01, a]"
    for text in ("2024-03-01T06:00:00", "2024-03-01 00:00:00.5", "12024-03-01 00:00:00", "2024-03-01 00:00:00:1"):
        assert plain_dates(text) == text
    with pm.Model(coords={"day": pd.date_range("2024-03-01", periods=9)}) as model:
        level = pm.Normal("level", pm.Normal("mu"), dims="day")
        pm.Normal("y", level, observed=Y[:9], dims="day")
    page = bk.report(bk.infer(model, draws=400, random_seed=1, progressbar=False), tmp_path / "days.html").read_text()
    assert "level[2024-03-01]" in page and not re.search(r"2024-03-01[T ]00", page)


def test_a_page_is_of_draws_and_called_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="infer first"):
        bk.report(mean_of(0.0, 2.0).model, tmp_path / "page.html")
    with pytest.raises(OptionError, match=r"it is a page of HTML; name it page.html"):
        bk.report(mean_of(0.0, 2.0), tmp_path / "page.pdf")


def test_standard_scores_of_a_population_are_part_of_the_model() -> None:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 10.0), pm.HalfNormal("tau", 10.0)
        z = pm.Normal("z", shape=40)
        pm.Normal("y", mu + tau * z, 0.5, observed=np.linspace(-2, 2, 40))
    rng = np.random.default_rng(1)
    mean, scale = rng.normal(0, 0.2, (4, 500)), 1.2 * np.exp(rng.normal(0, 0.1, (4, 500)))
    scores = rng.normal(0.0, 0.4, (4, 500, 40)) + np.linspace(-1.6, 1.6, 40) - mean[..., None]
    draws = az.from_dict({"posterior": {"mu": mean, "tau": scale, "z": scores}})
    section = bk.report_section(draws, "sensitivity", model=model)
    assert section.tables and not section.doubts


@pytest.mark.parametrize("sd", [None, 100.0])
def test_power_scaling_of_uniform_priors_has_no_warning_and_no_doubt(sd: float | None) -> None:
    with pm.Model() as model:
        chance = pm.Beta("chance", 1.0, 1.0, shape=2)
        share = pm.Dirichlet("share", np.ones(3))
        pm.Binomial("heads", 10, chance, observed=[3, 4])
        if sd is not None:
            pm.Normal("y", pm.Normal("mu", 0.0, sd), 1.0, observed=Y)
        pm.Multinomial("votes", 12, share, observed=[5, 3, 4])
    section = bk.report_section(bk.infer(model, draws=1000, random_seed=1, progressbar=False), "sensitivity")
    assert not section.doubts
    assert section.tables if sd is not None else "uniform" in section.paragraphs[0]


def test_a_section_shows_itself_in_a_notebook_and_takes_tables_of_pandas() -> None:
    frame = pd.DataFrame({"euro": [1.5]}, index=pd.Index(["<tea>"], name="what"))
    section = bk.Section("costs", "Costs & such", ("Not <much>.",), tables=(frame,), doubts=("it was dear",))
    markup = section._repr_html_()
    assert "Costs &amp; such" in markup and "Not &lt;much&gt;" in markup and "&lt;tea&gt;" in markup
    assert "<li>it was dear.</li>" in render("A page", [section])


def test_leave_one_out_that_is_unreliable_names_what_is_not() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 10.0), pm.HalfNormal("sigma", 5.0), observed=np.append(np.zeros(9), 30.0))
    post = bk.infer(model, draws=1000, random_seed=1)
    found = pointwise_loo(post, costly=False)
    assert found.high.any() and "bayeskit.cross_validate" in found.note
    assert any("bayeskit.cross_validate" in doubt for doubt in bk.report_section(post, "loo").doubts)
