"""Parameters drawn from the prior of a model, and data of the same shapes as its own, drawn given them.

What is drawn is a model's joint distribution, so each parameter lies in the posterior given its data as a draw from it.
Entries that are missing in the data of the model are parameters, and stay missing; data containers keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar.basic import Cast
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.elimination.analysis import Analysis
from bayeskit.errors import InferenceError, ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.marginal_likelihood.conventions import audit
from bayeskit.model.data_slots import DataSlot, with_slots
from bayeskit.model.forward_sampling import generative_sampler
from bayeskit.model.support import has_own_transform

__all__ = ["Simulated", "observed_slots", "simulator"]


@dataclass(frozen=True, eq=False)
class Simulated:
    """One draw from a model: its free variables, and what is observed of it."""

    parameters: dict[str, np.ndarray]
    data: dict[str, np.ndarray]


def simulator(analysis: Analysis) -> Callable[[np.random.Generator], Simulated]:
    """A function that draws parameters and data of a model.

    Raises
    ------
    ModelError
        If PyMC does not draw from the distribution that the model's density is of: improper priors, Potentials,
        transforms that leave a part of a prior; if nothing is observed, or the observed values are a predictor, too.
    """
    model = analysis.original.model
    if not model.observed_RVs:
        raise ModelError("the model has no observed variable, so there are no data to draw")
    slots = observed_slots(model)
    checked = audit(analysis)
    if checked.potentials:
        raise ModelError(
            f"the Potential {checked.potentials[0]} is part of the density, and nothing can be drawn from it: write it "
            "as a distribution (pymc.Truncated, pymc.Censored, pymc.CustomDist with random=...)"
        )
    if checked.reason:
        raise ModelError(f"the prior cannot be drawn from: {checked.reason}; give every variable a proper prior")
    for mass in checked.masses:
        if not mass.exchangeable and not has_own_transform(model, model[mass.variable]):
            raise ModelError(
                f"the prior of {mass.variable} is what a transform leaves of it, and PyMC draws from the whole: write "
                "the restriction as a distribution (pymc.Truncated) without the transform; entries in order can be "
                "drawn where their prior is one for all of them"
            )
    free = {str(rv.name) for rv in model.free_RVs}
    with lightly():
        draw_all = generative_sampler(model, checked.one_ordering)

    def draw(rng: np.random.Generator) -> Simulated:
        try:
            drawn = draw_all(rng)
        except NotImplementedError as error:
            raise ModelError(
                f"the model cannot be drawn from: {str(error).splitlines()[0]}; give it random=..."
            ) from error
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            # A Gamma draw of 1e-400 is zero, and what is divided by it has no draw.
            raise InferenceError(f"no data could be drawn: {str(error).splitlines()[0]}") from error
        for name, values in drawn.items():
            if not np.all(np.isfinite(values)):
                raise InferenceError(f"no data could be drawn: {name} is not finite")
        parameters = {n: v for n, v in drawn.items() if n in free}
        return Simulated(parameters, {n: _held(n, drawn[n], slot) for n, slot in slots.items()})

    return draw


def _held(name: str, drawn: np.ndarray, slot: DataSlot) -> np.ndarray:
    """What was drawn, as its slot holds it: true and false are no counts."""
    held = drawn.astype(slot.type.dtype)
    if drawn.dtype.kind != "f" and not np.array_equal(held, drawn):
        raise ModelError(f"{name}: a draw of it is more than the data container {slot.name!r} of {held.dtype} can hold")
    return held


def observed_slots(model: pm.Model) -> dict[str, DataSlot]:
    """Of each observed variable the slot of its data: its own, or that of a container that PyMC casts."""
    slots = with_slots(model)[1]
    found: dict[str, DataSlot] = {}
    read = _read(model.basic_RVs)
    for rv in model.observed_RVs:
        value = model.rvs_to_values[rv]
        while value.owner is not None and isinstance(getattr(value.owner.op, "scalar_op", None), Cast):
            (value,) = value.owner.inputs
        name = next((n for n in (rv.name, value.name) if n in slots), None)
        if name is None:
            raise ModelError(
                f"the data of {rv.name} are computed from others, which new data would not be: observe an array, or a "
                "pm.Data container of its own"
            )
        if value in read and not isinstance(value, Constant):
            raise ModelError(f"the data of {rv.name} are a predictor, too: give the predictor a container of its own")
        if rv.dtype.startswith("float") and not (held := slots[name].type.dtype).startswith("float"):
            what = f"the data container {name!r} holds {held}, and draws of {rv.name} are real numbers"
            raise ModelError(f"{what}: give it an array of floats")
        found[str(rv.name)] = slots[name]
    return found


def _read(graphs: Sequence[Variable]) -> set[Variable]:
    """All that graphs read the values of: not what gives them a shape only, which other data have, too."""
    found: set[Variable] = set()
    left = list(graphs)
    while left:
        variable = left.pop()
        if variable in found:
            continue
        found.add(variable)
        if variable.owner is not None and not isinstance(variable.owner.op, Shape | Shape_i):
            left += variable.owner.inputs
    return found
