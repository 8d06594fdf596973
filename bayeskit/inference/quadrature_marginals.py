"""Marginal posteriors of an answer by quadrature: grids for what remains, mixtures for what was eliminated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from bayeskit.elimination.recovery import Recovery, state_marginals
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.prior_integral import INCREASING
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.grid_distribution import GridDensity
from bayeskit.quadrature.integrate import Quadrature
from bayeskit.quadrature.mixture_distribution import MixtureDensity
from bayeskit.results.marginals import Marginal, labels_of
from bayeskit.types import ArrayFunction

__all__ = ["Transform", "quadrature_marginals", "transforms_of"]

# Forward, backward, log |dx/dy| and the support.
Transform = tuple[ArrayFunction, ArrayFunction, ArrayFunction, tuple[float, float]]

NEGLIGIBLE = 1e-8  # weight of the nodes left out of the marginals of eliminated variables, in all


def transforms_of(space: Unconstrained, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Transform]:
    """The transforms of the variables whose entries they move each by itself."""
    result = {}
    for name, rv in zip(space.names, space.rvs, strict=True):
        functions = _transform(space.model, rv)
        if functions is not None and space.initial[name].shape == shapes[name]:
            result[name] = functions
    return result


def quadrature_marginals(
    request: Request,
    recovery: Recovery,
    space: Unconstrained,
    transforms: Mapping[str, Transform],
    result: Quadrature,
) -> dict[str, Marginal]:
    """Of what remains, densities on a grid; of what was eliminated, mixtures over the nodes of the rule."""
    densities: dict[str, tuple[Any, str]] = {}
    for name in transforms:
        axes = np.empty(space.initial[name].shape, dtype=object)
        axes.reshape(-1)[:] = result.marginals[space.slices[name]]
        densities[name] = GridDensity(axes, *transforms[name]), "quadrature"
    points, weights = result.nodes(NEGLIGIBLE)
    remaining = space.backward(points)
    for name, components in recovery.marginals(remaining).items():
        densities[name] = MixtureDensity(weights, components), "mixture"
    for name, probabilities in state_marginals(recovery.collapsed.analysis, remaining, weights).items():
        densities[name] = probabilities, "categorical"
    return {
        n: Marginal(n, *densities[n], *labels_of(n, request.model), label="quadrature")
        for n in request.analysis.original.names
        if n in densities
    }


def _transform(model: pm.Model, rv: Any) -> Transform | None:
    """A monotone transform that acts on each entry alike; else None."""
    transform = model.rvs_to_transforms.get(rv)
    if transform is None:
        return (lambda y: y), (lambda x: x), np.zeros_like, (-np.inf, np.inf)
    if not isinstance(transform, INCREASING):
        return None
    others = set(model.free_RVs) - {rv}
    constants: list[Any] = []
    for parameter in rv.owner.inputs:
        if not hasattr(parameter.type, "dtype"):
            constants.append(parameter)
            continue
        if others & set(ancestors([parameter])):
            return None
        value = np.asarray(compile_small([], parameter)())
        if value.size and np.any(value != value.flat[0]):
            return None
        constants.append(pt.constant(value.flat[0] if value.size else value))
    x = pt.vector("x")
    forward = compile_small([x], transform.forward(x, *constants))
    backward = compile_small([x], transform.backward(x, *constants))
    slope = compile_small([x], -transform.log_jac_det(transform.forward(x, *constants), *constants))

    def on_any_shape(function: Any) -> ArrayFunction:
        def call(values: np.ndarray) -> np.ndarray:
            values = np.asarray(values, dtype=float)
            with silently():
                return np.asarray(function(values.ravel())).reshape(values.shape)

        return call

    with silently():
        ends = np.sort(np.asarray(backward(np.array([-1e3, 1e3]))))
    support = (float(ends[0]), float(ends[1]) if ends[1] < 1e100 else np.inf)
    return on_any_shape(forward), on_any_shape(backward), on_any_shape(slope), support
