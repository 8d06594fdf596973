"""Which rows of earlier chunks are tried beside a later one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeskit.chunks.recurring_rows import EACH, MOST, NUMBERS, recurring, with_some_of
from bayeskit.chunks.rows import ChunkRows


def table(customers: list[int], kind: str = "a") -> ChunkRows:
    n = len(customers)
    return ChunkRows.of(pd.DataFrame({"customer": customers, "kind": [kind] * n, "spent": np.arange(float(n))}), "t")


def test_the_rarest_that_they_share_come_first() -> None:
    """All rows have a kind in common, and two of them a customer."""
    seen, rows = table([*range(500), 7]), table([1000, 3, 7, 2000])
    found = recurring(seen, rows)
    assert found is not None
    earlier, later = found
    assert {3, 7} <= set(earlier.data["customer"])
    assert list(later.data["customer"]) == [3, 7]
    assert len(earlier) == 100


def test_rows_that_share_nothing_are_not_tried() -> None:
    assert recurring(table([1, 2]), table([3, 4], kind="b")) is None


def test_lists_in_a_column_are_passed_over() -> None:
    rows = ChunkRows.of(pd.DataFrame({"basket": [[1], [2]], "shop": ["n", "s"]}), "t")
    found = recurring(rows, rows)
    assert found is not None
    assert len(found[0]) == 2


def test_few_rows_are_kept_and_none_of_numbers_alone() -> None:
    seen = with_some_of(None, table(list(range(1000))))
    assert seen is not None
    assert len(seen) == EACH
    for _ in range(MOST // EACH + 3):
        seen = with_some_of(seen, table(list(range(1000))))
        assert seen is not None
    assert len(seen) == MOST
    assert with_some_of(None, ChunkRows.of(np.zeros((50, 3)), "t")) is None
    wide = ChunkRows.of({"customer": np.arange(40), "x": np.zeros((40, NUMBERS // 10))}, "t")
    few = with_some_of(None, wide)
    assert few is not None
    assert len(few) <= 10
