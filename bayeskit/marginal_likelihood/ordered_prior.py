r"""PyMC's ``ordered`` transform: the share of the prior that lies where a vector is in order.

``transform=ordered`` restricts a vector to one of its K! orderings and leaves its density as it was, so that the prior
of the restricted vector integrates to P(ordered) instead of one. If the density of the vector given its parents does
not change when two entries are exchanged, all orderings are equally probable,

.. math:: P(x_1 < \dots < x_K) = 1 / K!,

whatever the parents, and the log evidence under the normalised restricted prior is that of PyMC's density plus log K!.
It is then the same as that of the model without the transform, whose K! labellings each hold the same share.

The exchange is tried on the prior factor alone, at draws from the prior. A prior that is not exchangeable is refused.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import (
    Interval,
    LogExpM1,
    LogOddsTransform,
    LogTransform,
    Ordered,
    _default_transform,
)
from pymc.logprob.transforms import ChainedTransform
from scipy import special

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.marginal_likelihood.permutations import unchanged
from bayeskit.model.forward_sampling import prior_points
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import support_without_transform

__all__ = ["Ordering", "ordering_of"]

POINTS = 4  # draws from the prior at which two entries are exchanged
INCREASING = (Interval, LogExpM1, LogOddsTransform, LogTransform)  # elementwise, and keeping the order


@dataclass(frozen=True)
class Ordering:
    """A variable that its transform restricts to one ordering of its entries.

    Attributes
    ----------
    variable : str
    log_orderings : float
        log K! for each row of K entries: what the log evidence of PyMC's density lacks. NaN where it is not known.
    reason : str
        Why it is not known; empty where it is.
    convention : str
        For a reader of the evidence.
    """

    variable: str
    log_orderings: float = math.nan
    reason: str = ""
    convention: str = ""


def ordering_of(joint: LogJoint, name: str) -> Ordering | None:
    """The restriction of one free variable; None where its transform does not order it.

    Parameters
    ----------
    joint : LogJoint
        Of the model as the user wrote it.
    name : str
    """
    rv = joint.model[name]
    transform = _ordered(joint.model.rvs_to_transforms.get(rv), rv)
    if transform is None:
        return None
    support = support_without_transform(rv)
    if not support.normalised:
        return Ordering(name, reason=support.why)
    if transform.positive and support.kind not in ("positive", "unit"):
        return Ordering(name, reason="its transform Ordered also restricts it to positive values")
    try:
        with silently():
            points = list(prior_points(joint.model, POINTS, 0))
    except (NotImplementedError, np.linalg.LinAlgError):
        return Ordering(name, reason="its transform Ordered restricts it, and its prior cannot be drawn from")
    shape = np.shape(points[0][name])
    if not _exchangeable(joint, name, points):
        return Ordering(
            name,
            reason="its transform Ordered restricts it to one ordering, whose share of the prior is not 1/K! because "
            "the prior is not exchangeable in its entries",
        )
    rows, size = math.prod(shape[:-1]), shape[-1]
    times = f"{rows} log" if rows > 1 else "log"
    return Ordering(
        name,
        rows * float(special.gammaln(size + 1)),
        convention=f"ordered: {times} {size}! added for the restriction of the prior of {name}",
    )


def _ordered(transform: Any, rv: Any) -> Ordered | None:
    """The ordering in a transform that is one, alone or after the distribution's own elementwise transform."""
    if isinstance(transform, ChainedTransform) and len(transform.transform_list) == 2:
        first, transform = transform.transform_list
        if type(first) is not type(_default_transform(rv.owner.op, rv)) or not isinstance(first, INCREASING):
            return None
        if isinstance(transform, Ordered) and transform.positive:
            return None
    return transform if isinstance(transform, Ordered) else None


def _exchangeable(joint: LogJoint, name: str, points: list[dict[str, np.ndarray]]) -> bool:
    """Whether the prior factor is unchanged when neighbours in a row are exchanged."""
    names = sorted(joint.scopes[name])
    total: Any = pt.sum(joint.factors[name])
    density = compile_small([joint.values[n] for n in names], total)

    def at(point: dict[str, np.ndarray]) -> float:
        with silently():
            return float(density(*(np.asarray(point[n], dtype=joint.values[n].type.dtype) for n in names)))

    for point in points:
        level, value = at(point), point[name]
        for row in np.ndindex(value.shape[:-1]):
            for i, j in itertools.pairwise(range(value.shape[-1])):
                swapped = value.copy()
                swapped[(*row, i)], swapped[(*row, j)] = value[(*row, j)], value[(*row, i)]
                if not unchanged(at({**point, name: swapped}), level):
                    return False
    return True
