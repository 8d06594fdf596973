"""Proof that a graph is a polynomial of degree at most two in a set of real variables.

A log density that is quadratic in θ on the whole real space is Gaussian in θ, whatever it was written as. The proof
walks the graph once and gives every node an upper bound of its degree: 0 where θ does not enter, 1 where the node is
affine in θ, 2 where it is quadratic, infinite where nothing is known. It is sound for every value of θ, unlike
trial points: a mean clipped at 1e6 or bent by 1e-9·θ³ is seen however far from the data it happens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.operations import coefficients, exponents, linear_argument, parts
from bayeskit.types import Graph

__all__ = ["degrees"]


class _Degree(GraphAnalysis[float]):
    """Upper bounds of the degrees of all entries of a node."""

    def constant(self, var: Graph) -> float:
        return 0.0

    def unknown(self, out: Graph, values: list[float]) -> float:
        return math.inf

    def transfer(self, out: Graph, values: list[float]) -> float:
        return super().transfer(out, values) if any(values) else 0.0

    def linear(self, out: Graph, values: list[float]) -> float:
        return max(d for d, c in zip(values, coefficients(out.owner) or (), strict=True) if c)

    def product(self, out: Graph, values: list[float]) -> float:
        powers = [(d, e) for d, e in zip(values, exponents(out.owner) or (), strict=True) if d]
        # √(θ²) is |θ| and θ⁻¹ has a pole. θ raised to a constant has no degree in the constant.
        return sum(d * e for d, e in powers if e) if all(e >= 0 and e == int(e) for _, e in powers) else math.inf

    def choice(self, out: Graph, values: list[float]) -> float:
        return math.inf if values[0] else max(values)

    def check(self, out: Graph, values: list[float]) -> float:
        # A condition on θ cuts its support: Assert(μ > 0) is a truncated prior.
        return self.join(out, values)

    def join(self, out: Graph, values: list[float]) -> float:
        moved = parts(out.owner)
        return math.inf if any(d for k, d in enumerate(values) if k not in moved) else max(values)

    move = sum = join

    def bilinear(self, out: Graph, values: list[float]) -> float:
        return math.fsum(values)

    def solve(self, out: Graph, values: list[float]) -> float:
        argument = linear_argument(out.owner)
        return math.inf if any(d for k, d in enumerate(values) if k != argument) else max(values)


def degrees(outputs: Iterable[Graph], targets: Mapping[Graph, float]) -> dict[Graph, float]:
    """An upper bound of the polynomial degree in the targets of every node below ``outputs``, or infinity.

    The targets come with the degree to start them with, 1. Nodes that do not depend on them are left out.
    """
    return _Degree(targets).walk(outputs)
