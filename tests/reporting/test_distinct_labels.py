"""Labels that are there twice, are missing or have no order are no obstacle to a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit.reporting.distinct_labels import distinct_labels, shortened


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["x", "x", "y", "x"], ["x", "x (2)", "y", "x (3)"]),
        (["x", "x (2)", "x"], ["x", "x (2)", "x (3)"]),  # the name is taken
        (["x", "x", "x (2)", "x (2)"], ["x", "x (3)", "x (2)", "x (2) (2)"]),
        ([None, "x"], ["nan", "x"]),  # which xarray makes of None
        (["1", 1], ["1", "1 (2)"]),
        ([1.0, np.nan, np.nan], ["1.0", "nan", "nan (2)"]),
    ],
)
def test_each_label_is_there_once(labels: list[Any], expected: list[str]) -> None:
    values = np.array(labels, dtype=None if isinstance(labels[0], float) else object)
    found = distinct_labels(xr.Dataset({"b": (("draw", "q"), np.zeros((2, len(labels))))}, coords={"q": values}))
    assert found["q"].to_numpy().tolist() == expected
    assert found["b"].shape == (2, len(labels))


@pytest.mark.parametrize(
    "labels", [["b", "a"], [3, 1], [0.5, np.nan], [True, False], pd.date_range("2020", periods=2), []]
)
def test_labels_that_are_distinct_are_left(labels: Any) -> None:
    draws = xr.Dataset({"b": (("draw", "q"), np.zeros((2, len(labels))))}, coords={"q": labels})
    assert distinct_labels(draws).identical(draws)
    assert distinct_labels(xr.Dataset({"b": ("q", np.zeros(2))})).coords.keys() == set()


CASES: dict[str, tuple[list[Any], int]] = {
    "panels": (["x", "x"], 1),
    "none": ([None, "x"], 1),
    "intervals": (["x"] * 6 + ["y"] * 6, 1),  # too many for panels, and for a predictive check of each value
    "columns": (["x", "x"], 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_page_is_written_whatever_the_labels(name: str, tmp_path: Path) -> None:
    labels, rows = CASES[name]
    y = np.random.default_rng(1).normal(size=(rows, len(labels)))
    with pm.Model(coords={"q": labels, "row": range(rows)}) as model:
        b = pm.Normal("b", 0.0, 1.0, dims="q")
        pm.Normal("y", b, 1.0, observed=y[0] if rows == 1 else y, dims="q" if rows == 1 else ("row", "q"))
    post = bk.infer(model, draws=200, random_seed=1, progressbar=False)
    page = bk.report(post, tmp_path / "page.html").read_text()
    assert "</html>" in page
    # The posterior keeps the labels that it was given.
    assert len(post.tree["posterior"]["q"]) == len(labels) and "x (2)" not in post.tree["posterior"]["q"]


@pytest.mark.slow
def test_a_validation_is_drawn_over_the_same_panels(tmp_path: Path) -> None:
    with pm.Model(coords={"q": ["x", "x"]}) as model:
        pm.Normal("y", pm.Normal("b", 0.0, 1.0, dims="q"), 1.0, observed=[0.0, 1.0], dims="q")
    post = bk.infer(model, draws=200, random_seed=1, progressbar=False)
    validation = bk.validate(model, draws=400, random_seed=1, progressbar=False)
    assert "dashed orange: NUTS" in bk.report(post, tmp_path / "page.html", validation=validation).read_text()


def test_long_labels_of_one_variable_are_told_apart_when_they_are_shortened() -> None:
    names = ("alcohol", "malic_acid", "color_intensity")
    titles = [f"precision[{row}, {column}]" for row in names for column in names]
    short = [shortened(title, 28) for title in titles]
    assert len(set(short)) == len(titles) and max(map(len, short)) == 28
    assert short[0] == titles[0] and short[-2] == "precision[col…y, malic_acid]"
