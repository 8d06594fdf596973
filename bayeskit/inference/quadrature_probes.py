"""Where the modes of a collapsed density may be: at draws from the prior, and at numbers that the model names.

A narrow mode far out in the tail of another is found only from within. A component of a prior that is a mixture holds
its share of the draws from it; a component of a likelihood is where a datum is, which no draw from the prior need hit,
and the means of mixtures are constants of the model. All of them are tried as values of what remains.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from bayeskit.graphs.environment import silently
from bayeskit.model.forward_sampling import draws_together
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.change_of_variable import OntoInterval

__all__ = ["named_points", "prior_probes"]

DRAWS = 1_000
ONE_BY_ONE = 40  # draws, where they cannot be made together
NUMBERS = {1: 500, 2: 25, 3: 8}  # values tried for each of one to three numbers, all combinations of them


def prior_probes(space: Unconstrained) -> np.ndarray:
    """Points (n, k) on the unconstrained scale of draws from the prior."""
    draws = draws_together(space.model, DRAWS, 0, independent=True)
    if draws is None:
        return space.prior_draws(ONE_BY_ONE, 0)
    points = space.forward_over(draws, DRAWS)
    return points[np.all(np.isfinite(points), axis=1)]


def named_points(space: Unconstrained, joint: LogJoint, transforms: Mapping[str, OntoInterval]) -> np.ndarray:
    """Points at which every remaining variable has a value that is a constant or a datum of the model."""
    inputs = list(graph_inputs(list(joint.factors.values())))
    held = [v.data for v in inputs if isinstance(v, Constant)]
    held += [v.get_value() for v in inputs if isinstance(v, SharedVariable)]
    arrays = [np.asarray(h, float) for h in held if getattr(getattr(h, "dtype", None), "kind", "") in "iuf"]
    if set(transforms) != set(space.names) or not arrays:
        return np.empty((0, space.size))
    numbers = np.unique(np.concatenate([a.ravel() for a in arrays]))
    numbers = numbers[np.isfinite(numbers)]
    values = []
    for name in space.names:
        onto = transforms[name]
        inside = numbers[(numbers > onto.low) & (numbers < onto.high)]
        most = NUMBERS[space.size]
        if len(inside) > most:
            inside = inside[np.linspace(0, len(inside) - 1, most).astype(int)]
        with silently():
            moved = onto.forward(inside)
        values += [moved[np.isfinite(moved)]] * (space.slices[name].stop - space.slices[name].start)
    return np.array(list(itertools.product(*values)), float).reshape(-1, space.size)
