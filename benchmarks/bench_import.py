"""What importing costs: ``import bayeskit`` beside ``import pymc``, and ``bayeskit --help``.

Each is taken over several fresh processes. ``import bayeskit`` is lazy, so its own time is next to nothing; what a
user pays in the end, every public name resolved, is shown without a bar. Bars: it adds less than 10 % to ``import
pymc``; ``bayeskit --help`` takes under 0.5 seconds, interpreter included.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from bars import Row, show

MOST_ADDED = 0.10
MOST_HELP = 0.5
EVERYTHING = "import pymc, bayeskit; [getattr(bayeskit, name) for name in bayeskit.__all__]"


def seconds(commands: list[list[str]], repeats: int) -> list[float]:
    """The least time of each command; they take turns, so that whatever else the machine does falls on all alike."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(repeats + 1):
        for command, record in zip(commands, times, strict=True):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            record.append(time.perf_counter() - start)
    return [min(record[1:]) for record in times]  # the first ones fill the disk's cache


def added_seconds(repeats: int) -> tuple[float, float]:
    """Medians of ``import pymc`` and of ``import bayeskit`` after it, both timed inside one process.

    The difference of two processes would drown: ``import pymc`` alone varies by more than a tenth from run to run.
    """
    code = (
        "import time; a = time.perf_counter(); import pymc; b = time.perf_counter(); import bayeskit; "
        "c = time.perf_counter(); print(b - a, c - b)"
    )
    runs = [
        [float(t) for t in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()]
        for _ in range(repeats + 1)
    ]
    first, second = zip(*runs[1:], strict=True)
    return statistics.median(first), statistics.median(second)


def run(repeats: int = 7) -> list[Row]:
    pymc, bayeskit = added_seconds(repeats)
    start, everything, helping = seconds(
        [
            [sys.executable, "-c", "pass"],
            [sys.executable, "-c", EVERYTHING],
            [sys.executable, "-m", "bayeskit.cli", "--help"],
        ],
        repeats,
    )
    share = bayeskit / pymc
    return [
        Row("import pymc", {"s": f"{pymc:.3f}"}),
        Row(
            "import bayeskit, after it",
            {"s": f"{bayeskit:.4f}", "added to import pymc": f"{share:+.1%}"},
            f"< {MOST_ADDED:.0%} added",
            share < MOST_ADDED,
        ),
        Row("every public name used, with pymc", {"s": f"{everything - start:.3f}"}),
        Row("bayeskit --help", {"s": f"{helping:.3f}"}, f"< {MOST_HELP:g} s", helping < MOST_HELP),
    ]


if __name__ == "__main__":
    show("Importing", run())
