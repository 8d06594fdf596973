"""Tables of a report from data frames and rows, of which the first rows are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskit.reporting.figures import variable_order
from bayeskit.reporting.records import Cell, Table

if TYPE_CHECKING:
    import pandas as pd

    from bayeskit.results.records import Posterior

__all__ = ["MAX_ROWS", "capped_table", "frame_table", "in_model_order"]

MAX_ROWS = 30


def in_model_order(summary: pd.DataFrame, post: Posterior) -> pd.DataFrame:
    """Rows in the order of the model: free variables first, but those that would fill the table after all others."""
    order = {name: i for i, name in enumerate(variable_order(post))}
    names = [str(label).split("[")[0] for label in summary.index]
    rows = Counter(names)
    position = [(rows[n] >= MAX_ROWS, order.get(n, len(order))) for n in names]
    return summary.iloc[sorted(range(len(names)), key=position.__getitem__)]


def frame_table(frame: pd.DataFrame, head: str, caption: str) -> Table:
    columns = (head, *(str(c) for c in frame.columns))
    rows = tuple(
        (str(label), *(_cell(v) for v in row))
        for label, row in zip(frame.index[:MAX_ROWS], frame.to_numpy(dtype=object), strict=False)
    )
    return capped_table(columns, rows, caption, total=len(frame))


def capped_table(
    columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], caption: str, *, total: int | None = None
) -> Table:
    total = len(rows) if total is None else total
    shown = tuple(rows[:MAX_ROWS])
    note = f"{total - len(shown)} of {total} rows are not shown." if total > len(shown) else ""
    return Table(columns, shown, caption, note)


def _cell(value: Any) -> Cell:
    """A NumPy scalar as the Python value it is."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
