"""Every benchmark, one after the other, with its bars: ``python benchmarks/run.py``. Exit code 1 if a bar is missed.

They are also run one at a time: ``python benchmarks/bench_regression.py``. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import os
import platform
import sys

import bench_catalogue
import bench_chains
import bench_chunks
import bench_coverage
import bench_em
import bench_import
import bench_other_data
import bench_process
import bench_references
import bench_regression
import bench_remainder
from bars import show


def main() -> int:
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    held = [
        show("Importing", bench_import.run()),
        show(
            f"Conjugate regression, {bench_regression.ROWS:,} rows and {bench_regression.COLUMNS} columns",
            bench_regression.run(),
        ),
        show(
            f"Regression on files in chunks, {bench_chunks.ROWS:,} rows and {bench_chunks.COLUMNS} columns",
            bench_chunks.run(),
        ),
        show("Other data of the same shapes, without draws", bench_other_data.run()),
        show("Exact inference against NUTS, 4,000 draws each", bench_catalogue.run()),
        bench_remainder.show_all(),
        bench_chains.show_all(),
        show(f"Gaussian process of {bench_process.POINTS:,} points: log evidence and gradient", bench_process.run()),
        show(
            f"EM of a Gaussian mixture, {bench_em.POINTS:,} points of {bench_em.FEATURES} features, "
            f"{bench_em.COMPONENTS} full covariances",
            bench_em.run(),
        ),
        show("Reference posteriors, all of them", bench_references.run()),
        show("Coverage of 90 % predictive intervals, Gaussian process", bench_coverage.run()),
    ]
    print("\nevery bar holds" if all(held) else "\na bar is MISSED")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
