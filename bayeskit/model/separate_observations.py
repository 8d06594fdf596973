"""Whether the density of each observation depends on the values of no other, so that leaving one out leaves it out.

A density of PyMC's has one factor a row, which holds the values of that row. A density that somebody wrote may hold
others, and an observed variable may be a parameter of another: these are tried. For each binary digit of the numbers of
the observations, those with the digit one, and then those with zero, are given other values; two observations differ in
some digit, so that a factor which holds the values of another observation changes where its own do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pytensor.graph.traversal import ancestors

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, silently
from bayeskit.model.data_slots import with_slots
from bayeskit.model.forward_sampling import prior_points
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.observations import Observations

__all__ = ["require_separate"]

TRIES = 3  # other values, and points of the prior, for each set of observations
SAME = 1e-9  # relative


def require_separate(model: pm.Model, observations: Observations) -> None:
    """Refuse observations of which one enters the density of another.

    Raises
    ------
    ModelError
        If it does, or if that cannot be told.
    """
    if not _may_depend(model):
        return
    advice = "leave out what belongs together: name the dim that they share, observations='row'"
    try:
        with lightly(), silently():
            at_fault = next(_other_changes(model, observations), None)
    except NotImplementedError as error:
        why = f"whether one observation enters the density of another cannot be told ({error})"
        raise ModelError(f"{why}, so none can be left out") from error
    if at_fault is not None:
        raise ModelError(f"the density of an observation of {at_fault!r} depends on values of another one; {advice}")


def _may_depend(model: pm.Model) -> bool:
    observed = set(model.observed_RVs)
    written = any(isinstance(rv.owner.op, CustomDistRV | CustomSymbolicDistRV) for rv in observed)
    return written or any(observed & (set(ancestors([rv])) - {rv}) for rv in observed)


def _other_changes(model: pm.Model, observations: Observations) -> Iterator[str]:
    """The observed variables of which a factor changes with values of other observations than its own."""
    slotted, slots = with_slots(model)
    joint = LogJoint.from_model(slotted)
    names = list(observations.members)
    function = compile_small(list(joint.values.values()), [joint.factors[n] for n in names])
    before = {n: slots[n].get_value() for n in names}
    rng = np.random.default_rng(0)
    for k, point in enumerate(prior_points(slotted, TRIES, 0)):
        arguments = joint.arguments(point)
        first = function(*arguments)
        others = {n: _others(slotted[n], before[n], k, rng) for n in names}
        for digit, one in product(range(len(observations).bit_length()), (0, 1)):
            moved = {n: (number >> digit) & 1 == one for n, number in observations.members.items()}
            for n in names:
                slots[n].set_value(_mixed(moved[n], others[n], before[n]))
            now = function(*arguments)
            for n in names:
                slots[n].set_value(before[n])
            for n, a, b in zip(names, first, now, strict=True):
                if not np.allclose(a[~moved[n]], b[~moved[n]], rtol=SAME, atol=SAME, equal_nan=True):
                    yield n


def _others(rv: Any, values: np.ndarray, seed: int, rng: np.random.Generator) -> np.ndarray:
    """Other values that an observed variable may have: drawn, or else its own in another order."""
    try:
        found = np.asarray(pm.draw(rv, random_seed=seed, mode="FAST_COMPILE"))
    except NotImplementedError:
        found = rng.permutation(values)
    if np.array_equal(found, values):
        raise NotImplementedError(f"no other values of {rv.name!r} are known")
    return found


def _mixed(moved: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    rows = moved.reshape(moved.shape + (1,) * (old.ndim - moved.ndim))
    return np.where(rows, new, old).astype(old.dtype)
