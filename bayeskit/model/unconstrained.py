"""The collapsed density as a function on R^k: the remaining variables moved by PyMC's transforms, Jacobian included.

    f(x) = log p(y, φ(x)) + log |dφ/dx|,   x ∈ R^k,   ∫ exp f(x) dx = p(y)

Evaluated for many x at once: the graph is vectorised over the points and runs in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small, stacked
from bayeskit.graphs.diagonal_matrices import diagonals_as_choices
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.instructions import one_by_one
from bayeskit.graphs.mvnormal_gradients import shared_factorisations
from bayeskit.graphs.rewriting import inline, widen, without_checks
from bayeskit.model.forward_sampling import prior_points
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph

__all__ = ["Objective", "Unconstrained", "calls_of", "forward_graphs", "negative_hessian", "weight_of"]

BATCH = 20_000_000  # numbers held at once

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]  # f and its gradient at one point


@dataclass(frozen=True, eq=False)
class Unconstrained:
    """A model's log density on its unconstrained scale.

    Attributes
    ----------
    model : pymc.Model
        Its free variables are continuous.
    weight : int
        About how many numbers the evaluation of one point holds.
    """

    model: pm.Model
    weight: int = 1

    @cached_property
    def variables(self) -> list[Graph]:
        """PyMC's value variables, one for each free variable."""
        return [self.model.rvs_to_values[rv] for rv in self.model.free_RVs]

    @cached_property
    def initial(self) -> dict[str, np.ndarray]:
        """PyMC's starting point, by value variable."""
        with lightly():
            return {k: np.asarray(v, dtype=float) for k, v in self.model.initial_point(0).items()}

    @cached_property
    def layout(self) -> VectorLayout:
        """Where each value variable lies in x."""
        return VectorLayout({str(v.name): self.initial[str(v.name)].shape for v in self.variables})

    @property
    def slices(self) -> dict[str, slice]:
        """The places of each value variable in x."""
        return self.layout.slices

    @property
    def size(self) -> int:
        """k."""
        return self.layout.size

    @property
    def start(self) -> np.ndarray:
        """PyMC's starting point as one vector."""
        return self.layout.ravel(self.initial)

    @cached_property
    def _graph(self) -> Graph:
        return without_checks(inline([self._log_density]))[0]

    @cached_property
    def _log_density(self) -> Any:
        # Constants such as the 5 of a HalfCauchy(5) are small integers, whose logarithm PyTensor takes in float32.
        return widen([self.model.logp(jacobian=True, sum=True)])[0]

    @cached_property
    def _density(self) -> Any:
        batched = self._batched
        return compile_small(list(batched.values()), vectorize_graph(diagonals_as_choices(self._graph), batched))

    @property
    def _batched(self) -> dict[Graph, Any]:
        return stacked(self.variables)

    def _arguments(self, points: np.ndarray) -> list[np.ndarray]:
        return list(self.layout.split(points).values())

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """f at points of shape (n, k); −∞ or not a number where the density is not defined.

        Raises
        ------
        ModelError
            If an assertion of the model's author fails at one of the points. It is not taken for a density of zero:
            that would be another model, its prior cut off where the assertion fails.
        """
        points = np.atleast_2d(np.asarray(points, dtype=float))
        step = max(1, BATCH // max(self.weight, 1))
        result = np.empty(len(points))
        for start in range(0, len(points), step):
            rows = slice(start, start + step)
            with silently():
                try:
                    result[rows] = self._density(*self._arguments(points[rows]))
                except tuple(self._assertions) as error:
                    reason = str(error).splitlines()[0]
                    raise ModelError(f"an assertion in the model fails where its prior has mass: {reason}") from error
        return result

    @cached_property
    def _assertions(self) -> set[type[Exception]]:
        return {
            v.owner.op.exc_type for v in ancestors([self._graph]) if v.owner and isinstance(v.owner.op, CheckAndRaise)
        }

    @cached_property
    def _gradient(self) -> Any:
        graph = self._log_density
        gradient: Any = pytensor.grad(graph, self.variables, disconnected_inputs="ignore")
        return compile_small(self.variables, shared_factorisations(without_checks(inline([graph, *gradient]))))

    def value_and_gradient(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """f and its gradient at one point."""
        with silently():
            value, *gradient = self._gradient(*self._arguments(np.asarray(point, dtype=float)))
        return float(value), np.concatenate([np.ravel(g) for g in gradient])

    @cached_property
    def _backward(self) -> Any:
        batched = self._batched
        natural: Any = self.model.replace_rvs_by_values(list(self.model.free_RVs))
        graphs = vectorize_graph(without_checks(inline(natural)), batched)
        return compile_small(list(batched.values()), graphs)

    def backward(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """φ on its own support at points of shape (n, k): one array a variable, first axis the points."""
        points = np.atleast_2d(np.asarray(points, dtype=float))
        values = self._backward(*self._arguments(points))
        return {str(rv.name): np.asarray(v) for rv, v in zip(self.model.free_RVs, values, strict=True)}

    def log_prior(self, points: np.ndarray) -> np.ndarray:
        """log of the prior density at x of shape (n, k), Jacobian included, without likelihood and Potentials."""
        prior: Any = self.model.logp(vars=self.model.free_RVs, jacobian=True, sum=True)
        graph = without_checks(inline(widen([prior])))[0]
        batched = self._batched
        function = compile_small(list(batched.values()), vectorize_graph(graph, batched))
        with silently():
            return np.asarray(function(*self._arguments(points)))

    def prior_draws(self, number: int, random_seed: int) -> np.ndarray:
        """x of draws from the prior, of shape (n, k); none where a variable has no prior that can be drawn from."""
        try:
            drawn = list(prior_points(self.model, number, random_seed))
        except (NotImplementedError, np.linalg.LinAlgError):
            return np.empty((0, self.size))
        with silently():
            points = np.array([self.forward(d) for d in drawn])
        return points[np.all(np.isfinite(points), axis=1)]

    @cached_property
    def _forward(self) -> Any:
        inputs, graphs = forward_graphs(self.model, self.model.free_RVs)
        return compile_small(inputs, graphs)

    def forward(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """x at one value of each variable."""
        found = self._forward(*(np.asarray(values[str(rv.name)], dtype=rv.type.dtype) for rv in self.model.free_RVs))
        return np.concatenate([np.ravel(f) for f in found])


def negative_hessian(objective: Objective, x: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """−∇²f at x, by fourth-order differences of the exact gradient that ``objective`` gives beside f."""
    rows = []
    for direction in np.eye(len(x)) * step:
        one, two = (objective(x + d)[1] - objective(x - d)[1] for d in (direction, 2 * direction))
        rows.append((8 * one - two) / (12 * step))
    matrix = -np.array(rows)
    return 0.5 * (matrix + matrix.T)


def forward_graphs(model: pm.Model, rvs: Sequence[Any]) -> tuple[list[Graph], list[Graph]]:
    """PyMC's transforms of some free variables: inputs for their values, and graphs of their value variables.

    Parameters
    ----------
    model : pymc.Model
    rvs : sequence of random variables
        Free variables, and those that the parameters of their transforms depend on.
    """
    known = {rv: pt.tensor(f"{rv.name}_known", dtype=rv.type.dtype, shape=rv.type.shape) for rv in rvs}
    graphs = []
    for rv, value in known.items():
        transform = model.rvs_to_transforms.get(rv)
        parents = [] if transform is None else clone_replace([*rv.owner.inputs], known, rebuild_strict=False)
        graphs.append(pt.as_tensor(value if transform is None else transform.forward(value, *parents)))
    return list(known.values()), graphs


def calls_of(graph: Graph) -> int:
    """How many matrices one evaluation handles one at a time, each for a few microseconds, by static shapes."""
    total = 0
    for variable in ancestors(inline([graph])):
        node = variable.owner
        if node is None or variable is not node.outputs[0] or not one_by_one(node):
            continue
        op: Any = node.op
        total += math.prod(n or 1 for n in variable.type.shape[: op.batch_ndim(node)])
    return total


def weight_of(model: pm.Model) -> int:
    """About how many numbers one evaluation of the density holds: those of its largest part, by static shapes."""
    graph = model.logp(jacobian=True, sum=True)
    shapes = [getattr(v.type, "shape", ()) for v in ancestors([graph])]
    return 100 + 4 * max(math.prod(n or 1 for n in s) for s in shapes)
