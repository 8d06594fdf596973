"""Chains of NUTS one by one: each on a worker of a cluster, or kept in a checkpoint as it ends.

A chain's seed depends on the random seed and its number only, so that its draws are the same whoever makes them and
whichever chains were made before. They are not those of chains that are sampled together, whose numbers come from one
seed within nutpie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.jobs.work import Work
from bayeskit.model.mark import mark_of
from bayeskit.sampling.options import sampler_defaults

__all__ = ["sample_chains_apart", "work_of_chains"]

WARM_UP = "warmup_"

type _Chain = tuple[int, int]  # draws and seed


def work_of_chains(
    work: Work, model: pm.Model, draws: int, random_seed: int, sampler: Mapping[str, Any], bar: bool
) -> Work:
    """The work, with what its checkpoint has to be of; an OptionError where it is of something else."""
    options = sorted((name, value) for name, value in sampler.items() if name != "cores")
    of = {"chains of model": mark_of(model) if work.checkpoint is not None else "", "draws": draws}
    work = replace(work, of={**of, "seed": random_seed, "sampler": str(options)}, bar=bar)
    nothing: dict[str, _Chain] = {}
    work.results(_chain_of, None, nothing, "chains")  # a rung of the ladder would take a refusal for its own
    return work


def sample_chains_apart(
    model: pm.Model, draws: int, random_seed: int, sampler: Mapping[str, Any], work: Work, mark: str
) -> xr.DataTree:
    """Draws as of :func:`bayeskit.sampling.nuts.sample_nuts`, those on the unconstrained scale with them.

    ``mark`` tells the model from others that the same run may sample.
    """
    number = int({**sampler_defaults(), **sampler}["chains"])
    seeds = [int(np.random.SeedSequence([random_seed, k]).generate_state(1)[0]) for k in range(1, number + 1)]
    jobs = {f"{mark} chain {k}": (-(-draws // number), seed) for k, seed in enumerate(seeds, 1)}
    return _joined(work.results(_chain_of, (model, {**sampler, "chains": 1}), jobs, "chains"))


def _chain_of(given: tuple[pm.Model, Mapping[str, Any]]) -> Callable[[_Chain], xr.DataTree]:
    from bayeskit.sampling.nuts import nuts_of  # with nutpie comes matplotlib, a second of imports

    model, options = given
    sampled = nuts_of(model, options, unconstrained=True)

    def chain(job: _Chain) -> xr.DataTree:
        draws, seed = job
        tree = sampled(draws, seed, False)
        return xr.DataTree.from_dict(
            {name: group.to_dataset() for name, group in tree.children.items() if not name.startswith(WARM_UP)}
        )

    return chain


def _joined(trees: Sequence[xr.DataTree]) -> xr.DataTree:
    """One tree of all chains, by their order."""
    first, groups = trees[0], {}
    for name, group in first.children.items():
        each = [tree[name].to_dataset() for tree in trees]
        if "chain" in group.dims:
            numbered = [of.assign_coords(chain=[k]) for k, of in enumerate(each)]
            groups[name] = xr.concat(numbered, "chain", data_vars="minimal", join="exact", combine_attrs="override")
        else:
            groups[name] = each[0]
    times = [tree["posterior"].attrs.get("sampling_time", 0.0) for tree in trees]
    groups["posterior"].attrs["sampling_time"] = float(sum(times))
    return xr.DataTree.from_dict(groups)
