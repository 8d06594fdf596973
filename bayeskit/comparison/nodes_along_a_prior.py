r"""Nodes of an integral that go along with a prior whose scale changes.

Where data say little of a variable its posterior is its prior, and goes where that goes: under a standard deviation of
0.01 the nodes for 0.1 are ten times too far apart, and those for 0.001 reach a tenth of the way. Moved with the prior,

.. math:: x' = c + s (x - c) \quad\text{or}\quad x' = x + \log s, \qquad s = \eta' / \eta \ \text{or}\ \eta / \eta',

they serve both. Any such move is a change of variables, with its Jacobian: whether the moved nodes are where the
density is, their own sum shows (:mod:`bayeskit.quadrature.shared_nodes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pymc as pm
from pymc.distributions.transforms import LogTransform

from bayeskit.model.prior_constants import PriorConstant
from bayeskit.types import Draws

__all__ = ["nodes_along"]


def nodes_along(
    model: pm.Model,
    constant: PriorConstant,
    held: np.ndarray,
    value: np.ndarray,
    x: Draws,
    centres: Mapping[str, float],
) -> Iterator[tuple[Draws, float]]:
    """Nodes moved as a scale or a rate of their priors moves them, when a number goes from ``held`` to ``value``.

    With the log of how much larger the volume about each is. ``x`` are values as PyMC moves them, first axis nodes;
    ``centres`` what a variable is scaled about, zero where it is not listed.
    """
    names = {place.partition(".")[0] for place in constant.places} & x.keys()
    with np.errstate(all="ignore"):
        scales = [] if np.any(value == held) else [value / held, held / value]
    scales = [s for s in scales if np.all(np.isfinite(s)) and np.all(s > 0) and np.ptp(s) == 0]
    for scale in (float(np.max(s)) for s in scales):
        moved, volume = dict(x), 0.0
        for name in names:
            transform = model.rvs_to_transforms.get(model[name])
            if isinstance(transform, LogTransform):
                moved[name] = x[name] + np.log(scale)
            elif transform is None:
                centre = centres.get(name, 0.0)
                moved[name] = centre + scale * (x[name] - centre)
                volume += x[name][0].size * np.log(scale)
            else:
                return
        if names:
            yield moved, volume
