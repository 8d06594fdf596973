"""Numbers of a graph as fractions: constants as they are, and whole numbers drawn at random for all that is not known.

Whether a polynomial whose coefficients are made of such numbers by +, −, × and ÷ is zero is then decided without
rounding: one that is not zero vanishes at numbers drawn from 10⁹ with a probability of 10⁻⁹ times its degree
(J. Schwartz 1980). Two numbers that are computed alike are one.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

from pytensor.graph.basic import equal_computations
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape

from bayeskit.graphs.nodes import constant_number
from bayeskit.types import Graph

__all__ = ["ExactNumbers", "applied_exactly"]

LARGEST = 10**9


def applied_exactly(kind: object, values: list[Fraction], power: float | None) -> Fraction | None:
    """A rational operation on fractions; None of any other, and of a division by zero."""
    if isinstance(kind, ps.Add):
        return sum(values, Fraction(0))
    if isinstance(kind, ps.Mul):
        return math.prod(values, start=Fraction(1))
    if isinstance(kind, ps.Sub):
        return values[0] - values[1]
    if isinstance(kind, ps.Neg):
        return -values[0]
    if isinstance(kind, ps.Sqr):
        return values[0] ** 2
    if isinstance(kind, ps.TrueDiv | ps.Reciprocal) and values[-1]:
        return (values[0] if len(values) == 2 else Fraction(1)) / values[-1]
    if isinstance(kind, ps.Pow) and power in (1, 2, 3, 4):
        return values[0] ** int(power)
    return None


class ExactNumbers:
    """The fraction that stands for each number of a graph; the same one wherever it is computed alike."""

    def __init__(self) -> None:
        self._drawn: list[tuple[Graph, Fraction]] = []
        self._rng = random.Random(20_230_501)

    def of(self, number: Graph) -> Fraction:
        """The fraction of a number, whose axes are all of length one."""
        known = constant_number(number)
        if known is not None and math.isfinite(known):
            return Fraction(known)
        node = number.owner
        if node is not None and isinstance(node.op, DimShuffle | SpecifyShape):
            return self.of(node.inputs[0])
        if node is not None and isinstance(node.op, Elemwise) and number.type.dtype == "float64":
            kind = node.op.scalar_op
            if isinstance(kind, ps.Identity | ps.Cast):
                return self.of(node.inputs[0])
            rational = isinstance(
                kind, ps.Add | ps.Mul | ps.Sub | ps.Neg | ps.Sqr | ps.TrueDiv | ps.Reciprocal | ps.Pow
            )
            if rational:
                power = constant_number(node.inputs[1]) if isinstance(kind, ps.Pow) else None
                given = node.inputs[:1] if isinstance(kind, ps.Pow) else node.inputs
                found = applied_exactly(kind, [self.of(i) for i in given], power)
                if found is not None:
                    return found
        return self._unknown(number)

    def _unknown(self, number: Graph) -> Fraction:
        for other, value in self._drawn:
            if other is number or (other.type == number.type and equal_computations([other], [number])):
                return value
        value = Fraction(self._rng.randint(2, LARGEST))
        self._drawn.append((number, value))
        return value
