"""NUTS on a model as written, through nutpie where every variable is continuous."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pymc as pm

from bayeskit.compiling import on_one_thread
from bayeskit.terminal import quiet

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CHAINS", "sample_nuts"]

CHAINS = 4


def sample_nuts(
    model: pm.Model,
    draws: int = 4000,
    random_seed: int | None = None,
    progressbar: bool = False,
    tune: int = 1000,
    target_accept: float = 0.9,
) -> xr.DataTree:
    """Draw from the posterior with NUTS.

    Parameters
    ----------
    model : pymc.Model
    draws : int, default 4000
        Draws in all, over four chains (rounded up to a multiple of four).
    random_seed : int, optional
    progressbar : bool, default False
    tune : int, default 1000
        Warm-up steps of each chain.
    target_accept : float, default 0.9

    Returns
    -------
    xarray.DataTree
        As ``pymc.sample`` gives it.

    Notes
    -----
    nutpie cannot sample discrete variables; a model that has some goes to PyMC's own compound step.
    """
    sampler = "pymc" if model.discrete_value_vars else "nutpie"
    options = {"target_accept": target_accept} if model.continuous_value_vars else {}
    with quiet(), on_one_thread(), warnings.catch_warnings():
        # ArviZ suspects swapped dimensions where there are fewer draws than chains.
        warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)
        return pm.sample(
            draws=-(-draws // CHAINS),
            tune=tune,
            chains=CHAINS,
            random_seed=random_seed,
            progressbar=progressbar,
            nuts_sampler=sampler,
            model=model,
            **options,
        )
