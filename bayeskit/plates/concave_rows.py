r"""A factor as a quadratic of the entry b that a row belongs to, and functions of it of two kinds.

.. math:: f_r(b, \phi) = q_r(b, \phi) + \sum_j c_{rj}(\phi) \, h_j(a_{rj}(\phi) + s_{rj}(\phi) \, b),
   \qquad h(x) = \log(1 + e^x) \text{ or } e^x

Regressions of yes or no, of counts, of counts out of a number and of waiting times are of this form. What is no
quadratic is read from the graph: sums, multiples, and choices, products of powers of exp x, and their logarithms. What
is asked of numbers that are never zero or infinite, as PyMC asks of the p in y log p, has its answer.

Since log(1 + exp(−x)) is log(1 + exp x) − x, functions of opposite arguments are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Softplus

from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.graphs.stable_logistic import softened
from bayeskit.types import Graph

__all__ = ["EntryFunction", "FactorParts", "parts_of_factor"]

SMALL = (-2.0, -1.0, 1.0, 2.0)  # powers of factors, which may be negative

Wrap = Callable[[Any], Any]  # what is done to a part of a factor: multiplied by what is free of b, or chosen


@dataclass(frozen=True, eq=False)
class EntryFunction:
    """c h(x) of each row, with x affine in b."""

    exponential: bool  # h is exp, and not log(1 + exp)
    coefficient: Graph
    argument: Graph


@dataclass(frozen=True, eq=False)
class FactorParts:
    """A factor as a sum of parts, whose shapes are stretched to its own."""

    quadratic: Graph
    functions: tuple[EntryFunction, ...]


class _OtherForm(Exception):
    """The graph is no such sum."""


def parts_of_factor(graph: Graph, variable: Graph) -> FactorParts | None:
    """The parts of a factor; None where it is no such sum."""
    reader = _Reader(graph, variable)
    try:
        reader.read(graph, lambda part: part)
    except _OtherForm:
        return None
    parts = reader.quadratics
    quadratic = pt.add(*parts) if len(parts) > 1 else parts[0] if parts else pt.zeros_like(_ones(graph))
    return FactorParts(quadratic, tuple(reader.joined()))


class _Reader:
    """Collects the parts of a factor."""

    def __init__(self, graph: Graph, variable: Graph) -> None:
        self.degrees: Mapping[Graph, float] = degrees([graph], {variable: 1.0})
        self.quadratics: list[Any] = []
        self.functions: list[EntryFunction] = []

    def _degree(self, var: Graph) -> float:
        """In b; 0 of what does not depend on it."""
        return self.degrees.get(var, 0.0)

    def read(self, var: Any, wrap: Wrap) -> None:
        node = var.owner
        if self._degree(var) <= 2:
            self.quadratics.append(wrap(var))
        elif applies(node, Softplus) and self._degree(node.inputs[0]) == 1:
            negative, x = _signed(node.inputs[0])
            self.functions.append(EntryFunction(False, wrap(_ones(var)), x))
            if negative:
                self.quadratics.append(wrap(-x))
        elif (product := self._product(var)) is not None:
            self.functions.append(EntryFunction(True, wrap(product[0]), product[1]))
        elif applies(node, ps.Log) and (product := self._product(node.inputs[0])) is not None:
            self.quadratics += [wrap(pt.log(product[0])), wrap(product[1])]
        elif applies(node, ps.Switch):
            condition, one, other = node.inputs
            free = self._free(condition)
            if free is None:
                self.read(other, wrap)
                return
            # Not a product with zero: what is not chosen may be infinite.
            self.read(one, lambda part: wrap(pt.switch(free, part, 0.0)))
            self.read(other, lambda part: wrap(pt.switch(free, 0.0, part)))
        else:
            self._read_sum(node, wrap)

    def joined(self) -> list[EntryFunction]:
        """The functions, those of one argument with the sum of their coefficients."""
        alike: dict[tuple[bool, Graph], Any] = {}
        for f in self.functions:
            key = f.exponential, f.argument
            alike[key] = alike[key] + f.coefficient if key in alike else f.coefficient
        return [EntryFunction(exponential, c, x) for (exponential, x), c in alike.items()]

    def _read_sum(self, node: Any, wrap: Wrap) -> None:
        moving = [i for i in node.inputs if self._degree(i)]
        others: Any = [i for i in node.inputs if not self._degree(i)]
        if applies(node, ps.Add):
            for part in node.inputs:
                self.read(part, wrap)
        elif applies(node, ps.Sub):
            self.read(node.inputs[0], wrap)
            self.read(node.inputs[1], lambda part: wrap(-part))
        elif applies(node, ps.Neg):
            self.read(node.inputs[0], lambda part: wrap(-part))
        elif applies(node, ps.Mul) and len(moving) == 1:
            self.read(moving[0], lambda part: wrap(pt.mul(part, *others)))
        elif applies(node, ps.TrueDiv) and moving == node.inputs[:1]:
            self.read(moving[0], lambda part: wrap(part / node.inputs[1]))
        else:
            raise _OtherForm

    def _product(self, var: Any) -> tuple[Any, Any] | None:
        """c and x of a graph that is c exp(x), x affine in b and c free of it; None of others."""
        node = var.owner
        if node is None or applies(node, ps.Exp):
            x = None if node is None else self._affine(node.inputs[0])
            return None if x is None else (_ones(var), x)
        found = [self._product(i) if self._degree(i) else (i, None) for i in node.inputs]
        parts: list[tuple[Any, Any]] = [p for p in found if p is not None]
        if len(parts) < len(found) or not parts:
            return None
        (c, x), *others = parts
        if applies(node, ps.Mul):
            exponents = [y for _, y in parts if y is not None]
            return pt.mul(*[b for b, _ in parts]), pt.add(*exponents) if len(exponents) > 1 else exponents[0]
        if applies(node, ps.TrueDiv):
            ((d, y),) = others
            return c / d, x if y is None else -y if x is None else x - y
        if applies(node, ps.Pow) and others[0][1] is None:
            exponent = others[0][0]
            if _is_one(c) or constant_number(exponent) in SMALL:
                return c**exponent, exponent * x
            # In the exponent: c to a power of 100 is no number, or zero.
            return pt.switch(pt.eq(c, 0.0), c**exponent, 1.0), exponent * (x + pt.log(c))
        if applies(node, ps.Reciprocal):
            return 1.0 / c, -x
        return (c**2, 2.0 * x) if applies(node, ps.Sqr) else None

    def _affine(self, x: Any) -> Any:
        """An affine graph, or one that log σ(u) − log σ(−u) is: the logit by which PyMC has a negative binomial's n."""
        if self._degree(x) == 1:
            return x
        if x.owner is not None and applies(x.owner, ps.Sub):
            first, second = (softened(i) for i in x.owner.inputs)
            signs, logits = zip(_signed(first), _signed(second), strict=True)
            if logits[0] is logits[1] and signs[0] != signs[1] and self._degree(second) == 1:
                return second
        return None

    def _free(self, condition: Any) -> Any:
        """A condition that is free of b and says the same where numbers are finite; None of one that never holds."""
        node = condition.owner
        if not self._degree(condition):
            return condition
        if applies(node, ps.AND) or (applies(node, ps.Mul) and all(i.type.dtype == "bool" for i in node.inputs)):
            parts = [self._free(i) for i in node.inputs]
            return None if any(p is None for p in parts) else node.op(*parts)
        asked = constant_number(node.inputs[1]) if applies(node, ps.EQ) else None
        if asked == 0.0:
            product = self._product(node.inputs[0])
        elif asked == -np.inf and softened(node.inputs[0]) is not None:
            return None
        elif asked == -np.inf and applies(node.inputs[0].owner, ps.Log):
            product = self._product(node.inputs[0].owner.inputs[0])
        else:
            product = None
        if product is None:
            raise _OtherForm
        return None if _is_one(product[0]) else pt.eq(product[0], 0.0)


def _ones(like: Any) -> Any:
    return pt.constant(np.ones((1,) * like.type.ndim))


def _signed(x: Any) -> tuple[bool, Any]:
    """Whether a graph is the negative of another, and that."""
    negative = False
    while x is not None and x.owner is not None and applies(x.owner, ps.Neg):
        negative, x = not negative, x.owner.inputs[0]
    return negative, x


def _is_one(var: Any) -> bool:
    return constant_number(var) == 1.0
