"""Rows of earlier chunks that have something in common with a later one: the same customer, say.

What a builder makes of the other rows of a customer, such as the days since the first of them, shows where both come
together. The few rows that stand for all labels seldom have the customer of a chunk among them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from bayeskit.chunks.rows import ChunkRows

__all__ = ["recurring", "with_some_of"]

EACH, MOST = 200, 2_000  # rows kept of a chunk, and of all
NUMBERS = 200_000  # in the rows kept of a chunk
TRIED = 100


def with_some_of(seen: ChunkRows | None, rows: ChunkRows) -> ChunkRows | None:
    """The rows kept, with some of a chunk as long as there is room; None where no column can be a customer's."""
    width = sum(a.size for a in rows.arrays().values()) / len(rows)
    room = min(EACH, int(NUMBERS / max(width, 1)), MOST - (0 if seen is None else len(seen)))
    if room < 1 or not rows.discrete():
        return seen
    some = rows.take(np.unique(np.linspace(0, len(rows) - 1, min(room, len(rows))).astype(int)))
    return some if seen is None else seen.followed_by(some)


def recurring(seen: ChunkRows, rows: ChunkRows) -> tuple[ChunkRows, ChunkRows] | None:
    """Rows kept and rows of a chunk that share values, the rarest first; None if they share none."""
    ours, theirs = seen.discrete(), rows.discrete()
    rarity = np.full(len(seen), np.inf)
    shared: dict[str, np.ndarray] = {}
    for name in sorted(ours.keys() & theirs.keys()):
        one, two = pd.Series(ours[name]), pd.Series(theirs[name])
        try:
            here, there = (one.map(s.value_counts()).to_numpy(dtype=float, na_value=np.inf) for s in (one, two))
        except TypeError:  # rows hold lists
            continue
        rarity, shared[name] = np.minimum(rarity, here + there), np.isfinite(there)
    chosen = np.argsort(rarity, kind="stable")[:TRIED]
    chosen = np.sort(chosen[np.isfinite(rarity[chosen])])
    if not len(chosen):
        return None
    return seen.take(chosen), rows.take(_with_values_of(chosen, ours, theirs, shared))


def _with_values_of(
    chosen: np.ndarray,
    ours: Mapping[str, np.ndarray],
    theirs: Mapping[str, np.ndarray],
    shared: Mapping[str, np.ndarray],
) -> np.ndarray:
    """The rows of a chunk that have values of those chosen, of the column where these are fewest."""
    matches = [
        np.flatnonzero(pd.Series(theirs[n]).isin(pd.Series(ours[n])[chosen[rows[chosen]]]).to_numpy())
        for n, rows in shared.items()
        if np.any(rows[chosen])
    ]
    return min(matches, key=len)[:TRIED]
