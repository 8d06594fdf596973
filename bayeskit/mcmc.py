"""NUTS on a model as written, through nutpie where every variable is continuous."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import pymc as pm

from bayeskit.compiling import on_one_thread
from bayeskit.errors import InferenceError
from bayeskit.terminal import quiet

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

__all__ = ["CHAINS", "pop_unconstrained", "sample_nuts"]

CHAINS = 4


def sample_nuts(
    model: pm.Model,
    draws: int = 4000,
    random_seed: int | None = None,
    progressbar: bool = False,
    tune: int = 1000,
    target_accept: float = 0.9,
    unconstrained: bool = False,
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
    unconstrained : bool, default False
        Whether to keep the draws on the unconstrained scale as well, for :func:`pop_unconstrained`; nutpie only.

    Returns
    -------
    xarray.DataTree
        As ``pymc.sample`` gives it.

    Raises
    ------
    InferenceError
        If no chain could start.

    Notes
    -----
    nutpie cannot sample discrete variables; a model that has some goes to PyMC's own compound step. Chains start at
    PyMC's initial points, jittered where the model has no ``initval``.
    """
    sampler = "pymc" if model.discrete_value_vars else "nutpie"
    options: dict[str, Any] = {"target_accept": target_accept} if model.continuous_value_vars else {}
    if unconstrained and sampler == "nutpie":
        options["idata_kwargs"] = {"include_transformed": True}
    if sampler == "nutpie":
        # Jitter of one on the unconstrained scale is far more than a posterior sd where there are many data: loadings
        # with the wrong sign are a mode of their own. Where the author gave a start, it is kept.
        given = model.rvs_to_initial_values
        # Left to itself, PyMC takes half of the CPUs for hyperthreads: on two cores the chains would run one by one.
        # The threads of nutpie share one process, and need no lock of Python's.
        options["cores"] = min(CHAINS, _processors())
        options["compile_kwargs"] = {"jitter_rvs": {rv for rv in model.free_RVs if given.get(rv) is None}}
    with quiet(), on_one_thread(), warnings.catch_warnings():
        # ArviZ suspects swapped dimensions where there are fewer draws than chains.
        warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)
        try:
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
        except RuntimeError as error:
            # nutpie's own words: the density is zero or not a number wherever chains could start.
            reason = str(error).splitlines()[0]
            raise InferenceError(
                f"NUTS could not sample: {reason}; check the data and the support of the priors"
            ) from error


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pop_unconstrained(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Take the draws on the unconstrained scale out of a tree: value variables by name, axes (chain, draw, ...).

    nutpie keeps a variable without a transform in ``posterior`` only.
    """
    group = "unconstrained_posterior"
    if group not in tree.children:
        return {str(n): v.transpose("chain", "draw", ...).to_numpy() for n, v in tree["posterior"].data_vars.items()}
    both = {**tree["posterior"].to_dataset().data_vars, **tree[group].to_dataset().data_vars}
    values = {str(n): v.transpose("chain", "draw", ...).to_numpy() for n, v in both.items()}
    for name in (group, f"warmup_{group}"):
        if name in tree.children:
            del tree[name]
    for name in ("sample_stats", "warmup_sample_stats"):
        if name in tree.children:
            stats = tree[name].to_dataset()
            tree[name] = stats.drop_dims("unconstrained_parameter", errors="ignore")
    return values
