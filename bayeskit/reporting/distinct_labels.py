"""Labels of dims as pictures need them: every panel and every row of a picture is found by its label."""

from __future__ import annotations

from collections import Counter

import numpy as np
import xarray as xr

__all__ = ["distinct_labels", "shortened"]


def distinct_labels(draws: xr.Dataset) -> xr.Dataset:
    """The same numbers, with text in place of labels that are there twice, missing, or of types that have no order.

    The second "x" is written "x (2)".
    """
    unclear = {str(d): draws[d].to_numpy() for d in draws.dims if d in draws.coords and not _are_distinct(draws[d])}
    return draws.assign_coords({dim: (dim, _numbered([str(v) for v in labels])) for dim, labels in unclear.items()})


def shortened(label: str, longest: int) -> str:
    """A label as there is room for it, without its middle: entries of one variable differ at the end of their names."""
    if len(label) <= longest:
        return label
    tail = longest // 2
    return f"{label[: longest - tail - 1]}…{label[-tail:]}"


def _are_distinct(labels: xr.DataArray) -> bool:
    try:
        return bool(np.unique(labels.to_numpy()).size == labels.size)
    except TypeError:  # None beside a text
        return False


def _numbered(labels: list[str]) -> list[str]:
    """Each label once: with the number of times that it came so far, where it came before."""
    taken, seen, result = set(labels), Counter[str](), []
    for label in labels:
        seen[label] += 1
        found = label
        while seen[label] > 1 and (found := f"{label} ({seen[label]})") in taken:
            seen[label] += 1  # one is called so already
        result.append(found)
    return result
