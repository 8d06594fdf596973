"""Shipped data against published totals; the loader, the columns, the options: what they read and what they refuse."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bayeskit.catalogue.options import check_options, model_options, parse_options
from bayeskit.datasets import (
    Option,
    Positive,
    Range,
    Variable,
    check_data,
    describe_example,
    list_examples,
    load_example,
    load_table,
    parse_columns,
    prepare,
)
from bayeskit.datasets.checking import check_values
from bayeskit.datasets.labels import declared_codes
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.models import MODELS, load_model

REGRESSION = {"y": Variable(), "x": Variable(("row", "feature"))}
COUNTS = {"successes": Variable(kind="count", at_most="trials"), "trials": Variable(kind="count")}
LABELLED = {"y": Variable()}


# --- the shipped data -------------------------------------------------------------------------------------------------


def test_rat_tumours_have_the_moments_that_gelman_et_al_print() -> None:
    data = load_example("rat_tumours")
    assert len(data) == 71
    assert tuple(data.iloc[-1][["tumours", "rats"]]) == (4, 14)
    rates = (data["tumours"] / data["rats"])[:70]
    assert round(rates.mean(), 3) == 0.136
    assert round(rates.std(), 3) == 0.103


def test_horse_kicks_have_bortkiewicz_totals() -> None:
    data = load_example("horse_kicks")
    assert len(data) == 20 * 14
    assert data["deaths"].sum() == 196
    kept = data[data["homogeneous"] == "yes"]["deaths"]
    assert kept.size == 200
    assert kept.sum() == 122
    assert kept.value_counts().sort_index().to_dict() == {0: 109, 1: 65, 2: 22, 3: 3, 4: 1}


def test_ship_damage_has_the_totals_of_mccullagh_and_nelder() -> None:
    data = load_example("ship_damage")
    assert len(data) == 34
    assert data["incidents"].sum() == 356
    assert data["months"].max() == 44882


def test_hair_eye_colour_has_the_margins_of_snee() -> None:
    counts = load_example("hair_eye_colour").set_index("hair")
    assert counts.to_numpy().sum() == 592
    assert counts.sum().to_dict() == {"brown": 220, "blue": 215, "hazel": 93, "green": 64}
    assert counts.sum(axis=1).to_dict() == {"black": 108, "brown": 286, "red": 71, "blond": 127}


def test_cavendish_found_the_mean_density_5_48() -> None:
    density = load_example("cavendish")["density"]
    assert density.size == 29
    assert round(density.mean(), 2) == 5.48


def test_forbes_line_has_the_published_slope() -> None:
    data = load_example("forbes")
    assert len(data) == 17
    slope, intercept = np.polyfit(data["temperature"], data["pressure"], 1)
    assert round(slope, 4) == 0.5229  # Weisberg (1980)
    assert round(intercept, 3) == -81.064


def test_state_crime_is_that_of_statsmodels() -> None:
    data = load_example("state_crime").set_index("state")
    expected = sm.datasets.statecrime.load_pandas().data
    assert data.shape == (51, 7)
    assert data.index.tolist() == expected.index.tolist()
    assert np.array_equal(data.to_numpy(), expected.to_numpy())


def test_iris_setosa_has_fishers_means() -> None:
    data = load_example("iris_setosa")
    assert len(data) == 50
    assert data.mean().round(3).to_dict() == {
        "sepal_length": 5.006,
        "sepal_width": 3.428,
        "petal_length": 1.462,
        "petal_width": 0.246,
    }


def test_longley_has_the_certified_coefficients() -> None:
    data = load_example("longley")
    x = data[["deflator", "gnp", "unemployed", "armed_forces", "population", "year"]].to_numpy(float)
    standard = np.column_stack([np.ones(16), (x - x.mean(axis=0)) / x.std(axis=0)])
    slopes = np.linalg.lstsq(standard, data["employed"])[0][1:] / x.std(axis=0)
    certified = [15.0618722713733, -0.0358191792925910, -2.02022980381683, -1.03322686717359, -0.0511041056535807]
    np.testing.assert_allclose(slopes, [*certified, 1829.15146461355], rtol=1e-9)  # NIST StRD, Longley


def test_grunfeld_has_the_coefficients_of_kleiber_and_zeileis() -> None:
    data = load_example("grunfeld")
    assert data.groupby("firm").size().to_dict() == dict.fromkeys(data["firm"].unique(), 20)
    assert data["firm"].nunique() == 11
    own = data[data["firm"] == "General Motors"]
    x = np.column_stack([np.ones(20), own["value"], own["capital"]])
    assert np.linalg.lstsq(x, own["invest"])[0].round(3).tolist() == [-149.782, 0.119, 0.371]
    kept = data[data["firm"] != "American Steel"]  # the ten firms of most textbooks
    x = np.column_stack([np.ones(200), kept["value"], kept["capital"]])
    assert np.linalg.lstsq(x, kept["invest"])[0].round(4).tolist() == [-42.7144, 0.1156, 0.2307]


@pytest.mark.parametrize("name", list_examples())
def test_every_data_set_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    about = describe_example(name)
    assert set(about) == {"title", "source", "columns"}
    table = load_example(name)
    assert table.attrs == about
    assert all(column in about["columns"] for column in table.columns)
    assert "missing" in about["columns"] or not table.isna().any(axis=None)


def test_every_model_has_an_example_that_is_shipped() -> None:
    for name in MODELS:
        assert load_model(name).EXAMPLE.dataset in list_examples()


def test_unknown_example_is_refused_with_the_list() -> None:
    listed = r"no example data set 'galton'; there are bcg_vaccine, british_doctors, cattle_infection, cavendish, "
    with pytest.raises(DataError, match=listed):
        load_example("galton")


# --- reading files ----------------------------------------------------------------------------------------------------


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2.5\n3,4.5\n",
        "a;b\n1;2.5\n3;4.5\n",
        "a;b\n1;2,5\n3;4,5\n",
        "a\tb\n1\t2.5\n3\t4.5\n",
        "# made by hand\n\n# source: nowhere, really; none\na,b\n1,2.5\n3,4.5\n",
        '"a", "b"\r\n1, 2.5\r\n3, 4.5\r\n',
        "\ufeffa,b\n1,2.5\n3,4.5\n\n",
    ],
)
def test_every_spelling_of_csv_reads_the_same(tmp_path: Path, text: str) -> None:
    pd.testing.assert_frame_equal(load_table(written(tmp_path, text)), pd.DataFrame({"a": [1, 3], "b": [2.5, 4.5]}))


def test_a_hash_below_the_header_is_text(tmp_path: Path) -> None:
    table = load_table(written(tmp_path, "label,y\nno #1,2\n#2,3\n"))
    assert table["label"].tolist() == ["no #1", "#2"]


def test_csv_with_one_column(tmp_path: Path) -> None:
    assert load_table(written(tmp_path, "y\n1\n2\n", "table.txt"))["y"].tolist() == [1, 2]


finite = st.floats(allow_nan=False, allow_infinity=False)
frames = st.integers(1, 5).flatmap(
    lambda rows: st.dictionaries(
        st.text("abcdefghij_ ", min_size=1, max_size=8).map(lambda name: f"c{name.strip()}"),
        st.lists(finite, min_size=rows, max_size=rows)
        | st.lists(st.integers(-(2**53), 2**53), min_size=rows, max_size=rows),
        min_size=1,
        max_size=4,
    )
)


@pytest.mark.slow
@given(columns=frames, form=st.sampled_from(["csv", "tsv", "parquet", "nc"]))
def test_numbers_come_back_from_a_file_to_the_last_digit(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[float]], form: str
) -> None:
    path = tmp_path_factory.mktemp("table") / f"table.{form}"
    frame = pd.DataFrame(columns)
    if form == "parquet":
        frame.to_parquet(path)
    elif form == "nc":
        frame.rename_axis("row").to_xarray().to_netcdf(path)
    else:
        frame.to_csv(path, index=False, sep="," if form == "csv" else "\t")
    variables = {"x": Variable(("row", "feature"))}
    data = prepare(load_table(path), variables, {"x": tuple(columns)})
    assert data["x"].dims == ("row", "feature")
    assert data["feature"].values.tolist() == list(columns)
    np.testing.assert_array_equal(data["x"].to_numpy(), frame.to_numpy(dtype=float))


def test_netcdf_keeps_a_second_dim_and_its_labels(tmp_path: Path) -> None:
    matrix = np.arange(6.0).reshape(3, 2)
    source = xr.Dataset({"m": (("time", "site"), matrix), "level": ("time", [1.0, 2.0, 3.0])}, {"site": ["n", "s"]})
    source.to_netcdf(tmp_path / "data.nc")
    data = prepare(load_table(tmp_path / "data.nc"), REGRESSION, {"y": "level", "x": "m"})
    assert data["x"].dims == ("row", "feature")
    assert data["feature"].values.tolist() == ["n", "s"]
    np.testing.assert_array_equal(data["x"], matrix)
    stacked = prepare(source, {"x": Variable(("row", "feature"))}, {"x": ["level"]})
    assert stacked["x"].shape == (3, 1)


def test_parquet_index_becomes_a_column(tmp_path: Path) -> None:
    pd.DataFrame({"y": [1.0, 2.0]}, index=pd.Index(["p", "q"], name="who")).to_parquet(tmp_path / "t.parquet")
    data = prepare(load_table(tmp_path / "t.parquet"), LABELLED, {"y": "y", "row": "who"})
    assert data["row"].values.tolist() == ["p", "q"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, r"there is no file .*none\.csv; check the name and the directory"),
        ("empty.csv", b"", r"empty\.csv is empty; the model needs a table with a header and at least one row"),
        ("comments.csv", b"# only\n\n", r"comments\.csv is empty; "),
        ("empty.parquet", b"", r"empty\.parquet is empty; "),
        (
            "table.xlsx",
            b"PK",
            r"table\.xlsx ends in '\.xlsx', which is not read; save the table as one of \.csv, \.tsv",
        ),
        (
            "image.csv",
            b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe",
            r"image\.csv is not a text file in UTF-8; save the table as",
        ),
        ("binary.csv", b"a,b\n\x00\x00,1\n", r"binary\.csv is not a text file; save the table as CSV in UTF-8"),
        ("latin.csv", "größe\n1\n".encode("latin-1"), r"latin\.csv is not a text file in UTF-8"),
        ("twice.csv", b"a,b,a\n1,2,3\n", r"twice\.csv has more than one column named 'a'; rename them"),
        ("ragged.csv", b"a,b\n1,2\n3,4,5\n", r"ragged\.csv .*(line 3|more fields).*; mend that line"),
        ("long.csv", b"a,b\n1,2,3\n3,4,5\n", r"long\.csv has rows with more fields than the header has names \(2\)"),
        ("quote.csv", b'a,b\n"1,2\n', r"quote\.csv is not a CSV table: .*; mend that line"),
        ("fake.parquet", b"not parquet at all", r"fake\.parquet is not a Parquet file: .*; save the table again"),
        ("fake.nc", b"not netcdf at all", r"fake\.nc is not a netCDF file that xarray can read; save the data set"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a directory; name a CSV, Parquet or netCDF file"):
        load_table(tmp_path)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "y\n1\n")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # Permissions do not bind root, who may be running this.
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"table\.csv cannot be read: Permission denied"):
        load_table(path)


# --- which column is which --------------------------------------------------------------------------------------------


def test_columns_become_variables_with_the_dims_of_the_model() -> None:
    table = pd.DataFrame({"strength": [1.0, 2.0], "density": [3, 4], "age": ["5", " 6.5"], "tree": ["p", "q"]})
    data = prepare(table, REGRESSION, {"y": "strength", "x": ["density", "age"], "row": "tree"})
    expected = xr.Dataset(
        {"y": ("row", [1.0, 2.0]), "x": (("row", "feature"), [[3.0, 5.0], [4.0, 6.5]])},
        coords={"row": ["p", "q"], "feature": ["density", "age"]},
    )
    xr.testing.assert_equal(data, expected)
    assert data["y"].attrs == {"column": "strength"}


def test_a_variable_that_is_not_mentioned_is_the_column_of_its_name() -> None:
    data = prepare(pd.DataFrame({"successes": [1], "n": [3.0]}), COUNTS, {"trials": "n"})
    assert data["trials"].dtype == np.int64
    assert int(data["trials"][0]) == 3
    assert "row" not in data.coords


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([True, False]),
        pd.Series([1, 0], dtype="Int64"),
        pd.Series([1, 0], dtype="uint8"),
        pd.Series(["1", "0"], dtype="category"),
        pd.Series([1.0, 0.0], dtype=object),
        pd.Series([1.0, 0.0], dtype="float32"),
    ],
)
def test_every_type_of_number_is_one(column: pd.Series) -> None:
    np.testing.assert_array_equal(prepare(pd.DataFrame({"y": column}), LABELLED)["y"], [1.0, 0.0])


def test_single_row_constant_and_collinear_columns_pass() -> None:
    assert prepare(pd.DataFrame({"y": [1.0], "x": [2.0]}), REGRESSION).sizes == {"row": 1, "feature": 1}
    table = pd.DataFrame({"y": [1.0, 2.0], "a": [5.0, 5.0], "b": [10.0, 10.0]})
    assert prepare(table, REGRESSION, {"x": ("a", "b")}).sizes == {"row": 2, "feature": 2}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"y": "height"},
            r"there is no column 'height', which 'y' is to be read from; the table's columns are y, a, b, t$",
        ),
        ({"x": ("a", "c")}, r"there is no column 'c', which 'x' is to be read from; the table's columns are"),
        ({"x": "a", "z": "b"}, r"the model has no variable 'z'; its variables are y, x"),
        ({}, r"the model needs 'x': say which column that is, x=column; the table's columns are y, a, b, t"),
        ({"y": ("a", "b"), "x": "a"}, r"'y' is one column, not 2 \(a, b\); name one"),
        ({"x": ("a", "a")}, r"'x' names column 'a' twice; name it once"),
        ({"x": ("a", "t")}, r"column 't', row 2: 'two' is not a number; correct it, or name another column"),
        ({"x": "a", "row": "b"}, r"column 'b', row 3: the label '7' is there twice; row labels differ from row to row"),
        ({"x": "a", "row": ("a", "b")}, r"row labels come from one column, not 2; name one"),
        ({"x": "a", "row": "who"}, r"there is no column 'who', which 'row' is to be read from"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, Any], message: str) -> None:
    table = pd.DataFrame({"y": [1.0, 2.0, 3.0], "a": [4.0, 5.0, 6.0], "b": [7, 8, 7], "t": ["1", "two", "3"]})
    with pytest.raises(DataError, match=message):
        prepare(table, REGRESSION, columns)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (
            [1.0, None],
            "real",
            r"column 'v', row 2: the value is missing; this model cannot impute it: fill it in or drop",
        ),
        ([1.0, -np.inf], "real", r"column 'v', row 2: -inf is infinite; correct it or drop the row"),
        (["1", None, "x"], "real", r"column 'v', row 3: 'x' is not a number"),
        (["1,5", None], "real", r"column 'v', row 1: '1,5' is not a number; write decimals with a point"),
        ([3, -1], "count", r"column 'v', row 2: -1 is negative; a count is a whole number from 0"),
        ([3.0, -1.0], "count", r"column 'v', row 2: -1 is negative; a count is a whole number from 0"),
        ([0.5], "count", r"column 'v', row 1: 0.5 is not a whole number; this model explains counts"),
        ([1e300], "count", r"column 'v', row 1: 1e\+300 is too large; a count can be at most 2\*\*53"),
        ([2**60], "count", r"column 'v', row 1: .* is too large"),
        ([np.nan], "count", r"column 'v', row 1: the value is missing"),
        ([1.0, 0.0], "positive", r"column 'v', row 2: 0 is not above zero"),
        (
            pd.to_datetime(["2020-01-01"]),
            "real",
            r"column 'v' holds datetime64\[.*\] values; the model needs real numbers",
        ),
        ([1j], "real", r"column 'v' holds complex128 values; the model needs real numbers"),
    ],
)
def test_values_that_the_model_cannot_explain_are_refused(values: Any, kind: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare(pd.DataFrame({"v": values}), {"y": Variable(kind=kind)}, {"y": "v"})


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["b", " a ", "b"], ["b", "a", "b"]),
        ([3, 1, 3], [3, 1, 3]),
        ([3.0, 1.0, 3.0], [3, 1, 3]),
        (pd.Series([3, 1, 3], dtype="Int64"), [3, 1, 3]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["b", "a", "b"]),
        ([7, "a", 7], ["7", "a", "7"]),
        ([True, False, True], ["True", "False", "True"]),
        (["only", "only", "only"], ["only", "only", "only"]),
    ],
)
def test_labels_are_text_or_whole_numbers(values: Any, labels: list[Any]) -> None:
    data = prepare(pd.DataFrame({"g": values}), {"g": Variable(kind="category")})
    assert data["g"].to_numpy().tolist() == labels
    xr.testing.assert_identical(check_data(data, {"g": Variable(kind="category")}), data)
    categories, codes = np.unique(data["g"].to_numpy(), return_inverse=True)
    assert categories.tolist() == sorted(set(labels))
    assert categories[codes].tolist() == labels


@pytest.mark.parametrize(
    ("written_as", "labels", "numbers"),
    [
        (["001", "01", "1"], ["001", "01", "1"], [1, 1, 1]),
        (["007", "010"], ["007", "010"], [7, 10]),
        (["+5", "5"], ["+5", "5"], [5, 5]),
        (["-0", "0"], ["-0", "0"], [0, 0]),
        (["1.0", "1", "2"], ["1.0", "1", "2"], [1, 1, 2]),
        (["1e3", "1000"], ["1e3", "1000"], [1000, 1000]),
        (['"01"', '"1"'], ["01", "1"], [1, 1]),
        (["9007199254740993.0", "9007199254740992.0"], ["9007199254740993.0", "9007199254740992.0"], None),
        (["18446744073709551617", "18446744073709551616"], ["18446744073709551617", "18446744073709551616"], None),
        (["18446744073709551615", "1"], ["18446744073709551615", "1"], None),
        (["True", "TRUE", "False"], ["True", "TRUE", "False"], None),
        (["1", "2", "10"], [1, 2, 10], [1, 2, 10]),
        (["-5", "5", "0"], [-5, 5, 0], [-5, 5, 0]),
        ([" 1", "1 ", "2"], [1, 1, 2], [1, 1, 2]),
        (["1.0", "2.0"], [1, 2], [1, 2]),
        (["a", "01", " a"], ["a", "01", "a"], None),
    ],
)
def test_different_texts_of_a_file_are_different_labels(
    written_as: list[str], labels: list[Any], numbers: list[float] | None, tmp_path: Path
) -> None:
    table = load_table(written(tmp_path, "g,z\n" + "".join(f"{text},0.5\n" for text in written_as)))
    found = prepare(table, {"g": Variable(kind="category")})["g"].to_numpy().tolist()
    assert found == labels and all(isinstance(a, type(b)) for a, b in zip(found, labels, strict=True))
    assert table["z"].tolist() == [0.5] * len(labels)
    if numbers is not None:
        assert prepare(table, {"g": Variable()})["g"].to_numpy().tolist() == numbers


def test_texts_with_decimal_commas_are_kept_and_are_numbers(tmp_path: Path) -> None:
    table = load_table(written(tmp_path, "g;z\n1,0;0,5\n1;1,5\n02;2,5\n"))
    assert len(set(prepare(table, {"g": Variable(kind="category")})["g"].to_numpy().tolist())) == 3
    assert prepare(table, {"g": Variable()})["g"].to_numpy().tolist() == [1, 1, 2]
    assert table["z"].tolist() == [0.5, 1.5, 2.5]


def test_declared_labels_are_told_apart_as_texts() -> None:
    data = prepare(pd.DataFrame({"g": [1, 2, 1]}), {"g": Variable(kind="category")})
    found, codes = declared_codes(data["g"], "classes", "1,01,2")
    assert found.tolist() == ["1", "01", "2"] and codes.tolist() == [0, 2, 0]
    with pytest.raises(DataError, match="'1' is none of the declared labels 01, 2"):
        declared_codes(data["g"], "classes", "01,2")
    assert declared_codes(data["g"], "classes", "2,1,²")[0].tolist() == ["2", "1", "²"]


@pytest.mark.parametrize("name", ["y", "cube"])
def test_a_grid_is_no_column(name: str, tmp_path: Path) -> None:
    grid = xr.Dataset({"y": (("lat", "lon"), np.ones((2, 3))), "cube": (("t", "lat", "lon"), np.ones((4, 2, 3)))})
    grid.to_netcdf(tmp_path / "grid.nc")
    table = load_table(tmp_path / "grid.nc")
    with pytest.raises(
        DataError, match=rf"'y' has one dim, and '{name}' of the table has \d \(.*'lat', 'lon'\)"
    ) as caught:
        prepare(table, {"y": Variable()}, {"y": name})
    assert "stack(row=(" in str(caught.value)
    dims = tuple(map(str, table[name].dims))
    stacked = table[[name]].stack(row=dims).reset_index("row")  # as the message says
    assert prepare(stacked, {"y": Variable()}, {"y": name})["y"].shape == (table[name].size,)


def test_three_dims_are_not_two() -> None:
    cube = xr.Dataset({"x": (("t", "lat", "lon"), np.ones((4, 2, 3)))})
    with pytest.raises(
        DataError, match=r"'x' has two dims, and 'x' of the table has 3 \('t', 'lat', 'lon'\); choose two"
    ):
        prepare(cube, {"x": Variable(("row", "feature"))})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], r"column 'v', row 2: the label is missing; fill it in or drop the row"),
        (["a", "  "], r"column 'v', row 2: the label is missing; fill it in or drop the row"),
        ([1.0, np.nan], r"column 'v', row 2: the label is missing; fill it in or drop the row"),
        (pd.Series([1, None], dtype="Int64"), r"column 'v', row 2: the label is missing"),
        ([1.0, 0.5], r"column 'v', row 2: 0\.5 is not a label; give text or a whole number"),
        ([1.0, np.inf], r"column 'v', row 2: inf is not a label; give text or a whole number"),
        ([1j], r"column 'v' holds complex128 values; a label is text or a whole number"),
        (
            pd.to_datetime(["2020-01-01"]),
            r"column 'v' holds datetime64\[.*\] values; a label is text or a whole number",
        ),
    ],
)
def test_labels_that_are_none_are_refused(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare(pd.DataFrame({"v": values}), {"g": Variable(kind="category")}, {"g": "v"})


def test_missing_and_infinite_values_are_refused_in_every_column_of_several() -> None:
    table = pd.DataFrame({"y": [1.0, 2.0], "a": [1.0, 2.0], "b": [1.0, np.nan]})
    with pytest.raises(DataError, match=r"column 'b', row 2: the value is missing"):
        prepare(table, REGRESSION, {"x": ("a", "b")})


def test_a_count_above_its_limit_is_refused() -> None:
    table = pd.DataFrame({"won": [1, 3], "trials": [1, 2]})
    with pytest.raises(
        DataError, match=r"column 'won', row 2: 3 successes are more than the 2 trials in column 'trials'; corr"
    ):
        prepare(table, COUNTS, {"successes": "won"})


def test_tables_without_rows_or_with_clashing_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the table has no rows; the model needs at least one"):
        prepare(load_table(written(tmp_path, "y,x\n")), REGRESSION)
    with pytest.raises(DataError, match=r"the table has more than one column named 'y'; rename them"):
        prepare(pd.DataFrame([[1, 2]], columns=["y", "y"]), REGRESSION)
    with pytest.raises(DataError, match=r"the table is a dict; give a pandas\.DataFrame or an xarray\.Dataset"):
        prepare({"y": [1.0]}, REGRESSION)  # type: ignore[arg-type]


def test_variables_of_different_lengths_are_refused() -> None:
    source = xr.Dataset({"y": ("time", [1.0, 2.0]), "a": ("site", [1.0, 2.0, 3.0]), "b": ("time", [4.0, 5.0])})
    with pytest.raises(DataError, match=r"the variables have different numbers of rows \(y 2, x 3\); read them from"):
        prepare(source, REGRESSION, {"x": "a"})
    with pytest.raises(DataError, match=r"the columns of 'x' have different lengths \(a 3, b 2\); use columns of one"):
        prepare(source, REGRESSION, {"x": ("a", "b")})


def test_parse_columns() -> None:
    assert parse_columns("y=strength, x = density + age") == {"y": "strength", "x": ("density", "age")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y", r"columns 'y' is not variable=column; write y=strength,x=density\+age"),
        ("", r"columns '' is not variable=column"),
        ("y=", r"columns 'y=' is not variable=column"),
        ("x=a+", r"columns 'x=a\+' is not variable=column"),
        ("x=a,x=b", r"columns 'x=a,x=b' names x twice; join its columns with \+"),
    ],
)
def test_columns_text_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_columns(text)


# --- options ----------------------------------------------------------------------------------------------------------


def build(
    data: Any,
    *,
    flag: bool = False,
    size: Annotated[int, Range(1, 5)] = 2,
    scale: Positive = 1.0,
    chance: Annotated[float, Range(0, 1, closed="left")] | None = None,
    kind: Literal["line", "curve"] = "line",
    label: str = "",
) -> None:
    """Build.

    Parameters
    ----------
    data : object
        Not an option.
    flag, label : bool
        Two options
        in one entry.
    size : int
        How many.

    Returns
    -------
    None
        label : not a parameter.
    """


def test_options_are_read_from_the_signature() -> None:
    options = model_options(build)
    assert list(options) == ["flag", "size", "scale", "chance", "kind", "label"]
    assert options["flag"] == Option("flag", bool, False, doc="Two options in one entry.")
    assert options["size"] == Option("size", int, 2, range=Range(1, 5), doc="How many.")
    assert options["kind"].choices == ("line", "curve")
    assert [option.allowed for option in options.values()] == [
        "true or false",
        "a whole number from 1 to 5",
        "a finite number above 0",
        "a finite number from 0 to 1, 1 excluded, or none",
        "one of line, curve",
        "text",
    ]


def test_options_from_text_have_their_types() -> None:
    texts = ["flag=yes", "size=3", "scale=1e-3", "chance=none", "kind=curve", "label=a=b"]
    assert parse_options(build, texts) == {
        "flag": True,
        "size": 3,
        "scale": 0.001,
        "chance": None,
        "kind": "curve",
        "label": "a=b",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour=red", r"unknown option 'colour'; this model's options are flag, size, scale, chance, kind, label"),
        ("data=1", r"unknown option 'data'"),
        ("size", r"option 'size' is not of the form name=value; write for example alpha=2"),
        ("flag=maybe", r"option flag is 'maybe'; it must be true or false"),
        ("size=2.5", r"option size is '2.5'; it must be a whole number from 1 to 5"),
        ("size=6", r"option size is 6; it must be a whole number from 1 to 5"),
        ("scale=0", r"option scale is 0.0; it must be a finite number above 0"),
        ("scale=nan", r"option scale is nan; it must be a finite number above 0"),
        ("scale=much", r"option scale is 'much'; it must be a finite number above 0"),
        ("chance=1", r"option chance is 1.0; it must be a finite number from 0 to 1, 1 excluded, or none"),
        ("kind=circle", r"option kind is 'circle'; it must be one of line, curve"),
    ],
)
def test_options_that_are_not_allowed_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        parse_options(build, [text])
    assert isinstance(caught.value, BayeskitError)


def test_an_option_is_set_once() -> None:
    with pytest.raises(OptionError, match=r"option size is set twice; set it once"):
        parse_options(build, ["size=1", "size=2"])


def test_values_from_python_are_checked_as_text_is() -> None:
    checked = check_options(build, {"scale": 2, "size": np.int64(3), "flag": np.bool_(True), "chance": np.float32(0.5)})
    assert checked == {"scale": 2.0, "size": 3, "flag": True, "chance": 0.5}
    assert [type(value) for value in checked.values()] == [float, int, bool, float]
    for name, value in {"size": True, "scale": "1", "flag": "yes", "kind": ["line"], "label": 3}.items():
        with pytest.raises(OptionError, match=f"option {name} is "):
            check_options(build, {name: value})


def test_parameters_of_a_users_own_build() -> None:
    def own(data: Any, *, k=3, name="x"):  # type: ignore[no-untyped-def]
        """No types."""

    assert {name: option.type for name, option in model_options(own).items()} == {"k": int, "name": str}

    def listed(data: Any, *, knots: list = []) -> None:  # type: ignore[type-arg]  # noqa: B006
        """A list."""

    with pytest.raises(ModelError, match=r"parameter 'knots' of build has the type list; an option is a bool, int"):
        model_options(listed)


@given(
    low=st.none() | st.integers(-3, 3),
    high=st.none() | st.integers(-3, 3),
    closed=st.sampled_from(["both", "left", "right", "neither"]),
    value=st.integers(-4, 4),
)
def test_range_agrees_with_an_interval(low: int | None, high: int | None, closed: Any, value: int) -> None:
    left, right = -10 if low is None else low, 10 if high is None else high
    inside = value in Range(low, high, closed)
    if left <= right:
        assert inside == (value in pd.Interval(left, right, closed))
    assert str(Range(low, high, closed))


@pytest.mark.parametrize("kind", ["real", "positive"])
def test_whole_numbers_that_would_be_rounded_are_refused(kind: str) -> None:
    values = np.array([1, 2**53, 2**53 + 1, 2**60])
    with pytest.raises(DataError, match=r"row 3: .* has more digits than a real number; subtract a constant"):
        check_values(values, kind, "id")
    assert check_values(values[[0, 1, 3]], kind, "id").tolist() == [1.0, 2.0**53, 2.0**60]
