"""One column of an observed variable, with the data sets that were replicated from the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskit.validation.predictive_checks.data_kinds import DataKind
from bayeskit.validation.predictive_checks.residuals import moments_over, observed_residuals, replicated_residuals

__all__ = ["Column", "in_order", "unit_of"]

LARGE = 1e100  # whose square, and that of whose inverse, summed over many entries, is a number of double precision
DIFFERING = 0.1  # spread of predicted means, in predictive standard deviations, from which on entries differ


@dataclass(frozen=True, eq=False)
class Column:
    """One column of an observed variable: its rows (first axis), and as many data sets of it as there are draws.

    The values are multiples of ``unit``.
    """

    name: str
    kind: DataKind
    observed: np.ndarray  # (rows, others)
    replicated: np.ndarray  # (draws, rows, others)
    labels: tuple[str, ...] = ()  # of categories
    repeated: Callable[[], np.ndarray | None] = lambda: None  # (parameters, data sets of each, rows, others)
    unit: float = 1.0
    ordered_by: str = ""  # another observed variable of the same rows, in whose order they are

    @property
    def size(self) -> int:
        return self.observed.size

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The predictive mean and standard deviation of each entry; one where all replicated values are the same."""
        return moments_over(self.replicated)

    @cached_property
    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the observed data against the replicated ones; of each of these against the observed and the others."""
        return (
            observed_residuals(self.observed, self.replicated),
            replicated_residuals(self.observed, self.replicated),
        )

    @property
    def differing(self) -> bool:
        """Whether the entries are predicted to differ from each other, in their means or in their spread."""
        mean, spread = self.moments
        # Of few data sets the moments differ by chance: their variances, s²/R and about s²/2R, are no difference.
        noise = np.mean(spread**2) / len(self.replicated)
        return bool(max(mean.var() - noise, spread.var() - noise / 2) > (DIFFERING * np.mean(spread)) ** 2)

    @property
    def sorted(self) -> bool:
        """Whether the rows are in the order of their values, or each value is in one block: neighbours are alike.

        And where they are in that of another observed variable: its replicated values are in none.
        """
        own = self.observed.shape[1] == 1 and in_order(self.observed[:, 0], self.kind)
        return own or bool(self.ordered_by)


def in_order(values: np.ndarray, kind: DataKind) -> bool:
    """Whether values go up, or down, or those of a category are in one block each."""
    steps = np.diff(values)
    blocks = kind == "category" and np.count_nonzero(steps) + 1 == np.unique(values).size
    return bool(np.all(steps >= 0) or np.all(steps <= 0) or blocks)


def unit_of(values: np.ndarray) -> float:
    """What values are to be divided by lest their squares overflow, or vanish: one, or a power of two."""
    largest = float(np.max(np.abs(values), initial=0.0))
    return 1.0 if largest == 0 or 1 / LARGE < largest < LARGE else 2.0 ** np.floor(np.log2(largest))
