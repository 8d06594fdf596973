"""How many numbers remain, and whether a method that is for so many can answer."""

from __future__ import annotations

import math

import numpy as np

from bayeskit.elimination.analysis import Analysis

__all__ = ["obstacle_to"]


def obstacle_to(method: str, analysis: Analysis, most: int, said: str) -> str:
    """Nothing remains, or more than so many real numbers do, as they are ``said``; empty where it can answer."""
    remaining = analysis.plan.remaining
    if not remaining:
        return f"{method} has nothing to do: every variable has a closed form; use method='exact'"
    if _real_numbers(analysis) <= most:
        return ""
    return f"no {method} over {', '.join(remaining)}: it is for {said} real numbers; use method='nuts'"


def _real_numbers(analysis: Analysis) -> float:
    """How many real numbers PyMC moves for what remains; infinite where a variable that remains is discrete."""
    remaining = analysis.plan.remaining
    if not all(analysis.joint.values[n].type.dtype.startswith("float") for n in remaining):
        return math.inf
    return sum(_free_numbers(analysis, n) for n in remaining)


def _free_numbers(analysis: Analysis, name: str) -> int:
    shape = analysis.shapes[name]
    size = int(np.prod(shape, dtype=int))
    return size - size // shape[-1] if analysis.supports[name].kind == "simplex" and size else size
