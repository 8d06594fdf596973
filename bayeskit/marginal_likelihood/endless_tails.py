r"""Whether the marginal density of some coordinate falls off far out, where a prior is improper and nothing proves it.

Draws do not show a tail that has no end: of a hierarchical sd with density 1/τ no chain need visit the pole at zero. So
each coordinate is followed outwards, to both sides, what the others hold at its value is integrated by Laplace
(:mod:`bayeskit.marginal_likelihood.profiles`), and r m must fall with the distance r, in sds of the draws: else
:math:`\int m` does not exist. It is no proof: a ridge along no axis that Laplace's integral does not see is missed, but
for what it does to the axes.
"""

from __future__ import annotations

import numpy as np

from bayeskit.marginal_likelihood.profiles import BEYOND, Profile
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["endless_tail"]

DISTANCES = np.array([0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])  # sds
NOTHING, FALLS = -700.0, 0.05  # nats below the centre that count as zero, and by which r m has to fall to the last
MOST = 30  # coordinates: a Hessian of the others is taken at each distance


def endless_tail(space: Unconstrained, draws: np.ndarray) -> str:
    """The variable whose marginal density was not seen to fall off, as a reason; empty if all were."""
    if space.size > MOST:
        return f"a prior is improper, and whether the posterior is was not looked at in {space.size} coordinates"
    points = draws.reshape(-1, space.size)
    centre, sd = points.mean(axis=0), points.std(axis=0)
    for name, places in space.slices.items():
        for j in range(places.start, places.stop):
            if not all(_falls(Profile(space, centre, sd, j), sign) for sign in (-1.0, 1.0)):
                may = "a prior is improper, and the posterior may be: give it a proper prior"
                return f"far out in {name} the density was not seen to fall off, {may}"
    return ""


def _falls(profile: Profile, sign: float) -> bool:
    """Whether r m(x_j) falls with the distance of the coordinate from the centre, up to the last."""
    others = np.zeros(len(profile.centre) - 1)
    levels: list[float] = []
    for distance in DISTANCES:
        top = profile.top(sign * distance, others)
        if top is None:
            return False
        others, level = top.others, top.height
        if not level > BEYOND:
            break  # a number overflows, or the density is zero: what was seen on the way counts
        if level - max(levels, default=level) < NOTHING:
            return True
        level += top.log_volume
        levels.append(level + np.log(max(distance, 1.0)))
    return len(levels) == 1 or levels[-1] < levels[-min(3, len(levels))] - FALLS
