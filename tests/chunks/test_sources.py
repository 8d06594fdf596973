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
