"""Draws of what is observed next, given the finite latent variable that it depends on.

The state after the last is drawn from its own distribution, and the observation from the model's random variable with
the finite variable held at that state; of all its entries, the last is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.arguments import RandomSeed, whole_seed
from bayeskit.errors import ModelError
from bayeskit.finite.axis_dependence import EntriesMixed, connection
from bayeskit.finite.conditional import StateRecovery
from bayeskit.finite.discrete_distribution import draw_indices
from bayeskit.graphs.rewriting import apart_from_checks
from bayeskit.model.forward_sampling import draw_given
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.markov_chain import is_chain

__all__ = ["observe_next"]


def observe_next(
    joint: LogJoint,
    recovery: StateRecovery,
    parameters: Mapping[str, np.ndarray],
    number: int,
    dims: Sequence[str],
    steps: int,
    random_seed: RandomSeed,
) -> xr.Dataset:
    """Draws of the next states and observations, one of each for each of a ``number`` of draws of the parameters.

    ``joint`` is the density of the model as written, ``dims`` are those of the finite variable. ModelError if an
    observed variable does not follow its entries, or none depends on it.
    """
    summed = recovery.summed
    model = joint.model
    observed = _observed(joint, summed.name, summed.shape)
    rng = np.random.default_rng(whole_seed(random_seed))
    path = _path(model, recovery, parameters, number, steps, rng)
    found: dict[str, list[np.ndarray]] = {name: [] for name in observed}
    for step in range(steps):
        held = np.broadcast_to(path[:, step][..., None] if summed.shape else path[:, step], (number, *summed.shape))
        drawn = draw_given(model, list(observed), {**parameters, summed.name: held}, rng, number)
        for name, axis in observed.items():
            value = drawn[name]
            found[name].append(value if axis is None else np.take(value, -1, axis=axis + 1))
    front, rest = ("sample", "step_ahead"), tuple(dims[:-1])
    variables: dict[str, Any] = {summed.name: ((*front, *rest), path)}
    for name, values in found.items():
        stacked = np.stack(values, axis=1)
        further = tuple(f"{name}_dim_{i}" for i in range(stacked.ndim - 2))
        variables[name] = ((*front, *further), stacked)
    return xr.Dataset(variables, coords={"step_ahead": np.arange(1, steps + 1)}, attrs={"label": "estimated"})


def _observed(joint: LogJoint, name: str, shape: tuple[int, ...]) -> dict[str, int | None]:
    """The observed variables that depend on a finite one, and the axis along which they follow its last axis."""
    result: dict[str, int | None] = {}
    for rv in joint.model.observed_RVs:
        if name not in joint.scopes[rv.name]:
            continue
        graph, _, _ = apart_from_checks(joint.factors[rv.name])
        try:
            axes, _ = connection(graph, joint.values[name], shape)
        except EntriesMixed as error:
            raise ModelError(f"{rv.name!r} does not follow the entries of {name!r} one by one: {error}") from None
        along = [i for i, axis in enumerate(axes) if axis is not None and axis.axis == len(shape) - 1]
        result[str(rv.name)] = along[0] if along else None
    if not result:
        raise ModelError(f"no observed variable depends on {name!r}")
    return result


def _path(
    model: pm.Model,
    recovery: StateRecovery,
    parameters: Mapping[str, np.ndarray],
    number: int,
    steps: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """States of the next steps: (number, steps, *batch)."""
    summed = recovery.summed
    if summed.kind != "chain" and is_chain(model[summed.name]):
        raise ModelError(
            f"{summed.name!r} was enumerated as a whole, because other variables couple its steps or it looks back "
            "more than one: what follows its last step is not known in closed form"
        )
    if summed.kind != "chain":
        drawn = [draw_given(model, [summed.name], parameters, rng, number)[summed.name] for _ in range(steps)]
        return np.stack([d[..., -1] if summed.shape else d for d in drawn], axis=1)
    recovery.require_steady()
    now = recovery.draw(parameters, number, rng)[..., -1]
    transition = np.concatenate([np.exp(terms[2][..., 0, :, :]) for _, terms in recovery.terms(parameters, number)])
    transition = np.broadcast_to(transition, (*now.shape, *transition.shape[-2:]))
    path = []
    for _ in range(steps):
        now = draw_indices(np.take_along_axis(transition, now[..., None, None], axis=-2)[..., 0, :], rng)
        path.append(now)
    return np.stack(path, axis=1)
