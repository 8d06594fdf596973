"""The state of several Matérn processes at once: small matrices in blocks, one for each process.

Functions of numba, which put what they find into arrays that they are given: nothing is allocated at a step.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.matern import transitions
from bayeskit.graphs.matern.transitions import stationary, transition
from bayeskit.graphs.numba_functions import as_written

__all__ = ["apply_to", "blocks", "copied", "gain_of", "moved_over", "sandwich", "stationary_state"]


@as_written()
def blocks(orders, values):  # type: ignore[no-untyped-def]
    """h, which adds up the processes, and of each entry of the state a value of its process."""
    size = 0
    for order in orders:
        size += max(order, 1)
    first, spread = np.zeros(size), np.empty(size)
    at = 0
    for k in range(len(orders)):
        first[at] = 1.0
        for i in range(at, at + max(orders[k], 1)):
            spread[i] = values[k]
        at += max(orders[k], 1)
    return first, spread


@as_written(transitions.__file__)
def stationary_state(orders, p):  # type: ignore[no-untyped-def]
    at = 0
    for order in orders:
        stationary(order, at, p)
        at += max(order, 1)


@as_written(transitions.__file__)
def _move(orders, rates, gap, a, q, scratch):  # type: ignore[no-untyped-def]
    at = 0
    for k in range(len(orders)):
        transition(orders[k], rates[k] * gap, at, a, q, scratch)
        at += max(orders[k], 1)


@as_written()
def copied(source, target):  # type: ignore[no-untyped-def]
    """Numbers into an array of the same length: an assignment has numba compile what words its error, for seconds."""
    for i in range(len(source)):
        target[i] = source[i]


@as_written()
def apply_to(matrix, vector, result):  # type: ignore[no-untyped-def]
    for i in range(len(vector)):
        total = 0.0
        for j in range(len(vector)):
            total += matrix[i, j] * vector[j]
        result[i] = total


@as_written()
def sandwich(a, p, half, result):  # type: ignore[no-untyped-def]
    """A P Aᵀ of a symmetric P, which may be the result."""
    size = len(a)
    for i in range(size):
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += a[i, k] * p[k, j]
            half[i, j] = total
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += half[i, k] * a[j, k]
            result[i, j] = total
            result[j, i] = total


@as_written(transitions.__file__)
def moved_over(orders, rates, scale, gap, p, a, q, half, scratch):  # type: ignore[no-untyped-def]
    """The covariance of the state after a gap in place of that before it; A and Q of variance one are left, too."""
    _move(orders, rates, gap, a, q, scratch)
    sandwich(a, p, half, p)
    for i in range(len(p)):
        for j in range(len(p)):
            p[i, j] += scale[i] * q[i, j]


@as_written()
def gain_of(p, first, noise, gain, kept):  # type: ignore[no-untyped-def]
    """S, with K and M = I − K hᵀ put into the arrays for them."""
    size, s, alone = len(first), noise, True
    apply_to(p, first, gain)
    for i in range(size):
        s += first[i] * gain[i]
    for i in range(size):
        gain[i] /= s
        alone = alone and (i == 0 or first[i] == 0.0)
        for j in range(size):
            kept[i, j] = -gain[i] * first[j]
        kept[i, i] += 1.0
    if alone:
        kept[0, 0] = noise / s  # 1 − P₀₀ / S, without its rounding
    return s
