"""The derivative of a smooth function of one number that is known with an error, and what the derivative may be off.

Central differences at steps h, h/2, h/4, …, extrapolated to no step at all (Richardson's scheme, in the form of
Ridders): an entry of the table is off by about its distance from those before, and by what the errors of the values
make of it. Where f may have a kink at 0, as in the end of a support, half of what the slopes on its two sides differ by
is part of the error: f(h) + f(−h) − 2 f(0), over h, extrapolated in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from bayeskit.errors import BayeskitError, ModelError
from bayeskit.results.log_evidence import LogEvidence

__all__ = ["derivative"]

HALVINGS, ENOUGH = 6, 1e-9
STEEP = 0.5  # nats by which the function may bend over the first step
LEVELS = 2  # halvings by which it is seen whether there is a kink
KINK = 1e-3  # relative, of half the difference of the slopes on two sides: of a larger one there is no derivative
PLAIN = 0.03  # relative, from which no further halving is needed to see it
TRIES = 12
ROUNDING = 4 * np.finfo(float).eps


def derivative(
    function: Callable[[float], LogEvidence], step: float, may_have_kink: bool = False
) -> tuple[float, float]:
    """f'(0) and its error, from a first step over which f bends little; a BayeskitError of f is passed on."""
    step, pair = _short_enough(function, step)
    table: list[list[float]] = []
    best, off, kink = math.nan, math.inf, math.inf
    bends: list[float] = []
    for k in range(HALVINGS):
        h = step / 2**k
        ends = pair if k == 0 else (function(h), function(-h))
        row = [(ends[0].value - ends[1].value) / (2 * h)]
        noise = sum(e.error + ROUNDING * abs(e.value) for e in ends) / (2 * h)
        for j in range(1, k + 1):
            row.append(row[j - 1] + (row[j - 1] - table[k - 1][j - 1]) / (4**j - 1))
            error = max(abs(row[j] - row[j - 1]), abs(row[j] - table[k - 1][j - 1])) + 2 * noise
            if error < off:
                best, off = row[j], error
        table.append(row)
        if may_have_kink:
            bends.append((ends[0].value + ends[1].value - 2 * function(0.0).value) / h)
            if k >= LEVELS:  # of which the first is in h, the second in h³
                once = [2 * b - a for a, b in pairwise(bends[-LEVELS - 1 :])]
                kink = min(kink, abs(8 * once[1] - once[0]) / 7 / 2)
                if kink > PLAIN * max(1.0, abs(best)):
                    break
        if off <= ENOUGH * max(1.0, abs(best)) and (not may_have_kink or k >= LEVELS):
            break
    if may_have_kink and not kink <= KINK * max(1.0, abs(best)):
        raise ModelError("there the log evidence has a kink: its slope is another on each side")
    return best, off + (kink if may_have_kink else 0.0)


def _short_enough(
    function: Callable[[float], LogEvidence], step: float
) -> tuple[float, tuple[LogEvidence, LogEvidence]]:
    """A step over which f bends by less than half a nat; f at its ends."""
    centre = function(0.0).value
    for left in reversed(range(TRIES)):
        try:
            pair = function(step), function(-step)
            if abs(pair[0].value + pair[1].value - 2 * centre) <= STEEP or not left:
                break
        except BayeskitError:  # beyond what the number may be
            if not left:
                raise
        step /= 4
    return step, pair
