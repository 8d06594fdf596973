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

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.graphs.polynomial_degree import core_op
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
    degrees = _degrees(graph)
    replaced: dict[Variable, Graph] = {}
    for node in toposort([graph]):
        out = node.outputs[0]
        if out in degrees:
            continue
        for var in node.inputs:
            base, power = degrees.get(var, CONSTANT)
            if base is not None and power and var not in replaced and _worthwhile(var):
                constant = np.asarray(compile_small([], graph_replace([var], {base: pt.ones_like(base)})[0])())
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
    kept = any(isinstance(i, Constant | SharedVariable) and i.type.shape == shape for i in node.inputs)
    return not (kept and any(set(i.type.shape) <= {1} for i in node.inputs))


def _degrees(graph: Graph) -> dict[Variable, _Degree]:
    """The degree of every homogeneous node."""
    found: dict[Variable, _Degree] = {}

    def degree(var: Any) -> _Degree | None:
        if isinstance(var, Constant | SharedVariable):
            return CONSTANT
        if var in found:
            return found[var]
        if var.type.ndim == 0 and str(var.type.dtype).startswith("float"):
            return var, 1
        return None

    for node in toposort([graph]):
        out: Any = node.outputs[0]
        if len(node.outputs) != 1 or not hasattr(out.type, "ndim"):
            continue
        if out.type.ndim == 0 and not all(_constant(i, found) for i in node.inputs):
            continue  # a number is a base of its own
        of_inputs = [degree(i) if hasattr(i.type, "ndim") else None for i in node.inputs]
        if any(d is None for d in of_inputs):
            continue
        answer = _rule(node, [d for d in of_inputs if d is not None])
        if answer is not None and abs(answer[1]) <= HIGHEST:
            found[out] = answer if answer[1] else CONSTANT
    return found


def _constant(var: Variable, found: Mapping[Variable, _Degree]) -> bool:
    return isinstance(var, Constant | SharedVariable) or found.get(var) == CONSTANT


def _rule(node: Apply, degrees: list[_Degree]) -> _Degree | None:
    if all(d == CONSTANT for d in degrees):
        return CONSTANT
    bases = {base for base, _ in degrees if base is not None}
    if len(bases) != 1:
        return None
    (base,) = bases
    powers = [power for _, power in degrees]
    if isinstance(node.op, Reshape):
        return degrees[0] if degrees[1] == CONSTANT else None
    op: Any = core_op(node)
    if applies(node, ps.Mul) or isinstance(op, Dot):
        return base, sum(powers)
    if applies(node, ps.TrueDiv):
        return base, powers[0] - powers[1]
    if applies(node, ps.Add, ps.Sub):
        return (base, powers[0]) if len(set(powers)) == 1 else None
    if applies(node, ps.Sqr):
        return base, 2 * powers[0]
    if applies(node, ps.Pow):
        exponent = constant_number(node.inputs[1])
        return (base, int(exponent) * powers[0]) if exponent in (1, 2, 3, 4) and degrees[1] == CONSTANT else None
    if applies(node, ps.Neg) or isinstance(node.op, DimShuffle | Sum):
        return base, powers[0]
    if applies(node, ps.Clip) and powers[0] % 2 == 0:
        low, high = (constant_number(v) for v in node.inputs[1:])
        return (base, powers[0]) if low == 0 and high == np.inf else None
    if applies(node, ps.ScalarMaximum) and len(degrees) == 2:
        # One of the two is the constant zero.
        for k, var in enumerate(node.inputs):
            if constant_number(var) == 0 and powers[1 - k] % 2 == 0:
                return base, powers[1 - k]
    return None
