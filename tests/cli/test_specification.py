"""Model files, their options and their columns, as they are typed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

TABLE = "day,price,sold,gap,note\n1,2.0,3.5,1,a\n2,3.0,4.0,,b\n3,5.0,7.5,2,c\n"
LINE = """import pymc as pm


def build(data, sd: float = 2.0):
    with pm.Model(coords={"row": data["row"].values}) as model:
        slope = pm.Normal("slope", 0.0, sd)
        pm.Normal("y", slope * data["price"].values, 1.0, observed=data["y"].values, dims="row")
    return model
"""
PRICE, SOLD = np.array([2.0, 3.0, 5.0]), np.array([3.5, 4.0, 7.5])
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "line.py").write_text(LINE)
    return tmp_path


def slope(y: np.ndarray, price: np.ndarray = PRICE, sd: float = 2.0) -> float:
    """The posterior mean of the slope: least squares with a ridge of 1 / sd²."""
    return float(price @ y / (price @ price + 1 / sd**2))


def refused(answer: tuple[int, str, str], *words: str) -> None:
    code, out, err = answer
    assert (code, out, err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("y=sold", slope(SOLD)),  # price is there under its own name
        ("y=sold,price=day", slope(SOLD, np.array([1.0, 2.0, 3.0]))),  # a name that was given hides the column's own
        ("y=price,price=sold", slope(PRICE, SOLD)),
        ("y=sold,row=note", slope(SOLD)),
    ],
)
def test_columns_that_are_not_named_keep_their_names(run: Run, columns: str, expected: float) -> None:
    code, out, err = run("infer", "line.py", "--data", "table.csv", "--columns", columns, "--draws", "40", "--json")
    assert (code, err) == (0, "")
    assert math.isclose(json.loads(out)["summary"][0]["mean"], expected, rel_tol=1e-9)


def test_a_column_that_was_named_must_be_read(run: Run) -> None:
    refused(run("explain", "line.py", "--data", "table.csv", "--columns", "y=note"), "'note'", "row 1", "'a'")
    refused(run("explain", "line.py", "--data", "table.csv", "--columns", "y=gap"), "'gap'", "row 2")
    refused(run("explain", "line.py", "--data", "table.csv", "--columns", "y=sales"), "'sales'", "price, sold")


def test_variables_of_other_dims_are_left_out(run: Run, folder: Path) -> None:
    import xarray as xr

    table = {"sold": ("t", SOLD), "price": ("t", PRICE), "other": ("u", np.arange(5.0))}
    xr.Dataset(table).to_netcdf(folder / "table.nc")
    code, out, err = run("infer", "line.py", "--data", "table.nc", "--columns", "y=sold", "--draws", "40", "--json")
    assert (code, err) == (0, "")
    assert math.isclose(json.loads(out)["summary"][0]["mean"], slope(SOLD), rel_tol=1e-9)
    (folder / "line.py").write_text(LINE.replace('"price"', '"other"'))
    refused(run("infer", "line.py", "--data", "table.nc", "--columns", "y=sold"), "'other' has 5 rows")


def test_a_table_of_which_nothing_is_left_says_why(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text("y,note,price\n1.0,a,\n,b,2.0\n")
    answer = run("infer", "line.py", "--data", "table.csv")
    refused(answer, "table.csv has no column", "column 'y', row 2", "column 'note', row 1", "column 'price', row 1")
    assert "VARIABLES" in answer[2]


@pytest.mark.slow
def test_models_that_are_compared_take_their_own_columns(run: Run) -> None:
    models = "linear_regression", "normal"
    shared = ("--data", "table.csv", "--seed", "1", "--json")
    code, out, err = run("compare", *models, *shared, "--columns", "y=sold,x=price")
    assert (code, err) == (0, "")
    found = {row["model"]: row["log_evidence"] for row in json.loads(out)["comparison"]}
    for model, columns in zip(models, ("y=sold,x=price", "y=sold"), strict=True):
        alone = json.loads(run("infer", model, *shared, "--columns", columns, "--draws", "4")[1])
        assert found[model] == alone["log_evidence"]["value"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--columns", "z=price"), ["no compared model has a variable 'z'", "linear_regression has y", "normal has y"]),
        (("--columns", "y=sold"), ["model linear_regression: ", "'x'"]),
        (("--columns", "y=sold,x=price", "--set", "degree=1"), ["model normal: unknown option 'degree'"]),
        (("--columns", "y=sold,x=note"), ["model linear_regression: ", "'note'", "row 1"]),
    ],
)
def test_an_error_of_a_compared_model_names_it(run: Run, arguments: tuple[str, ...], words: list[str]) -> None:
    refused(run("compare", "linear_regression", "normal", "--data", "table.csv", *arguments), *words)


def test_a_file_may_be_compared_with_the_catalogue(run: Run) -> None:
    columns = ("--columns", "y=sold,z=day", "--json")
    code, out, err = run("compare", "line.py", "normal", "--data", "table.csv", *columns)
    assert (code, err) == (0, "")
    found = {row["model"]: row["log_evidence"] for row in json.loads(out)["comparison"]}
    covariance = np.eye(3) + 4.0 * np.outer(PRICE, PRICE)
    assert math.isclose(found["line.py"], stats.multivariate_normal.logpdf(SOLD, cov=covariance), rel_tol=1e-9)


@pytest.mark.parametrize(
    ("specification", "words"),
    [
        ("linear_regression:degree", ["'degree' after linear_regression:", "linear_regression:option=value"]),
        ("linear_regression:", ["'' after linear_regression:", "option=value"]),
        ("linear_regression::degree=2", ["after linear_regression:", "option=value"]),
        ("line.py:sd", ["'sd' after line.py:", "line.py:option=value"]),
        ("line.py:s-d=1", ["unknown option 's-d'", "sd"]),
        ("linear_regression:degree,basis=fourier", ["option 'degree' is not of the form name=value"]),
        (
            "linear_regresion:degree",
            ["no model 'linear_regresion:degree' in the catalogue; it has linear_regression"],
        ),  # the name is wrong
    ],
)
def test_a_slip_in_a_specification_is_told(run: Run, specification: str, words: list[str]) -> None:
    refused(run("explain", specification), *words)


def test_a_file_whose_name_has_a_colon_is_read(run: Run, folder: Path) -> None:
    (folder / "a.py:b.py").write_text(LINE)
    assert run("explain", "a.py:b.py", "--data", "table.csv", "--columns", "y=sold")[0] == 0
    refused(run("models", "normal:mean=1"), "sets none", "mean=1")


def test_columns_of_a_model_that_reads_no_table_are_refused(run: Run, folder: Path) -> None:
    (folder / "done.py").write_text(
        "import pymc as pm\nwith pm.Model() as model:\n    pm.Normal('y', observed=[1.0])\n"
    )
    refused(run("explain", "done.py", "--columns", "y=x"), "done.py", "leave out --columns")
    refused(run("explain", "line.py", "--columns", "y=x"), "--data")


def test_json_is_alone_on_standard_output(run: Run, folder: Path) -> None:
    chatty = LINE.replace("    with pm", '    print("building")\n    with pm') + 'print("reading")\n'
    (folder / "line.py").write_text(chatty)
    arguments = ("infer", "line.py", "--data", "table.csv", "--columns", "y=sold", "--draws", "40")
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "reading\nbuilding\n")
    assert json.loads(out)["model"] == "line.py"
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("reading\nbuilding\nline.py: table.csv\n")


OPTIONS = """import pymc as pm


