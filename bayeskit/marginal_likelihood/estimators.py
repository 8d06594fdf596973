"""Estimators of a log evidence, in the order in which they are asked.

An estimator is a record here and a module with two functions: ``obstacle(target)`` says why it cannot estimate, or is
empty; ``estimate(target)`` gives a :class:`LogEvidence`, NaN with the reason where it does not trust itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from bayeskit.marginal_likelihood.proposal import Refused, Unvisited
from bayeskit.results.records import LogEvidence

if TYPE_CHECKING:
    import numpy as np

    from bayeskit.elimination.analysis import Analysis
    from bayeskit.marginal_likelihood.permutations import Matrix
    from bayeskit.model.unconstrained import Unconstrained

__all__ = ["ESTIMATORS", "Estimator", "Target", "first_estimate", "refused"]


@dataclass(frozen=True, eq=False)
class Target:
    """The density exp f whose integral is asked for, and what is known of it."""

    space: Unconstrained  # f on R^k
    random_seed: int
    draws: np.ndarray | None = None  # of shape (chain, draw, k), from the density proportional to exp f
    symmetries: Sequence[Matrix] = ()  # a group of maps under which f is invariant, the identity first, if not alone
    analysis: Analysis | None = None  # of the model as the user wrote it


@dataclass(frozen=True)
class Estimator:
    """One estimator."""

    name: str  # what a user calls it
    title: str  # what a sentence calls it
    home: str  # the module of its two functions

    def obstacle(self, target: Target) -> str:
        """Why it cannot estimate, and what to do instead; empty where it can."""
        return str(import_module(self.home).obstacle(target))

    def estimate(self, target: Target) -> LogEvidence:
        """The log integral of the density with its error, or NaN with the reason."""
        evidence: LogEvidence = import_module(self.home).estimate(target)
        return evidence


ESTIMATORS: tuple[Estimator, ...] = (Estimator("bridge", "bridge sampling", "bayeskit.marginal_likelihood.bridge"),)


def first_estimate(target: Target) -> LogEvidence:
    """The estimate of the first that trusts itself; where none does, NaN with the reason of each."""
    reasons: dict[str, str] = {}
    unvisited = ""
    for estimator in ESTIMATORS:
        reason = estimator.obstacle(target)
        if not reason:
            try:
                evidence = estimator.estimate(target)
            except Exception as error:
                # The draws are good whatever happens to their evidence; the type is for who mends it.
                reason = f"{estimator.title} failed ({type(error).__name__}: {error})"
            else:
                if math.isfinite(evidence.value):
                    return evidence
                reason, unvisited = evidence.reason, unvisited or evidence.unvisited
        reasons[estimator.title] = reason
    said = reasons.values() if len(reasons) == 1 else [f"{title}: {reason}" for title, reason in reasons.items()]
    return replace(refused("; ".join(said)), unvisited=unvisited)


def refused(reason: str | Refused) -> LogEvidence:
    """No estimate, and why."""
    said = str(reason)
    return LogEvidence(math.nan, math.inf, "estimated", said, unvisited=said if isinstance(reason, Unvisited) else "")
