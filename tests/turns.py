"""Slow tests take turns: a run of ``make test`` has one share of them, and ``make test-all`` has all.

Which share follows from the hash of the commit, so that a failure comes back when the same commit is run again, and
changes that land one after another run different ones. ``pytest`` without ``--turn`` runs all.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest

TURNS = 8


def add_option(parser: pytest.Parser) -> None:
    """What ``conftest`` adds to the command line."""
    parser.addoption(
        "--turn", type=int, metavar="N", help=f"of the slow tests, share N modulo {TURNS}; without it, all of them"
    )


def header(turn: int | None) -> str:
    """What the run says of itself: pytest-xdist does not count what its processes leave out."""
    which = "all" if turn is None else f"share {turn % TURNS + 1} of {TURNS}; make test-all runs all"
    return f"slow tests: {which}"


def split(items: Iterable[pytest.Item], turn: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests that are run at a turn, and those that wait for another.

    Slow tests of a file are dealt in their order, each file from another share on: files with one slow test are many.
    Tests of one case or one fixture's parameter stay together, as they share what was inferred; and those of one word,
    ``slow("word")``.
    """
    dealt: defaultdict[str, dict[str, int]] = defaultdict(dict)
    now, later = [], []
    for item in items:
        mark = item.get_closest_marker("slow")
        if mark is None:
            now.append(item)
            continue
        path, _, name = item.nodeid.partition("::")
        shares = dealt[path]
        share = shares.setdefault(_what_is_shared(item, name, mark), zlib.crc32(path.encode()) + len(shares))
        (now if (share - turn) % TURNS == 0 else later).append(item)
    return now, later


def _what_is_shared(item: pytest.Item, name: str, mark: pytest.Mark) -> str:
    if mark.args:
        return str(mark.args[0])
    called = getattr(item, "callspec", None)
    return name if called is None else str(called.id)
