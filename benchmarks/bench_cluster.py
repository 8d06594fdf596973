"""Chunks on Dask workers of this machine: two against one, and with workers killed at random.

    python benchmarks/bench_cluster.py [--files 48] [--rows 200000] [--kills 20]

Linear regression of 20 columns, Parquet files. Printed are the seconds with one, two and four workers, those that the
cost model of `docs/clusters.md` says from the times of single tasks on one worker, what it says of a hundred, and if
the log evidence has the same digits after each run and each kill.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.graphs.environment import available_cpus

COLUMNS = 20


def build(rows: pd.DataFrame) -> pm.Model:
    """A regression with a free scale."""
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 1, shape=COLUMNS)
        variance = pm.InverseGamma("variance", 3, 2)
        mean = rows[[f"x{k}" for k in range(COLUMNS)]].to_numpy(dtype=float) @ weights
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=rows["y"].to_numpy(dtype=float))
    return model


def write(folder: Path, files: int, rows: int) -> None:
    """Files of made-up rows."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=COLUMNS)
    for number in range(files):
        columns = rng.normal(size=(rows, COLUMNS)).astype("float32")
        table = pd.DataFrame({f"x{k}": columns[:, k] for k in range(COLUMNS)})
        table["y"] = (columns @ weights + rng.normal(size=rows)).astype("float32")
        table.to_parquet(folder / f"{number:03d}.parquet")


@dataclass(frozen=True)
class Costs:
    """Seconds: of the first piece, of another one, of adding eight sums, of a task beside its work, of what is last."""

    first: float
    piece: float
    together: float
    task: float
    last: float

    def seconds(self, pieces: int, workers: int, cores: int | None = None) -> float:
        """What pieces of this size take, the sums being added on the way but for those that wait for the last piece.

        Workers have a core each, but for those of which a machine has no more than so many.
        """
        workers = min(workers, cores or workers)
        levels = max(math.ceil(math.log(pieces, 8)), 1)
        tasks = 2 * pieces + pieces / 7
        side_by_side = math.ceil((pieces - 1) / workers) * self.piece + tasks * self.together / 16 / workers
        return self.first + max(side_by_side, tasks * self.task) + levels * self.together + self.last


def nothing(number: int) -> int:
    """A task that is all overhead."""
    return number


def costs(folder: Path) -> Costs:
    """Measured on one worker."""
    from distributed import Client, LocalCluster, get_task_stream

    import bayeskit as bk

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        bk.infer(build, chunks=sorted(folder.iterdir())[:2], client=client, draws=4, progressbar=False)
        begun = time.perf_counter()
        client.gather(client.map(nothing, range(1000)))
        task = (time.perf_counter() - begun) / 1000
        with get_task_stream(client) as stream:
            post = bk.infer(build, chunks=folder, client=client, draws=4, random_seed=0, progressbar=False)
        begun = time.perf_counter()
        bk.infer(post.model, draws=4, random_seed=0)
        last = time.perf_counter() - begun
        spent: dict[str, list[float]] = {"first": [], "chunk": [], "sum": []}
        for record in stream.data:
            key = str(record["key"])
            kind = "" if key.endswith("-said") else key.split("-")[1]
            for what in record["startstops"]:
                if what["action"] == "compute" and kind in spent:
                    spent[kind].append(what["stop"] - what["start"])
    return Costs(spent["first"][0], float(np.mean(spent["chunk"])), float(np.mean(spent["sum"])), task, last)


def timed(folder: Path, workers: int) -> tuple[float, float]:
    """Seconds on a number of workers that are there, and have imported what they need; the log evidence."""
    from distributed import Client, LocalCluster

    import bayeskit as bk

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        bk.infer(build, chunks=sorted(folder.iterdir())[: 2 * workers], client=client, draws=4, progressbar=False)
        begun = time.perf_counter()
        post = bk.infer(build, chunks=folder, client=client, draws=4, random_seed=0, progressbar=False)
        return time.perf_counter() - begun, post.log_evidence.value


def killed(folder: Path, kills: int) -> tuple[int, list[float]]:
    """Runs on two workers while one after another is killed; how many were, and the log evidences."""
    from distributed import Client, LocalCluster

    import bayeskit as bk

    done, values, over = 0, [], threading.Event()
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:

        def kill() -> None:
            nonlocal done
            rng = np.random.default_rng(1)
            while done < kills and not over.wait(rng.uniform(2.0, 6.0)):
                running = [w.pid for w in cluster.workers.values() if w.pid]
                if running:
                    os.kill(running[rng.integers(len(running))], signal.SIGKILL)
                    done += 1
            over.set()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            while not over.is_set():
                post = bk.infer(build, chunks=folder, client=client, draws=4, random_seed=0, progressbar=False)
                values.append(post.log_evidence.value)
        finally:
            over.set()
            killer.join()
    return done, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, asked.files, asked.rows)
        known, seconds, values = costs(folder), {}, set()
        print(known)
        for workers in asked.workers:
            seconds[workers], value = timed(folder, workers)
            values.add(value)
            ratio = seconds[asked.workers[0]] / seconds[workers]
            said = known.seconds(asked.files, workers, available_cpus())
            print(
                f"{workers} workers: {seconds[workers]:6.1f} s, {ratio:.2f} times; the model says {said:.1f} s",
                flush=True,
            )
        for pieces in (asked.files, 100 * asked.files):
            one, hundred = (known.seconds(pieces, workers) for workers in (1, 100))
            print(f"{pieces} pieces on 100 workers, by the model: {hundred:.1f} s, {one / hundred:.0f} times one")
        if asked.kills:
            done, found = killed(folder, asked.kills)
            values |= set(found)
            print(f"{done} workers killed in {len(found)} runs")
        verdict = "the same digits" if len(values) == 1 else "NOT THE SAME"
        print(f"log evidence: {', '.join(map(repr, values))}: {verdict}")


if __name__ == "__main__":
    main()
