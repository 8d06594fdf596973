"""Proof that a graph is a polynomial of degree at most two in a set of real variables.

A log density that is quadratic in θ on the whole real space is Gaussian in θ, whatever it was written as. The proof
walks the graph once and gives every node an upper bound of its degree: 0 where θ does not enter, 1 where the node is
affine in θ, 2 where it is quadratic, infinite where nothing is known. It is sound for every value of θ, unlike
trial points: a mean clipped at 1e6 or bent by 1e-9·θ³ is seen however far from the data it happens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor import basic as ptb
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

__all__ = ["CHECKS", "JOINS", "STRUCTURAL", "core_op", "degrees", "is_structural", "linear_argument"]

# Ops whose outputs are entries of their first input (or inputs), moved, repeated or left out, never changed.
STRUCTURAL: tuple[type, ...] = (
    DimShuffle,
    Subtensor,
    AdvancedSubtensor,
    Reshape,
    SpecifyShape,
    ptb.Alloc,
    ptb.Split,
    ptb.ExtractDiag,
    ptb.TensorFromScalar,
    ptb.ScalarFromTensor,
    JoinDims,
    SplitDims,
    Repeat,
    CheckParameterValue,
    CheckAndRaise,
)
CHECKS: tuple[type, ...] = (CheckParameterValue, CheckAndRaise)
JOINS: tuple[type, ...] = (ptb.Join, ptb.MakeVector)


def core_op(node: Apply) -> Any:
    """The op of a node, without the ``Blockwise`` around it."""
    return node.op.core_op if isinstance(node.op, Blockwise) else node.op


def is_structural(node: Apply) -> bool:
    """Whether a node only moves entries of its first input (later inputs are indices or shapes)."""
    return isinstance(core_op(node), STRUCTURAL)


def linear_argument(node: Apply) -> int | None:
    """Which input a linear-algebra node is linear in, all others held fixed; None if there is none."""
    name = type(core_op(node)).__name__
    return {"SolveTriangular": 1, "CholeskySolve": 1, "Solve": 1, "TriangularInverse": None}.get(name)


def _power(base: int | float, exponent: Variable) -> float:
    if base == 0:
        return 0
    while exponent.owner and isinstance(exponent.owner.op, DimShuffle | Elemwise):
        if isinstance(exponent.owner.op, Elemwise) and not isinstance(exponent.owner.op.scalar_op, ps.Cast):
            break
        exponent = exponent.owner.inputs[0]
    if isinstance(exponent, Constant):
        data = np.unique(np.asarray(exponent.data))
        if data.size == 1 and data[0] in (0, 1, 2):
            return base * float(data[0])
    return math.inf


def _elementwise(op: ps.ScalarOp, node: Apply, d: list[float]) -> float:
    if isinstance(op, ps.Add | ps.Sub | ps.Neg | ps.Identity):
        return max(d)
    if isinstance(op, ps.Cast):
        return d[0] if node.outputs[0].type.dtype.startswith("float") else math.inf
    if isinstance(op, ps.Second):
        return d[1]
    if isinstance(op, ps.Mul):
        return sum(d)
    if isinstance(op, ps.Sqr):
        return 2 * d[0]
    if isinstance(op, ps.TrueDiv) and d[1] == 0:
        return d[0]
    if isinstance(op, ps.Pow) and d[1] == 0:
        return _power(d[0], node.inputs[1])
    if isinstance(op, ps.Switch) and d[0] == 0:
        return max(d[1:])
    return math.inf


def node_degree(node: Apply, d: list[float]) -> float:
    """Degree bound of a node's outputs from those of its inputs, at least one of which is positive."""
    op = core_op(node)
    if isinstance(op, Elemwise):
        return _elementwise(op.scalar_op, node, d)
    if isinstance(op, CHECKS):
        # A condition on θ cuts its support: Assert(μ > 0) is a truncated prior.
        return d[0] if not any(d[1:]) else math.inf
    if isinstance(op, STRUCTURAL):
        return d[0] if all(k == 0 for k in d[1:]) else math.inf
    if isinstance(op, JOINS) or (isinstance(op, Sum | CumOp) and getattr(op, "mode", "add") == "add"):
        return max(d)
    if isinstance(op, IncSubtensor | AdvancedIncSubtensor):
        return max(d[:2]) if op.set_instead_of_inc and all(k == 0 for k in d[2:]) else math.inf
    if isinstance(op, Dot):
        return sum(d)
    argument = linear_argument(node)
    if argument is not None and all(k == 0 for i, k in enumerate(d) if i != argument):
        return d[argument]
    return math.inf


def degrees(outputs: Iterable[Variable], targets: Mapping[Variable, float]) -> dict[Variable, float]:
    """An upper bound of the polynomial degree, in the targets, of every node above ``outputs``.

    Parameters
    ----------
    outputs : iterable of tensor
    targets : mapping of tensor to float
        The variables and the degree to start them with (1).

    Returns
    -------
    dict of tensor to float
        0, 1, 2 or more, or infinity. Nodes that do not depend on the targets are left out: their degree is 0.
    """
    found: dict[Variable, float] = dict(targets)
    for node in toposort(list(outputs)):
        inputs = [found.get(i, 0) for i in node.inputs]
        if not any(inputs) or isinstance(node.op, Shape | Shape_i):
            continue
        degree = node_degree(node, inputs)
        for out in node.outputs:
            if out not in targets:
                found[out] = degree
    return found
