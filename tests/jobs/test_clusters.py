"""Work on the workers of a Dask cluster and from checkpoints: the digits of one process, whatever ends in between."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import bayeskit as bk
from bayeskit.errors import DataError, InferenceError, OptionError
from bayeskit.jobs.checkpoint import appending
from bayeskit.jobs.on_cluster import on_cluster
from bayeskit.point_estimates import em_chunks
from bayeskit.point_estimates.em_on_workers import PiecesOnWorkers

ROWS, FILES = 400, 4


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two processes with one thread each: copies of one that has imported all, and of which no profile is made."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["warm_process", "distributed"])
    settings = {"multiprocessing-method": "forkserver", "profile.enabled": False}
    with (
        pytest.MonkeyPatch.context() as patched,
        dask.config.set({f"distributed.worker.{name}": value for name, value in settings.items()}),
    ):
        patched.setattr("distributed.utils._forkserver_preload_set", True)  # else it would choose what to import
        with two_processes() as found:
            yield found


@contextmanager
def two_processes() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = np.sort(rng.integers(0, 6, ROWS))  # so that the first pieces have not seen the last groups
    x = rng.normal(size=ROWS)
    y = 0.5 + 2 * x + rng.normal(size=6)[group] + rng.normal(size=ROWS)
    return pd.DataFrame({"group": [f"g{k}" for k in group], "x": x, "y": y})


@pytest.fixture(scope="module")
def folder(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for number, places in enumerate(np.array_split(np.arange(ROWS), FILES)):
        table.iloc[places].to_parquet(folder / f"{number:02d}.parquet")
    return folder


@pytest.fixture(scope="module")
def uninterrupted(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[float, list[str]]:
    """The log evidence of a run in this process, and the lines of its checkpoint."""
    checkpoint = tmp_path_factory.mktemp("run") / "sums"
    value = of_files(folder, checkpoint=checkpoint)
    return value, checkpoint.read_text().splitlines(keepends=True)


def build(rows: pd.DataFrame) -> pm.Model:
    groups, codes = np.unique(rows["group"], return_inverse=True)
    with pm.Model(coords={"group": groups}) as model:
        slope = pm.Normal("slope", 0, 3)
        level = pm.Normal("level", 0, 2, dims="group")
        pm.Normal("y", level[codes] + slope * rows["x"].to_numpy(), 1, observed=rows["y"].to_numpy())
    return model


def regression(rows: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 3)
        pm.Normal("y", slope * rows["x"].to_numpy(), 1, observed=rows["y"].to_numpy())
    return model


def at_once(table: pd.DataFrame) -> float:
    return evidence(bk.infer(build(table), random_seed=0, draws=4))


def evidence(post: bk.Posterior) -> float:
    assert post.log_evidence.label == "exact"
    return post.log_evidence.value


def of_files(folder: Path, **options: Any) -> float:
    return evidence(bk.infer(build, chunks=folder, draws=4, random_seed=0, progressbar=False, **options))


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_digit(
    client: Client, folder: Path, table: pd.DataFrame, uninterrupted: tuple[float, list[str]]
) -> None:
    expected, _ = uninterrupted
    np.testing.assert_allclose(expected, at_once(table), rtol=1e-12)
    processes = list(client.run(os.getpid).values())
    timer = threading.Timer(0.3, os.kill, (processes[0], signal.SIGKILL))
    timer.start()
    assert of_files(folder, client=client) == expected
    timer.join()
    assert of_files(folder, client=client) == expected
    client.wait_for_workers(2)


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_with_what_was_finished(
    folder: Path, uninterrupted: tuple[float, list[str]], tmp_path: Path
) -> None:
    expected, lines = uninterrupted
    checkpoint = tmp_path / "sums"
    assert len(lines) == 1 + FILES
    for kept in (1, 3):
        checkpoint.write_text("".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])
        assert of_files(folder, checkpoint=checkpoint) == expected
        names = [json.loads(line)["of"] for line in checkpoint.read_text().splitlines()[1:]]
        assert names == sorted(map(str, folder.iterdir()))  # each once

    damaged = json.loads(lines[3])
    damaged["value"] = damaged["value"][::-1]
    checkpoint.write_text("".join([*lines[:3], json.dumps(damaged) + "\n"]))
    with pytest.raises(OptionError, match="line 4"):
        of_files(folder, checkpoint=checkpoint)
    checkpoint.write_text("".join(lines))
    with pytest.raises(OptionError, match="another build"):
        bk.infer(regression, chunks=folder, checkpoint=checkpoint)
    with pytest.raises(OptionError, match="of other data"):
        of_files(folder / "*[1-9].parquet", checkpoint=checkpoint)
    with pytest.raises(OptionError, match="no checkpoint of such a run"):
        checkpoint.write_text('{"trial": 1}\n')
        of_files(folder, checkpoint=checkpoint)


@pytest.mark.slow
def test_what_a_checkpoint_holds_is_not_read_again(folder: Path, tmp_path: Path) -> None:
    """Of tables a digest tells which they are: one that has changed since is added up anew."""
    tables = [pd.read_parquet(path)[:40] for path in sorted(folder.iterdir())]
    counted = tmp_path / "built"  # a list that it grows would make another builder of it

    def counting(rows: pd.DataFrame) -> pm.Model:
        with counted.open("a") as file:
            file.write(".")
        return build(rows)

    def built() -> int:
        text = counted.read_text()
        counted.write_text("")
        return len(text)

    options: dict[str, Any] = {"checkpoint": tmp_path / "sums", "draws": 4, "random_seed": 0}
    first = evidence(bk.infer(counting, chunks=tables, **options))
    all_of_them = built()
    assert evidence(bk.infer(counting, chunks=tables, **options)) == first
    assert built() < all_of_them / 1.5
    tables[3] = tables[3].assign(y=tables[3]["y"] + 1)
    again = evidence(bk.infer(counting, chunks=tables, **options))
    np.testing.assert_allclose(again, at_once(pd.concat(tables)), rtol=1e-12)


@pytest.mark.slow
def test_data_of_dask_are_added_up_on_the_current_client_or_here(client: Client, table: pd.DataFrame) -> None:
    import dask.array as da
    import dask.dataframe as dd

    def of_dataset(rows: xr.Dataset) -> pm.Model:
        return build(rows.to_dataframe())

    def of_array(rows: np.ndarray) -> pm.Model:
        return regression(pd.DataFrame(rows, columns=["x", "y"]))

    expected = at_once(table)
    simple = evidence(bk.infer(regression(table), draws=4))
    frame = dd.from_pandas(table, npartitions=3)
    dataset = table.to_xarray().chunk(index=150)
    array = da.from_array(table[["x", "y"]].to_numpy(), chunks=(150, 1))
    delayed = [dask.delayed(table.iloc)[k : k + 150] for k in range(0, ROWS, 150)]
    for given, builder, value, options in (
        (frame, build, expected, {}),
        (dataset, of_dataset, expected, {"client": client}),
        (array, of_array, simple, {}),
        (array, of_array, simple, {"client": client}),
        (delayed, build, expected, {"client": client}),
    ):
        found = evidence(bk.infer(builder, chunks=given, draws=4, **options))
        np.testing.assert_allclose(found, value, rtol=1e-12)
    with client.as_current():
        before = len(client.run(lambda dask_worker: list(dask_worker.data)))
        np.testing.assert_allclose(evidence(bk.infer(build, chunks=frame, draws=4)), expected, rtol=1e-12)
        assert before == 2


def test_what_is_wrong_with_a_piece_is_said_by_its_name(client: Client, table: pd.DataFrame, folder: Path) -> None:
    import dask.dataframe as dd

    bad = table.copy()
    bad.loc[250, "y"] = np.nan
    with pytest.raises(DataError, match=r"part 3 of the data has missing values: column 'y' .* row 50"):
        bk.infer(build, chunks=dd.from_pandas(bad, npartitions=4), client=client)
    with pytest.raises(DataError, match=r"03\.parquet.* is in both"):
        bk.infer(build, chunks=[folder, folder / "03.parquet"], client=client)
    with pytest.raises(OptionError, match=r"dask\.distributed\.Client") as raised:
        bk.infer(build, chunks=folder, client="tcp://127.0.0.1:1")
    assert "\n" not in str(raised.value)
    with pytest.raises(OptionError, match="client or checkpoint, without chunks, is for methods that sample"):
        bk.infer(build(table), method="exact", client=client)
    closed = Client(client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(OptionError, match="closed"):
        bk.infer(build, chunks=folder, client=closed)


def test_a_builder_that_was_changed_anywhere_is_another_one(table: pd.DataFrame, tmp_path: Path) -> None:
    """Also where the rows that were kept show nothing of it, and where the data have more than rows."""

    def made(cut: float) -> Any:
        def of_rows(rows: Any) -> pm.Model:
            with pm.Model() as model:
                slope = pm.Normal("slope", 0, 3)
                x = np.where(np.asarray(rows["x"]) > cut, 0.0, rows["x"])
                pm.Normal("y", slope * x, rows["sd"], observed=np.asarray(rows["y"]))
            return model

        return of_rows

    def pieces(sd: float) -> list[dict[str, Any]]:
        return [{"x": p["x"].to_numpy(), "y": p["y"].to_numpy(), "sd": sd} for p in (table[:60], table[60:100])]

    options: dict[str, Any] = {"checkpoint": tmp_path / "sums", "draws": 4}
    bk.infer(made(2.0), chunks=pieces(1.0), **options)
    with pytest.raises(OptionError, match="another build"):
        bk.infer(made(1.7), chunks=pieces(1.0), **options)
    with pytest.raises(OptionError, match="of other data"):
        bk.infer(made(2.0), chunks=pieces(2.0), **options)
    lock = threading.Lock()
    with pytest.raises(OptionError, match="hold a lock, which nothing tells from another one"):
        bk.infer(lambda rows: made(2.0)(rows) if lock else None, chunks=pieces(1.0), **options)


@pytest.mark.slow
def test_partitions_without_rows_add_nothing(client: Client, table: pd.DataFrame, tmp_path: Path) -> None:
    import dask.dataframe as dd

    rows = table[:90].sort_values("x").reset_index(drop=True)
    frame = dd.from_pandas(rows, npartitions=3)
    frame = frame[frame["x"] > rows["x"][40]]
    expected = evidence(bk.infer(regression(rows[41:]), draws=4))
    for options in ({}, {"client": client}, {"checkpoint": tmp_path / "sums"}):
        found = evidence(bk.infer(regression, chunks=frame, draws=4, **options))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    # Of the key of a table nothing tells what its files hold now: the values do.
    again = evidence(
        bk.infer(
            regression, chunks=frame.assign(x=frame["x"] + 0), draws=4, client=client, checkpoint=tmp_path / "sums"
        )
    )
    np.testing.assert_allclose(again, expected, rtol=1e-12)


def test_two_runs_do_not_write_to_one_checkpoint(folder: Path, tmp_path: Path) -> None:
    with (
        appending(tmp_path / "sums", {"other": 1}),
        pytest.raises(OptionError, match="is being written by another run"),
        appending(tmp_path / "sums", {"other": 1}),
    ):
        pass


def prepared(source: float) -> Any:
    def function(job: int) -> float:
        if job < 0:
            raise (DataError if job == -1 else RuntimeError)("not this one")
        if job > 1_000:
            os.kill(os.getpid(), signal.SIGKILL)
        return source * job

    return function


def test_jobs_run_again_where_their_worker_ends_and_say_what_went_wrong(client: Client) -> None:
    found = sorted(on_cluster(client, prepared, 2.0, range(20), "numbers"))
    assert found == [2.0 * k for k in range(20)]
    with pytest.raises(DataError, match="not this one"):
        list(on_cluster(client, prepared, 2.0, [1, -1], "numbers"))
    with pytest.raises(InferenceError, match="RuntimeError: not this one"):
        list(on_cluster(client, prepared, 2.0, [1, -2], "numbers"))
    with pytest.raises(OptionError, match="cannot be sent"):
        list(on_cluster(client, prepared, threading.Lock(), [1], "numbers"))


def mixture(rows: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", pm.Dirichlet("w", np.ones(2)), shape=len(rows))
        mean = pm.Normal("mean", 0, 5, shape=2)[z] + pm.Normal("slope", 0, 3) * rows["x"].to_numpy()
        pm.Normal("y", mean, pm.HalfNormal("sd", 2), observed=rows["y"].to_numpy())
    return model


def maximum(chunks: Any, **options: Any) -> str:
    """All digits of what EM finds."""
    found = bk.em(mixture, chunks=chunks, starts=1, max_iterations=2, random_seed=0, progressbar=False, **options)
    return repr((found.point, found.trace.tolist(), found.starts, found.log_posterior, found.blocks, found.notes))


@pytest.mark.slow
def test_em_has_its_e_steps_on_workers_to_the_same_digits(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [folder / f"{k:02d}.parquet" for k in range(2)]
    expected, steps, killed = maximum(files), count(), []
    original = PiecesOnWorkers.expectations

    def killing(self: PiecesOnWorkers, point: Any) -> Any:
        if next(steps) == 1:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        return original(self, point)

    monkeypatch.setattr(PiecesOnWorkers, "expectations", killing)
    assert maximum(files, client=client) == expected
    assert killed
    # Where there is no room for columns, the files are read again in each iteration.
    monkeypatch.setattr(em_chunks, "HELD", 0)
    assert maximum(files, client=client) == expected
    client.wait_for_workers(2)


@pytest.mark.slow
def test_em_of_data_of_dask_runs_where_they_lie(client: Client, table: pd.DataFrame, tmp_path: Path) -> None:
    import dask.dataframe as dd

    ordered = table[:150].sort_values("x").reset_index(drop=True)
    frame = dd.from_pandas(ordered, npartitions=3)
    frame = frame[frame["x"] > ordered["x"][60]]  # nothing is left of the first partition
    expected = maximum(frame)
    assert expected == maximum([ordered[61:100], ordered[100:]])
    with client.as_current():
        assert maximum(frame, checkpoint=tmp_path / "steps") == expected
    lines = (tmp_path / "steps").read_text()
    assert maximum(frame, checkpoint=tmp_path / "steps") == expected  # here, from what was made there
    assert (tmp_path / "steps").read_text() == lines
    bad = table[:90].assign(y=np.where(np.arange(90) == 70, np.nan, table["y"][:90]))
    with pytest.raises(DataError, match=r"part 3 of the data has missing values: column 'y' .* row 10"):
        bk.em(mixture, chunks=dd.from_pandas(bad, npartitions=3), client=client)


def test_em_says_which_file_is_bad_or_was_changed(
    client: Client, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        table[30 * number : 30 * number + 30].to_parquet(tmp_path / f"{number}.parquet")
    original = PiecesOnWorkers.expectations

    def changing(self: PiecesOnWorkers, point: Any) -> Any:
        table[200:230].to_parquet(tmp_path / "1.parquet")
        return original(self, point)

    with pytest.raises(DataError, match=r"1\.parquet' was added before"):
        maximum([tmp_path, tmp_path / "1.parquet"], client=client)
    monkeypatch.setattr(em_chunks, "HELD", 0)
    monkeypatch.setattr(PiecesOnWorkers, "expectations", changing)
    with pytest.raises(DataError, match=r"1\.parquet was changed while it was read"):
        maximum(tmp_path, client=client)
    with pytest.raises(OptionError, match=r"dask\.distributed\.Client"):
        maximum(tmp_path, client="tcp://127.0.0.1:1")
    with pytest.raises(OptionError, match="client: it is for chunks, em"):
        bk.em(mixture(table[:30]), client=client)
