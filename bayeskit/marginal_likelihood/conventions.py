"""What the integral of a log evidence is taken over, where that is not plain: labellings, and orderings.

Two people can give different numbers for the evidence of the same mixture, and both be right: one of them integrated
over all K! labellings of its components, the other over those with increasing means, under PyMC's density or under one
normalised there. Here it is always all labellings, and a normalised prior; and it is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bayeskit.marginal_likelihood.ordered_prior import Ordering, ordering_of
from bayeskit.marginal_likelihood.permutations import Exchangeable, convention
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.records import LogEvidence

__all__ = ["orderings_of", "stated"]


def orderings_of(joint: LogJoint) -> dict[str, Ordering]:
    """The variables that PyMC's ``ordered`` transform restricts, by name."""
    orderings = {name: ordering_of(joint, name) for name in joint.names}
    return {name: ordering for name, ordering in orderings.items() if ordering is not None}


def stated(evidence: LogEvidence, groups: Sequence[Exchangeable], orderings: Iterable[Ordering]) -> LogEvidence:
    """The evidence under the normalised prior, with what it is taken over, from the integral of PyMC's density.

    Parameters
    ----------
    evidence : LogEvidence
        The log integral of PyMC's own density, with its error.
    groups : sequence of Exchangeable
        Components whose labellings are all part of the integral.
    orderings : iterable of Ordering
        Variables that are restricted to one ordering.

    Returns
    -------
    LogEvidence
        NaN with the reason where the share of the prior that an ordering keeps is not known.
    """
    if not math.isfinite(evidence.value):
        return evidence
    orderings = list(orderings)
    for ordering in orderings:
        if ordering.reason:
            reason = f"the prior of {ordering.variable} is not known to be normalised ({ordering.reason})"
            return LogEvidence(math.nan, math.inf, evidence.label, reason)
    said = [*([convention(groups)] if groups else []), *(o.convention for o in orderings)]
    value = evidence.value + sum(o.log_orderings for o in orderings)
    return replace(evidence, value=value, convention="; ".join(said))
