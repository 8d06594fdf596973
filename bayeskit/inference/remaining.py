"""How many numbers remain."""

from __future__ import annotations

import math

import numpy as np

from bayeskit.elimination.analysis import Analysis

__all__ = ["real_numbers"]


def real_numbers(analysis: Analysis) -> float:
    """How many real numbers PyMC moves for what remains; infinite where a variable that remains is discrete."""
    remaining = analysis.plan.remaining
    if not all(analysis.joint.values[n].type.dtype.startswith("float") for n in remaining):
        return math.inf
    return sum(_free_numbers(analysis, n) for n in remaining)


def _free_numbers(analysis: Analysis, name: str) -> int:
    shape = analysis.shapes[name]
    size = int(np.prod(shape, dtype=int))
    return size - size // shape[-1] if analysis.supports[name].kind == "simplex" and size else size
