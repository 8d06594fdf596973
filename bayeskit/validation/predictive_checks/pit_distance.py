"""PIT values of a column: the ranks of its entries among replicated ones, and how far these are from uniform.

The distance is Kolmogorov's, of the ranks u of the entries among the replicated ones (randomised in ties) from uniform
ones.
"""

from __future__ import annotations

import numpy as np

from bayeskit.validation.predictive_checks.columns import Column

__all__ = ["column_pit", "distance_from_uniform"]

PIT_ELEMENTS = 2_000_000  # ranks held in memory


def column_pit(column: Column, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The PIT of the observed entries, and those of replicated data sets, by their ranks; fewer draws of large data."""
    draws = len(column.replicated)
    kept = np.linspace(0, draws - 1, min(draws, max(200, PIT_ELEMENTS // column.size))).round().astype(int)
    drawn, data = column.replicated[kept].reshape(len(kept), -1), column.observed.ravel()
    below, equal = (drawn < data).sum(axis=0), (drawn == data).sum(axis=0)
    pit = (below + rng.random(data.size) * (equal + 1)) / (len(kept) + 1)
    least, most = (ranks.T for ranks in _ranks(np.ascontiguousarray(drawn.T)))
    return pit, (least - 1 + rng.random(drawn.shape) * (most - least + 1)) / len(kept)


def _ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest rank that each value of a row may have: SciPy's, of one sorting instead of two."""
    order = np.argsort(values, axis=1)
    ascending, number = np.take_along_axis(values, order, axis=1), np.arange(1, values.shape[1] + 1)
    new = np.diff(ascending, axis=1) > 0
    one = np.ones((len(values), 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([one, new]), number, 0), axis=1)
    last = np.minimum.accumulate(np.where(np.hstack([new, one]), number, number[-1:])[:, ::-1], axis=1)[:, ::-1]
    least, most = np.empty(values.shape), np.empty(values.shape)
    np.put_along_axis(least, order, first, axis=1)
    np.put_along_axis(most, order, last, axis=1)
    return least, most


def distance_from_uniform(pit: np.ndarray) -> np.ndarray:
    """Kolmogorov's distance of the values in each row from a uniform distribution."""
    values, number = np.sort(pit, axis=1), pit.shape[1]
    steps = np.arange(number + 1) / number
    return np.maximum((steps[1:] - values).max(axis=1), (values - steps[:-1]).max(axis=1))
