"""Proof that a log density is that of a Wishart matrix: c₀ + c₁ log |W| + (something linear in W).

The proof walks the graph and follows which nodes are linear in W, powers W^±1, their Cholesky factors, solves against
those, and sums of squares and of log diagonals of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from pytensor.graph.basic import Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, ExtractDiag, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import All, Sum
from pytensor.tensor.shape import SpecifyShape

from bayeskit.elimination.symbols import NotProved
from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.nodes import applies, constant_number, core_op, name_of
from bayeskit.graphs.operations import Kind, coefficients, exponents, kind_of, parts
from bayeskit.types import Graph

__all__ = ["is_wishart_form"]


@dataclass(frozen=True)
class _Part:
    """What is known of a node.

    ``multiple`` (a number times W), ``linear`` (entries linear in W), ``power`` (a multiple of W^k), ``cholesky`` (of
    W^k), ``half`` (its sums of squares are linear in W), ``square``, ``diagonal``, ``logdiagonal``, ``done``.
    """

    name: str
    power: int = 0


MULTIPLE, LINEAR, DONE = _Part("multiple"), _Part("linear"), _Part("done")
VARIANCES = _Part("variances")  # its diagonal, which is positive, and linear in it
CONDITION = _Part("condition")  # a comparison of it, or something made of comparisons: no density may use one
HOLDS = _Part("holds")  # one that is true of every positive definite matrix: checks may use it
INVERSE = _Part("power", -1)
ADDITIVE = (MULTIPLE, LINEAR, VARIANCES, DONE)
STEP = "its density has a step inside the support"
CUT = "a check on it may cut its support off"

_Parts = list[_Part | None]  # None: W does not enter


def is_wishart_form(graph: Variable, variable: Variable) -> None:
    """Prove a factor to be c₀ + c₁ log |W| + linear in W."""
    if _WishartForm({variable: MULTIPLE}).walk([graph]).get(graph) not in (None, *ADDITIVE):
        raise NotProved("its log density is not c + log |W| + a linear function of it")


class _WishartForm(GraphAnalysis[_Part | None]):
    """In which way W enters each node."""

    def constant(self, var: Graph) -> None:
        return None

    def unknown(self, out: Graph, values: _Parts) -> NoReturn:
        raise NotProved(f"it enters through {type(core_op(out.owner)).__name__}")

    def elementwise(self, out: Graph, values: _Parts) -> NoReturn:
        raise NotProved(f"it enters through {name_of(out.owner.op)}")

    def transfer(self, out: Graph, values: _Parts) -> _Part | None:
        if not any(values):
            return None
        if kind_of(out.owner) is not Kind.CHECK:
            if not out.type.dtype.startswith("float"):
                return HOLDS if _holds(out, values) else CONDITION
            if CONDITION in values or HOLDS in values:
                raise NotProved(STEP)
        return super().transfer(out, values)

    def linear(self, out: Graph, values: _Parts) -> _Part | None:
        entering = [v for v, c in zip(values, coefficients(out.owner) or (), strict=True) if c]
        if not _additive(entering):
            self.elementwise(out, values)
        return values[0] if values == [MULTIPLE] else _total(entering)

    def product(self, out: Graph, values: _Parts) -> _Part | None:
        entering = [(v, e) for v, e in zip(values, exponents(out.owner) or (), strict=True) if v]
        (part, exponent), *others = entering
        number = all(all(i.type.broadcastable) for i, v in zip(out.owner.inputs, values, strict=True) if v is None)
        if not others and exponent == 1:
            if number and (part in (MULTIPLE, LINEAR, DONE) or part.name in ("power", "square", "logdiagonal")):
                return part
            if part in ADDITIVE:
                return _total([part])
        if not others and exponent == 2 and part.name == "half":
            return _Part("square", part.power)
        self.elementwise(out, values)

    def choice(self, out: Graph, values: _Parts) -> _Part | None:
        if values[0] is not None or not _additive(values):
            raise NotProved(STEP)
        return _total(values)

    def function(self, out: Graph, values: _Parts) -> _Part:
        if applies(out.owner, ps.Log) and values[0] is not None and values[0].name == "diagonal":
            return _Part("logdiagonal", values[0].power)
        self.elementwise(out, values)

    def check(self, out: Graph, values: _Parts) -> _Part:
        if values[0] is None:
            raise NotProved("it enters a check only")
        if any(v not in (None, HOLDS) for v in values[1:]):
            raise NotProved(CUT)
        return values[0]

    def move(self, out: Graph, values: _Parts) -> _Part | None:
        op, part = core_op(out.owner), values[0]
        if part is None or any(values[1:]):
            self.unknown(out, values)
        ndim = out.owner.inputs[0].type.ndim
        if isinstance(op, ExtractDiag) and part.name == "cholesky":
            if op.offset == 0 and (op.axis1, op.axis2) == (ndim - 2, ndim - 1):
                return _Part("diagonal", part.power)
            self.unknown(out, values)
        # Of W itself, not of a multiple of it.
        if isinstance(op, ExtractDiag) and op.offset == 0 and out.owner.inputs[0].owner is None:
            return VARIANCES
        if isinstance(op, Alloc | SpecifyShape) or (isinstance(op, DimShuffle) and _keeps_matrices(op, ndim, part)):
            return part
        return self.join(out, values)

    def join(self, out: Graph, values: _Parts) -> _Part | None:
        entering = parts(out.owner)
        if not _additive(values) or any(v for k, v in enumerate(values) if k not in entering):
            self.unknown(out, values)
        return _total(values)

    def bilinear(self, out: Graph, values: _Parts) -> _Part | None:
        if [v for v in values if v] not in ([MULTIPLE], [LINEAR]):
            self.unknown(out, values)
        return LINEAR

    def solve(self, out: Graph, values: _Parts) -> _Part:
        op = core_op(out.owner)
        if type(op).__name__ == "SolveTriangular" and op.lower and not op.unit_diagonal:
            if values == [_Part("cholesky", -1), None]:
                return _Part("half", 0 if op.b_ndim == 1 else 3)
            if values == [None, _Part("cholesky", 1)] and op.b_ndim == 2:
                return _Part("half", 2)
        self.unknown(out, values)

    def other(self, out: Graph, values: _Parts) -> _Part:
        op, part = core_op(out.owner), values[0]
        if type(op).__name__ == "MatrixInverse" and part in (MULTIPLE, INVERSE):
            return INVERSE if part == MULTIPLE else MULTIPLE
        if type(op).__name__ == "Cholesky" and op.lower and part in (MULTIPLE, INVERSE):
            return _Part("cholesky", 1 if part == MULTIPLE else -1)
        self.unknown(out, values)

    def sum(self, out: Graph, values: _Parts) -> _Part | None:
        op, part, ndim = core_op(out.owner), values[0], out.owner.inputs[0].type.ndim
        if part is None or part in ADDITIVE or not isinstance(op, Sum):
            return self.join(out, values)
        axes = set(range(ndim) if op.axis is None else (a % ndim for a in op.axis))
        if part.name == "logdiagonal" and ndim - 1 in axes:
            return DONE
        # Σ over a whole white vector is linear in W; over both axes of L_V⁻¹ L_W it is tr V⁻¹W.
        needed = {0: {ndim - 1}, 2: {ndim - 1, ndim - 2}, 3: {ndim - 2}}
        if part.name == "square" and needed[part.power] <= axes:
            return LINEAR
        raise NotProved("a part of a quadratic form of it enters on its own")


def _holds(out: Graph, values: _Parts) -> bool:
    """Whether a condition is that the diagonal of W, or of a Cholesky factor, is positive, or made of such."""
    node = out.owner
    if applies(node, ps.GT) or applies(node, ps.GE):
        number = constant_number(node.inputs[1])
        positive = values[0] is not None and values[0].name in ("diagonal", "variances")
        return positive and number is not None and number <= 0
    made = isinstance(core_op(node), All | MakeVector | ScalarFromTensor | TensorFromScalar | DimShuffle)
    return (made or applies(node, ps.AND)) and all(v in (None, HOLDS) for v in values)


def _additive(values: Sequence[_Part | None]) -> bool:
    return all(v is None or v in ADDITIVE for v in values)


def _total(values: Sequence[_Part | None]) -> _Part | None:
    """A sum of additive parts, or some entries of them."""
    return DONE if DONE in values else LINEAR if any(values) else None


def _keeps_matrices(op: DimShuffle, ndim: int, part: _Part) -> bool:
    """Whether a DimShuffle leaves the last two axes, or the last of a vector, where they are."""
    order, last = list(op.new_order), [ndim - 2, ndim - 1]
    if ndim < 2:
        return ndim == 0 or order[-1] == 0
    if part.name in ("diagonal", "logdiagonal"):  # vectors: what goes from before them has one entry
        return order[-1:] == [ndim - 1]
    return order[-2:] == last or (part == MULTIPLE and set(order[-2:]) == set(last))  # W is symmetric
