"""Observations that are written into a model as numbers, too, which new data in their place would not change.

So PyMC writes the observations of a Gaussian process into its conditional distribution at new inputs. Arrays of one
number repeated are not told from other constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors, graph_inputs

from bayeskit.model.data_slots import DataSlot, changed_copy, with_slots

__all__ = ["without_predictions_from_data", "written_elsewhere"]


def written_elsewhere(model: pm.Model, values: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Data that are also a constant of a model with slots, by name, with the first variable that is made of it."""
    found: dict[str, str] = {}
    for name, variable in _written(model, values):
        found.setdefault(name, variable)
    return found


def without_predictions_from_data(model: pm.Model) -> tuple[pm.Model, tuple[str, ...]]:
    """A copy of a model without the predictions that are made of observations, and the names of these.

    Such a variable holds them as numbers, or reads their container. It is left out where neither data nor a Potential
    depend on it: the posterior of the others is then what it was. A model without any is given back itself.
    """
    copy, _ = with_slots(model)
    slots = {v for rv in copy.observed_RVs if isinstance(v := copy.rvs_to_values[rv], DataSlot)}
    written = {name for _, name in _written(copy, {str(slot.name): slot.get_value() for slot in slots})}
    predictions = {rv for rv in copy.free_RVs if rv.name in written or slots.intersection(graph_inputs([rv]))}
    made_of_data = {
        v
        for v in (*copy.free_RVs, *copy.deterministics)
        if v.name in written or predictions.intersection(ancestors([v]))
    }
    left_out = {str(v.name) for v in made_of_data.difference(ancestors([*copy.observed_RVs, *copy.potentials]))}
    if not left_out:
        return model, ()

    def drop(graph: FunctionGraph) -> None:
        for place in reversed(range(len(graph.outputs))):
            if graph.outputs[place].name in left_out:
                graph.remove_output(place)

    return changed_copy(model, drop), tuple(sorted(left_out))


def _written(model: pm.Model, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, str]]:
    """Data and variables that are made of a constant which is the same."""
    held = {n: v for n, v in values.items() if v.dtype.kind in "iuf" and v.size > 1 and np.ptp(v) > 0}
    for variable in (*model.basic_RVs, *model.deterministics) if held else ():
        for leaf in graph_inputs([variable]):
            data = leaf.data if isinstance(leaf, Constant) else None
            for name, value in held.items():
                if isinstance(data, np.ndarray) and data.shape == value.shape and np.array_equal(data, value):
                    yield name, str(variable.name)
