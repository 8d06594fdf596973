"""Posterior predictive draws of autoregressive series, all draws of the parameters at once.

PyMC draws one series for each draw of the parameters, a step at a time, in Python: 4,000 series of 200 steps take more
than a minute. Here a step is taken for all of them.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import coords_and_dims_for_inferencedata
from pymc.distributions.timeseries import AutoRegressiveRV

from bayeskit.arguments import RandomSeed, whole_seed
from bayeskit.model.forward_sampling import sampler_given
from bayeskit.results.tree import stacked_draws

__all__ = ["predicted_series"]


def predicted_series(model: pm.Model, tree: xr.DataTree, random_seed: RandomSeed = None) -> xr.Dataset | None:
    """Draws of the observed variables where one is an autoregressive series; None where none is."""
    held = tree["posterior"].to_dataset()
    free = [str(rv.name) for rv in model.free_RVs]
    if not any(isinstance(rv.owner.op, AutoRegressiveRV) for rv in model.observed_RVs) or not {*free} <= {*held}:
        return None
    draws, sizes = stacked_draws(held, free), (held.sizes["chain"], held.sizes["draw"])
    draw = sampler_given(model, [str(rv.name) for rv in model.observed_RVs], free)
    drawn = draw(draws, np.random.default_rng(whole_seed(random_seed)), sizes[0] * sizes[1])
    coords, dims = coords_and_dims_for_inferencedata(model)
    arrays = {name: values.reshape(*sizes, *values.shape[1:]) for name, values in drawn.items()}
    return dict_to_dataset(arrays, coords=coords, dims=dims, skip_event_dims=True)
