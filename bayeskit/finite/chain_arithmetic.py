"""Sums and exponentials that the recursions of a finite chain are made of, compiled by numba."""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = ["add_compensated", "compensated_sum", "exponentiate", "log_sum"]


@as_written()
def add_compensated(total: float, lost: float, value: float) -> tuple[float, float]:
    """One more term of a sum, and what rounding has lost of the sum so far (Neumaier 1974)."""
    new = total + value
    if np.isfinite(new):
        lost += (total - new) + value if abs(total) >= abs(value) else (value - new) + total
    return new, lost


@as_written()
def compensated_sum(values: np.ndarray) -> float:
    """Σ values, to working precision however many there are."""
    total, lost = 0.0, 0.0
    for value in values:
        total, lost = add_compensated(total, lost, value)
    return total + lost


# Loops rather than array expressions, here and below: numba takes seconds to compile those.
@as_written()
def exponentiate(matrix: np.ndarray, result: np.ndarray) -> None:
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            result[i, j] = np.exp(matrix[i, j])


@as_written()
def log_sum(values: np.ndarray) -> float:
    highest = -np.inf
    for value in values:
        if not value <= highest:
            highest = value
    if highest == -np.inf:
        return highest
    total = 0.0
    for value in values:
        total += np.exp(value - highest)
    return highest + np.log(total)
