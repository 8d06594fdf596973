r"""A time series as one density, taken apart into its forecasts.

.. math:: \log p(y_{1:T} \mid \theta) = \sum_t \log p(y_t \mid y_{1:t-1}, \theta)

The first terms are the density of the first values, whatever comes later. They are of no use for other subsets.
"""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pytensor.tensor.basic import Alloc

__all__ = ["sequential_terms"]


def sequential_terms(rv: Any, value: Any) -> Any:
    """log p(y_t | what came before) for each entry of an observed series; none for other variables.

    Series are autoregressions whose first values are independent, and random walks.
    """
    if rv.type.ndim != 1:
        return None
    if isinstance(rv.owner.op, RandomWalkRV):
        node = rv.owner.op.make_node(*rv.owner.inputs)
        return pm.logp(rv.owner.op.fgraph.bind(node.inputs)[rv.owner.op.default_output], value, warn_rvs=False)
    if not isinstance(rv.owner.op, AutoRegressiveRV):
        return None
    slopes, sigma, first, *_ = rv.owner.inputs
    lags, constant = rv.owner.op.ar_order, int(rv.owner.op.constant_term)
    if first.owner.op.ndim_supp:
        return None
    # PyMC spreads them over the first values, whose shape it takes from a draw.
    given = slopes.owner.inputs[0] if slopes.owner and isinstance(slopes.owner.op, Alloc) else slopes
    slopes = pt.broadcast_to(given, (lags + constant,))
    mean = sum(slopes[k + constant] * value[lags - (k + 1) : -(k + 1)] for k in range(lags)) + constant * slopes[0]
    later = pm.logp(pm.Normal.dist(mean, sigma), value[lags:], warn_rvs=False)
    return pt.concatenate([pm.logp(first, value[:lags], warn_rvs=False), later])
