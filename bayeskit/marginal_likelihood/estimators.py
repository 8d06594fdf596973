"""Estimators of a log evidence, in the order in which they are asked.

An estimator is a record here and a module with two functions: ``obstacle(target)`` says why it cannot estimate, or is
empty; ``estimate(target)`` gives a :class:`LogEvidence`, NaN with the reason where it does not trust itself.

The harmonic mean of the likelihood over the draws is not among them. It is consistent, but its variance is infinite
wherever the prior has heavier tails than the posterior, which is nearly always: its number is decided by a draw that no
sampler ever makes, changes little with the prior however wide that is, and looks stable (Neal 1994; Wolpert and
Schmidler 2012).

Sources: Neal (1994), discussion of Newton and Raftery, Journal of the Royal Statistical Society B 56, 41-42; Wolpert
and Schmidler (2012), Statistica Sinica 22, 1233-1251.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from bayeskit.marginal_likelihood.proposal import Refused, Unvisited
from bayeskit.results.records import LogEvidence
from bayeskit.terminal import let_alarms_through

if TYPE_CHECKING:
    import numpy as np

    from bayeskit.elimination.analysis import Analysis
    from bayeskit.marginal_likelihood.permutations import Matrix
    from bayeskit.model.unconstrained import Unconstrained

__all__ = ["ESTIMATORS", "PRECISE", "Estimator", "Target", "first_estimate", "refused"]

PRECISE = 0.02  # nats: a standard error above which an estimator does more


@dataclass(frozen=True, eq=False)
class Target:
    """The density exp f whose integral is asked for, and what is known of it."""

    space: Unconstrained  # f on R^k
    random_seed: int
    draws: np.ndarray | None = None  # of shape (chain, draw, k), from the density proportional to exp f
    symmetries: Sequence[Matrix] = ()  # a group of maps under which f is invariant, the identity first, if not alone
    analysis: Analysis | None = None  # of the model as the user wrote it
    log_mass: float = 0.0  # of PyMC's prior density, which draws from the prior are normalised by
    points: int = 4000  # about as many as an estimator makes of its own, where nothing else says how many


@dataclass(frozen=True)
class Estimator:
    """One estimator."""

    name: str  # what a user calls it
    title: str  # what a sentence calls it
    home: str  # the module of its two functions
    of_infer: bool = True  # whether `infer` asks it; the others are a second opinion
    of_draws: bool = True  # whether what the draws miss is missing from it, too

    def obstacle(self, target: Target) -> str:
        """Why it cannot estimate, and what to do instead; empty where it can."""
        return str(import_module(self.home).obstacle(target))

    def estimate(self, target: Target) -> LogEvidence:
        """The log integral of the density with its error, or NaN with the reason."""
        evidence: LogEvidence = import_module(self.home).estimate(target)
        return evidence


ESTIMATORS: tuple[Estimator, ...] = (
    Estimator("bridge", "bridge sampling", "bayeskit.marginal_likelihood.bridge"),
    Estimator(
        "laplace", "Laplace's approximation", "bayeskit.marginal_likelihood.laplace", of_infer=False, of_draws=False
    ),
    Estimator("importance", "importance sampling", "bayeskit.marginal_likelihood.importance", of_infer=False),
    Estimator(
        "smc",
        "sequential Monte Carlo",
        "bayeskit.marginal_likelihood.sequential_monte_carlo",
        of_infer=False,
        of_draws=False,
    ),
    Estimator("nested", "nested sampling", "bayeskit.marginal_likelihood.nested", of_infer=False, of_draws=False),
)


def first_estimate(target: Target) -> LogEvidence:
    """The estimate of the first that trusts itself; where none does, NaN with the reason of each."""
    reasons: dict[str, str] = {}
    unvisited = ""
    for estimator in (e for e in ESTIMATORS if e.of_infer):
        reason = estimator.obstacle(target)
        if not reason:
            try:
                evidence = estimator.estimate(target)
            except Exception as error:
                let_alarms_through(error)
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
