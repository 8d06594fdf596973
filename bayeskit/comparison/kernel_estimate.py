"""The Savage–Dickey ratio of ArviZ, by kernel densities of draws, where it can be trusted.

In a tail a kernel density is that of its kernel, and a prior with heavy tails has none at all on a grid. It is given,
beside the density ratio that is not estimated so, where the point lies well within the draws of posterior and prior
and the kernel density of the prior is right there.
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from bayeskit.comparison.prior_draws import prior_draws
from bayeskit.comparison.scalars import Scalars
from bayeskit.errors import BayeskitError
from bayeskit.graphs.environment import silently

__all__ = ["kernel_estimate"]

FEWEST, MOST = 1_000, 20_000  # draws
WITHIN = (0.05, 0.95)  # quantiles of the draws between which the point has to lie
RIGHT = 0.1  # nats from the prior density that is known


def kernel_estimate(
    scalars: Scalars, variable: str, place: int, value: float, log_prior: float, random_seed: int
) -> float:
    """log BF₀₁ of ``az.bayes_factor`` for one number; NaN where it cannot be trusted."""
    import arviz as az

    after = scalars.values(variable, place)
    if after.dtype.kind != "f" or after.size < FEWEST or not _well_within(value, after):
        return math.nan
    try:
        before = scalars.values(variable, place, prior_draws(scalars.post.model, [variable], MOST, random_seed))
    except (BayeskitError, NotImplementedError):
        return math.nan
    if not _well_within(value, before):
        return math.nan
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), after)})})
    tree["prior"] = xr.DataTree(xr.Dataset({"x": (("chain", "draw"), before[None])}))
    try:
        with silently():
            factors, densities = az.bayes_factor(tree, "x", ref_vals=float(value), return_ref_vals=True)
    except ValueError:  # a kernel density of zero
        return math.nan
    known = float(densities["x"].sel(density_type="prior"))
    if not abs(math.log(known) - log_prior) < RIGHT:
        return math.nan
    return float(np.log(factors["x"].sel(bf_type="BF01")))


def _well_within(value: float, draws: np.ndarray) -> bool:
    low, high = np.quantile(draws, WITHIN)
    return bool(low < value < high)
