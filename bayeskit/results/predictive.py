"""Prior and posterior predictive draws, by PyMC's own forward sampling.

A container ``group_code`` of a model with the labelled dim ``group`` holds the whole-number codes of that dim's labels:
new rows may then be given as labels, ``{"group": ["north", "south"]}``, and codes are held to those that there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.exceptions import ShapeError
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedIncSubtensor, BaseSubtensor, IncSubtensor

from bayeskit.arguments import RandomSeed, numeric, whole_seed
from bayeskit.errors import BayeskitError, DataError, ModelError
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.model.data_slots import uncut
from bayeskit.model.matrix_sizes import require_room
from bayeskit.model.snapshot import Snapshot
from bayeskit.model.summed_likelihood import known_rows
from bayeskit.results.kept_variables import without_a_value_of_old
from bayeskit.results.lengths_of_new_data import advice_on_lengths, note_on
from bayeskit.results.predicted_together import predicted_together
from bayeskit.results.tree import countable
from bayeskit.terminal import interruptible, quiet
from bayeskit.types import Graph

__all__ = ["CODE", "ensure_posterior_predictive", "ensure_prior_predictive", "not_drawable", "predict", "replicates"]


NOT_DRAWN = "draw from a model of fewer rows, with the posterior's values of its parameters"


def predict(
    model: pm.Model,
    tree: xr.DataTree,
    data: Mapping[str, Any] | pd.DataFrame,
    *,
    coords: Mapping[str, Any] | None = None,
    var_names: Sequence[str] | None = None,
    leaves: Sequence[str] = (),
    random_seed: RandomSeed = None,
    progressbar: bool = False,
) -> xr.Dataset:
    """Posterior predictive draws at new data; the model is left as it was.

    ``leaves`` are free variables that no data depend on, drawn anew like the observed ones at new data; so are entries
    that were missing from the old. Without new data the observed variables are drawn, as they were observed.
    Potentials, which no data can be drawn from, are left out.
    """
    if isinstance(data, pd.DataFrame):
        data = {str(name): column for name, column in data.items()}
    data = {name: _in_order(value, model.named_vars_to_dims.get(name, ())) for name, value in data.items()}
    fitted = {d for v in model.free_RVs if v.name not in leaves for d in model.named_vars_to_dims.get(v.name, ())}
    labels = _labels_given(data, model, fitted)
    containers = {str(v.name): v for v in model.data_vars if isinstance(v, SharedVariable)}
    data = _labels_to_codes(data, containers, model)
    values = {name: _checked(name, value, containers, model, leaves) for name, value in data.items()}
    new_coords, seed = _new_coords(model, values, dict(coords or {}), labels), whole_seed(random_seed)
    leaves, var_names = _drawn_anew(model, leaves, var_names, bool(values))
    kept = [rv.name for rv in model.free_RVs if rv.name in tree["posterior"].data_vars]
    leaves += without_a_value_of_old(model, values, [n for n in kept if n not in leaves])
    try:
        with interruptible(), Snapshot.of(model).restored(), model, quiet():
            # The draws of the parameters have seen the Potentials, which is all that there is to be had of them.
            warnings.filterwarnings("ignore", message="The effect of Potentials", category=UserWarning)
            if values:
                _set_data(model, values, new_coords)
            require_room({str(rv.name): rv for rv in model.basic_RVs}, NOT_DRAWN)
            result = pm.sample_posterior_predictive(
                countable(tree),
                var_names=list(var_names) if var_names is not None else None,
                predictions=bool(values),
                # The parameters keep their draws; only what is downstream of the new data is drawn anew.
                freeze_vars=[n for n in kept if n not in leaves],
                sample_vars=[n for n in kept if n in leaves] or None,
                random_seed=seed,
                progressbar=progressbar,
                compile_kwargs={"mode": small_mode()},
            )
    except NotImplementedError as error:  # of a distribution that somebody wrote
        raise not_drawable(error) from error
    except (ValueError, TypeError, IndexError, ShapeError) as error:
        if not values or isinstance(error, BayeskitError):
            raise
        why = str(error).splitlines()[0]
        advice = advice_on_lengths(model, values, error)
        raise DataError(f"the new values of {', '.join(values)} do not fit the model: {why}{advice}") from error
    drawn = result["predictions" if data else "posterior_predictive"].to_dataset()
    return drawn.assign_attrs(note=note) if (note := note_on(model, values, drawn)) else drawn


def not_drawable(error: NotImplementedError) -> ModelError:
    """That PyMC has no draws of a distribution that somebody wrote, and what would give it some."""
    why = str(error).partition(",")[0].splitlines()[0]
    return ModelError(f"PyMC cannot draw from this model ({why}); give its pm.CustomDist a random=...")


def _new_coords(
    model: pm.Model, values: Mapping[str, np.ndarray], given: dict[str, Any], labels: dict[str, Any]
) -> dict[str, Any]:
    """The labels of dims at new data: those given for it, those that came with it, or numbers of another length."""
    if unknown := [dim for dim in given if dim not in model.coords or not values]:
        raise DataError(f"coords: {unknown[0]!r} is no dim of new data; the model has {', '.join(model.coords)}")
    found = labels | given
    for name, value in values.items():
        for dim, length in zip(model.named_vars_to_dims.get(name, ()), value.shape, strict=False):
            known = model.coords.get(dim)
            if known is not None and dim not in found and length != len(known):
                found[dim] = np.arange(length)
    return found


def _in_order(value: Any, dims: Sequence[Any]) -> Any:
    """An array that names its dims, with these in the order of the container's; others as they are."""
    same = isinstance(value, xr.DataArray) and None not in dims and set(value.dims) == set(dims)
    return value.transpose(*dims) if same else value


