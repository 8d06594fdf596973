"""What an evaluation of a density takes, and what NUTS would take for the same posterior.

In seconds of one machine, as they are counted (:mod:`bayeskit.graphs.operation_costs`): by a clock the method that
answers would depend on the machine, and on what else it does.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.operation_costs import operations_counted
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["seconds_of_evaluation", "seconds_of_gradient", "seconds_of_sampling"]

# What NUTS takes: seconds whatever the model is, and gradients that cost as much as so many evaluations of a density of
# which each number takes so long. A density that PyTensor's Python loops through takes far longer here than compiled.
SECONDS, NUMBER = 10.0, 6e-8
GRADIENTS, FEW, OF_FEW = 240_000, 3, 60_000  # for up to so many numbers steps are long, and an iteration takes few
AT_ONCE, MANY = 500_000, 256  # numbers, and evaluations at most, by which one is counted


def seconds_of_sampling(seconds: float, size: int, work: int, among: int = 1) -> float:
    """By NUTS, of a density of so many variables, one of whose evaluations takes so long for ``work`` numbers.

    What it takes whatever the model is, is shared ``among`` independent blocks, which are sampled together.
    """
    gradients = OF_FEW if size <= FEW and among == 1 else GRADIENTS
    return SECONDS / among + gradients * min(seconds, NUMBER * work)


def seconds_of_evaluation(space: Unconstrained) -> float:
    """What one of many evaluations of a density takes, as counted: the same on every machine, busy or idle."""
    number = int(np.clip(AT_ONCE / space.weight, 4, MANY))
    points = np.repeat(space.start[None], number, axis=0)
    space.log_density(points[:1])  # compiled; and what depends on no variable is computed once
    with operations_counted() as costs:
        space.log_density(points)
    return 1e-9 * costs.nanoseconds / number


def seconds_of_gradient(space: Unconstrained) -> float:
    """What the density and its gradient take at one point, as counted."""
    space.value_and_gradient(space.start)
    with operations_counted() as costs:
        space.value_and_gradient(space.start)
    return 1e-9 * costs.nanoseconds
