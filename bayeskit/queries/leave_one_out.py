"""Leave-one-out cross-validation of a posterior by Pareto-smoothed importance sampling, or why it has none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_observations
from pytensor.graph.traversal import ancestors

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.model.snapshot import WrittenModel, on_its_data, written_down
from bayeskit.model.support import IMPROPER
from bayeskit.queries.class_rows import whole_rows
from bayeskit.results.log_densities import log_densities
from bayeskit.results.records import Posterior

__all__ = ["leave_one_out", "observed_values", "require_evidence", "require_same_data"]

# Pointwise log likelihoods kept at once for LOO (draws × observations, 8 bytes each), and the fewest draws LOO is
# computed from.
LOO_ELEMENTS = 20_000_000
LOO_MIN_DRAWS = 500
SAME = 1e-12  # relative spread below which a term is the same at every draw


def require_evidence(name: str, given: pm.Model | Posterior) -> None:
    """Refuse what cannot have an evidence that means something."""
    model = given.model if isinstance(given, Posterior) else given
    if isinstance(model, WrittenModel):
        return  # its evidence, or why it has none, is written down
    if not isinstance(model, pm.Model):
        raise ModelError(f"{name}: a {type(given).__name__} cannot be compared; give a pymc.Model or a Posterior")
    if model.potentials:
        why = "so its density is not normalised and its evidence means nothing; write it as a distribution"
        raise ModelError(f"{name}: it has a Potential ({model.potentials[0].name}), {why}")
    for rv in model.free_RVs:
        kind = type(rv.owner.op).__name__.removesuffix("RV")
        if kind in IMPROPER:
            why = f"the prior of {rv.name} is improper ({kind})"
            raise ModelError(f"{name}: {why}, so it has no evidence; give it a proper prior")
    if not model.observed_RVs:
        raise ModelError(f"{name}: it has no observed variable, so there is no evidence")


@written_down
@on_its_data
def observed_values(given: pm.Model | Posterior) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Observed values by variable, with which of them have a probability and not a density."""
    model = given.model if isinstance(given, Posterior) else given
    values, random = find_observations(model), set(model.basic_RVs)
    atoms = {rv.name: _atoms(rv, np.asarray(values[rv.name]), random) for rv in model.observed_RVs if rv.name in values}
    return {
        name: (atoms.get(name, np.full(value.shape, value.dtype.kind in "biu")), value.astype(np.float64))
        for name, value in whole_rows(model, values).items()
    }


def _atoms(rv: Any, values: np.ndarray, random: set[Any]) -> np.ndarray:
    """Where values have a probability: those of a discrete variable, at a bound that censors, on a spike of a mixture.

    Bounds and spikes at a place that is itself drawn are met by no value.
    """
    kind, inputs = type(rv.owner.op).__name__, rv.owner.inputs
    mixed = {"CensoredRV": inputs[:1], "MixtureRV": inputs[2:], "_HurdleRV": inputs[2:]}.get(kind, [])
    places = {"CensoredRV": inputs[1:3], "DiracDeltaRV": inputs[-1:]}.get(kind, [])
    found = np.full(values.shape, np.dtype(rv.type.dtype).kind in "biu")
    if kind == "MixtureRV" and len(mixed) == 1:  # the components are the last axis of a single variable
        return found | _atoms(mixed[0], values[..., None], random).any(axis=-1)
    for component in mixed:
        found |= _atoms(component, values, random)
    for place in places:
        if not random.intersection(ancestors([place])):
            found = found | (values == compile_small([], place)())
    return found


