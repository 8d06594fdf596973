r"""Plans in which variables are integrated out given finite ones, which are then summed out themselves.

.. math:: \log p(y, \phi) = \log \sum_z p(z \mid \phi) \int p(y, \theta \mid z, \phi) \, d\theta

Weights that have a spike and a slab each are Normal given which of the two they come from. Summed out first, entry by
entry, the indicators leave the weights as mixtures of no family: six numbers where one is left this way. The price is a
term for every joint value of z, so that z must be short: the indicators of twenty rows of a regression are summed out
first, entry by entry, and it is the weights that remain.
"""

from __future__ import annotations

import math
from dataclasses import replace

from bayeskit.elimination.analysis import Analysis, numbers_left, size_of
from bayeskit.elimination.closed_forms import closed_forms_of, step_of, without_closed_form
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.finite.sum_out import Summed, TooLarge, sum_out
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.records import Step

__all__ = ["with_states_last"]

TERMS = 4096  # joint values of the finite variables
WORK = 50_000  # such values times the squared length of what is integrated out given each


def with_states_last(plain: Analysis, found: Analysis) -> Analysis:
    """The plan that integrates out before it sums, where it leaves fewer numbers than the one that was ``found``.

    ``plain`` is the analysis without sums.
    """
    finite = [n for n in plain.plan.remaining if plain.supports[n].kind == "finite"]
    inside = {n for b in plain.blocks for n in b.names} | {s.name for s in plain.scales}
    if any(n in plain.joint.chains for n in finite):
        return found  # the forward algorithm is linear in the length of a chain, and answers what is asked of its path
    if not finite or not inside & set(found.plan.remaining) or not _is_short(plain, finite, inside):
        return found
    try:
        better = _with_states_last(plain, finite)
    except (NotImplementedError, TooLarge):
        return found
    return better if 0 < numbers_left(better) < numbers_left(found) else found


def _is_short(plain: Analysis, finite: list[str], inside: set[str]) -> bool:
    values = {n: plain.supports[n].values for n in finite}
    if any(v is None for v in values.values()):
        return False
    terms = math.prod(len(v) ** size_of(plain, n) for n, v in values.items() if v is not None)
    return terms <= TERMS and terms * sum(size_of(plain, n) for n in inside) ** 2 <= WORK


def _with_states_last(plain: Analysis, finite: list[str]) -> Analysis:
    collapsed = collapsed_density(plain)
    left = _as_joint(collapsed)
    summed: list[Summed] = []
    steps: list[Step] = []
    rows = 1
    for name in reversed(finite):
        values = plain.supports[name].values
        assert values is not None  # else it is not short
        before = left
        left, step = sum_out(before, name, values, plain.shapes[name], rows)
        steps.append(step_of(step, before))
        rows *= len(step.values) if step.kind == "joint" else 1
        summed.append(step)
    rest = closed_forms_of(left, plain)
    eliminated = (*plain.plan.eliminated, *steps, *rest.plan.eliminated)
    refused = tuple(without_closed_form(refusal, left, summed) for refusal in rest.plan.refusals)
    return replace(
        rest,
        plan=replace(rest.plan, eliminated=eliminated, refusals=refused),
        shapes=plain.shapes,
        supports=plain.supports,
        ancestral=(*plain.ancestral, *rest.ancestral),
        summed=tuple(summed),
        given_states=collapsed,
        whole=plain.joint,
    )


def _as_joint(collapsed: Collapsed) -> LogJoint:
    """A collapsed density as one that variables can be summed out of."""
    joint, remaining = collapsed.analysis.joint, collapsed.remaining
    gone = ", ".join(n for n in joint.names if n not in remaining and n not in collapsed.analysis.ancestral)
    values = {n: joint.values[n] for n in remaining}
    return replace(
        joint,
        values=values,
        factors={n: joint.factors[n] for n in collapsed.priors} | {f"integral over {gone}": collapsed.likelihood},
        deterministics={n: g for n, g in joint.deterministics.items() if joint.dependence[g] <= {*values.values()}},
        chains={},  # of which the transitions may be integrated out
    )
