"""The page of a comparison: its tables are those of the comparison, its pictures are described, and it is whole."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.prequential_scores import Sequential
from bayeskit.errors import OptionError
from bayeskit.reporting.compared_models import comparison_section, comparison_sections
from bayeskit.reporting.evidence_sections import comparison_versions_section
from bayeskit.reporting.html import table_markup
from bayeskit.reporting.records import Section, styled
from bayeskit.reporting.result_sections import ANSWERS, result_sections

Y = np.array([0.3, -0.8, 1.9, 0.7, 1.2, 0.4])


def model(slope: bool) -> pm.Model:
    with pm.Model() as found:
        mean = pm.Normal("level <b>", 0.0, 1.5)
        if slope:
            mean = mean + pm.Gamma("slope", 2.0, 0.5) * np.linspace(-1, 1, 6)
        pm.Normal("y", mean, 1.0, observed=Y)
    return found


@cache
def models() -> dict[str, pm.Model]:
    return {"mean & all": model(False), "line": model(True)}


@cache
def comparison() -> Comparison:
    return bk.compare(models(), random_seed=1)


@cache
def arrived() -> Sequential:
    return bk.sequential(dict(comparison().posteriors), progressbar=False, random_seed=1)


@cache
def section_of_arrived() -> Section:
    with styled():
        (section,) = result_sections([arrived()])
    return section


@cache
def sections() -> dict[str, Section]:
    with styled():
        return {section.key: section for section in comparison_sections(comparison(), ["Why we ask."])}


@pytest.mark.slow
def test_the_evidences_and_loo_are_two_tables_of_the_same_rows() -> None:
    evidence, loo = sections()["evidence"].tables
    table = comparison().table
    assert [row[0] for row in evidence.rows] == [row[0] for row in loo.rows] == list(table.index)
    assert {*evidence.columns, *loo.columns} == {"model", *table.columns}
    place = evidence.columns.index("log_evidence")
    assert [row[place] for row in evidence.rows] == table["log_evidence"].tolist()
    assert [picture.alt for picture in sections()["evidence"].pictures] == [
        "Log evidence of each model with its error.",
        "Posterior and prior probability of each model.",
        "Matrix of the log Bayes factors of each model against each other.",
    ]


def test_the_answer_names_the_prior_probabilities() -> None:
    """Odds against the model of the larger evidence; by Bayes' rule from the two evidences alone."""
    evidences = {name: posterior.log_evidence.value for name, posterior in comparison().posteriors.items()}
    first, second = sorted(evidences, key=evidences.__getitem__, reverse=True)
    odds = 0.01 * np.exp(evidences[first] - evidences[second])
    given = bk.compare(dict(comparison().posteriors), prior_odds={first: 0.01, second: 1.0}, loo=False)
    (answer,) = comparison_sections(given)[0].paragraphs
    less, more = odds / (1 + odds), 1 / (1 + odds)
    assert f"its posterior probability is {less:.3g}, where its prior probability is {0.01 / 1.01:.3g}." in answer
    assert f"The prior odds make {second} the most probable model: its posterior probability is {more:.3g}" in answer


def test_each_model_has_its_priors_with_their_numbers_and_dims() -> None:
    captions = {table.caption: table for table in sections()["priors"].tables}
    rows = captions["Priors of line"].rows
    assert [row[0] for row in rows] == ["level <b>", "slope"]
    assert "1.5" in str(rows[0][1]) and "2" in str(rows[1][1]) and rows[0][2] == "scalar"


@pytest.mark.slow
def test_the_size_of_a_prior_is_said_once() -> None:
    with pm.Model(coords={"group": ["a", "b"]}) as wide:
        pm.Normal(
            "y", pm.Normal("mean", 0.0, 1.0, shape=(2, 3)).sum() + pm.Normal("of", dims="group").sum(), observed=Y
        )
    compared = bk.compare({"wide": wide, "line": model(True)}, loo=False, random_seed=1)
    assert compared.priors["wide"] == (
        "mean ~ Normal(mu=0, sigma=1), shape (2, 3)",
        "of ~ Normal(mu=0, sigma=1), dims group (2)",
    )
    with styled():
        (tables,) = (section.tables for section in comparison_sections(compared) if section.key == "priors")
    rows = next(table.rows for table in tables if table.caption == "Priors of wide")
    assert [row[1:] for row in rows] == [("Normal(mu=0, sigma=1)", "2 × 3"), ("Normal(mu=0, sigma=1)", "group (2)")]


def test_the_page_says_how_each_evidence_was_found_and_what_is_doubtful() -> None:
    (table,) = sections()["audit"].tables
    methods = {row[0]: row[1] for row in table.rows}
    assert methods == {name: post.method for name, post in comparison().posteriors.items()}
    doubtful = replace(comparison(), notes=("line: mind <this>",))
    with styled():
        found = {section.key: section for section in comparison_sections(doubtful)}
    assert found["audit"].paragraphs == ("line: mind <this>",)
    assert sections()["verdict"].paragraphs[1] == "Why we ask."
    assert comparison().table.index[0] in sections()["verdict"].paragraphs[0]
    (inclusion,) = sections()["inclusion"].tables
    assert [row[0] for row in inclusion.rows] == ["slope"]