def require_same_data(models: Mapping[str, pm.Model | Posterior]) -> None:
    """Refuse models that do not explain the same data, naming the first difference."""
    (first, reference), *others = ((name, observed_values(model)) for name, model in models.items())
    for name, observed in others:
        pair = f"{first} and {name} do not explain the same data"
        advice = "compare models of the same observed values"
        if set(observed) == set(reference):
            matches = [(variable, reference[variable], observed[variable]) for variable in reference]
        elif len(observed) == len(reference):
            pairs = zip(_by_content(reference), _by_content(observed), strict=True)
            matches = [(f"{a} / {b}", reference[a], observed[b]) for a, b in pairs]
        else:
            had, has = (f"observed {', '.join(names)}" for names in (reference, observed))
            raise ModelError(f"{pair}: {had} in {first}, {has} in {name}; {advice}")
        for variable, (atoms, values), (other_atoms, other_values) in matches:
            if values.shape != other_values.shape:
                raise ModelError(f"{pair}: {variable} has shape {values.shape} and {other_values.shape}; {advice}")
            if not np.array_equal(values, other_values, equal_nan=True):
                count = int((~np.isclose(values, other_values, rtol=0, atol=0, equal_nan=True)).sum())
                differ = f"{count} of {values.size} values of {variable} differ"
                other = "a transformed observation, such as log y, is other data: write both models for the same y"
                raise ModelError(f"{pair}: {differ}; {advice} ({other})")
            if count := int((atoms != other_atoms).sum()):
                which = f"{variable} is discrete in one and continuous in the other"
                if count < values.size:
                    part = f"{count} of {values.size} values of {variable}"
                    which = f"{part} have a probability in one, a density in the other"
                raise ModelError(f"{pair}: {which}, and a probability cannot be compared with a density")


def _by_content(observed: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    return sorted(observed, key=lambda name: (observed[name][1].shape, observed[name][1].tobytes()))


@written_down
@on_its_data
def leave_one_out(posterior: Posterior) -> tuple[tuple[float, float, float], str]:
    """(elpd, its standard error, number of high Pareto k) and a note; NaN and the reason where LOO is not available."""
    missing = (math.nan, math.nan, math.nan)
    labels = [str(value.name) for value in posterior.model.discrete_value_vars if value.type.ndim]
    if labels:
        # Each observation has a label of its own, drawn given that observation: its weight would be infinite.
        return missing, f"LOO was not computed: the draws of {', '.join(labels)} have seen each observation"
    draws = posterior.tree["posterior"].to_dataset()
    observations = sum(value.size for _, value in observed_values(posterior).values())
    if posterior.model.free_RVs:
        kept = min(draws.sizes["chain"] * draws.sizes["draw"], LOO_ELEMENTS // max(observations, 1))
        if kept < LOO_MIN_DRAWS:
            return missing, f"LOO was not computed: {observations} observations leave room for {kept} draws"
        draws = draws.isel(draw=slice(kept // draws.sizes["chain"]))
    else:  # the likelihood is a number, and one draw of nothing is enough
        draws = xr.Dataset(coords={"chain": [0], "draw": [0]})
    pointwise = _pointwise(posterior, draws)
    if pointwise.shape[2] < 2:
        why = "there is one observation" if observations < 2 else "the likelihood does not factor into observations"
        return missing, f"LOO was not computed: {why}"
    if not np.all(np.isfinite(pointwise)):
        count = int((~np.isfinite(pointwise)).any(axis=(0, 1)).sum())
        return missing, f"LOO was not computed: the log likelihood of {count} observation(s) is not finite at some draw"
    elpd = pointwise[0, 0].copy()
    # A term that is the same at every draw has no tail to smooth, and is the same without its observation, too.
    varies = np.ptp(pointwise, axis=(0, 1)) > SAME * np.maximum(1.0, np.abs(elpd))
    high, note = 0, ""
    if varies.any():
        tree = xr.DataTree.from_dict({"posterior": draws})
        terms = (("chain", "draw", "observation"), pointwise[..., varies])
        tree["log_likelihood"] = xr.DataTree(xr.Dataset({"pointwise": terms}))
        # ArviZ warns of high Pareto k; the count and the note below say the same.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = az.loo(tree, pointwise=True, reff=1.0 if posterior.method == "exact" else None)
        elpd[varies] = result.elpd_i
        high = int((result.pareto_k > result.good_k).sum())
        note = f"LOO is unreliable: {high} observation(s) with Pareto k above {result.good_k:.2f}" if high else ""
    return (float(elpd.sum()), math.sqrt(elpd.size * np.var(elpd, ddof=1)), float(high)), note


def _pointwise(posterior: Posterior, draws: xr.Dataset) -> np.ndarray:
    """The log likelihood at these draws, the first of the posterior's: its axes are chains, draws, observations."""
    if "log_likelihood" in posterior.tree.children:
        known = posterior.tree["log_likelihood"].to_dataset().isel(draw=slice(draws.sizes["draw"]))
    else:
        known = log_densities(posterior.model, draws, ["log_likelihood"])["log_likelihood"]
    terms = [v.transpose("chain", "draw", ...).to_numpy() for v in known.data_vars.values()]
    return np.concatenate([v.reshape(*v.shape[:2], -1) for v in terms], axis=2)
