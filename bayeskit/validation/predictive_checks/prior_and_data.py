"""Draws from a prior, and data given each of them, also where there are no data at some of them.

A rate of 1e300, from a prior that nobody thought about, is one that NumPy draws no count for: that data set has none.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import small_mode
from bayeskit.graphs.environment import silently
from bayeskit.model.data_shapes import require_data_fit
from bayeskit.model.forward_sampling import sampler_given
from bayeskit.model.index_range import require_indices_inside
from bayeskit.results.predictive import not_drawable
from bayeskit.results.tree import dims_of, stacked_draws
from bayeskit.terminal import interruptible, quiet

__all__ = ["sampled_from_prior"]

UNDRAWN = (ArithmeticError, ValueError, np.linalg.LinAlgError)


def sampled_from_prior(model: pm.Model, names: Sequence[str], draws: int, seed: int) -> xr.Dataset:
    """Prior draws of variables, and prior predictive ones: NaN where there are no data for a draw.

    Raises
    ------
    ModelError
        If PyMC cannot draw from the model.
    """
    if not names:
        return xr.Dataset()
    try:
        with interruptible(), quiet(), silently():
            warnings.filterwarnings(
                "ignore", message="The effect of Potentials", category=UserWarning
            )  # a note says so
            try:
                return _sampled(model, names, draws, seed)
            except UNDRAWN:
                observed = [str(rv.name) for rv in model.observed_RVs if rv.name in names]
                found = _sampled(model, [n for n in names if n not in observed], draws, seed)
                return found.assign(_one_by_one(model, observed, found, seed))
    except NotImplementedError as error:  # of a distribution that somebody wrote
        raise not_drawable(error) from error
    except UNDRAWN as error:
        raise ModelError(f"nothing could be drawn from the prior: {str(error).splitlines()[0]}") from error


def _sampled(model: pm.Model, names: Sequence[str], draws: int, seed: int) -> xr.Dataset:
    given = {"var_names": list(names), "random_seed": seed, "compile_kwargs": {"mode": small_mode()}}
    tree = pm.sample_prior_predictive(draws, model=model, **given)
    groups = [tree[group].to_dataset() for group in ("prior", "prior_predictive") if group in tree.children]
    return xr.merge(groups, compat="override", join="override")


def _one_by_one(model: pm.Model, observed: Sequence[str], found: xr.Dataset, seed: int) -> dict[str, Any]:
    """Data given each draw of the free variables."""
    free = [str(rv.name) for rv in model.free_RVs if rv.name in found]
    given = stacked_draws(found, free)
    draw, rng = (
        sampler_given(model, observed, free),
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,))),
    )
    number = found.sizes["draw"]
    data: list[dict[str, np.ndarray] | None] = []
    for k in range(number):
        try:
            data.append(draw({n: v[k : k + 1] for n, v in given.items()}, rng, 1))
        except UNDRAWN:
            data.append(None)
    known = next((one for one in data if one is not None), None)
    if known is None:
        require_indices_inside(model)
        require_data_fit(model)
        raise ModelError(f"no data can be drawn for any draw from the prior of {', '.join(free)}: it is absurd")
    arrays = {
        n: np.stack([np.full(v[0].shape, np.nan) if one is None else one[n][0] for one in data])
        for n, v in known.items()
    }
    return {n: (("chain", "draw", *dims_of(model, n, v.ndim - 1)), v[None]) for n, v in arrays.items()}
