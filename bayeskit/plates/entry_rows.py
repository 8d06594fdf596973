"""Which entry of a variable each row of a factor belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeskit.finite.axis_dependence import Axis

__all__ = ["EntryRows"]


@dataclass(frozen=True, eq=False)
class EntryRows:
    """Which entry of b each row of one factor belongs to; its other axes are added up."""

    added: tuple[int, ...]  # axes of the factor that do not run along b
    entries: np.ndarray  # of the rest, flat, the flat index of the entry of b

    @classmethod
    def of(cls, axes: Sequence[Axis | None], shape: tuple[int, ...]) -> EntryRows:
        joined = [axis for axis in axes if axis is not None]
        places = [axis.indices(axis.length(shape)) for axis in joined]
        index = [np.zeros([len(p) for p in places], dtype=int) for _ in shape]
        for k, (axis, place) in enumerate(zip(joined, places, strict=True)):
            along = np.unravel_index(place, [shape[a] for a in axis.all])
            spread = [1] * k + [-1] + [1] * (len(joined) - k - 1)
            for a, values in zip(axis.all, along, strict=True):
                index[a] = index[a] + values.reshape(spread)
        flat = np.ravel_multi_index(index, shape) if shape else np.zeros((), dtype=int)
        return cls(tuple(i for i, axis in enumerate(axes) if axis is None), np.ravel(flat))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
        order = np.argsort(self.entries, kind="stable")
        entries, starts = np.unique(self.entries[order], return_index=True)
        return None if np.array_equal(order, np.arange(len(order))) else order, starts, entries

    def add_up(self, rows: np.ndarray, to: np.ndarray) -> None:
        """Add rows of shape (N, K, *axes) to the entries of b, of shape (N, K, G)."""
        rows = rows.sum(axis=tuple(i + 2 for i in self.added)) if self.added else rows
        rows = rows.reshape(*rows.shape[:2], -1)
        order, starts, entries = self._sorted
        if len(starts) < len(self.entries):
            rows = rows if order is None else rows[..., order]
            to[..., entries] += np.add.reduceat(rows, starts, axis=-1)
        elif order is None and len(entries) == to.shape[-1]:
            to += rows
        else:
            to[..., self.entries] += rows

    def of_rows(self, lengths: Sequence[int]) -> np.ndarray:
        """For each row of a factor of some shape, flat, the flat index of the entry of b that it belongs to."""
        kept = [1 if i in self.added else n for i, n in enumerate(lengths)]
        return np.broadcast_to(self.entries.reshape(kept), lengths).ravel()

    def spread(self, weights: Any, axes: int, lengths: Sequence[Any]) -> Any:
        """Weights of the entries of b, of shape (K, G), for the rows of the factor, as a graph: (K, *axes)."""
        kept = [lengths[i] for i in range(axes) if i not in self.added]
        along = weights[:, self.entries].reshape((weights.shape[0], *kept))
        order = iter(range(1, len(kept) + 1))
        return along.dimshuffle(0, *["x" if i in self.added else next(order) for i in range(axes)])
