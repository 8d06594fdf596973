"""Worker processes killed at random while files are added up on them: nothing is lost, and nothing is counted twice.

    python benchmarks/soak_cluster.py [--kills 20] [--runs 2] [--seconds 290] [--seed 1]

A regression on 60 Parquet files of uneven lengths, and three workers that Dask starts again. A thread kills one of them
with SIGKILL every second or so while another is at work, in equal parts of as many runs as it takes. Each run has to
give what one without workers gives, to the last digit: log evidence, draws, and the number of rows that were added up.
Printed is one line; the exit code is 1 where a run differs, fewer were killed, or the time is over.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

FILES, ROWS, COLUMNS = 60, 1_000, 3
SHORTEST, LONGEST = 0.6, 1.4  # seconds between two kills


def build(rows: pd.DataFrame) -> pm.Model:
    """A regression, and how many rows there are: each is one event, so that its rate is Gamma(1 + rows, 1 + rows)."""
    with pm.Model() as model:
        pm.Poisson("event", pm.Gamma("rate", 1, 1), observed=np.ones(len(rows), dtype=int))
        weights = pm.Normal("weights", 0, 1, shape=COLUMNS)
        mean = rows[[f"x{k}" for k in range(COLUMNS)]].to_numpy() @ weights
        pm.Normal("y", mean, 0.7, observed=rows["y"].to_numpy())
    return model


def write(folder: Path, seed: int) -> int:
    """Files of made-up rows; how many rows there are."""
    rng = np.random.default_rng(seed)
    weights, total = rng.normal(size=COLUMNS), 0
    for number in range(FILES):
        rows = int(rng.integers(ROWS // 2, 2 * ROWS))
        columns = rng.normal(size=(rows, COLUMNS))
        table = pd.DataFrame({f"x{k}": columns[:, k] for k in range(COLUMNS)})
        table["y"] = columns @ weights + 0.7 * rng.normal(size=rows)
        table.to_parquet(folder / f"{number:03d}.parquet")
        total += rows
    return total


def answered(folder: Path, client: Any) -> tuple[str, int]:
    """All digits of the log evidence and of the posterior, and the rows that were counted."""
    import bayeskit as bk

    post = bk.infer(build, chunks=folder, client=client, draws=200, random_seed=0, progressbar=False)
    draws = {name: values.to_numpy().tolist() for name, values in sorted(post.tree["posterior"].data_vars.items())}
    return repr((post.log_evidence, draws)), round(float(post.marginals["rate"].dist.args[0])) - 1


class Killer:
    """A thread that kills a random worker process every second or so; its choices are those of a seed."""

    def __init__(self, cluster: Any, seed: int) -> None:
        self.cluster, self.rng = cluster, np.random.default_rng(seed)
        self.allowed = self.done = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.over.wait(self.rng.uniform(SHORTEST, LONGEST)):
            known = self.cluster.scheduler.workers
            # One is left: were each new worker killed at its first piece, nothing would ever be done.
            working = sorted(w.pid for w in self.cluster.workers.values() if w.pid and w.worker_address in known)
            if len(working) > 1 and self.done < self.allowed:
                os.kill(working[self.rng.integers(len(working))], signal.SIGKILL)
                self.done += 1


def soak(folder: Path, kills: int, runs: int, seed: int) -> tuple[int, list[tuple[str, int]]]:
    """How many workers were killed, and what the runs gave meanwhile."""
    import dask
    from distributed import Client, LocalCluster

    found: list[tuple[str, int]] = []
    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    # A cluster gives a worker up for good that is not back after 15 seconds, which it may not be on a busy machine.
    patient = {"distributed.deploy.lost-worker-timeout": "200s"}
    with (
        dask.config.set(patient),
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, **quiet) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        killer = Killer(cluster, seed)
        killer.thread.start()
        try:
            while len(found) < runs or killer.done < kills:
                killer.allowed = min(killer.done + -(-kills // runs), kills)
                found.append(answered(folder, client))
        finally:
            killer.over.set()
            killer.thread.join()
    return killer.done, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=290.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    begun = time.monotonic()
    faulthandler.dump_traceback_later(asked.seconds, exit=True)  # exit code 1, and where it waited
    with tempfile.TemporaryDirectory() as name:
        rows = write(Path(name), asked.seed)
        expected = answered(Path(name), None)
        done, found = soak(Path(name), asked.kills, asked.runs, asked.seed)
    differ = sum(each != expected for each in found)
    counts = {number for _, number in (expected, *found)}
    good = not differ and counts == {rows} and done >= asked.kills and len(found) >= asked.runs
    print(
        f"{done} of {asked.kills} kills in {len(found)} runs of {FILES} files: {differ} runs differ, rows counted "
        f"{', '.join(f'{n:,}' for n in sorted(counts))} of {rows:,}, {time.monotonic() - begun:.0f} s: "
        f"{'all digits the same' if good else 'NOT AS IT SHOULD BE'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
