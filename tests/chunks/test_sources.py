"""What chunks are given as: every row is read once, as it is now, or the chunk is refused by its name."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayeskit as bk
from bayeskit.chunks.files import files_of
from bayeskit.errors import BayeskitError, DataError, OptionError
from bayeskit.jobs.checkpoint import add_line, appending

Y = np.round(np.random.default_rng(0).normal(1, 1, 8), 3)


def build(rows: Any) -> pm.Model:
    with pm.Model() as model:
        centre = pm.Normal("centre", 0, 10)
        pm.Normal("y", centre, 1, observed=np.asarray(rows["y"]))
    return model


def given(chunks: Any, **options: Any) -> float:
    return bk.infer(build, chunks=chunks, draws=4, progressbar=False, **options).log_evidence.value


def exact(y: np.ndarray) -> Any:
    covariance = np.eye(len(y)) + 100.0
    return pytest.approx(stats.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y), rel=1e-10)


def write(path: Path, y: np.ndarray, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"y": y, **columns}).to_parquet(path)
    return path


def delayed(value: Any) -> Any:
    return dask.delayed(lambda: value)()


@pytest.mark.slow
@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(lambda folder: [delayed(str(folder / f"{k}.parquet")) for k in "ab"], id="texts"),
        pytest.param(lambda folder: [delayed(folder / "*.parquet")], id="a pattern"),
        pytest.param(lambda folder: [delayed([str(folder / f"{k}.parquet") for k in "ab"])], id="a list"),
        pytest.param(lambda folder: [delayed(str(folder))], id="a folder"),
    ],
)
def test_files_whose_paths_are_computed_are_read_again_once_they_change(
    paths: Callable[[Path], Any], tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "data", tmp_path / "sums"
    write(folder / "a.parquet", Y[:4])
    write(folder / "b.parquet", Y[4:])
    for _ in range(2):
        assert given(paths(folder), checkpoint=checkpoint) == exact(Y)
    write(folder / "b.parquet", 2 * Y[4:])
    changed = exact(np.concatenate([Y[:4], 2 * Y[4:]]))
    assert given(paths(folder)) == changed
    try:
        assert given(paths(folder), checkpoint=checkpoint) == changed
    except OptionError as error:
        assert "its first chunk is another" in str(error)


def test_a_file_that_is_gone_is_named_and_not_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*gone\.parquet"):
        given([delayed(str(tmp_path / "gone.parquet"))], checkpoint=tmp_path / "sums")


def test_groups_of_the_same_rows_are_known_by_their_keys(tmp_path: Path) -> None:
    groups = [("a", pd.DataFrame({"y": Y[:4]})), ("b", pd.DataFrame({"y": Y[:4]})), ("c", pd.DataFrame({"y": Y[4:]}))]
    for chunks in (groups, groups, [delayed(groups)], [delayed(groups)]):
        checkpoint = tmp_path / f"sums-{len(chunks)}"
        assert given(chunks, checkpoint=checkpoint) == exact(np.concatenate([Y[:4], Y]))


def test_what_a_mask_hides_is_not_counted(tmp_path: Path) -> None:
    masked = np.ma.array(Y, mask=np.arange(8) % 4 == 1)
    for y in (masked[:4], [masked[0], masked[1], *Y[2:4]]):
        with pytest.raises(DataError, match="'y' of chunk 2 has masked values"):
            given([{"y": Y[:4]}, {"y": y}])
    with pytest.raises(DataError, match="chunk 1 has masked values"):
        given([masked])
    whole = np.ma.array(Y, mask=np.zeros(8, dtype=bool))
    assert given([{"y": whole}]) == exact(Y)
    checkpoint = tmp_path / "sums"
    assert given([{"y": whole}], checkpoint=checkpoint) == exact(Y)
    with pytest.raises(DataError, match="masked values"):
        given([{"y": masked}], checkpoint=checkpoint)


@pytest.mark.slow
@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([delayed(pd.Series(Y, name="y"))], id="a delayed column"),
        pytest.param(pd.Series(Y, name="y"), id="a column"),
        pytest.param(pd.DataFrame({"y": Y, "v": [np.zeros(3)] * 8}), id="beside a column of arrays"),
        pytest.param(pd.DataFrame({"y": Y, "n": pd.array([1, None] * 4, dtype=object)}), id="beside objects"),
    ],
)
def test_columns_are_tables_and_beside_them_is_what_the_model_does_not_use(chunks: Any, tmp_path: Path) -> None:
    assert given(chunks) == exact(Y)
    assert given(chunks, checkpoint=tmp_path / "sums") == exact(Y)


@pytest.mark.parametrize(
    ("chunks", "options", "message"),
    [
        ([delayed(pd.Series(Y))], {}, "chunk 1 is a Series without a name: give a pandas DataFrame"),
        ([delayed(list(Y))], {}, "chunk 1 is a list of numbers: give tables"),
        ([delayed(None)], {}, "chunk 1 is None: give tables"),
        (xr.Dataset({"y": ("row", Y)}).chunk(row=4), {"dim": "c"}, "the data has no dim 'c'; it has row"),
        ([xr.Dataset({"y": ("row", Y)})], {"dim": "c"}, "chunk 1 has no dim 'c'; it has row"),
    ],
)
def test_what_no_chunk_can_be_is_named(chunks: Any, options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(BayeskitError, match=message):
        given(chunks, **options)
    if not options:
        with pytest.raises(BayeskitError, match=r"chunk 1 is"):
            given(chunks, checkpoint=tmp_path / "sums", **options)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/full", "/dev/full cannot be written: it is no file"),
        ("", "checkpoint is empty"),
        ("/tmp", "/tmp cannot be written: it is a folder"),
    ],
)
def test_a_checkpoint_is_a_file(path: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        given([pd.DataFrame({"y": Y})], checkpoint=path)


def test_a_full_disk_is_the_fault_of_the_checkpoint_and_another_fault_is_not(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OptionError, match="lines cannot be written"), appending(path, {"of": 1}) as file:
            resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + 100, before[1]))
            add_line(file, {"text": "a" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(FileNotFoundError), appending(path, {"of": 1}):
        (tmp_path / "gone").stat()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sub/b.parquet", "b.pq", "b.PARQUET", "sub/deep/000000_0"])
def test_all_files_below_a_folder_are_read(name: str, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", Y[:4])
    write(tmp_path / name, Y[4:])
    assert given(f"{tmp_path}/**") == exact(Y)
    if not name.startswith("b.PAR") and "000" not in name:
        assert given(f"{tmp_path}/**/*.p*") == exact(Y)
    for mark in ("_SUCCESS", ".part.crc", "part.crc", "_temporary/c.parquet"):
        (tmp_path / mark).parent.mkdir(exist_ok=True)
        (tmp_path / mark).touch()
    assert given(tmp_path) == exact(Y)
    assert given([delayed(str(tmp_path))]) == exact(Y)


def by_year(rows: pd.DataFrame) -> pm.Model:
    years = rows["year"].to_numpy().astype(float)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * (years - 2023), 1, observed=rows["y"].to_numpy())
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern", [pytest.param("", id="the folder"), "year=*", "*/*.parquet", "**/*.parquet", "year=*/*"]
)
def test_the_names_of_folders_are_columns(pattern: str, tmp_path: Path) -> None:
    folder = tmp_path / "run=1"  # above what is given
    write(folder / "year=2024" / "part-0.parquet", Y[:4])
    write(folder / "year=2025" / "part-0.parquet", Y[4:])
    rows = pd.read_parquet(folder).assign(year=lambda table: table["year"].astype(int))
    expected = bk.infer(by_year(rows), draws=4).log_evidence.value
    for options in ({}, {"checkpoint": tmp_path / "sums"}, {"checkpoint": tmp_path / "sums"}):
        found = bk.infer(by_year, chunks=str(folder / pattern), draws=4, progressbar=False, **options)
        assert found.log_evidence.value == pytest.approx(expected, rel=1e-10)
    with pytest.raises(BayeskitError, match="year"):  # a file alone has its own columns only
        bk.infer(by_year, chunks=str(folder / "year=2024" / "part-0.parquet"), draws=4, progressbar=False)


def test_values_of_folders_are_texts_unless_all_are_integers(tmp_path: Path) -> None:
    for value in ("01", "a%20b"):
        write(tmp_path / f"key={value}" / "x.parquet", Y)
    assert [dict(file.columns) for file in files_of(str(tmp_path))] == [{"key": "01"}, {"key": "a b"}]
    assert [dict(file.columns) for file in files_of(str(tmp_path / "key=0*"))] == [{"key": 1}]


def test_a_column_that_a_file_has_itself_is_held_against_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "year=2024" / "a.parquet", Y, year=2024)
    assert given(tmp_path) == exact(Y)
    write(path, Y, year=2023)
    with pytest.raises(DataError, match=r"column 'year' of .*a\.parquet is not 2024"):
        given(tmp_path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("b.csv", r"b\.csv in a folder of data is no Parquet file"),
        ("sub/notes.txt", r"notes\.txt in a folder of data is no Parquet file"),
        ("_b.parquet", "is called as what is no data"),
        ("all.zarr/zarr.json", r"all\.zarr in a folder of data is a Zarr store"),
        ("_delta_log/0.json", "is a table of Delta Lake"),
        ("=3/b.parquet", "nothing before its '='"),
        ("year=2024/b.parquet", r"lies in folders of .*give them apart"),
        ("year=__HIVE_DEFAULT_PARTITION__/b.parquet", r"give them apart"),
    ],
)
def test_a_folder_of_which_something_would_be_left_out_is_refused(other: str, message: str, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", Y)
    if other.endswith(".parquet"):
        write(tmp_path / other, Y)
    else:
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("y\n1\n")
    with pytest.raises(DataError, match=message):
        given(tmp_path)


def test_patterns_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    file = write(here / "k=1" / "a.parquet", Y)
    monkeypatch.chdir(here)
    for pattern in ("*/*.parquet", "./**", "**/a.parquet", "k=*", ".", "../*/k=*/a*", str(here / "**")):
        (found,) = files_of(pattern)
        assert (found.path.resolve(), dict(found.columns)) == (file, {"k": 1})
    Path("link.parquet").symlink_to("gone.parquet")
    with pytest.raises(DataError, match="there is no file"):
        files_of("link.parquet")


def test_links_and_missing_values_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "year=__HIVE_DEFAULT_PARTITION__" / "a.parquet", Y)
    with pytest.raises(DataError, match="has no 'year'"):
        given(tmp_path)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "link").symlink_to(tmp_path)
    with pytest.raises(DataError, match="link to another folder"):
        given(tmp_path / "more")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="has no Parquet files"):
        given(tmp_path / "none")
