"""Marginal posteriors of an answer by quadrature: grids for what remains, mixtures for what was eliminated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import transforms
from pytensor.graph.traversal import ancestors

from bayeskit.elimination.recovery import Recovery, state_marginals
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.inference.methods import Request
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.change_of_variable import OntoInterval
from bayeskit.quadrature.grid_distribution import GridDensity
from bayeskit.quadrature.integrate import Quadrature
from bayeskit.quadrature.mixture_distribution import MixtureDensity
from bayeskit.quadrature.overlap import overlapping_components
from bayeskit.results.marginals import Marginal, labels_of

__all__ = ["NEGLIGIBLE", "quadrature_marginals", "transforms_of"]

ENDS = {
    transforms.LogTransform: OntoInterval(0.0),
    transforms.LogExpM1: OntoInterval(0.0, soft=True),
    transforms.LogOddsTransform: OntoInterval(0.0, 1.0),
}
NEGLIGIBLE = 1e-8  # weight of the nodes left out of the marginals of eliminated variables, in all


def transforms_of(space: Unconstrained, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, OntoInterval]:
    """The transforms of the variables whose entries they move each by itself."""
    found = {name: _transform(space.model, rv) for name, rv in zip(space.names, space.rvs, strict=True)}
    return {n: onto for n, onto in found.items() if onto is not None and space.initial[n].shape == shapes[n]}


def quadrature_marginals(
    request: Request, recovery: Recovery, space: Unconstrained, onto: Mapping[str, OntoInterval], result: Quadrature
) -> dict[str, Marginal]:
    """Of what remains, densities on a grid; of what was eliminated, mixtures over the nodes of the rule."""
    densities: dict[str, tuple[Any, str]] = {}
    for name, transform in onto.items() if result.marginals else ():
        axes = np.empty(space.initial[name].shape, dtype=object)
        axes.reshape(-1)[:] = result.marginals[space.slices[name]]
        densities[name] = GridDensity(axes, transform), "quadrature"
    overlapping = overlapping_components(result, NEGLIGIBLE, lambda at: recovery.marginals(space.backward(at)))
    for name, (shares, components) in overlapping.items():
        densities[name] = MixtureDensity(shares, components), "mixture"
    points, weights = result.nodes(NEGLIGIBLE)
    remaining = space.backward(points)
    for name, probabilities in state_marginals(recovery.collapsed.analysis, remaining, weights).items():
        densities[name] = probabilities, "categorical"
    return {
        n: Marginal(n, *densities[n], *labels_of(n, request.model), label="quadrature")
        for n in request.analysis.original.names
        if n in densities
    }


def _transform(model: pm.Model, rv: Any) -> OntoInterval | None:
    """The transform onto an interval that acts on each entry alike; else None."""
    transform = model.rvs_to_transforms.get(rv)
    if transform is None:
        return OntoInterval()
    if not isinstance(transform, transforms.Interval):
        return ENDS.get(type(transform))
    low, high = transform.args_fn(*rv.owner.inputs)
    ends = [pt.as_tensor(-np.inf if low is None else low), pt.as_tensor(np.inf if high is None else high)]
    if {*model.free_RVs} & {*ancestors(ends)}:
        return None
    with silently():
        below, above = (np.unique(end) for end in compile_small([], ends)())
    return OntoInterval(float(below[0]), float(above[0])) if below.size == above.size == 1 else None
