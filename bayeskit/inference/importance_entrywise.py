"""Importance sampling over what remains once entries that are independent given it are integrated one by one.

Of item response with five items and 1,000 persons six numbers remain, more than quadrature is for: the difficulties,
and the sd of the abilities. How far the integrals over single entries may be off is part of the error.
"""

from __future__ import annotations

from bayeskit.elimination.analysis import Analysis
from bayeskit.inference import importance
from bayeskit.inference.methods import Request
from bayeskit.results.records import Posterior

__all__ = ["answer", "obstacle", "too_dear"]


def obstacle(analysis: Analysis) -> str:
    """No entries can be integrated by themselves, or too many numbers remain given which they could be."""
    none = "no variable has entries that can be integrated one by one; use method='nuts'"
    return importance.obstacle(analysis) or ("" if analysis.plates else none)


def too_dear(analysis: Analysis) -> str:
    """That there would be too few evaluations in the time that sampling takes; else empty."""
    return importance.too_dear(analysis)


def answer(request: Request) -> Posterior:
    """Independent draws, the entries and the rest recovered from what they are given, and the log evidence."""
    return importance.answer(request)
