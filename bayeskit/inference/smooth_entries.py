"""Whether integrals over single entries are those of smooth densities, tried before anything is spent on them."""

from __future__ import annotations

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import RESOLVED, integrals_off
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.environment import silently
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.counted_density import NotIntegrable

__all__ = ["require_smooth_entries"]

SOME, NEARBY = 5, 0.3  # points near the start at which they are tried, and how near


def require_smooth_entries(analysis: Analysis, space: Unconstrained, recovery: Recovery) -> None:
    """Refuse at once what a rule for smooth integrals over single entries fails on wherever it is asked."""
    rng = np.random.default_rng(0)
    near = space.backward(space.start + NEARBY * rng.standard_normal((SOME, space.size)))
    with silently():
        # What was eliminated after them they may be given: one draw of it.
        every = recovery.draw(near, rng, leaves=False)
        off = integrals_off(analysis, every)
    if any(not np.max(of_one) <= RESOLVED for of_one in off):
        raise NotIntegrable("the integrals over single entries have an edge, a kink, or tails without an end")
