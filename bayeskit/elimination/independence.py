r"""Blocks of variables that share no term of the density, so that their posteriors are independent.

.. math:: p(y, \theta) = \prod_k p(y_k, \theta_k), \qquad \log p(y) = \sum_k \log p(y_k)

Two variables are in one block if a term of the log density has both: a prior, a likelihood or a Potential. What nothing
depends on couples nothing, for its density integrates to one: a prediction from two blocks is drawn given both. A
Deterministic has no density, and couples nothing either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayeskit.elimination.analysis import Analysis

__all__ = ["Block", "independent_blocks"]


@dataclass(frozen=True)
class Block:
    """Variables that share no term of the density with any other."""

    free: tuple[str, ...]  # free random variables, in the order of the model
    terms: tuple[str, ...]  # observed variables and Potentials
    remaining: tuple[str, ...]  # of the free ones, those that have no closed form

    def with_others(self, blocks: Iterable[Block]) -> Block:
        """These and others as one block."""
        every = [self, *blocks]
        return Block(*(tuple(n for b in every for n in getattr(b, part)) for part in ("free", "terms", "remaining")))


def independent_blocks(analysis: Analysis) -> tuple[Block, ...]:
    """The blocks of a model, if those are several in which variables remain without a closed form; else none.

    What has a closed form and no part in these is a block of its own, all of it together, and the last.
    """
    if len(analysis.plan.remaining) < 2:  # of which every block has one
        return ()
    joint, leaves = analysis.original, set(analysis.ancestral)
    # The own term of a variable has it, though a constant density does not depend on it.
    scopes = {f: s | ({f} & joint.values.keys()) for f, s in joint.scopes.items()}
    groups = _connected([n for n in joint.names if n not in leaves], [s for f, s in scopes.items() if f not in leaves])
    remaining = [g for g in groups if g & set(analysis.plan.remaining)]
    if len(remaining) < 2:
        return ()
    closed = set().union(*[g for g in groups if g not in remaining])
    parts = [*remaining, *([closed] if closed else [])]
    for leaf in [n for n in joint.names if n in leaves]:  # parents first
        parents = scopes[leaf] - {leaf}
        home = next((p for p in parts if parents <= p), None)
        if home is not None:
            home.add(leaf)
        elif type(joint.model[leaf].owner.op).__name__ == "PartialObservedRV":
            return ()  # missing entries are no variable without those that are there
    terms = [f for f in joint.factors if f not in joint.values]
    # What depends on no variable is a constant, wherever it is added.
    homes = {f: next(k for k, p in enumerate(parts) if joint.scopes[f] <= p) for f in terms}
    return tuple(
        Block(
            tuple(n for n in joint.names if n in part),
            tuple(f for f in terms if homes[f] == k),
            tuple(n for n in analysis.plan.remaining if n in part),
        )
        for k, part in enumerate(parts)
    )


def _connected(names: Iterable[str], scopes: Iterable[frozenset[str]]) -> list[set[str]]:
    """The connected parts of a graph of variables, in the order of their first."""
    groups = [{name} for name in names]
    for scope in scopes:
        touched = [g for g in groups if g & scope]
        if len(touched) > 1:
            groups = [set().union(*touched) if g is touched[0] else g for g in groups if g not in touched[1:]]
    return groups
