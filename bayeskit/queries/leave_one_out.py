"""Leave-one-out cross-validation of a posterior by Pareto-smoothed importance sampling, or why it has none."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm

from bayeskit.model.snapshot import on_its_data
from bayeskit.queries.same_data import observed_values
from bayeskit.results.records import Posterior

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["leave_one_out"]

# Pointwise log likelihoods kept at once for LOO (draws × observations, 8 bytes each), and the fewest draws LOO is
# computed from.
LOO_ELEMENTS = 20_000_000
LOO_MIN_DRAWS = 500


@on_its_data
def leave_one_out(posterior: Posterior) -> tuple[tuple[float, float, float], str]:
    """(elpd, its standard error, number of high Pareto k) and a note; NaN and the reason where LOO is not available."""
    import arviz as az
    import xarray as xr

    missing = (math.nan, math.nan, math.nan)
    discrete = posterior.model.discrete_value_vars
    labels = [
        str(rv.name)
        for rv in posterior.model.free_RVs
        if rv.type.ndim and posterior.model.rvs_to_values[rv] in discrete
    ]
    if labels:
        # Each observation has a label of its own, drawn given that observation: its weight would be infinite.
        return missing, f"LOO was not computed: the draws of {', '.join(labels)} have seen each observation"
    observations = sum(value.size for _, value in observed_values(posterior).values())
    draws: xr.Dataset = posterior.tree["posterior"].to_dataset()
    kept = min(draws.sizes["chain"] * draws.sizes["draw"], LOO_ELEMENTS // max(observations, 1))
    if kept < LOO_MIN_DRAWS:
        return missing, f"LOO was not computed: {observations} observations leave room for {kept} draws"
    draws = draws.isel(draw=slice(kept // draws.sizes["chain"]))
    tree = xr.DataTree.from_dict({"posterior": draws})
    # Compiling costs more than a few thousand evaluations of a small graph, so few rewrites.
    likelihood = pm.compute_log_likelihood(
        tree,
        model=posterior.model,
        extend_inferencedata=False,
        progressbar=False,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    tree["log_likelihood"] = xr.DataTree(_pointwise(likelihood))
    if tree["log_likelihood"]["pointwise"].sizes["observation"] < 2:
        return missing, "LOO was not computed: the likelihood does not factor into observations"
    # ArviZ warns of high Pareto k; the count and the note below say the same.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            result = az.loo(tree, pointwise=True, reff=1.0 if posterior.method == "exact" else None)
        except ValueError as error:  # a term that is the same at every draw has no tail to smooth
            return missing, f"LOO was not computed: {str(error).splitlines()[0].rstrip('.')}"
    high = int((result.pareto_k > result.good_k).sum())
    note = f"LOO is unreliable: {high} observation(s) with Pareto k above {result.good_k:.2f}" if high else ""
    return (float(result.elpd), float(result.se), float(high)), note


def _pointwise(likelihood: xr.Dataset) -> xr.Dataset:
    """The terms of all observed variables along one dim."""
    import xarray as xr

    terms = []
    for variable in likelihood.data_vars.values():
        values = variable.transpose("chain", "draw", ...).to_numpy()
        terms.append(values.reshape(*values.shape[:2], -1))
    return xr.Dataset({"pointwise": (("chain", "draw", "observation"), np.concatenate(terms, axis=2))})
