r"""Whether the marginal density of some coordinate falls off far out, where a prior is improper and nothing proves it.

Draws do not show a tail that has no end: of a hierarchical sd with density 1/τ no chain need visit the pole at zero. So
each coordinate is followed outwards, to both sides, and what the others hold at its value is integrated by Laplace,

.. math:: \log m(x_j) \approx \max_{x_{-j}} f(x) - \tfrac12 \log |-\nabla^2_{-j} f| + \tfrac{k-1}{2} \log 2\pi,

and r m must fall with the distance r, in sds of the draws: else :math:`\int m` does not exist. It is no proof: a ridge
along no axis that Laplace's integral does not see is missed, but for what it does to the axes.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.environment import silently
from bayeskit.model.ascent import climb
from bayeskit.model.unconstrained import Objective, Unconstrained, negative_hessian

__all__ = ["endless_tail"]

DISTANCES = np.array([0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])  # sds
NOTHING, FALLS = -700.0, 0.05  # nats below the centre that count as zero, and by which r m has to fall to the last
MOST = 30  # coordinates: a Hessian of the others is taken at each distance
BEYOND = -1e200  # a density that is zero, or overflows
STEPS, ARRIVED = 40, 1e-3  # of Newton's method after a climb, and nats that are left to climb


def endless_tail(space: Unconstrained, draws: np.ndarray) -> str:
    """The variable whose marginal density was not seen to fall off, as a reason; empty if all were."""
    if space.size > MOST:
        return f"a prior is improper, and whether the posterior is was not looked at in {space.size} coordinates"
    points = draws.reshape(-1, space.size)
    centre, sd = points.mean(axis=0), points.std(axis=0)
    for name, places in space.slices.items():
        for j in range(places.start, places.stop):
            if not all(_falls(space, centre, sd, j, sign) for sign in (-1.0, 1.0)):
                may = "a prior is improper, and the posterior may be: give it a proper prior"
                return f"far out in {name} the density was not seen to fall off, {may}"
    return ""


def _falls(space: Unconstrained, centre: np.ndarray, sd: np.ndarray, j: int, sign: float) -> bool:
    """Whether r m(x_j) falls with the distance of coordinate j from the centre, up to the last."""
    rest = np.arange(space.size) != j
    others = np.zeros(space.size - 1)
    levels: list[float] = []
    for distance in DISTANCES:

        def given(u: np.ndarray, distance: float = distance) -> tuple[float, np.ndarray]:
            at = np.zeros(space.size)
            at[rest], at[j] = u, sign * distance
            value, gradient = space.value_and_gradient(centre + sd * at)
            return value, (gradient * sd)[rest]

        others, _ = climb(given, others) if len(others) else (others, 0.0)
        top = _top(given, others)
        if top is None:
            return False
        others, level, spread = top
        if not level > BEYOND:
            break  # a number overflows, or the density is zero: what was seen on the way counts
        if level - max(levels, default=level) < NOTHING:
            return True
        level += spread
        levels.append(level + np.log(max(distance, 1.0)))
    return len(levels) == 1 or levels[-1] < levels[-min(3, len(levels))] - FALLS


def _top(objective: Objective, start: np.ndarray) -> tuple[np.ndarray, float, float] | None:
    """The maximum, its height and the log of Laplace's integral about it but for powers of 2π; None if not found.

    By Newton's method with halved steps: in the neck of a funnel the curvature is that of another scale.
    """
    at = start
    value, gradient = objective(at)
    for _ in range(STEPS):
        if not value > BEYOND or not len(at):
            return at, value, 0.0
        with silently():
            hessian = negative_hessian(objective, at)
        if not np.all(np.isfinite(hessian)):
            return at, -np.inf, 0.0
        try:
            root = np.linalg.cholesky(hessian)
        except np.linalg.LinAlgError:
            return None
        step = np.linalg.solve(hessian, gradient)
        if 0.5 * gradient @ step < ARRIVED:
            return at, value, -float(np.sum(np.log(np.diag(root))))
        for shorter in 0.5 ** np.arange(12):
            new, slope = objective(at + shorter * step)
            if new > value:
                at, value, gradient = at + shorter * step, new, slope
                break
        else:
            return None
    return None
