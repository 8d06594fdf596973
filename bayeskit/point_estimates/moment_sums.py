r"""Weighted moments of rows about a centre, moved to another one, and added up over chunks.

With n = Σ r, m = Σ r (y − c) and S = Σ r (y − c)(y − c)ᵀ, the moments about c′ = c + d are

.. math:: n' = n, \qquad m' = m - n d, \qquad S' = S - m d^\top - d m^\top + n d d^\top
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["MomentSums", "compensated"]


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Moments about one centre: of each group of weights n, m and S as one vector; and Σ r of the weights it is of."""

    total: float
    centre: np.ndarray
    groups: tuple[np.ndarray, ...]

    def about(self, centre: np.ndarray) -> MomentSums:
        """The moments about another centre."""
        size, d, moved = len(centre), centre - self.centre, []
        for group in self.groups:
            n, m, second = group[0], group[1 : 1 + size], group[1 + size :].reshape(size, size)
            cross = np.outer(m, d)
            second = second - cross - cross.T + n * np.outer(d, d)
            moved.append(np.concatenate([[n], m - n * d, second.ravel()]))
        return MomentSums(self.total, centre, tuple(moved))

    def scaled(self, factor: float) -> MomentSums:
        """The moments of rows that count ``factor`` times each."""
        return MomentSums(factor * self.total, self.centre, tuple(factor * g for g in self.groups))

    @staticmethod
    def added(parts: Sequence[MomentSums]) -> MomentSums:
        """The moments of the rows of all, about their common mean."""
        totals = np.array([p.total for p in parts])
        # From the first centre: the mean of numbers near 1e9 that differ by one keeps its digits.
        first, total = parts[0].centre, float(compensated(totals))
        share = totals / total if total > 0 else np.full(len(parts), 1 / len(parts))
        centre = first + compensated([s * (p.centre - first) for s, p in zip(share, parts, strict=True)])
        moved = [p.about(centre).groups for p in parts]
        return MomentSums(total, centre, tuple(compensated(each) for each in zip(*moved, strict=True)))


def compensated(values: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Σ of arrays in their order, each entry to working precision (Neumaier 1974)."""
    total = np.zeros(np.shape(values[0]))
    lost = np.zeros_like(total)
    for value in values:
        new = total + value
        larger = np.abs(total) >= np.abs(value)
        lost = lost + np.where(larger, (total - new) + value, (value - new) + total)
        total = new
    return np.asarray(total + lost)
