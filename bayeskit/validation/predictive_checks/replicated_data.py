"""The observed data of a posterior, and data replicated from it: one data set for each of its draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_observations

from bayeskit.arguments import RandomSeed, numeric, whole_seed
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.model.snapshot import WrittenModel
from bayeskit.model.summed_likelihood import ADDED_UP, known_rows
from bayeskit.results.draws_of_model import require_draws_of, require_its_data, require_its_labels
from bayeskit.results.predictive import predict, replicates
from bayeskit.results.records import Posterior
from bayeskit.results.tree import dims_of, observed_data
from bayeskit.terminal import let_alarms_through
from bayeskit.validation.predictive_checks.data_kinds import category_labels, distributions_of

__all__ = ["REPEATED", "Replicated", "replicated_data"]

MAX_ELEMENTS = 20_000_000  # replicated values held in memory
MAX_REPEATED = 4_000_000  # where several data sets are of one draw: all that they tell is shares of tails
FEWEST = 40  # data sets, whatever their size
REPEATED = ("parameter", "repeat")
REPEATS = range(20, 61)  # data sets of one draw of the parameters, whichever number the draws are a multiple of


@dataclass(frozen=True, eq=False)
class Replicated:
    """Observed variables and as many data sets of each as there are draws."""

    observed: xr.Dataset
    predicted: xr.Dataset  # dims chain and draw before those of the data
    labels: dict[str, tuple[str, ...]]  # of categories, by variable
    distributions: dict[str, str]  # as PyMC calls them, by variable
    independent: bool  # whether the draws are
    potentials: tuple[str, ...] = ()  # of the model, which the replicated data are drawn without
    again: Callable[[], xr.Dataset | None] = lambda: None  # draws several data sets of each of some parameters

    @cached_property
    def repeated(self) -> xr.Dataset | None:
        """Several data sets of each of some draws, over ``parameter`` and ``repeat``; None without a model to draw."""
        return self.again()

    @property
    def names(self) -> list[str]:
        """The variables that are observed and replicated."""
        return [str(n) for n in self.observed.data_vars if n in self.predicted.data_vars]


def replicated_data(
    posterior: Posterior | xr.DataTree, model: pm.Model | None = None, random_seed: RandomSeed = None
) -> Replicated:
    """Replicated data of a posterior, or of draws and their model: those it holds, else drawn, and kept if ours.

    Raises
    ------
    ModelError, DataError, OptionError
        If nothing is observed, there are no draws, or they are not those of the model.
    """
    if isinstance(posterior, Posterior):
        if model is not None and model is not posterior.model:
            raise OptionError("model: the posterior has its own; leave it out")
        model, tree = posterior.model, posterior.tree
    else:
        tree = posterior
    if "posterior" not in tree.children and "posterior_predictive" not in tree.children:
        raise DataError("there are no draws: the tree needs a group posterior, as pymc.sample gives it")
    observed = observed_data(tree)
    if not observed.data_vars and model is not None and not isinstance(model, WrittenModel):
        values = find_observations(model)
        observed = xr.Dataset({n: (dims_of(model, n, np.ndim(v)), v) for n, v in values.items()})
    observed = observed[[name for name, values in observed.data_vars.items() if values.size]]
    if not observed.data_vars:
        added_up = isinstance(model, pm.Model) and known_rows(model)
        raise ModelError(
            ADDED_UP if added_up else "there is nothing to check: no variable is observed, or no entry of any"
        )
    size = max(v.size for v in observed.data_vars.values())
    predicted = _predicted(posterior, tree, model, size, random_seed)
    independent = isinstance(posterior, Posterior) and posterior.diagnostics is None
    labels, names = ({}, {}) if model is None else (category_labels(model), distributions_of(model))
    again = partial(_repeated, tree, model, size, random_seed)
    in_memory = None if isinstance(model, WrittenModel) else model
    potentials = () if in_memory is None else tuple(str(p.name) for p in in_memory.potentials)
    for name in [str(n) for n in observed.data_vars if n in predicted.data_vars]:
        values = predicted[name].transpose("chain", "draw", ...)
        if values.shape[2:] != observed[name].shape or 0 in values.shape:
            needed = f"(chain, draw) and {observed[name].shape} is needed"
            raise DataError(f"the replicated data of {name!r} have shape {values.shape}; {needed}")
        numeric(f"the replicated data of {name!r}", predicted[name])
        numeric(f"the observed values of {name!r}", observed[name])
        if values.dims[2:] != observed[name].dims:  # as whoever kept the observed ones called theirs
            renamed = {name: (("chain", "draw", *observed[name].dims), values.to_numpy())}
            predicted = predicted.drop_vars(name).assign(renamed)
    found = Replicated(observed, predicted, labels, names, independent, potentials, again)
    if not found.names:
        raise DataError(f"no replicated data of {', '.join(map(str, observed.data_vars))} in posterior_predictive")
    return found


def _require_of(model: pm.Model, tree: xr.DataTree) -> None:
    """That a tree is of its model as far as it goes: replicated data that it holds need no draws of all variables."""
    require_its_data(model, tree)
    if "posterior" in tree.children:
        draws = tree["posterior"].to_dataset()
        require_its_labels(model, draws, [str(rv.name) for rv in model.free_RVs if rv.name in draws])


def _predicted(
    posterior: Posterior | xr.DataTree, tree: xr.DataTree, model: pm.Model | None, size: int, random_seed: RandomSeed
) -> xr.Dataset:
    """Posterior predictive draws; where the data are large, of a part of the draws only, and not kept."""
    if "posterior_predictive" in tree.children and tree["posterior_predictive"].data_vars:
        if not (isinstance(posterior, Posterior) or model is None or isinstance(model, WrittenModel)):
            _require_of(model, tree)
        found = tree["posterior_predictive"].to_dataset()
        if lacking := {"chain", "draw"} - {*map(str, found.dims)}:
            raise DataError(f"the group posterior_predictive has no dim {min(lacking)}")
        return found
    if model is None:
        raise OptionError("there are no replicated data in the tree: give the model that they are drawn from")
    if isinstance(model, WrittenModel):
        raise ModelError("there are no replicated data: the posterior was loaded without its model, which draws them")
    draws = tree["posterior"].to_dataset()
    number = draws.sizes.get("chain", 0) * draws.sizes.get("draw", 0)
    if not number:
        raise DataError("there are no draws with the dims 'chain' and 'draw', as pymc.sample gives them")
    if absent := [str(rv.name) for rv in model.free_RVs if rv.name not in draws.data_vars]:
        # PyMC would draw them from the prior.
        raise DataError(f"no draws of {', '.join(absent)}: replicated data need those of all free variables")
    if number * size <= MAX_ELEMENTS and isinstance(posterior, Posterior):
        return posterior.posterior_predictive(random_seed=random_seed)
    if not isinstance(posterior, Posterior):
        require_draws_of(model, tree)
    few = tree
    if number * size > MAX_ELEMENTS:
        few = xr.DataTree.from_dict({"posterior": draws.isel(draw=slice(_fitting(draws, size)))})
    try:
        return predict(model, few, {}, random_seed=random_seed)
    except BayeskitError:
        raise
    except Exception as error:  # whatever draws of another model make PyMC raise
        let_alarms_through(error)
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise DataError(f"no data could be replicated from these draws of this model ({why})") from error


def _fitting(draws: xr.Dataset, size: int, most: int = MAX_ELEMENTS) -> int:
    """Of how many draws of each chain replicated data are held in memory."""
    return min(draws.sizes["draw"], max(1, max(most // size, FEWEST) // draws.sizes["chain"]))


def _repeated(tree: xr.DataTree, model: pm.Model | None, size: int, random_seed: RandomSeed) -> xr.Dataset | None:
    """As many data sets as there are draws, but several of each of a part of the draws, evenly spaced."""
    if model is None or isinstance(model, WrittenModel) or "posterior" not in tree.children:
        return None
    draws = tree["posterior"].to_dataset()
    if not {rv.name for rv in model.free_RVs} <= {*draws.data_vars} or not draws.sizes.get("draw"):
        return None
    number = _fitting(draws, size, MAX_REPEATED)
    each = min((k for k in REPEATS if number % k == 0), key=lambda k: abs(k - FEWEST), default=FEWEST)
    parameters = max(1, number // each)
    places = np.linspace(0, draws.sizes["draw"] - 1, parameters).round().astype(int)
    some = draws.isel(draw=np.repeat(places, each)).assign_coords(draw=np.arange(parameters * each))
    part = xr.DataTree.from_dict({"posterior": some})
    # A stream of its own: with the seed alone the noise would be that of the other replicated data.
    seed = np.random.default_rng(np.random.SeedSequence(whole_seed(random_seed), spawn_key=(3,)))
    flat = replicates(model, part, seed).drop_vars(("chain", "draw")).stack(both=("chain", "draw"), create_index=False)
    apart = xr.Dataset(
        {
            name: (
                (*REPEATED, *values.dims[:-1]),
                np.moveaxis(values.to_numpy(), -1, 0).reshape(-1, each, *values.shape[:-1]),
            )
            for name, values in flat.data_vars.items()
        }
    )
    return apart.assign_coords({n: c for n, c in flat.coords.items() if n in apart.dims})
