"""Proof that a log density is that of a Wishart matrix: c₀ + c₁ log |W| + (something linear in W).

The proof walks the graph and follows which nodes are linear in W, powers W^±1, their Cholesky factors, solves against
those, and sums of squares and of log diagonals of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import ExtractDiag
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.elimination.linear_score import NotProved
from bayeskit.graphs.domain import Kind, kind_of
from bayeskit.graphs.nodes import core_op, without_shuffles

__all__ = ["is_wishart_form"]


@dataclass(frozen=True)
class _Kind:
    """What is known of a node.

    ``multiple`` (a number times W), ``linear`` (entries linear in W), ``power`` (a multiple of W^k), ``cholesky`` (of
    W^k), ``half`` (its sums of squares are linear in W), ``square``, ``diagonal``, ``logdiagonal``, ``done``.
    """

    name: str
    power: int = 0


MULTIPLE, LINEAR, DONE = _Kind("multiple"), _Kind("linear"), _Kind("done")
CONDITION = _Kind("condition")  # a comparison of it, or something made of comparisons: only checks may use one
ADDITIVE = ("multiple", "linear", "done")


def is_wishart_form(graph: Variable, variable: Variable) -> None:
    """Prove a factor to be c₀ + c₁ log |W| + linear in W.

    Raises
    ------
    NotProved
    """
    found: dict[Variable, _Kind] = {variable: MULTIPLE}
    for node in toposort([graph]):
        kinds = [found.get(i) for i in node.inputs]
        if not any(kinds) or isinstance(node.op, Shape | Shape_i):
            continue
        if CONDITION in kinds and not isinstance(node.op, CheckParameterValue | CheckAndRaise):
            if not _is_condition(node):
                raise NotProved("its density has a step inside the support")
            kind = CONDITION
        else:
            kind = CONDITION if _is_condition(node) else _visit(node, kinds)
        found.update(dict.fromkeys(node.outputs, kind))
    if found.get(graph, DONE).name not in ADDITIVE:
        raise NotProved("its log density is not c + log |W| + a linear function of it")


def _is_condition(node: Apply) -> bool:
    return all(not o.type.dtype.startswith("float") for o in node.outputs)


def _visit(node: Apply, kinds: list[_Kind | None]) -> _Kind:
    op = core_op(node)
    name = type(op).__name__
    first = kinds[0]
    if isinstance(op, CheckParameterValue | CheckAndRaise):
        if first is None:
            raise NotProved("it enters a check only")
        return first
    if isinstance(op, Elemwise):
        return _elementwise(op.scalar_op, node, kinds)
    if isinstance(op, ExtractDiag) and first is not None:
        if first.name == "cholesky":
            return _Kind("diagonal", first.power)
        if first in (MULTIPLE, LINEAR):
            return LINEAR
    if kind_of(node) is Kind.MOVE and first is not None and not any(kinds[1:]):
        whole = name in ("Alloc", "SpecifyShape") or (isinstance(op, DimShuffle) and _keeps_matrices(op, node))
        if first.name == "multiple" and isinstance(op, DimShuffle) and set(op.shuffle[-2:]) == {0, 1}:
            return MULTIPLE  # W is symmetric
        if whole:
            return first
        if first.name in ADDITIVE:
            return LINEAR if first == MULTIPLE else first
    if name == "MatrixInverse" and first in (MULTIPLE, _Kind("power", -1)):
        return _Kind("power", -1) if first == MULTIPLE else MULTIPLE
    if name == "Cholesky" and first in (MULTIPLE, _Kind("power", -1)):
        return _Kind("cholesky", 1 if first == MULTIPLE else -1)
    if name == "SolveTriangular" and op.lower:
        if first is not None and first == _Kind("cholesky", -1) and kinds[1] is None:
            return _Kind("half", 0 if op.b_ndim == 1 else 3)
        if first is None and kinds[1] == _Kind("cholesky", 1):
            return _Kind("half", 2)
    if isinstance(op, Dot) and [k for k in kinds if k] in ([MULTIPLE], [LINEAR]):
        return LINEAR
    if isinstance(op, Sum) and first is not None:
        return _sum(node, first)
    raise NotProved(f"it enters through {name}")


def _keeps_matrices(op: DimShuffle, node: Apply) -> bool:
    """Whether a DimShuffle leaves the last two axes where they are (it may add or drop axes before them)."""
    ndim = node.inputs[0].type.ndim
    order = list(op.new_order)
    return (len(order) >= 2 and order[-2:] == [ndim - 2, ndim - 1]) or (
        ndim < 2 and list(op.shuffle) == sorted(op.shuffle)
    )


def _elementwise(op: ps.ScalarOp, node: Apply, kinds: list[_Kind | None]) -> _Kind:
    present = [k for k in kinds if k is not None]
    if isinstance(op, ps.Switch):
        if kinds[0] is None and all(k.name in ADDITIVE for k in present):
            return DONE if DONE in present else LINEAR
        raise NotProved("its density has a step inside the support")
    if isinstance(op, ps.Neg | ps.Identity) and present[0].name in ADDITIVE:
        return present[0]
    if isinstance(op, ps.Add | ps.Sub) and all(k.name in ADDITIVE for k in present):
        return DONE if DONE in present else LINEAR
    if len(present) == 1:
        (kind,) = present
        scaled = isinstance(op, ps.Mul) or (isinstance(op, ps.TrueDiv) and kinds[0] is not None)
        number = all(all(i.type.broadcastable) for i, k in zip(node.inputs, kinds, strict=True) if k is None)
        if scaled and number and kind.name in (*ADDITIVE, "power", "square", "logdiagonal"):
            return kind
        if scaled and kind.name in ADDITIVE:
            return LINEAR if kind == MULTIPLE else kind
        square = isinstance(op, ps.Sqr) or (isinstance(op, ps.Pow) and kinds[0] is not None and _is_two(node.inputs[1]))
        if square and kind.name == "half":
            return _Kind("square", kind.power)
        if isinstance(op, ps.Log) and kind.name == "diagonal":
            return _Kind("logdiagonal", kind.power)
    raise NotProved(f"it enters through {str(op).split('{')[0].lower()}")


def _is_two(var: Variable) -> bool:
    return bool(np.all(getattr(without_shuffles(var), "data", np.nan) == 2))


def _sum(node: Apply, kind: _Kind) -> _Kind:
    ndim = node.inputs[0].type.ndim
    axes = tuple(range(ndim)) if node.op.axis is None else tuple(a % ndim for a in node.op.axis)
    if kind.name in ("linear", "done"):
        return kind
    if kind.name == "logdiagonal" and ndim - 1 in axes:
        return DONE
    if kind.name == "square":
        # Σ over a whole white vector is linear in W; over both axes of L_V⁻¹ L_W it is tr V⁻¹W.
        needed = {0: {ndim - 1}, 2: {ndim - 1, ndim - 2}, 3: {ndim - 2}}[kind.power]
        if needed <= set(axes):
            return LINEAR
    raise NotProved("a part of a quadratic form of it enters on its own")
