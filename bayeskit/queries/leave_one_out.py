"""Leave-one-out cross-validation of a posterior by Pareto-smoothed importance sampling, or why it has none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.backends.arviz import find_observations
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.traversal import ancestors, applys_between
from pytensor.scalar import basic as ps
from pytensor.tensor.random.op import RandomVariable

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import applies
from bayeskit.graphs.rewriting import substitute
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
JUMP = 1e-6  # of a log density between values next to each other, relative to it
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
    """Observed values by variable, with which have a probability and not a density: none where that is not known."""
    model = given.model if isinstance(given, Posterior) else given
    values = find_observations(model)
    atoms = {
        rv.name: _atoms(rv, np.asarray(values[rv.name]), model.basic_RVs)
        for rv in model.observed_RVs
        if rv.name in values
    }
    return {
        name: (atoms.get(name, np.full(value.shape, value.dtype.kind in "biu")), value.astype(np.float64))
        for name, value in whole_rows(model, values).items()
    }


def _atoms(rv: Any, values: np.ndarray, others: Sequence[Any]) -> np.ndarray:
    """Where values have a probability: log p jumps on both sides of them, at most draws of the others from the prior.

    At the end of a support, or in a kink, it goes on from one side at least.
    """
    op, unknown = rv.owner.op, np.empty(0, dtype=bool)
    if np.dtype(rv.type.dtype).kind in "biu" or values.size == 0:
        return np.ones(values.shape, dtype=bool)
    if isinstance(op, PartialObservedRV):
        base, missing = rv.owner.inputs[0], rv.owner.inputs[1].data
        (whole := np.full(missing.shape, values.flat[0]))[~missing] = values
        return found[~missing] if (found := _atoms(base, whole, others)).size else found
    if isinstance(op, RandomVariable) and not isinstance(op, CustomDistRV):
        return np.zeros(values.shape, dtype=bool)
    # PyMC gives the probability of a rounded number at any number next to it, too.
    inner = getattr(op, "inner_outputs", [])
    if rounded := [
        n.outputs[0] for n in applys_between([], inner) if applies(n, ps.RoundHalfToEven, ps.Floor, ps.Ceil)
    ]:
        return np.ones(values.shape, dtype=bool) if set(rounded) & set(inner) else unknown
    x, step = pt.as_tensor(values).type(), np.maximum(np.spacing(np.abs(values)), 1e-12 * np.max(np.abs(values)))
    try:
        given = {v: v.type() for v in ancestors([rv]) if v in others and v is not rv}
        drawn = pm.draw(list(given), draws=5, random_seed=0, mode="FAST_COMPILE") if given else []
        draws = list(zip(*drawn, strict=True)) or [()]
        function = compile_small([x, *given.values()], pm.logp(substitute([rv], given)[0], x))
        with silently():
            at = [np.array([function(values + k * step, *draw) for draw in draws]) for k in (0, -1, -2, 1, 2)]
    except (NotImplementedError, TypeError, ValueError):  # PyMC has no such density, or it takes no other values
        return unknown
    here, near, far = at[0], np.stack([at[1], at[3]]), np.stack([at[2], at[4]])
    known = np.isfinite(here)
    with np.errstate(invalid="ignore"):
        smooth = np.abs(here - near) <= 3 * np.abs(near - far) + JUMP * np.maximum(1.0, np.abs(here))
    found = 2 * np.sum(known & ~smooth.any(axis=0), axis=0) > known.sum(axis=0)
    # A density of counts that somebody wrote is often one of any number.
    counts = isinstance(op, CustomDistRV) and not found.any() and np.array_equal(values, np.round(values))
    if counts or not known.any(axis=0).all():
        return unknown
    return np.broadcast_to(found.reshape(found.shape + (1,) * (values.ndim - found.ndim)), values.shape)


def require_same_data(models: Mapping[str, pm.Model | Posterior]) -> list[str]:
    """Refuse models that do not explain the same data, naming the first difference; notes of what cannot be told."""
    notes: dict[str, None] = {}
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
            unknown = [model for model, known in ((first, atoms), (name, other_atoms)) if known.size < values.size]
            cannot = (
                "whether these values have a probability or a density there cannot be told, and the two do not compare"
            )
            notes |= dict.fromkeys(f"{model}: {variable} has a density of its own; {cannot}" for model in unknown)
            if not unknown and (count := int((atoms != other_atoms).sum())):
                which = f"{variable} is discrete in one and continuous in the other"
                if count < values.size:
                    part = f"{count} of {values.size} values of {variable}"
                    which = f"{part} have a probability in one, a density in the other"
                raise ModelError(f"{pair}: {which}, and a probability cannot be compared with a density")
    return list(notes)


def _by_content(observed: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    return sorted(observed, key=lambda name: (observed[name][1].shape, *(v.tobytes() for v in observed[name][::-1])))


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
    observations = sum(np.size(value) for value in find_observations(posterior.model).values())
    if posterior.model.free_RVs:
        number, room = draws.sizes["chain"] * draws.sizes["draw"], LOO_ELEMENTS // max(observations, 1)
        if (kept := min(number, room)) < LOO_MIN_DRAWS:
            few = f"{number} draws are too few, it takes {LOO_MIN_DRAWS}: infer with draws=4000"
            why = few if number < LOO_MIN_DRAWS else f"{observations} observations leave room for {kept} draws"
            return missing, f"LOO was not computed: {why}"
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