@pytest.mark.slow
def test_a_page_of_a_comparison_is_whole_and_leaves_no_figure_open(tmp_path: Path) -> None:
    before = set(plt.get_fignums())
    path = bk.report(comparison(), tmp_path / "models.html", results=[arrived()])
    page = path.read_text(encoding="utf-8")
    assert set(plt.get_fignums()) == before
    assert page.count("<table>") == page.count("</table>") >= 6
    assert "mean &amp; all" in page and "level &lt;b&gt;" in page and "<b>" not in page
    (code,) = re.findall(r"<pre>(bk\..*?)</pre>", page, re.DOTALL)
    assert unescape(code) == comparison_versions_section(comparison()).text
    assert all(str(post.random_seed) in page for post in comparison().posteriors.values())
    assert "As the data arrived" in page and page.index("As the data arrived") < page.index("To reproduce this</h2>")
    assert page.count('<div class="scroll') == page.count("<table>")  # each can be scrolled where it is too wide
    assert bk.report(comparison(), tmp_path / "again.html", results=[arrived()]).read_bytes() == path.read_bytes()


def test_what_a_page_of_a_comparison_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="neither a validation nor another comparison"):
        bk.report(comparison(), tmp_path / "a.html", comparison=comparison())
    with pytest.raises(OptionError, match=r"results has a int; a page can show CrossValidation, .*Sequential"):
        bk.report(comparison(), tmp_path / "a.html", results=[3])
    assert not list(tmp_path.iterdir())


def test_a_posterior_shows_the_comparison_it_is_part_of() -> None:
    with styled():
        section = comparison_section(comparison())
    assert len(section.pictures) == 3 and section.tables[0].columns[0] == "model"


def test_of_what_grows_with_the_data_the_last_rows_are_shown() -> None:
    section = section_of_arrived()
    assert section.key == "sequential-1" and section.title == ANSWERS["Sequential"][0]
    (table,) = section.tables
    table_of_all = arrived().table
    last = table_of_all[table_of_all["observations"] == 6].set_index("model")
    place = table.columns.index("log_evidence")
    assert {row[0]: row[place] for row in table.rows} == last["log_evidence"].to_dict()


def test_an_answer_without_a_table_is_shown_as_it_is_printed() -> None:
    null = bk.savage_dickey(comparison().posteriors["mean & all"], "level <b>", at=0.0)
    with styled():
        (section,) = result_sections({"Is the level <zero>?": null})
    assert section.text == str(null) and section.title == "Is the level <zero>?" and len(section.pictures) == 1


@pytest.mark.slow
def test_a_curve_is_a_table_of_some_of_its_values() -> None:
    curve = bk.robustness(dict(comparison().posteriors), "level <b>.sigma", np.geomspace(0.5, 5.0, 20))
    with styled():
        (section,) = result_sections([curve])
    (table,) = section.tables
    first, second = dict.fromkeys(curve.table["model"])
    assert table.columns == ("value", second) and f"against {first}" in table.caption
    known = curve.table[curve.table["model"] == second].set_index("value")["log_bayes_factor"].to_dict()
    assert f">{second}</th>" in table_markup(replace(table, columns=("value", "a_b"))).replace("a_b", second)
    assert len(table.rows) == 15 and all(known[row[0]] == row[1] for row in table.rows)
    assert table.rows[0][0] == 0.5 and table.rows[-1][0] == 5.0
    assert "mathdefault" not in section.pictures[0].data.decode()


@pytest.mark.slow
@pytest.mark.parametrize("odds", [None, {"mean & all": 3.0}])
def test_what_reproduces_a_comparison_is_the_comparison(odds: dict[str, float] | None) -> None:
    """The code of the page's last section, run, gives the table of all models, and not the best of them alone."""
    found = comparison() if odds is None else bk.compare(models(), prior_odds=odds, loo=False, random_seed=5)
    section = comparison_versions_section(found)
    again = eval(section.text, {"bk": bk, "models": models()})
    pd.testing.assert_frame_equal(again.table, found.table)
    assert not any("Given as posteriors" in said for said in section.paragraphs)


def test_a_posterior_that_was_given_keeps_its_seed() -> None:
    given = {"mean": bk.infer(model(False), random_seed=7), "line": model(True)}
    said = " ".join(comparison_versions_section(bk.compare(given, random_seed=1)).paragraphs)
    assert "Given as posteriors, with seeds of their own" in said and "found has: mean." in said


def test_names_of_several_words_do_not_run_into_the_question() -> None:
    posteriors = dict(zip(("a, b", "c"), comparison().posteriors.values(), strict=True))
    with styled():
        verdict = comparison_sections(bk.compare(posteriors, loo=False))[0].paragraphs[0]
    assert re.match(r"For which of the models .*“a, b”.* do the data y \(6 values\) speak\?", verdict)
    assert "“c”" not in verdict


def test_the_log_score_stands_beside_its_error() -> None:
    section = section_of_arrived()
    columns = section.tables[0].columns
    assert columns.index("log_score_error") == columns.index("log_score") + 1
    assert any("the log score is that of this block" in said for said in section.paragraphs)