def build(lst: list = [1], x=None, k: int | None = None, both: "int | str" = 1, later: "Unknown" = 2):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0 if k is None else k, observed=[float(lst[0])])
    return model
"""


def test_a_parameter_that_is_no_option_says_why(run: Run, folder: Path) -> None:
    (folder / "line.py").write_text(OPTIONS)
    code, out, err = run("models", "line.py", "--json")
    assert (code, err) == (0, "")
    (record,) = json.loads(out)["models"]
    assert [(o["name"], o["allowed"]) for o in record["options"]] == [("k", "a whole number, or none")]
    assert [*record["no_options"]] == ["lst", "x", "both", "later"]
    assert "lst is no option: parameter 'lst' of build has the type list" in run("models", "line.py")[1]
    assert run("explain", "line.py", "--set", "k=2")[0] == 0
    for text, words in {
        "lst=1": ["lst cannot be set", "has the type list", "annotate it"],
        "x=1": ["x cannot be set", "no known type", "annotate it"],
        "both=1": ["both cannot be set", "int | str"],
        "later=1": ["later cannot be set", "Unknown"],
        "z=1": ["unknown option 'z'; this model's options are k"],
    }.items():
        refused(run("explain", "line.py", "--set", text), *words)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("y=a+b,price=x", ["no column 'a'", "'a+b' was meant", "renamed"]),
        ("y=price,x=x,y", ["'y' is not variable=column", "renamed"]),
        ("y=nowhere", ["no column 'nowhere'"]),
    ],
)
def test_a_column_that_cannot_be_named_is_to_be_renamed(run: Run, folder: Path, columns: str, words: list[str]) -> None:
    (folder / "table.csv").write_text('a+b,"x,y",price\n1.0,2.0,3.0\n')
    answer = run("explain", "line.py", "--data", "table.csv", "--columns", columns)
    refused(answer, *words)
    assert ("renamed" in answer[2]) == ("renamed" in words)


def test_a_report_says_which_column_is_which(run: Run, folder: Path) -> None:
    columns = ("--columns", "y=sold,x=price+day")
    page = ("--report", "page.html", "--draws", "40", "--json")
    code, out, err = run("infer", "linear_regression", "--data", "table.csv", *columns, *page)
    assert (code, err) == (0, "")
    assert json.loads(out)["columns"] == {"y": "sold", "x": ["price", "day"]}
    assert "Columns: y=sold, x=price+day." in (folder / "page.html").read_text()
