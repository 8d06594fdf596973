"""The closed forms of a density as it stands, and what is said of sums that are in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayeskit.elimination.analysis import Analysis, numbers_left, size_of
from bayeskit.elimination.search import Search
from bayeskit.families import support_kinds
from bayeskit.finite.sum_out import Summed
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.records import Refusal, Step

__all__ = ["closed_forms_of", "step_of", "without_closed_form"]


def closed_forms_of(joint: LogJoint, known: Analysis | None = None) -> Analysis:
    """The closed forms of a density as it stands, in the order that leaves the fewest numbers."""
    search = Search(joint, known)
    found = search.run()
    leaves_first = False
    if found.plan.remaining and search.passed_over:
        # A leaf may also be drawn forward instead of joining a block; try that before giving up.
        other = Search(joint, found, ancestral_first=True).run()
        # Where something remains, a leaf in a block would be integrated out anew at every value of it.
        leaves_first = len(other.plan.remaining) <= len(found.plan.remaining)
        found = other if leaves_first else found
    others = [Search(joint, found, ancestral_first=leaves_first, **order).run() for order in _other_orders(found)]
    return min([found, *others], key=numbers_left)


def _other_orders(found: Analysis) -> list[dict[str, Any]]:
    """Orders of elimination that may leave fewer numbers.

    Of a factor and the loadings that it is multiplied by, one is Normal given the other: the longer. Of a few weights
    and the precisions of all rows, one has a closed form given the other, too; so has one of a factor and the rates of
    groups, both of them Gamma.
    """
    orders: list[dict[str, Any]] = []
    normal, scales = {n for block in found.blocks for n in block.names}, {s.name for s in found.scales}
    beside = {n: _beside(found, n, normal) for n in found.plan.remaining}
    if any(
        found.supports[r].kind == "real" and any(size_of(found, b) < size_of(found, r) for b in of)
        for r, of in beside.items()
    ):
        orders.append({"largest_first": True})
    kinds = support_kinds()
    for of_each in (beside, {n: _beside(found, n, scales) for n in found.plan.remaining}):
        longer = [r for r, of in of_each.items() if of and size_of(found, r) > sum(size_of(found, b) for b in of)]
        if first := [r for r in longer if found.supports[r].kind in kinds and found.supports[r].kind != "finite"]:
            orders.append({"scales_first": first})
    return orders


def _beside(found: Analysis, name: str, eliminated: set[str]) -> set[str]:
    """What of the variables eliminated shares a factor with another."""
    return set().union(*[scope & eliminated for scope in found.joint.scopes.values() if name in scope])


def without_closed_form(refusal: Refusal, joint: LogJoint, summed: list[Summed]) -> Refusal:
    """Why a variable under a sum has no closed form, in the words of the model."""
    sums = [s.name for s in summed if refusal.variable in joint.scopes.get(s.factor, frozenset())]
    if not sums:
        return refusal
    names = ", ".join(sums)
    return replace(
        refusal,
        reason=f"its log density is a sum over {names}: as many terms as {names} has values, of no one family.",
        advice=f"Sample it; or observe {names}, and it may have a closed form.",
    )


def step_of(summed: Summed, joint: LogJoint) -> Step:
    """The step that a sum out of a density is."""
    states, entries = len(summed.values), int(np.prod(summed.shape, dtype=int))
    around = set().union(*[s for s in joint.scopes.values() if summed.name in s]) - {summed.name}
    given = tuple(n for n in joint.names if n in around)
    if summed.kind == "chain":
        return Step((summed.name,), "markov_chain", given, f"{states} states, {entries:,} steps, summed out")
    if summed.kind == "joint":
        return Step((summed.name,), "categorical", given, f"{states:,} joint values, enumerated and summed out")
    each = f", for each of {entries:,} entries" if entries > 1 else ""
    return Step((summed.name,), "categorical", given, f"{states} values{each}, summed out")
