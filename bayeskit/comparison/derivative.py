"""The derivative of a smooth function of one number that is known with an error, and what the derivative may be off.

Central differences at steps h, h/2, h/4, h/8, extrapolated to zero (Richardson's scheme, in the form of Ridders): every
entry of the table is off by about its distance from the one before, and by what the errors of the values make of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bayeskit.errors import BayeskitError
from bayeskit.results.log_evidence import LogEvidence

__all__ = ["derivative"]

HALVINGS = 4
STEEP, FLAT = 0.5, 1e-3  # second differences between which a step is long enough, and not too long
TRIES = 12
ROUNDING = 4 * np.finfo(float).eps


def derivative(function: Callable[[float], LogEvidence], step: float, longest: float) -> tuple[float, float]:
    """f'(0) and its error, from a first step that is adapted to how f bends; a BayeskitError of f is passed on."""
    centre = function(0.0)
    step, pair = _long_enough(function, centre.value, step, longest)
    table: list[list[float]] = []
    best, off = math.nan, math.inf
    for k in range(HALVINGS):
        h = step / 2**k
        ends = pair if k == 0 else (function(h), function(-h))
        row = [(ends[0].value - ends[1].value) / (2 * h)]
        noise = (sum(e.error + ROUNDING * abs(e.value) for e in ends)) / (2 * h)
        for j in range(1, k + 1):
            row.append(row[j - 1] + (row[j - 1] - table[k - 1][j - 1]) / (4**j - 1))
            error = max(abs(row[j] - row[j - 1]), abs(row[j] - table[k - 1][j - 1])) + 2 * noise
            if error < off:
                best, off = row[j], error
        table.append(row)
    return best, off


def _long_enough(
    function: Callable[[float], LogEvidence], centre: float, step: float, longest: float
) -> tuple[float, tuple[LogEvidence, LogEvidence]]:
    """A step over which f bends by less than half a nat, and that is no shorter than it need be; f at its ends."""
    error: BayeskitError | None = None
    shorter = False
    for _ in range(TRIES):
        try:
            pair = function(step), function(-step)
        except BayeskitError as refused:  # beyond what the number may be
            error, step, shorter = refused, step / 4, True
            continue
        bend = abs(pair[0].value + pair[1].value - 2 * centre)
        if not bend <= STEEP:
            step, shorter = step / 3, True
        elif bend < FLAT and not shorter and step < longest:
            step = min(4 * step, longest)
        else:
            return step, pair
    if error is not None:
        raise error
    return step, pair
