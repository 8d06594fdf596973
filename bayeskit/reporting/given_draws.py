"""Draws that somebody else's sampler made, with the model that they are of, as a posterior.

No closed form is looked for, so that any model will do that PyMC can sample. What was drawn must be of that model:
every free variable is there, in its shape, under its labels, and the observed data are the model's.
"""

from __future__ import annotations

import math
from typing import Any

import pymc as pm
import xarray as xr
from arviz_base import convert_to_datatree, from_dict
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations

from bayeskit.arguments import numeric
from bayeskit.errors import DataError, ModelError
from bayeskit.inference.convergence import judged
from bayeskit.model.snapshot import Snapshot
from bayeskit.results.draws_of_model import require_draws_of
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.plan import Plan
from bayeskit.results.records import Posterior

__all__ = ["METHOD", "as_tree", "posterior_of_draws"]

METHOD = "given draws"
UNKNOWN = "draws that were given come without it; bayeskit.evidence(model) estimates it"
# What samplers call the same thing.
STATISTICS = {"maxdepth_reached": "reached_max_treedepth", "depth": "tree_depth", "divergences": "diverging"}


def as_tree(given: Any) -> xr.DataTree | None:
    """A DataTree, a Dataset of draws, or what has groups (an InferenceData), as a tree; None where it is no draws."""
    if isinstance(given, xr.DataTree) and "posterior" in given.children:
        return given
    if isinstance(given, xr.DataTree | xr.Dataset):
        draws = given.to_dataset() if isinstance(given, xr.DataTree) else given
        return xr.DataTree.from_dict({"posterior": draws})
    groups = getattr(given, "groups", None)
    if not callable(groups) or not hasattr(given, "posterior"):
        return None
    tree: xr.DataTree = convert_to_datatree(given)
    return tree


def posterior_of_draws(given: Any, model: pm.Model | None) -> Posterior:
    """The posterior that draws are; a ModelError or DataError that names what does not fit the model."""
    if isinstance(given, pm.Model):
        raise ModelError("post is a model, without draws: infer first, as in bk.report(bk.infer(model), path)")
    tree = as_tree(given)
    if tree is None:
        what = f"post is a {type(given).__name__}"
        raise ModelError(f"{what}; give a Posterior, a Comparison, or the DataTree of pm.sample with its model=...")
    if model is None:
        raise ModelError("draws need the model that they are of: report(tree, path, model=model)")
    require_draws_of(model, tree)
    draws = tree["posterior"].to_dataset()
    names = tuple(str(rv.name) for rv in model.free_RVs)
    library = f"by {maker}" if (maker := draws.attrs.get("inference_library")) else "by a sampler that is not named"
    lengths = f"{draws.sizes['chain']} × {draws.sizes['draw']:,} draws (chains × draws)"
    post = Posterior(
        model=model,
        plan=Plan((), names, METHOD, ()),
        log_evidence=LogEvidence(math.nan, math.inf, "estimated", UNKNOWN),
        method=METHOD,
        certificate=math.nan,
        tree=_completed(tree, model),
        seconds=float(draws.attrs.get("sampling_time", math.nan)),
        snapshot=Snapshot.of(model, borrow=False),
        account=f"The draws were made {library}, {lengths}, and are shown as they are.",
    )
    return judged(post)


def _completed(tree: xr.DataTree, model: pm.Model) -> xr.DataTree:
    """A copy with the observed data, which some samplers leave out, and statistics under PyMC's names."""
    # A group without a variable, as some samplers give, is none.
    kept = {str(n): group for n, group in tree.children.items() if n == "posterior" or group.data_vars}
    tree = xr.DataTree.from_dict({n: group.to_dataset() for n, group in kept.items()})
    tree["posterior"] = xr.DataTree(_under_dims(tree["posterior"].to_dataset().transpose("chain", "draw", ...), model))
    coords, dims = coords_and_dims_for_inferencedata(model)
    found = {"observed_data": find_observations(model), "constant_data": find_constants(model)}
    for group, values in found.items():
        if values and group not in tree.children:
            tree[group] = from_dict({group: values}, coords=coords, dims=dims)[group]
    if "sample_stats" in tree.children:
        stats = tree["sample_stats"].to_dataset()
        renamed = {theirs: stats[theirs] for theirs in STATISTICS if theirs in stats}
        known = stats.assign({STATISTICS[n]: v for n, v in renamed.items()} | _kept(stats))
        _require_statistics(known, tree["posterior"].to_dataset())
        tree["sample_stats"] = xr.DataTree(known)
    return tree


def _under_dims(draws: xr.Dataset, model: pm.Model) -> xr.Dataset:
    """The draws with the model's dims and labels, which samplers outside PyMC know nothing of (``w_dim_0``)."""
    named = {n: dims for n, dims in model.named_vars_to_dims.items() if n in draws}
    renamed = {}
    for name, dims in named.items():
        theirs = draws[name].dims[2:]
        if len(theirs) == len(dims) and set(theirs).isdisjoint(map(str, dims)) and None not in dims:
            values = draws[name].drop_vars([c for c in draws[name].coords if c not in ("chain", "draw")])
            known = {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
            renamed[name] = values.rename(dict(zip(theirs, dims, strict=True))).assign_coords(known)
    draws = draws.drop_vars([*renamed]).assign(renamed)[[*draws.data_vars]] if renamed else draws
    bare = {d for dims in named.values() for d in dims if d in draws.dims and d not in draws.coords}
    return draws.assign_coords({d: list(model.coords[d]) for d in bare if model.coords.get(d) is not None})


def _require_statistics(stats: xr.Dataset, draws: xr.Dataset) -> None:
    """That what is read of a sampler's statistics is a number for each draw."""
    wanted = {dim: draws.sizes[dim] for dim in ("chain", "draw")}
    for name in (n for n in ("diverging", "energy", "reached_max_treedepth") if n in stats):
        numeric(f"the values of the statistic {name!r}", stats[name])
        if dict(stats[name].sizes) != wanted:
            has, needed = (", ".join(f"{d}: {n}" for d, n in of.items()) for of in (stats[name].sizes, wanted))
            raise DataError(f"the statistic {name!r} has {has}; ({needed}) is needed, or leave it out")


def _kept(stats: xr.Dataset) -> dict[str, xr.DataArray]:
    """What is there under PyMC's name already stays."""
    return {name: stats[name] for name in STATISTICS.values() if name in stats}
