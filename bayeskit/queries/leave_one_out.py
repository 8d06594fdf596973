"""Leave-one-out cross-validation of a posterior by Pareto-smoothed importance sampling, or why it has none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.backends.arviz import find_observations

from bayeskit.errors import ModelError
from bayeskit.model.snapshot import on_its_data
from bayeskit.queries.class_rows import whole_rows
from bayeskit.results.records import Posterior

if TYPE_CHECKING:
    pass
    import xarray as xr

__all__ = ["leave_one_out", "model_of", "observed_values", "require_evidence", "require_same_data"]

IMPROPER = ("flat", "half_flat")
# Pointwise log likelihoods kept at once for LOO (draws × observations, 8 bytes each), and the fewest draws LOO is
# computed from.
LOO_ELEMENTS = 20_000_000
LOO_MIN_DRAWS = 500


def model_of(model: pm.Model | Posterior) -> pm.Model:
    return model.model if isinstance(model, Posterior) else model


def require_evidence(name: str, given: pm.Model | Posterior) -> None:
    if not isinstance(given, pm.Model | Posterior):
        raise ModelError(f"{name}: a {type(given).__name__} cannot be compared; give a pymc.Model or a Posterior")
    model = model_of(given)
    if model.potentials:
        raise ModelError(
            f"{name}: it has a Potential ({model.potentials[0].name}), so its density is not normalised and its "
            "evidence means nothing; write it as a distribution"
        )
    for rv in model.free_RVs:
        if getattr(rv.owner.op, "name", None) in IMPROPER:
            raise ModelError(
                f"{name}: the prior of {rv.name} is improper ({type(rv.owner.op).__name__.removesuffix('RV')}), so it "
                "has no evidence; give it a proper prior"
            )
    if not model.observed_RVs:
        raise ModelError(f"{name}: it has no observed variable, so there is no evidence")


@on_its_data
def observed_values(given: pm.Model | Posterior) -> dict[str, tuple[bool, NDArray[np.float64]]]:
    """Observed values by variable, with whether the variable is discrete."""
    model = model_of(given)
    kinds = {rv.name: np.dtype(rv.type.dtype).kind in "biu" for rv in model.observed_RVs}
    return {
        name: (kinds.get(name, value.dtype.kind in "biu"), value.astype(np.float64))
        for name, value in whole_rows(model, find_observations(model)).items()
    }


def require_same_data(models: Mapping[str, pm.Model | Posterior]) -> None:
    """Refuse models that do not explain the same data, naming the first difference."""
    (first, reference), *others = ((name, observed_values(model)) for name, model in models.items())
    for name, observed in others:
        pair = f"{first} and {name} do not explain the same data"
        advice = "compare models of the same observed values"
        if set(observed) == set(reference):
            matches = [(variable, reference[variable], observed[variable]) for variable in reference]
        elif len(observed) == len(reference):
            matches = [
                (f"{a} / {b}", reference[a], observed[b])
                for a, b in zip(_by_content(reference), _by_content(observed), strict=True)
            ]
        else:
            raise ModelError(f"{pair}: {_names(reference)} in {first}, {_names(observed)} in {name}; {advice}")
        for variable, (discrete, values), (other_discrete, other_values) in matches:
            if values.shape != other_values.shape:
                raise ModelError(f"{pair}: {variable} has shape {values.shape} and {other_values.shape}; {advice}")
            if not np.array_equal(values, other_values, equal_nan=True):
                count = int((~np.isclose(values, other_values, rtol=0, atol=0, equal_nan=True)).sum())
                raise ModelError(
                    f"{pair}: {count} of {values.size} values of {variable} differ; {advice} (a transformed "
                    "observation, such as log y, is other data: write both models for the same y)"
                )
            if discrete != other_discrete:
                raise ModelError(
                    f"{pair}: {variable} is discrete in one and continuous in the other, and a probability cannot be "
                    "compared with a density"
                )


def _names(observed: Mapping[str, object]) -> str:
    return f"observed {', '.join(observed)}"


def _by_content(observed: Mapping[str, tuple[bool, NDArray[np.float64]]]) -> list[str]:
    return sorted(observed, key=lambda name: (observed[name][1].shape, observed[name][1].tobytes()))


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
