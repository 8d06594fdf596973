"""Continuous variables between their own supports and PyMC's unconstrained scale, without its Jacobian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.rewriting import inline, widen
from bayeskit.model.unconstrained import forward_graphs
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph, Point

__all__ = ["Natural"]

FAR = 40.0  # on the unconstrained scale: the end of a support

ELEMENTWISE = (
    "LogTransform",
    "LogOddsTransform",
    "Interval",
    "IntervalTransform",
    "SimplexTransform",
    "CircularTransform",
)


class Natural:
    """Some variables of a model, and how PyMC moves them.

    Parameters
    ----------
    model : pymc.Model
    names : sequence of str
        Continuous free variables, whose transforms depend on each other at most.
    """

    def __init__(self, model: pm.Model, names: Sequence[str]) -> None:
        self.model, self.names = model, tuple(names)
        self.rvs: list[Any] = [model[n] for n in names]
        self.variables: list[Any] = [model.rvs_to_values[rv] for rv in self.rvs]
        with lightly():
            initial = model.initial_point(0)
        self.initial = [np.asarray(initial[v.name], dtype=float) for v in self.variables]

    def elementwise(self, name: str) -> bool:
        """Whether the support of each entry is an interval, its ends known in ``ends``."""
        return type(self.transform(name)).__name__ in ELEMENTWISE

    def transform(self, name: str) -> Any:
        """PyMC's transform of a variable, or None."""
        return self.model.rvs_to_transforms.get(self.model[name])

    @cached_property
    def layout(self) -> VectorLayout:
        """Where each variable lies in x."""
        return VectorLayout({n: i.shape for n, i in zip(self.names, self.initial, strict=True)})

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def start(self) -> np.ndarray:
        """PyMC's starting point as one vector."""
        return self.layout.ravel(dict(zip(self.names, self.initial, strict=True)))

    @cached_property
    def graphs(self) -> list[Graph]:
        """φ in PyMC's value variables."""
        natural: Any = self.model.replace_rvs_by_values(list(self.rvs))
        return inline(widen(list(natural)))

    @cached_property
    def _backward(self) -> Any:
        return compile_small(self.variables, self.graphs)

    @cached_property
    def _forward(self) -> Any:
        inputs, graphs = forward_graphs(self.model, self.rvs)
        return compile_small(inputs, graphs)

    def backward(self, x: np.ndarray) -> Point:
        """φ at x."""
        with silently():
            return dict(zip(self.names, map(np.asarray, self._backward(*self.layout.split(x).values())), strict=True))

    def forward(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """x at φ; infinite or not a number at an end of the support or outside it."""
        with silently():
            values = self._forward(*[np.asarray(point[n], dtype=float) for n in self.names])
        return self.layout.ravel(dict(zip(self.names, values, strict=True)))

    @cached_property
    def bounded(self) -> np.ndarray:
        """For each entry of x, whether its variable is transformed."""
        flags = [
            np.full(i.size, self.model.rvs_to_transforms.get(rv) is not None)
            for rv, i in zip(self.rvs, self.initial, strict=True)
        ]
        return np.concatenate(flags) if flags else np.empty(0, dtype=bool)

    @cached_property
    def ends(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The ends of the supports of variables each of whose entries is moved by itself."""
        low, high = (self.backward(np.where(self.bounded, sign * FAR, self.start)) for sign in (-1, 1))
        result = {}
        for name in self.names:
            if type(self.transform(name)).__name__ == "SimplexTransform":
                result[name] = (np.zeros_like(low[name]), np.ones_like(low[name]))
                continue
            if type(self.transform(name)).__name__ == "CircularTransform":
                result[name] = (np.full_like(low[name], -np.pi), np.full_like(low[name], np.pi))
                continue
            one, two = np.minimum(low[name], high[name]), np.maximum(low[name], high[name])
            one = np.where(np.abs(one) < np.exp(1 - FAR), 0.0, one)
            result[name] = (one, np.where(two > np.exp(FAR - 1), np.inf, two))
        return result
