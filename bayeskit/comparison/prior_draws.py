"""Independent draws from the prior of what is named, its Deterministics among them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pymc as pm

from bayeskit.graphs.environment import lightly
from bayeskit.model.conditioning import without_data
from bayeskit.model.forward_sampling import deterministics, draws_together, prior_points
from bayeskit.model.log_joint import LogJoint

__all__ = ["AT_ONCE", "prior_draws"]

AT_ONCE = 20_000_000  # numbers in draws that are made together
FEWEST = 4_000  # draws, which are made one by one where they cannot be made together


def prior_draws(model: pm.Model, names: Iterable[str], most: int, random_seed: int) -> dict[str, np.ndarray]:
    """So many draws at most of free variables and Deterministics, and what these are made of; first axis the draws."""
    with lightly():
        alone = without_data(model, names)
        joint = LogJoint.from_model(alone)
        numbers = sum(math.prod(shape) for shape in joint.shapes().values())
        number = int(min(most, max(FEWEST, AT_ONCE // max(numbers, 1))))
        drawn = draws_together(alone, number, random_seed, aligned=True)
        if drawn is None:
            points = list(prior_points(alone, min(most, FEWEST), random_seed))
            drawn = {n: np.stack([p[n] for p in points]) for n in points[0]}
        return drawn | deterministics(joint, drawn)
