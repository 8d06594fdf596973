"""Variables with an entry for each row: those of other rows are others, whatever their numbers.

Effects of eight groups may be combined from eight rows here and eight there, effects of eight rows may not. Where
labels do not tell which they are, entries that go with the rows one by one are those of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pymc.logprob.utils import ParameterValueError

from bayeskit.chunks.labels import latent_dims
from bayeskit.chunks.reading import Reading
from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small

__all__ = ["require_groups"]

FEWEST = 2  # rows from which an entry for each can be told from a number for all
STEP = 0.01


def require_groups(readings: Sequence[Reading]) -> None:
    """A ModelError if a variable has an entry for each row of an observed one, in all posteriors and without labels."""
    found = [_by_row(reading) for reading in readings]
    for name, observed in sorted(set.intersection(*found)):
        raise ModelError(
            f"{name!r} has an entry for each row of {observed!r}: those of other rows are other variables, and the "
            "posteriors do not combine; if they are the same in all, as groups or weights of columns are, give them "
            "dims whose coords are their labels"
        )


def _by_row(reading: Reading) -> set[tuple[str, str]]:
    """The variables, each with an observed one, whose entries go with the rows one by one, or with all from one on."""
    found = set()
    point = reading.points(0)[0]
    for observed, graph in reading.observed.items():
        if graph.type.ndim < 1:
            continue
        function = compile_small(list(reading.latents.values()), graph)
        rows = _density(reading, function, point)
        for name, axis in _axes_without_labels(reading):
            if not FEWEST <= len(rows) == reading.shapes[name][axis]:
                continue
            moved = [{**point, name: _moved(np.asarray(point[name]), axis, k)} for k in _places(len(rows))]
            if _goes_with_rows([_reached(_density(reading, function, at), rows) for at in moved], len(rows)):
                found.add((name, observed))
    return found


def _density(reading: Reading, function: Callable[..., Any], point: Mapping[str, Any]) -> np.ndarray:
    """Of the rows, at a point; of none where a parameter is out of its range there."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*[np.asarray(point[n], v.type.dtype) for n, v in reading.latents.items()]))
    except (ParameterValueError, np.linalg.LinAlgError):
        return np.zeros(0)


def _places(rows: int) -> tuple[int, int, int]:
    return 0, rows // 2, rows - 1


def _axes_without_labels(reading: Reading) -> list[tuple[str, int]]:
    """Of each variable the axes whose labels, if any, are only numbers in order."""
    labels = {d: i for d, i in reading.labels.items() if not i.equals(pd.RangeIndex(len(i)))}
    return [(n, a) for n, dims in latent_dims(reading.model).items() for a, d in enumerate(dims) if d not in labels]


def _moved(value: np.ndarray, axis: int, place: int) -> np.ndarray:
    result = np.moveaxis(value.copy(), axis, 0)
    result[place] = 1 - result[place] if value.dtype.kind in "biu" else result[place] + STEP
    return np.moveaxis(result, 0, axis)


def _reached(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """The rows whose density is another one, as far as there are densities."""
    if len(one) != len(two):
        return np.zeros(0, dtype=int)
    different = ~np.isclose(one, two, rtol=1e-12, atol=0.0, equal_nan=True)
    return np.flatnonzero(different.reshape(len(one), -1).any(axis=1))


def _goes_with_rows(reached: Sequence[np.ndarray], rows: int) -> bool:
    """Whether the first, middle and last entry reach their own row, and either none before or none after."""
    places = _places(rows)
    own = all(k in r for k, r in zip(places, reached, strict=True))
    return own and (
        all(r.min() == k for k, r in zip(places, reached, strict=True))
        or all(r.max() == k for k, r in zip(places, reached, strict=True))
    )
