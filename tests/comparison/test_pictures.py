"""Pictures by what is drawn: with the backend "none" a panel is a list of marks with their numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.curve_pictures import draw_robustness, draw_sequential
from bayeskit.comparison.pictures import MOST, draw_dots
from bayeskit.errors import ModelError, OptionError

Y = np.array([0.3, -0.8, 1.9, 0.7, 1.2, 0.4])


@cache
def comparison() -> Comparison:
    def model(sd: float) -> pm.Model:
        with pm.Model() as found:
            pm.Normal("y", pm.Normal("mu", 0.0, sd), 1.0, observed=Y)
        return found

    return bk.compare({"narrow": model(0.5), "wide": model(9.0), "$m_1$ <b>": model(2.0)}, random_seed=1)


def marks(collection: Any, panel: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The marks of a panel by the function that draws them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for mark in collection.viz["plot"].to_numpy()[panel]:
        found.setdefault(mark["function"], []).append(mark)
    return found


def texts(collection: Any, panel: int = 0) -> list[str]:
    return [mark["string"] for mark in marks(collection, panel)["text"]]


@pytest.mark.slow
def test_evidences_stand_in_their_order_with_their_labels() -> None:
    drawn = comparison().plot("evidence", backend="none")
    table = comparison().table
    (dots,) = marks(drawn)["scatter"]
    np.testing.assert_array_equal(dots["x"], table["log_evidence"])
    np.testing.assert_array_equal(dots["y"], [2.0, 1.0, 0.0])
    (ticks,) = marks(drawn)["yticks"]
    assert dict(zip(ticks["ticks"], ticks["labels"], strict=True)) == dict(zip([2, 1, 0], table.index, strict=True))
    expected = [f"−{-v:.2f} exact" for v in table["log_evidence"]]
    assert texts(drawn) == expected


def test_bars_are_two_standard_errors_of_an_estimate_and_the_bound_of_the_others() -> None:
    table = pd.DataFrame(
        {
            "log_evidence": [-3.0, -3.5, np.nan],
            "error": [0.1, 0.2, np.nan],
            "label": ["estimated", "quadrature", "estimated"],
        },
        index=["bridge", "quadrature", "smc"],
    ).assign(reason=["", "", "it failed"])
    drawn = draw_dots("Estimators", "log p(y)", table, "log_evidence", "none")
    ends = [(mark["x"].tolist(), mark["y"].tolist()) for mark in marks(drawn)["line"]]
    assert ends == [([-3.2, -2.8], [2.0, 2.0]), ([-3.7, -3.3], [1.0, 1.0])]
    assert marks(drawn)["scatter"][0]["x"].size == 2
    assert texts(drawn)[2] == "none: it failed"
    assert "±2 se" in marks(drawn)["xlabel"][0]["string"]


def test_probabilities_have_the_prior_beside_them() -> None:
    drawn = comparison().plot("probability", backend="none")
    prior, posterior = marks(drawn)["scatter"]
    np.testing.assert_array_equal(posterior["x"], comparison().table["posterior_probability"])
    np.testing.assert_array_equal(prior["x"], comparison().table["prior_probability"])
    assert prior["facecolor"] == "white" != posterior["facecolor"]


def test_the_matrix_has_every_log_bayes_factor_with_its_sign() -> None:
    drawn = comparison().plot("bayes_factors", backend="none")
    names = list(comparison().table.index)
    cells = {(m["x"].item(), m["y"].item()): m["string"] for m in marks(drawn)["text"]}
    for row, a in enumerate(names):
        for column, b in enumerate(names):
            expected = f"{comparison().log_bayes_factor(a, b):.3g}".replace("-", "−") if a != b else "·"
            assert cells[column, 2.0 - row] == expected
    assert len(marks(drawn)["fill_between_y"]) == 6
    colours = {m["color"] for m in marks(drawn)["fill_between_y"]}
    assert len(colours) == 2


def test_all_three_stand_side_by_side_and_are_written_by_matplotlib(tmp_path: Path) -> None:
    assert list(comparison().plot(backend="none").viz["panel"].to_numpy()) == [
        "evidence",
        "probability",
        "bayes_factors",
    ]
    before = set(plt.get_fignums())
    drawn = comparison().plot(backend="matplotlib")
    drawn.savefig(tmp_path / "all.svg")
    words = (tmp_path / "all.svg").read_text()
    assert "<!-- $m_1$ &lt;b&gt; -->" in words  # as it is, no formula
    for number in set(plt.get_fignums()) - before:
        plt.close(number)


def test_of_many_models_the_best_are_drawn_and_the_picture_says_so() -> None:
    names = [f"a long name of model {k}" for k in range(MOST + 3)]
    rows = comparison().table.iloc[[0] * len(names)].set_axis(names)
    drawn = Comparison(rows).plot(backend="none")
    assert all(len(marks(drawn, k)["yticks"][0]["labels"]) == MOST for k in range(3))
    assert all(f"best {MOST} of {MOST + 3}" in marks(drawn, k)["title"][0]["string"] for k in range(3))
    (heads,) = marks(drawn, 2)["xticks"]  # long names head rows alone
    assert heads["labels"] == [str(k) for k in range(1, MOST + 1)]


def test_a_backend_that_is_not_installed_is_refused() -> None:
    with pytest.raises(OptionError, match=r"backend 'bokeh' cannot be had \(.*\); install it, or use 'matplotlib'"):
        comparison().plot(backend="bokeh")


def curve_table(x: str, models: list[str], **columns: float) -> pd.DataFrame:
    rows = [
        {x: value, "model": name, "error": 0.1, "label": "estimated", "log_evidence": -5.0 - k * value, **columns}
        | {"log_bayes_factor": -k * value, "log_bayes_factor_error": 0.1 * k, "posterior_probability": 1 / len(models)}
        for value in (1.0, 10.0, 100.0)
        for k, name in enumerate(models)
    ]
    return pd.DataFrame(rows)


def test_a_robustness_curve_has_its_band_its_names_and_the_chosen_value() -> None:
    table = curve_table("value", ["null", "effect", "other"])
    given = SimpleNamespace(parameter="delta.sigma", chosen={"effect": 2.0, "other": 2.0}, table=table)
    drawn = draw_robustness(given, "none")
    lines = marks(drawn)["line"]
    for k, line in enumerate(lines, 1):
        np.testing.assert_array_equal(line["x"], [1.0, 10.0, 100.0])
        np.testing.assert_array_equal(line["y"], [-k * 1.0, -k * 10.0, -k * 100.0])
    bands = marks(drawn)["fill_between_y"]
    np.testing.assert_allclose(bands[1]["y_top"] - bands[1]["y_bottom"], 4 * 0.2)
    assert [m["x"] for m in marks(drawn)["vline"] if "x" in m] == [2.0]
    assert texts(drawn) == ["effect", "other", " chosen: 2"]
    assert marks(drawn)["xscale"][0]["scale"] == "log"
    (ticks,) = marks(drawn)["xticks"]
    assert ticks["labels"] == ["1", "10", "100"]  # no markup, which pages do not set
    assert "against null" in marks(drawn)["title"][0]["string"] and "delta.sigma" in marks(drawn)["xlabel"][0]["string"]
    alone = draw_robustness(SimpleNamespace(**{**vars(given), "table": curve_table("value", ["effect"])}), "none")
    np.testing.assert_array_equal(marks(alone)["line"][0]["y"], [-5.0, -5.0, -5.0])


def test_curves_break_where_there_is_no_number() -> None:
    table = curve_table("value", ["null", "effect"])
    table.loc[table["value"] == 10.0, ["log_bayes_factor", "log_bayes_factor_error"]] = np.nan
    drawn = draw_robustness(SimpleNamespace(parameter="a.b", chosen={}, table=table), "none")
    np.testing.assert_array_equal(marks(drawn)["line"][0]["y"], [-1.0, np.nan, -100.0])
    nothing = table.assign(log_bayes_factor=np.nan)
    assert "line" not in marks(draw_robustness(SimpleNamespace(parameter="a.b", chosen={}, table=nothing), "none"))


def test_sequential_curves_keep_their_colours_in_both_panels() -> None:
    drawn = draw_sequential(SimpleNamespace(table=curve_table("observations", ["null", "a", "b"])), "none")  # type: ignore[arg-type]
    factors, probabilities = marks(drawn, 0)["line"], marks(drawn, 1)["line"]
    assert len(factors) == 2 and len(probabilities) == 3
    assert [line["color"] for line in factors] == [line["color"] for line in probabilities[1:]]
    heights = sorted(mark["y"].item() for mark in marks(drawn, 1)["text"])
    assert min(np.diff(heights)) > 0
    np.testing.assert_allclose(probabilities[0]["y"], 1 / 3)
    one = draw_sequential(SimpleNamespace(table=curve_table("observations", ["a"])), "none")  # type: ignore[arg-type]
    assert len(one.viz["plot"].to_numpy()) == 1


def test_names_of_curves_that_end_together_are_moved_apart() -> None:
    table = curve_table("value", ["null", "a", "b", "c"])
    last = table["value"] == 100.0
    table.loc[last & (table["model"] != "null"), "log_bayes_factor"] = -7.0
    drawn = draw_robustness(SimpleNamespace(parameter="p", chosen={}, table=table), "none")
    heights = sorted(mark["y"].item() for mark in marks(drawn)["text"])
    assert min(np.diff(heights)) > 0 and np.mean(heights) == pytest.approx(-7.0)


@cache
def regression(sampled: bool = False) -> bk.Posterior:
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 2.0)
        pm.Normal("other", 0.0, 1.0)
        noise = pm.HalfNormal("noise", 1.0) if sampled else 1.0
        pm.Normal("y", slope * np.linspace(-1, 1, 6), noise, observed=Y)
    return bk.infer(model, draws=400, random_seed=1, progressbar=False)


@pytest.mark.parametrize("sampled", [False, True])
def test_the_prior_stands_against_the_posterior_at_the_tested_point(sampled: bool) -> None:
    null = regression(sampled).savage_dickey("slope", at=0.5)
    drawn = null.plot(backend="none")
    prior, posterior, between = marks(drawn)["line"]
    np.testing.assert_allclose(prior["y"], stats.norm(0.0, 2.0).pdf(prior["x"]), rtol=1e-9)
    assert np.trapezoid(posterior["y"], posterior["x"]) == pytest.approx(1.0, abs=0.01)
    if not sampled:
        x = np.linspace(-1, 1, 6)
        precision = 1 / 4 + x @ x
        expected = stats.norm(x @ Y / precision, precision**-0.5).pdf(posterior["x"])
        np.testing.assert_allclose(posterior["y"], expected, rtol=1e-7)
    heights = np.exp([null.log_prior_density, null.log_posterior_density])
    np.testing.assert_array_equal(between["y"], heights)
    assert [dot["y"].item() for dot in marks(drawn)["scatter"]] == heights.tolist()
    np.testing.assert_allclose(np.interp(0.5, posterior["x"], posterior["y"]), heights[1], rtol=0.02)
    assert f"{null.log_bayes_factor:.3g}".replace("-", "−") in marks(drawn)["title"][0]["string"]


@pytest.mark.slow
def test_what_has_no_marginal_density_is_drawn_as_a_histogram() -> None:
    post = bk.infer(regression().model, method="nuts", draws=800, random_seed=1, progressbar=False)
    drawn = bk.savage_dickey(post, "slope", at=0.5, random_seed=1).plot(backend="none")
    assert "histogram of draws" in marks(drawn)["xlabel"][0]["string"]
    posterior = marks(drawn)["line"][1]
    assert np.trapezoid(posterior["y"], posterior["x"]) == pytest.approx(1.0, abs=0.05)


def test_points_of_several_numbers_have_no_curve() -> None:
    null = regression().savage_dickey(["slope", "other"], at=0.0)
    with pytest.raises(ModelError, match="slope, other were tested together, which no curve shows"):
        null.plot(backend="none")


def test_sensitivities_are_drawn_per_doubling_where_there_is_one() -> None:
    found = bk.sensitivity(regression())
    drawn = found.plot(backend="none")
    (dots,) = marks(drawn)["scatter"]
    known = found.table["elasticity"].dropna()
    np.testing.assert_array_equal(dots["x"], known)
    assert marks(drawn)["yticks"][0]["labels"] == list(known.index)


def test_estimates_and_choices_of_predictors_are_drawn_from_their_tables() -> None:
    opinion = bk.evidence(regression(), estimators=("exact", "laplace"), random_seed=1, progressbar=False)
    (dots,) = marks(opinion.plot(backend="none"))["scatter"]
    np.testing.assert_array_equal(dots["x"], opinion.table["log_evidence"])
    with pm.Model(coords={"column": ["a", "b"]}) as model:
        w = pm.Normal("w", 0.0, 1.0, dims="column")
        pm.Normal("y", np.stack([np.linspace(-1, 1, 6), np.ones(6)], axis=1) @ w, 1.0, observed=Y)
    chosen = bk.select(model, "w")
    drawn = chosen.plot(backend="none")
    prior, posterior = marks(drawn)["scatter"]
    assert sorted(posterior["x"]) == sorted(chosen.inclusion["probability"])
    np.testing.assert_array_equal(prior["x"], chosen.inclusion["prior_probability"])
    for result in (opinion, chosen):
        assert "\n" not in repr(result) and len(repr(result)) < 120
        assert result._repr_html_().count("<table") == len(result.TABLES)


def test_a_notebook_shows_what_a_test_of_a_point_says() -> None:
    null = regression().savage_dickey("slope", at=0.5)
    shown = null._repr_html_()
    assert f"{null.log_bayes_factor:.6g}" in shown and all(note in shown for note in null.notes)
