"""Distances divided by a length scale, as a constant times a power of the length scale.

PyMC writes a stationary kernel as f(|x/ℓ − x'/ℓ|²): N × N numbers are multiplied, added and clipped at every ℓ, and all
of that is differentiated. But the squared distance is ℓ⁻² times a constant. A node is homogeneous of degree k in a
number s if it is sᵏ C with a constant C; the degree of a node follows from those of its arguments:

    product: the sum;   quotient: the difference;   sum: that of all terms, if it is the same;   square: twice;
    axes moved or summed over: unchanged;   max(v, 0): unchanged for even k, as s² ≥ 0.

The largest nodes of this kind are replaced by sᵏ C, with C computed once. Two equal inputs, whose distance comes out as
1e-16 ℓ⁻² or as zero by rounding, are then as far apart at every ℓ: the density has no noise at small ℓ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.scalar import basic as ps

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.graphs.operations import coefficients, exponents, parts
from bayeskit.graphs.rewriting import substitute
from bayeskit.types import Graph

__all__ = ["constants_in_front"]

LEAST = 4  # numbers; not for speed alone: two equal inputs at a distance of 1e-16/ℓ² are noise in a density at small ℓ
MOST = 20_000_000  # numbers kept as a constant
HIGHEST = 8  # degree

_Degree = tuple[Graph | None, int]  # s and k; None and 0 for a constant
CONSTANT: _Degree = (None, 0)


def constants_in_front(graph: Graph) -> Graph:
    """The same scalar graph, with large nodes that are homogeneous in a number written as sᵏ C."""
    inputs = [v for v in graph_inputs([graph]) if not _fixed(v) or not hasattr(v.type, "ndim")]
    known = _Homogeneity({v: _of_number(v) for v in inputs}).walk([graph])
    degrees = {var: degree for var, degree in known.items() if degree is not None}
    replaced: dict[Variable, Graph] = {}
    for node in toposort([graph]):
        out = node.outputs[0]
        if degrees.get(out, (out, 1))[0] is not out:
            continue
        for var in node.inputs:
            base, power = degrees.get(var, CONSTANT)
            if base is not None and power and var not in replaced and _worthwhile(var):
                (at_one,) = graph_replace([var], {base: pt.constant(1, dtype=base.type.dtype)})
                if not all(_fixed(i) for i in graph_inputs([at_one])):
                    continue  # the shape of an input, or (t A) / (t B)
                constant = np.asarray(compile_small([], at_one)())
                if np.all(np.isfinite(constant)):
                    scale = _power(base, power).dimshuffle(*["x"] * var.type.ndim)
                    replaced[var] = pt.specify_shape(scale * pt.constant(constant), constant.shape)
    return substitute([graph], replaced)[0] if replaced else graph


def _power(base: Any, power: int) -> Any:
    result = base if abs(power) == 1 else pt.sqr(base) if abs(power) == 2 else base ** abs(power)
    return result if power > 0 else pt.reciprocal(result)


def _worthwhile(var: Any) -> bool:
    shape = var.type.shape
    if None in shape or not LEAST <= np.prod(shape, dtype=float) <= MOST or var.type.dtype != "float64":
        return False
    # A constant times a number is what it would be replaced by.
    node = var.owner
    if node is None or not applies(node, ps.Mul, ps.TrueDiv) or len(node.inputs) != 2:
        return True
    constant = any(_fixed(i) and i.type.shape == shape for i in node.inputs)
    return not (constant and any(set(i.type.shape) <= {1} for i in node.inputs))


def _fixed(var: Graph) -> bool:
    return isinstance(var, Constant | SharedVariable)


def _of_number(var: Graph) -> _Degree | None:
    """A number is a base of its own."""
    number = getattr(var.type, "ndim", None) == 0 and str(var.type.dtype).startswith("float")
    return (var, 1) if number else None


class _Homogeneity(GraphAnalysis[_Degree | None]):
    """The base s and the degree k of every node; None where there are none."""

    def constant(self, var: Graph) -> _Degree:
        return CONSTANT

    def unknown(self, out: Graph, values: list[Any]) -> None:
        return None

    def transfer(self, out: Graph, values: list[Any]) -> _Degree | None:
        if all(d == CONSTANT for d in values):
            return CONSTANT
        if None in values or out.type.ndim == 0 or len({base for base, _ in values} - {None}) > 1:
            return _of_number(out)
        degree = super().transfer(out, values)
        if degree is None or abs(degree[1]) > HIGHEST:
            return None
        return degree if degree[1] else CONSTANT

    def linear(self, out: Graph, values: list[Any]) -> _Degree | None:
        return _same([d for d, c in zip(values, coefficients(out.owner) or (), strict=True) if c])

    def product(self, out: Graph, values: list[Any]) -> _Degree | None:
        powers = [(k, e) for (_, k), e in zip(values, exponents(out.owner) or (), strict=True) if k]
        # √(s² C) is |s| √C.
        return (_base(values), int(sum(k * e for k, e in powers))) if all(e == int(e) for _, e in powers) else None

    def bilinear(self, out: Graph, values: list[Any]) -> _Degree:
        return _base(values), sum(k for _, k in values)

    def join(self, out: Graph, values: list[Any]) -> _Degree | None:
        moved = parts(out.owner)
        others = [d for k, d in enumerate(values) if k not in moved]
        return _same([values[k] for k in moved]) if all(d == CONSTANT for d in others) else None

    move = sum = join

    def function(self, out: Graph, values: list[Any]) -> _Degree | None:
        """max(v, 0), also written as a clip, of what has an even degree."""
        node = out.owner
        clipped = applies(node, ps.Clip) and constant_number(node.inputs[2]) == np.inf
        if len(values) != 2 + clipped or not (clipped or applies(node, ps.ScalarMaximum)):
            return None
        first, second = (constant_number(v) == 0 for v in node.inputs[:2])
        degree = values[0] if second else values[1] if first and not clipped else None
        return degree if degree is not None and degree[1] % 2 == 0 else None


def _same(degrees: list[_Degree]) -> _Degree | None:
    return degrees[0] if len(set(degrees)) == 1 else None


def _base(degrees: list[_Degree]) -> Graph:
    return next(base for base, _ in degrees if base is not None)
