"""The collapsed density as a function on R^k: the remaining variables moved by PyMC's transforms, Jacobian included.

    f(x) = log p(y, φ(x)) + log |dφ/dx|,   x ∈ R^k,   ∫ exp f(x) dx = p(y)

Evaluated for many x at once: the graph is vectorised over the points and runs in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.diagonal_matrices import diagonals_as_choices
from bayeskit.graphs.environment import silently
from bayeskit.graphs.instructions import one_by_one
from bayeskit.graphs.mvnormal_gradients import shared_factorisations
from bayeskit.graphs.rewriting import inline, widen, without_checks
from bayeskit.graphs.stable_logistic import stable_logistics
from bayeskit.model.forward_sampling import draws_together, prior_points
from bayeskit.model.transforms import Natural
from bayeskit.types import Graph

__all__ = [
    "Evaluations",
    "Objective",
    "Unconstrained",
    "calls_of",
    "count_evaluations",
    "evaluations_counted",
    "in_coordinates",
    "negative_hessian",
]

BATCH = 1_000_000  # numbers held at once: of twice as many, a logistic regression took twice as long, for memory
NOWHERE = -1e12  # nats of a prior density, which no data make up for: a billion rows of a thousand each would have to
TOGETHER = 20_000_000  # numbers in draws from the prior that are made at once
MANY = 100  # draws from the prior that are made together

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]  # f and its gradient at one point


class Evaluations:
    """How often a density was evaluated, with or without its gradient."""

    number: int = 0


_COUNTED: ContextVar[Evaluations | None] = ContextVar("counted", default=None)


@contextmanager
def evaluations_counted() -> Iterator[Evaluations]:
    """Within it all evaluations of densities of this thread are counted."""
    count = Evaluations()
    token = _COUNTED.set(count)
    try:
        yield count
    finally:
        _COUNTED.reset(token)
        count_evaluations(count.number)  # what is done within is done around it, too


def count_evaluations(number: int) -> None:
    """Of a density that is evaluated by other means than those of :class:`Unconstrained`."""
    if (count := _COUNTED.get()) is not None:
        count.number += number


class Unconstrained(Natural):
    """The log density of a model with continuous free variables, on its unconstrained scale.

    ``weight`` is about how many numbers the evaluation of one point computes with; None for those of its largest part.
    ``held`` are those that are there at the same time, where these are fewer. ``compiled`` gives f and its gradient at
    one point, where the graph is not to be evaluated.
    """

    def __init__(
        self, model: pm.Model, weight: int | None = 1, compiled: Objective | None = None, held: int | None = None
    ) -> None:
        super().__init__(model, [str(rv.name) for rv in model.free_RVs])
        self._weight, self._compiled, self._held = weight, compiled, held

    @cached_property
    def weight(self) -> int:
        """As it was given, or by static shapes."""
        shapes = [] if self._weight else [getattr(v.type, "shape", ()) for v in ancestors([self._log_density])]
        return self._weight or 100 + 4 * max(math.prod(n or 1 for n in s) for s in shapes)

    @cached_property
    def graph(self) -> Graph:
        """f, without the checks of parameters."""
        return without_checks(inline([self._log_density]))[0]

    @cached_property
    def _log_density(self) -> Any:
        # Constants such as the 5 of a HalfCauchy(5) are small integers, whose logarithm PyTensor takes in float32.
        return stable_logistics(widen([self.model.logp(jacobian=True, sum=True)]))[0]

    @cached_property
    def _density(self) -> Any:
        return self.over_points(diagonals_as_choices(self.graph))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """f at points of shape (n, k); −∞ or not a number where the density is not defined.

        An assertion of the model's author that fails at one of the points is an error. It is not taken for a density of
        zero: that would be another model, its prior cut off where the assertion fails.
        """
        points = np.atleast_2d(np.asarray(points, dtype=float))
        count_evaluations(len(points))
        if self._compiled is not None and not self._assertions:
            return np.array([self._compiled(point)[0] for point in points])
        step = max(1, BATCH // max(self._held or self.weight, 1))
        result, possible = np.full(len(points), -np.inf), np.arange(len(points))
        if self._held is not None and self._held < self.weight:  # a search goes to where a scale is 1e40
            possible = possible[~(self.log_prior(points) < NOWHERE)]
        for start in range(0, len(possible), step):
            rows = possible[start : start + step]
            with silently():
                try:
                    result[rows] = self._density(*self.arguments(points[rows]))
                except tuple(self._assertions) as error:
                    reason = str(error).splitlines()[0]
                    raise ModelError(f"an assertion in the model fails where its prior has mass: {reason}") from error
        return result

    @cached_property
    def _assertions(self) -> set[type[Exception]]:
        nodes = [v.owner for v in ancestors([self.graph]) if v.owner]
        return {n.op.exc_type for n in nodes if isinstance(n.op, CheckAndRaise)}

    @cached_property
    def _gradient(self) -> Any:
        graph = self._log_density
        gradient: Any = pytensor.grad(graph, self.variables, disconnected_inputs="ignore")
        return compile_small(self.variables, shared_factorisations(without_checks(inline([graph, *gradient]))))

    def value_and_gradient(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """f and its gradient at one point."""
        count_evaluations(1)
        if self._compiled is not None:
            return self._compiled(point)
        with silently():
            value, *gradient = self._gradient(*self.arguments(point))
        return float(value), np.concatenate([np.ravel(g) for g in gradient])

    @cached_property
    def _prior(self) -> Any:
        prior: Any = self.model.logp(vars=self.model.free_RVs, jacobian=True, sum=True)
        return self.over_points(without_checks(inline(widen([prior])))[0])

    def log_prior(self, points: np.ndarray) -> np.ndarray:
        """log of the prior density at x of shape (n, k), Jacobian included, without likelihood and Potentials."""
        with silently():
            return np.asarray(self._prior(*self.arguments(points)))

    def prior_draws(self, number: int, random_seed: int) -> np.ndarray:
        """x of draws from the prior, of shape (n, k); none where a variable has no prior that can be drawn from."""
        many = MANY <= number <= TOGETHER / self.weight
        try:
            if many and (together := draws_together(self.model, number, random_seed)) is not None:
                points = self.forward_over(together, number)
            else:
                points = np.array([self.forward(d) for d in prior_points(self.model, number, random_seed)])
        except NotImplementedError:
            return np.empty((0, self.size))
        return points[np.all(np.isfinite(points), axis=1)]


def in_coordinates(objective: Objective, centre: np.ndarray, root: np.ndarray) -> Objective:
    """f as a function of z with x = centre + root · z, and its gradient with respect to z."""

    def moved(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(centre + root @ z)
        return value, root.T @ slope

    return moved


def negative_hessian(objective: Objective, x: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """−∇²f at x, by fourth-order differences of the exact gradient that ``objective`` gives beside f."""
    rows = []
    for direction in np.eye(len(x)) * step:
        one, two = (objective(x + d)[1] - objective(x - d)[1] for d in (direction, 2 * direction))
        rows.append((8 * one - two) / (12 * step))
    matrix = -np.array(rows)
    return 0.5 * (matrix + matrix.T)


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
