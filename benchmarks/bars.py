"""What a benchmark prints: a table of rows, each with its bar and whether it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Row", "of_z", "show"]


@dataclass(frozen=True)
class Row:
    """One measured case: its numbers as text, the bar, and whether it holds (None where there is no bar)."""

    name: str
    values: Mapping[str, str]
    bar: str = ""
    holds: bool | None = None


def of_z(name: str, z: np.ndarray) -> Row:
    """Mean, variance and largest of z-scores, and whether stated errors are as large as they should be."""
    z = np.asarray(z)[np.isfinite(z)]
    text = f"{z.mean():+.2f}, {z.var():.2f}, {np.abs(z).max():.1f} of {z.size}"
    return Row(name, {"z": text}, "variance 0.7 to 1.4", bool(0.7 <= z.var() <= 1.4))


def show(title: str, rows: Sequence[Row]) -> bool:
    """Print a table; True if every bar in it holds."""
    columns = list(dict.fromkeys(column for row in rows for column in row.values))
    verdict = {True: "holds", False: "MISSED", None: ""}
    table = [["", *columns, "bar", ""]]
    for row in rows:
        table.append([row.name, *(row.values.get(column, "") for column in columns), row.bar, verdict[row.holds]])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    print(f"\n{title}")
    for line in table:
        cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *cells]).rstrip(), flush=True)
    return all(row.holds is not False for row in rows)
