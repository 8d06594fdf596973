"""Whether models explain the same data: equal values, of which each has a probability in all of them or a density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
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
from bayeskit.model.snapshot import on_its_data, written_down
from bayeskit.model.summed_likelihood import SummedRows, known_rows
from bayeskit.queries.class_rows import whole_rows
from bayeskit.results.records import Posterior

__all__ = ["observed_values", "require_same_data"]

JUMP = 1e-6  # of a log density between values next to each other, relative to it


@written_down
@on_its_data
def observed_values(given: pm.Model | Posterior) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Observed values by variable, with which have a probability and not a density: none where that is not known."""
    model = given.model if isinstance(given, Posterior) else given
    if rows := known_rows(model):
        return {n: (np.full(0 if r.discrete is None else 3, bool(r.discrete)), r.numbers) for n, r in rows.items()}
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
    (first, reference), *others = _all_values(models).items()
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
            if any(map(_are_added_up, models.values())) and not np.array_equal(values, other_values):
                counts = f"{values[0]:,.0f} and {other_values[0]:,.0f} rows of {variable} were added up"
                raise ModelError(f"{pair}: {counts}, and they are not the same; {advice}")
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


def _all_values(models: Mapping[str, pm.Model | Posterior]) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Observed values by model and variable; what is known of their rows, where those of some model were added up."""
    found = {name: observed_values(model) for name, model in models.items()}
    summed = {n for n, given in models.items() if _are_added_up(given)}
    for name in found.keys() - summed if summed else ():
        for variable, (atoms, values) in found[name].items():
            same = atoms.size and (atoms.all() or not atoms.any())
            own = SummedRows.of(values, bool(atoms.flat[0]) if same else None)
            found[name][variable] = (np.full(3 if same else 0, own.discrete is True), own.numbers)
    return found


def _are_added_up(given: pm.Model | Posterior) -> bool:
    return bool(known_rows(given.model if isinstance(given, Posterior) else given))


def _by_content(observed: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    return sorted(observed, key=lambda name: (observed[name][1].shape, *(v.tobytes() for v in observed[name][::-1])))
