"""Continuous variables between their own supports and PyMC's unconstrained scale, without its Jacobian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.initial_point import make_initial_point_expression
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType

from bayeskit.graphs.compile import compile_small, compile_stacked
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.rewriting import inline, widen, without_checks
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph, Point

__all__ = ["Natural", "forward_graphs"]

FAR = 40.0  # on the unconstrained scale: the end of a support
ENDS = {"SimplexTransform": (0.0, 1.0), "CircularTransform": (-np.pi, np.pi)}  # that a walk to FAR does not find
ELEMENTWISE = ("LogTransform", "LogOddsTransform", "Interval", "IntervalTransform", *ENDS)


class Natural:
    """Some continuous variables of a model, whose transforms depend on each other at most, and how PyMC moves them.

    φ is on the supports, by name; x is one vector on the unconstrained scale, of k entries.
    """

    def __init__(self, model: pm.Model, names: Sequence[str]) -> None:
        self.model, self.names = model, tuple(names)
        self.rvs: list[Any] = [model[n] for n in self.names]
        self.variables: list[Any] = [model.rvs_to_values[rv] for rv in self.rvs]

    def transform(self, name: str) -> Any:
        """PyMC's transform of a variable, or None."""
        return self.model.rvs_to_transforms.get(self.model[name])

    def elementwise(self, name: str) -> bool:
        """Whether the support of each entry is an interval, its ends known in ``ends``."""
        return type(self.transform(name)).__name__ in ELEMENTWISE

    @cached_property
    def initial(self) -> dict[str, np.ndarray]:
        """PyMC's starting point, on the unconstrained scale.

        PyMC compiles a function for it, four times as long as it takes to run the graphs as they stand. Where a start
        is drawn from the prior, it is PyMC that seeds the draw.
        """
        model = self.model
        with lightly():
            graphs = make_initial_point_expression(
                free_rvs=model.free_RVs,
                rvs_to_transforms=model.rvs_to_transforms,
                initval_strategies=model.rvs_to_initial_values,
                return_transformed=True,
            )
            if any(isinstance(v.type, RandomType) for v in ancestors(graphs)):
                start = model.initial_point(0)
            else:
                names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
                start = dict(zip(names, compile_small([], graphs)(), strict=True))
        return {n: np.asarray(start[v.name], dtype=float) for n, v in zip(self.names, self.variables, strict=True)}

    @cached_property
    def layout(self) -> VectorLayout:
        """Where each variable lies in x."""
        return VectorLayout({n: i.shape for n, i in self.initial.items()})

    @property
    def slices(self) -> dict[str, slice]:
        """The places of each variable in x."""
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
    def bounded(self) -> np.ndarray:
        """For each entry of x, whether its variable is transformed."""
        moved = {n: np.full(i.shape, self.transform(n) is not None) for n, i in self.initial.items()}
        return self.layout.ravel(moved).astype(bool)

    @cached_property
    def graphs(self) -> list[Graph]:
        """φ in PyMC's value variables."""
        natural: Any = self.model.replace_rvs_by_values(list(self.rvs))
        return inline(widen(list(natural)))

    def arguments(self, points: np.ndarray) -> list[np.ndarray]:
        """The value variables at x of shape (..., k)."""
        return list(self.layout.split(np.asarray(points, dtype=float)).values())

    def over_points(self, graphs: Any) -> Any:
        """Graphs in the value variables as a function of their values at many points, first axis the points."""
        return compile_stacked(self.variables, graphs)

    @cached_property
    def _backward(self) -> Any:
        return self.over_points(without_checks(self.graphs))

    def backward(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """φ at points of shape (n, k): one array a variable, first axis the points."""
        with silently():
            values = self._backward(*self.arguments(np.atleast_2d(points)))
        return dict(zip(self.names, map(np.asarray, values), strict=True))

    def at(self, x: np.ndarray) -> Point:
        """φ at one x."""
        return {n: v[0] for n, v in self.backward(x).items()}

    @cached_property
    def _forward(self) -> Any:
        return compile_small(*forward_graphs(self.model, self.rvs))

    def forward(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """x at one φ; infinite or not a number at an end of the support or outside it."""
        with silently():
            pairs = zip(self.names, self.rvs, strict=True)
            values = self._forward(*[np.asarray(point[n], v.type.dtype) for n, v in pairs])
        return self.layout.ravel(dict(zip(self.names, values, strict=True)))

    def forward_over(self, draws: Mapping[str, np.ndarray], number: int) -> np.ndarray:
        """x of shape (n, k) at draws of φ, first axis the draws."""
        inputs, graphs = forward_graphs(self.model, self.rvs)
        function = compile_stacked(inputs, graphs)
        with silently():
            values = function(*[np.asarray(draws[n], v.type.dtype) for n, v in zip(self.names, inputs, strict=True)])
        return np.concatenate([np.reshape(v, (number, -1)) for v in values], axis=1)

    @cached_property
    def ends(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The ends of the supports of variables each of whose entries is moved by itself."""
        low, high = (self.at(np.where(self.bounded, sign * FAR, self.start)) for sign in (-1, 1))
        result = {}
        for name in self.names:
            if (known := ENDS.get(type(self.transform(name)).__name__)) is not None:
                result[name] = (np.full_like(low[name], known[0]), np.full_like(low[name], known[1]))
                continue
            one, two = np.minimum(low[name], high[name]), np.maximum(low[name], high[name])
            one = np.where(np.abs(one) < np.exp(1 - FAR), 0.0, one)
            result[name] = (one, np.where(two > np.exp(FAR - 1), np.inf, two))
        return result


def forward_graphs(model: pm.Model, rvs: Sequence[Any]) -> tuple[list[Graph], list[Graph]]:
    """PyMC's transforms of some free variables: inputs for their values, and graphs of their value variables.

    The parameters of the transforms depend on these variables at most.
    """
    known = {rv: pt.TensorType(rv.type.dtype, rv.type.shape)(f"{rv.name}_known") for rv in rvs}
    graphs = []
    for rv, value in known.items():
        transform = model.rvs_to_transforms.get(rv)
        parents = [] if transform is None else clone_replace([*rv.owner.inputs], known, rebuild_strict=False)
        graphs.append(pt.as_tensor(value if transform is None else transform.forward(value, *parents)))
    return list(known.values()), graphs
