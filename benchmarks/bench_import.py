"""What importing costs: ``import bayeskit`` beside ``import pymc``, and ``bayeskit --help``.

Each is the median of several fresh processes, less the start of the interpreter. ``import bayeskit`` is lazy, so its
own time is next to nothing; what a user pays in the end, every public name resolved, is shown without a bar. Bars: it
adds less than 10 % to ``import pymc``; ``bayeskit --help`` takes under 0.5 seconds, interpreter included.
"""

from __future__ import annotations

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


def run(repeats: int = 9) -> list[Row]:
    python = [sys.executable, "-c"]
    codes = ["pass", "import pymc", "import bayeskit", "import pymc, bayeskit", EVERYTHING]
    commands = [[*python, code] for code in codes]
    start, *others, helping = seconds([*commands, [sys.executable, "-m", "bayeskit.cli", "--help"]], repeats)
    pymc, alone, both, everything = (value - start for value in others)

    def added(name: str, value: float, judged: bool) -> Row:
        share = value / pymc - 1
        return Row(
            name,
            {"s": f"{value:.3f}", "added to import pymc": f"{share:+.1%}"},
            f"< {MOST_ADDED:.0%} added" if judged else "",
            share < MOST_ADDED if judged else None,
        )

    return [
        Row("import pymc", {"s": f"{pymc:.3f}"}),
        Row("import bayeskit", {"s": f"{alone:.3f}"}),
        added("import pymc, bayeskit", both, True),
        added("... and every public name used", everything, False),
        Row("bayeskit --help", {"s": f"{helping:.3f}"}, f"< {MOST_HELP:g} s", helping < MOST_HELP),
    ]


if __name__ == "__main__":
    show("Importing", run())
