"""What a notebook shows: markup that is whole, in which no name of a user's is taken for markup."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit.errors import ModelError
from bayeskit.results.notebook_html import ROWS, clipped, notebook_html, table_html
from bayeskit.results.records import LogEvidence, Plan, Posterior

NAMES = ["a<b", "<script>alert(1)</script>", 'c&d"']
TAGS = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary", "pre"}


class Whole(HTMLParser):
    """Fails where a tag is left open or is none of ours, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def text_of(markup: str) -> str:
    parser = Whole()
    parser.feed(markup)
    parser.close()
    assert not parser.open
    return parser.said


@cache
def posterior() -> Posterior:
    with pm.Model(coords={"group": NAMES}) as model:
        mu = pm.Normal("mu<1>", 0.0, 1.0, dims="group")
        pm.Gamma("many", 2.0, 1.0, shape=30)
        pm.Exponential("last", 1.0)
        pm.Normal("y<br>", mu[[0, 1, 2, 0]], 1.0, observed=[1.0, 2.0, 0.5, 1.5])
    return bk.infer(model, draws=200, random_seed=1, progressbar=False)


def shown() -> list[Any]:
    post = posterior()
    compared = bk.compare({name: post for name in NAMES}, loo=False)
    refused = Plan((), ("a<b",), "nuts", (bk.Refusal("a<b", "p < 1 & q > 2", "try <this>"),), ("note <b>",))
    return [post, post.plan, refused, post.log_evidence, post.marginal("mu<1>"), compared]


@pytest.mark.parametrize("number", range(6))
def test_markup_is_whole_and_nothing_in_it_is_unescaped(number: int) -> None:
    result = shown()[number]
    said = text_of(result._repr_html_())
    assert said.strip()
    assert len(repr(result)) < 300 and "\n" not in repr(result)


def test_a_posterior_shows_its_first_rows_its_evidence_and_its_plan() -> None:
    said = text_of(posterior()._repr_html_())
    for name in NAMES:
        assert f"mu<1>[{name}]" in said
    assert f"{float(posterior().log_evidence):.10g}" in said
    assert "integrated out in closed form" in said
    assert f"{ROWS} rows" not in said and "rows are not shown" in said and "1 more variables are not shown" in said
    assert "mu<1>, many, last; exact" in repr(posterior())


def test_a_posterior_without_draws_is_shown() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=[1.0, 2.0])
    bare = replace(bk.infer(model, draws=100, random_seed=1), tree=xr.DataTree())
    assert "log evidence" in text_of(bare._repr_html_())
    assert "0 draws" in repr(bare)


def test_a_table_has_the_formats_it_is_given_and_says_what_it_leaves_out() -> None:
    frame = pd.DataFrame({"error": np.full(30, 1.23456e-9), "label": "<i>", "n": 7}, index=[f"r{k}" for k in range(30)])
    said = text_of(table_html(frame, {"error": "{:.1e}"}))
    assert said.count("1.2e-09") == ROWS and "10 of 30 rows are not shown." in said
    assert said.count("<i>") == ROWS
    missing = text_of(table_html(pd.DataFrame({"x": [np.nan, 2.0], "x2": [None, "y"], "yes": [True, False]})))
    assert "–" in missing and "True" in missing and "nan" not in missing


def test_numbers_are_not_cut_at_a_hyphen() -> None:
    frame = pd.DataFrame({"error": [1e-10], "size": [3], "word": ["twenty-one"], "less": [-2.5]}, index=["a-b"])
    cells = table_html(frame, {"error": "{:.1e}"}).split("<td")
    unbroken = [cell for cell in cells if 'style="white-space:nowrap"' in cell]
    assert [cell.partition(">")[2].partition("<")[0] for cell in unbroken] == ["1.0e-10", "3", "-2.5"]


def test_a_comparison_shows_its_table_as_it_prints_it() -> None:
    compared = shown()[5]
    said = text_of(compared._repr_html_())
    assert f"{compared.table['log_evidence'].iloc[0]:.3f}" in said and "0.3333" in said
    assert "mu<1> ~ Normal" in said


def test_text_of_every_kind_is_escaped() -> None:
    said = text_of(notebook_html("<h>", lines=["<l>"], notes=["<n>"], folded={"<t>": "<x>"}))
    assert said == "<h><l><n><t><x>"
    assert clipped(range(8)) == "0, 1, 2, 3, 4, 5, … (2 more)"
    assert "standard error" in text_of(LogEvidence(-1.0, 0.1, "estimated")._repr_html_())


def test_a_summary_of_some_variables() -> None:
    post, whole = posterior(), posterior().summary()
    some = post.summary("last")
    pd.testing.assert_frame_equal(some, whole.loc[["last"]])
    assert list(post.summary(["last", "mu<1>"]).index) == ["last", *(f"mu<1>[{name}]" for name in NAMES)]
    assert len(post.summary("~many")) == 4
    assert len(post.summary(["an"], filter_vars="like")) == 30
    assert list(post.summary(["^l.*t$"], filter_vars="regex").index) == ["last"]
    with pytest.raises(ModelError, match="no variables other; the posterior has mu<1>, many, last"):
        post.summary("other")
    with pytest.raises(ModelError, match=r"no variables \( \(.*subpattern.*\); the posterior has"):
        post.summary(["("], filter_vars="regex")
