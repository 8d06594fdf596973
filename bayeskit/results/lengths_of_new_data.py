"""What is said of new data: their number of rows, which a variable does not follow for want of dims, and their past."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_observations
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.random.basic import MvNormalRV

from bayeskit.graphs.nodes import core_op

__all__ = ["advice_on_lengths", "note_on"]


def advice_on_lengths(model: pm.Model, values: Mapping[str, np.ndarray], error: Exception) -> str:
    """What to write where the number of rows changes and an observed variable has no dims that would tell it."""
    if isinstance(error, IndexError):
        return "; an index among them, of a group say, is of none that the model was fitted with"
    loose, changed = _without_dims(model), _of_other_length(model, values)
    if not (loose and changed):
        return ""
    return f"; {loose[0]} keeps the length that it was observed with: give it dims that {changed[0]} has too"


def note_on(model: pm.Model, values: Mapping[str, np.ndarray], drawn: xr.Dataset) -> str:
    """What is to be said of variables that were drawn at new values of containers; empty where there is nothing."""
    return "; ".join(filter(None, (_of_rows(model, values, drawn), _of_processes(model, values, drawn))))


def _of_rows(model: pm.Model, values: Mapping[str, np.ndarray], drawn: xr.Dataset) -> str:
    """That one new row was given to all entries of a variable, which kept the length that it was observed with."""
    single = [name for name in _of_other_length(model, values) if len(values[name]) == 1]
    kept = [n for n in _without_dims(model) if n in drawn and drawn[n].ndim > 2 and drawn[n].shape[2] > 1]
    if not (single and kept):
        return ""
    return (
        f"one new row of {single[0]} was given to all {drawn[kept[0]].shape[2]} entries of {kept[0]}, which has no "
        f"dims and keeps the length that it was observed with: give it dims that {single[0]} has too"
    )


def _of_processes(model: pm.Model, values: Mapping[str, np.ndarray], drawn: xr.Dataset) -> str:
    """That a process at new places, whose covariance says nothing of the old ones, is not the one that was fitted.

    ``pm.gp.Marginal`` with no parameters, fitted to a constant 5, would be predicted as 0: the mean of its prior.
    """
    old = {name: model[name].get_value(borrow=True) for name in values}
    observations = find_observations(model)
    changed = {model[n]: n for n, v in values.items() if v.ndim and not np.array_equal(v, old[n])}
    for rv in [rv for rv in model.observed_RVs if rv.name in drawn and isinstance(rv.owner.op, MvNormalRV)]:
        covariance, rows = rv.owner.op.dist_params(rv.owner)[-1], observations[str(rv.name)].shape[-1]
        places = [v for v in ancestors([covariance]) if v in changed and len(old[changed[v]]) == rows]
        places = [v for v in places if old[changed[v]].shape != (rows, rows)]  # what is no matrix of covariances itself
        # A diagonal ties no entry to another: errors that are known, of each row its own.
        if places and not isinstance(core_op(covariance.owner), AllocDiag):
            return (
                f"{rv.name} at new {changed[places[0]]} was drawn given the parameters alone: its covariance has no "
                "tie to the observed values; what they say of new places is a gp.conditional in the model"
            )
    return ""


def _without_dims(model: pm.Model) -> list[str]:
    observed = (str(rv.name) for rv in model.observed_RVs)
    return [name for name in observed if not any(model.named_vars_to_dims.get(name) or ())]


def _of_other_length(model: pm.Model, values: Mapping[str, np.ndarray]) -> list[str]:
    """The containers whose new values differ from the old in the number of rows, and in nothing else."""
    old = {name: model[name].get_value(borrow=True).shape for name in values}
    return [n for n, v in values.items() if v.ndim and v.shape[1:] == old[n][1:] and len(v) != old[n][0]]
