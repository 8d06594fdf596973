"""The closed forms of a density as it stands, and what is said of sums that are in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.search import Search
from bayeskit.finite.sum_out import Summed
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.records import Refusal, Step

__all__ = ["closed_forms_of", "step_of", "without_closed_form"]


def closed_forms_of(joint: LogJoint, known: Analysis | None = None) -> Analysis:
    """The closed forms of a density as it stands."""
    search = Search(joint, known)
    leaves_last = search.run()
    if not leaves_last.plan.remaining or not search.passed_over:
        return leaves_last
    # A leaf may also be drawn forward instead of joining a block; try that before giving up.
    leaves_first = Search(joint, leaves_last, ancestral_first=True).run()
    # Where something remains, a leaf in a block would be integrated out anew at every value of it.
    return min(leaves_first, leaves_last, key=lambda a: len(a.plan.remaining))


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
