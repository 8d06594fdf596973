"""Where the modes of a collapsed density may be: at draws from the prior, and at numbers that the model names.

A narrow mode far out in the tail of another is found only from within. A component of a prior that is a mixture holds
its share of the draws from it; a component of a likelihood is where a datum is, which no draw from the prior need hit,
and the means of mixtures are constants of the model. All of them are tried as values of what remains. Where one real
number remains, a component may also be narrow where a function of it is a datum: the logarithm of the sum shows nothing
of it elsewhere, but the component's own logarithm, which stands under an exponential, does on the whole line.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import Add, Exp, Log
from pytensor.tensor.math import Sum

from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import applies, without_shuffles
from bayeskit.graphs.rewriting import inline, without_checks
from bayeskit.model.forward_sampling import draws_together, over_draws
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.named_numbers import named_numbers
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.change_of_variable import OntoInterval
from bayeskit.quadrature.counted_density import safe

__all__ = ["named_points", "peaks_of_components", "prior_probes"]

DRAWS = 1_000
ONE_BY_ONE = 40  # draws, where they cannot be made together
NUMBERS = {1: 500, 2: 25, 3: 8, 4: 4}  # values tried for each of one to four numbers, all combinations of them
PLACES, PEAKS, ROUNDS = 2_000, 200, 14  # looked at along the line, of components, and of coming four times closer


def prior_probes(space: Unconstrained) -> np.ndarray:
    """Points (n, k) on the unconstrained scale of draws from the prior."""
    draws = draws_together(space.model, DRAWS, 0, independent=True)
    if draws is None:
        return space.prior_draws(ONE_BY_ONE, 0)
    points = space.forward_over(draws, DRAWS)
    return points[np.all(np.isfinite(points), axis=1)]


def named_points(space: Unconstrained, joint: LogJoint, transforms: Mapping[str, OntoInterval]) -> np.ndarray:
    """Points at which every remaining variable has a value that is a constant or a datum of the model."""
    arrays = named_numbers(joint.factors.values())
    if set(transforms) != set(space.names) or not arrays:
        return np.empty((0, space.size))
    numbers = np.unique(np.concatenate(arrays))
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


def peaks_of_components(space: Unconstrained, analysis: Analysis, probes: np.ndarray) -> np.ndarray:
    """Points on the line at which the terms under a logarithm of a sum of exponentials are highest, one by one."""
    joint, values = analysis.joint, {n: analysis.joint.values[n] for n in space.names}

    def terms() -> Any:
        sums = [without_shuffles(v.owner.inputs[0]) for v in joint.dependence if v.owner and applies(v.owner, Log)]
        nodes = [v.owner for v in sums if v.owner and (isinstance(v.owner.op, Sum) or applies(v.owner, Add))]
        parts = [part.owner for node in nodes for part in map(without_shuffles, node.inputs) if part.owner]
        under = [part.inputs[0] for part in parts if applies(part, Exp)]
        flat = [pt.flatten(u) for u in under if joint.dependence[u] and joint.dependence[u] <= {*values.values()}]
        return over_draws(without_checks(inline([pt.concatenate(flat)])), values) if flat else None

    function = analysis.remembered("terms", terms) if space.size == 1 and len(probes) else None
    if function is None:
        return np.empty((0, space.size))

    def heights(x: np.ndarray) -> np.ndarray:
        return safe(function(space.backward(x.reshape(-1, 1)), x.size)[0]).reshape(*x.shape, -1)

    least, most = float(probes.min()), float(probes.max())
    x = np.linspace(2 * least - most, 2 * most - least, PLACES)
    value = heights(x)
    at, term = np.nonzero((value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:]))
    if not len(at):  # as where only a weight is unknown
        return np.empty((0, space.size))
    some = np.unique(np.linspace(0, len(at) - 1, PEAKS).astype(int))
    (low, high), term, row = (x[at[some]], x[at[some] + 2]), term[some], np.arange(len(some))
    for _ in range(ROUNDS):
        near = np.linspace(low, high, 9)
        best = np.argmax(heights(near)[:, row, term], axis=0).clip(1, 7)
        low, high = near[best - 1, row], near[best + 1, row]
    return (low + high)[:, None] / 2