def _labels_given(data: Mapping[str, Any], model: pm.Model, fitted: Collection[str]) -> dict[str, Any]:
    """The labels that come with new data, by dim: the index of a pandas object, or the coords of an xarray.DataArray.

    Those of a dim that parameters have stay those that were fitted; a DataError if they come in another order.
    """
    found: dict[str, Any] = {}
    for name, value in data.items():
        container = name if name in model.named_vars_to_dims else f"{name}{CODE}"
        for axis, dim in enumerate(model.named_vars_to_dims.get(container, ())):
            labels, known = _labels_along(value, axis), model.coords.get(dim)
            if labels is None or dim not in model.coords:
                continue
            if dim in fitted:
                if known is not None and list(known) != labels and set(known) == set(labels):
                    order = ", ".join(map(str, known[:SHOWN])) + (", …" if len(known) > SHOWN else "")
                    raise DataError(f"the new values of {name!r} have {dim!r} in another order than {order}")
            elif found.setdefault(dim, labels) != labels:
                raise DataError(
                    f"the new values have different labels along {dim!r}; give them as coords={{{dim!r}: …}}"
                )
    return found


def _labels_along(value: Any, axis: int) -> list[Any] | None:
    """The labels of one axis of new values; None where it has none, or numbers that pandas gave it."""
    if isinstance(value, xr.DataArray) and axis < value.ndim:
        index = value.indexes.get(value.dims[axis])
    elif isinstance(value, pd.Series | pd.DataFrame) and axis < value.ndim:
        index = value.axes[axis]
        index = None if isinstance(index, pd.RangeIndex) else index
    else:
        return None
    return None if index is None or isinstance(index, pd.MultiIndex) else list(index)


def _drawn_anew(
    model: pm.Model, leaves: Sequence[str], var_names: Sequence[str] | None, new: bool
) -> tuple[list[str], Sequence[str] | None]:
    """The free variables that are drawn anew, and the variables to predict: None for the observed ones alone."""
    if var_names is not None and not var_names:
        raise DataError("var_names is empty: name at least one variable, or leave it out")
    for name in var_names or ():
        if name not in model.named_vars:
            raise DataError(f"no variable {name!r} to predict; the model has {', '.join(model.named_vars)}")
    missing = _missing_entries(model) if new else {}
    anew = [*leaves, *(name for name in missing if name not in leaves)] if new or var_names is not None else []
    if var_names is None and anew:
        var_names = [*(str(rv.name) for rv in model.observed_RVs), *anew, *missing.values()]
    if var_names is None:
        _require_observed(model, "name Deterministics in var_names")
    return anew, var_names


def _require_observed(model: pm.Model, advice: str) -> None:
    if known_rows(model):
        raise ModelError(
            f"the rows of the model were added up; draw new ones with bk.Stream(build).predict(rows), or {advice}"
        )
    if not model.observed_RVs:
        also = f", and from a Potential ({model.potentials[0].name}) nothing is drawn" if model.potentials else ""
        raise ModelError(f"there is nothing to predict: the model has no observed variable{also}; {advice}")


def _missing_entries(model: pm.Model) -> dict[str, str]:
    """The variables of entries that were missing from the data, by PyMC's names, and those that they are a part of."""
    names = {str(rv.name): str(rv.name).removesuffix("_unobserved") for rv in model.free_RVs}
    return {n: whole for n, whole in names.items() if n != whole and f"{whole}_observed" in model.named_vars}


def _set_data(model: pm.Model, values: Mapping[str, np.ndarray], coords: Mapping[str, Any]) -> None:
    """Give containers new values, none of which may count entries from the end: −1 is a slip, not the last group."""
    picked = compile_small([], _indices(model, [model[name] for name in values]))
    before = [np.min(entries, initial=0) for entries in picked()]
    pm.set_data(dict(values), coords=dict(coords))
    for then, now in zip(before, picked() if before else (), strict=True):
        if (lowest := np.min(now, initial=0)) < 0 <= then:
            index = f"an index that follows from the new values of {', '.join(values)}"
            raise DataError(f"{index} is {lowest}: the first is 0")


