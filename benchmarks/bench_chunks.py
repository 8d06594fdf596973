"""Regression on Parquet files that are read in chunks, against reading them and XᵀX by NumPy.

Files of 10⁶ rows, 20 columns of single precision and an outcome. The least work is to read each file, widen it and add
up ZᵀZ of columns and outcome side by side, from which posterior and evidence follow. Bars: at most twice that, and the
same log evidence. Each runs in a process of its own, imports and a first small chunk before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bars import Row, show
from bench_regression import build as build_regression
from bench_regression import peak_bytes

ROWS, COLUMNS = 4_000_000, 20
EACH = 1_000_000  # rows of a file
MOST_RATIO = 2.0
CLOSE = 1e-10  # of the log evidences, relative
METHODS = ("numpy", "infer")


def write_files(folder: Path, rows: int, columns: int) -> None:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(1)
    weights = rng.standard_normal(columns)
    for number, start in enumerate(range(0, rows, EACH)):
        count = min(EACH, rows - start)
        data = pd.DataFrame(rng.standard_normal((count, columns), dtype=np.float32))
        data.columns = [f"x{k}" for k in range(columns)]
        outcome = data.to_numpy() @ weights + rng.standard_normal(count)
        data.assign(y=outcome.astype(np.float32)).to_parquet(folder / f"{number:04}.parquet")


def build(rows: Any) -> Any:
    return build_regression(rows[[c for c in rows.columns if c != "y"]].to_numpy(), rows["y"].to_numpy())


def numpy_evidence(folder: Path) -> float:
    """The log evidence of the same model from ZᵀZ, Z = (X, y), of each file."""
    import numpy as np
    import pyarrow.parquet as pq
    from scipy import linalg, special

    total, n = 0.0, 0
    for path in sorted(folder.glob("*.parquet")):
        z = pq.read_table(path).to_pandas().to_numpy(dtype=float)
        total, n = total + z.T @ z, n + len(z)
    gram, moment, square = total[:-1, :-1], total[:-1, -1], total[-1, -1]
    factor = linalg.cho_factor(np.eye(len(gram)) + gram, lower=True)
    scale = 1.0 + (square - moment @ linalg.cho_solve(factor, moment)) / 2
    constant = special.gammaln(2.0 + n / 2) - special.gammaln(2.0) - n / 2 * np.log(2 * np.pi)
    return float(constant - np.log(np.diag(factor[0])).sum() - (2.0 + n / 2) * np.log(scale))


def measure(method: str, folder: Path, repeats: int) -> dict[str, float]:
    """Median seconds, and of CPU, peak memory, and the log evidence; run in a process of its own."""
    if method == "infer":
        import pandas as pd

        import bayeskit as bk

        small = pd.read_parquet(next(iter(sorted(folder.glob("*.parquet")))))[:100]
        bk.infer(build, chunks=[small], draws=4, random_seed=0, progressbar=False)
    else:
        from scipy import linalg, special  # noqa: F401
    seconds, processor, evidence = [], [], float("nan")
    for _ in range(repeats):
        start, start_of_processor = time.perf_counter(), time.process_time()
        if method == "infer":
            post = bk.infer(build, chunks=str(folder), draws=4000, random_seed=1, progressbar=False)
            evidence = float(post.log_evidence)
        else:
            evidence = numpy_evidence(folder)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_of_processor)
    return {
        "seconds": statistics.median(seconds),
        "cpu": statistics.median(processor),
        "peak": peak_bytes() / 1e9,
        "log_evidence": evidence,
    }


def run(rows: int = ROWS, columns: int = COLUMNS, repeats: int = 3) -> list[Row]:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), rows, columns)
        for method in METHODS:
            command = [sys.executable, __file__, "--method", method, "--folder", folder, "--repeats", str(repeats)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[method] = json.loads(done.stdout.splitlines()[-1])
    base, table = results["numpy"], []
    for method, result in results.items():
        ours = method == "infer"
        ratio, apart = result["cpu"] / base["cpu"], abs(result["log_evidence"] / base["log_evidence"] - 1)
        table.append(
            Row(
                method,
                {
                    "s": f"{result['seconds']:.2f}",
                    "s of CPU": f"{result['cpu']:.2f}",
                    "ratio to numpy": f"{ratio:.2f}",
                    "peak memory, GB": f"{result['peak']:.2f}",
                    "log evidence": f"{result['log_evidence']:.4f}",
                },
                f"<= {MOST_RATIO:g} times the CPU, same evidence" if ours else "",
                ratio <= MOST_RATIO and apart <= CLOSE if ours else None,
            )
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, help="measure one method in this process and print JSON")
    parser.add_argument("--folder", type=Path, help="of the files that a method reads")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.method:
        print(json.dumps(measure(options.method, options.folder, options.repeats)))
    else:
        title = f"Regression on files in chunks, {options.rows:,} rows and {options.columns} columns"
        show(title, run(options.rows, options.columns, options.repeats))


if __name__ == "__main__":
    main()