def _indices(model: pm.Model, containers: Sequence[Graph]) -> list[Graph]:
    """The indices that follow from containers, and from nothing that is drawn."""
    found: dict[Graph, Graph] = {}
    for node in {v.owner for v in ancestors([*model.basic_RVs, *model.deterministics]) if v.owner is not None}:
        if isinstance(node.op, BaseSubtensor):
            first = 2 if isinstance(node.op, IncSubtensor | AdvancedIncSubtensor) else 1
            places = [(e.start, e.stop) if isinstance(e, slice) else (e,) for e in node.op.idx_list]
            for index in (node.inputs[first + k] for several in places for k in several if isinstance(k, int)):
                above = set(ancestors([index]))
                if above.intersection(containers) and not above.intersection(model.basic_RVs):
                    found[index] = pt.as_tensor_variable(index)
    return list(found.values())


CODE = "_code"  # what the container of a labelled dim's codes has after the name of the dim
SHOWN = 8  # labels that a message lists


def _labels_to_codes(data: Mapping[str, Any], containers: Mapping[str, Any], model: pm.Model) -> dict[str, Any]:
    """New data by container, with the labels of a dim turned into the codes that its container holds."""
    result: dict[str, Any] = {}
    for name, value in data.items():
        labels = model.coords.get(name)
        if name in containers or labels is None or f"{name}{CODE}" not in containers:
            result[name] = value
            continue
        if f"{name}{CODE}" in data:
            raise DataError(f"new rows have both {name!r} and {name + CODE!r}; give the labels or the codes")
        # Compared as text: the labels may be whole numbers, and text or numbers may be given for them.
        place = {str(label): code for code, label in enumerate(labels)}
        asked = [str(label).strip() for label in np.ravel(np.asarray(value, dtype=object))]
        for label in asked:
            if label not in place:
                known = ", ".join(list(place)[:SHOWN]) + (", …" if len(place) > SHOWN else "")
                raise DataError(
                    f"the new values of {name!r} have {label!r}, which the model was not fitted to; it knows {known}"
                )
        result[f"{name}{CODE}"] = np.array([place[label] for label in asked]).reshape(np.shape(value))
    return result


def _checked(
    name: str, value: Any, containers: Mapping[str, Any], model: pm.Model, leaves: Sequence[str]
) -> np.ndarray:
    """New values of one container as an array, or an error that says what does not fit."""
    if name not in containers:
        known = ", ".join(containers) or "none; wrap the covariates in pm.Data to predict at new ones"
        raise DataError(f"{name!r} is not a pm.Data container of the model; it has: {known}")
    array, old = numeric(f"the new values of {name!r}", value), containers[name].get_value(borrow=True)
    labels = model.coords.get(name.removesuffix(CODE)) if name.endswith(CODE) else None
    if labels is not None and array.size and not np.all((array >= 0) & (array < len(labels))):
        raise DataError(f"the new values of {name!r} are not all codes of a known label, 0 to {len(labels) - 1}")
    if array.ndim != old.ndim:
        raise DataError(f"the new values of {name!r} have {array.ndim} dimension(s); the model has {old.ndim}")
    fitted = [rv.name for rv in model.free_RVs if rv.name not in leaves]
    fixed = {d: n for n in fitted for d in model.named_vars_to_dims.get(n, ())}
    for dim, length, was in zip(model.named_vars_to_dims.get(name, ()), array.shape, old.shape, strict=False):
        if dim in fixed and length != was:
            what = f"the new values of {name!r} have length {length} along {dim!r}"
            raise DataError(f"{what}, but {fixed[dim]!r} was fitted with {was}")
    if not np.all(np.isfinite(array)) and np.all(np.isfinite(old)):
        raise DataError(f"the new values of {name!r} are not all finite: fill missing entries in, or drop their rows")
    return uncut(name, array, old.dtype)


def replicates(model: pm.Model, tree: xr.DataTree, random_seed: RandomSeed = None) -> xr.Dataset:
    """The observed variables drawn anew, one data set for each draw: all together where they can be, else by PyMC."""
    together = predicted_together(model, tree, random_seed)
    return predict(model, tree, {}, random_seed=random_seed) if together is None else together


def ensure_posterior_predictive(model: pm.Model, tree: xr.DataTree, *, random_seed: RandomSeed = None) -> xr.Dataset:
    """Posterior predictive draws, drawn once and kept in the tree."""
    if "posterior_predictive" not in tree.children:
        tree["posterior_predictive"] = xr.DataTree(replicates(model, tree, random_seed))
    return tree["posterior_predictive"].to_dataset()


def ensure_prior_predictive(
    model: pm.Model, tree: xr.DataTree, *, draws: int = 1000, random_seed: RandomSeed = None
) -> xr.Dataset:
    """Prior and prior predictive draws, drawn once and kept in the tree."""
    if "prior_predictive" not in tree.children:
        _require_observed(model, "pymc.sample_prior_predictive draws from its prior")
        require_room({str(rv.name): rv for rv in model.basic_RVs}, NOT_DRAWN)
        mode, seed = {"mode": small_mode()}, whole_seed(random_seed)
        with quiet():
            prior = pm.sample_prior_predictive(draws, model=model, random_seed=seed, compile_kwargs=mode)
        for group in ("prior", "prior_predictive"):
            if group in prior.children:
                tree[group] = prior[group]
    return tree["prior_predictive"].to_dataset()
