r"""A graph of a log density taken apart into :mod:`terms <bayeskit.row_sums.terms>`: what data give, and what θ gives.

Sums, products with data, and matrix products with data are taken apart as they stand. A function of θ that has no such
form is a function of its distinct arguments: sigmoid(α[group]) has as many as there are groups, and sigmoid(xᵀβ) as
there are distinct rows x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Max, Min, Sum

from bayeskit.errors import DataError
from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.fingerprint import fingerprint
from bayeskit.graphs.interpreter import evaluator
from bayeskit.graphs.nodes import applies, core_op, name_of, without_shuffles
from bayeskit.graphs.operations import coefficients, entry_sources, exponents, linear_argument
from bayeskit.graphs.rewriting import depends_on, with_known_shapes
from bayeskit.row_sums.moves import beside, masked, of_latent, shuffled, taken
from bayeskit.row_sums.products import matrix_product, narrow_matrices, rows_times
from bayeskit.row_sums.squares import squared
from bayeskit.row_sums.summing import extreme, summed
from bayeskit.row_sums.terms import (
    WIDEST,
    DataTerm,
    Factor,
    KeyColumn,
    NotAdditive,
    Square,
    TermSum,
    added_terms,
    apply,
    as_factor,
    multiplied_terms,
)

__all__ = ["separate"]

LARGEST = 10_000  # numbers of a function of latent variables that is taken as it is


def separate(graph: Any, latents: Mapping[str, Any]) -> tuple[TermSum, list[Factor]]:
    """The terms of a log density, and the conditions on its parameters, each a function that has to be true.

    ``latents`` have known shapes. NotAdditive where a node has no terms; a DataError where the data are not allowed.
    """
    (graph,) = with_known_shapes([graph])
    walk = _Separation(graph, latents)
    walk.walk([graph])
    return walk.value(graph), walk.conditions


class _Separation(GraphAnalysis[TermSum]):
    def __init__(self, graph: Any, latents: Mapping[str, Any]) -> None:
        super().__init__({v: of_latent(n, v) for n, v in latents.items()})
        self.names = {v: n for n, v in latents.items()}
        self.conditions: list[Factor] = []
        dependence = depends_on([graph], latents.values())
        read = [i for node in toposort([graph]) if any(dependence.get(j) for j in node.inputs) for i in node.inputs]
        data = list(dict.fromkeys(i for i in [*read, graph] if not dependence.get(i)))
        self.narrow, made = narrow_matrices(graph, data)
        inputs = list(latents.values())  # shapes may be taken of them; their values have no part in these
        values = evaluator(inputs, made)(*[np.ones(v.type.shape, v.type.dtype) for v in inputs])
        self.data = {v: v.data for v in data if isinstance(v, Constant)} | dict(zip(made, values, strict=True))

    def constant(self, var: Any) -> TermSum:
        return self.narrow.get(var) or TermSum.of_data(self.data[var])

    def unknown(self, out: Any, values: list[TermSum]) -> TermSum:
        """A function of latent variables as it stands, of whatever operations."""
        if out.type.dtype == "bool" and all(v.type.dtype == "bool" for v in out.owner.inputs):
            return self.conjunction(out, values)
        above = list(ancestors([out]))
        own = frozenset(self.names[v] for v in above if v in self.names)
        shape, numbers = out.type.shape, sum(np.size(v.data) for v in above if isinstance(v, Constant))
        if None in shape or max(numbers, int(np.prod(shape, dtype=int))) > LARGEST:
            raise NotAdditive(f"its log density applies {name_of(out.owner.op)} to all rows at once")
        sign = fingerprint(out, self.names)
        if int(np.prod(shape, dtype=int)) == 1:
            return TermSum(
                (DataTerm(factors=(Factor(out if out.type.ndim == 0 else pt.reshape(out, ()), (), sign, own),)),), shape
            )
        column = KeyColumn.of_latent(f"={sign}", shape)
        return TermSum((DataTerm(factors=(Factor(pt.flatten(out)[column.place], (column,), sign, own),)),), shape)

    def linear(self, out: Any, values: list[TermSum]) -> TermSum:
        pairs = zip(coefficients(out.owner) or (), values, strict=True)
        return added_terms([(c, v) for c, v in pairs if c], _broadcast(values))

    def product(self, out: Any, values: list[TermSum]) -> TermSum:
        shape = _broadcast(values)
        found = [(e, v) for e, v in zip(exponents(out.owner) or (), values, strict=True) if e]
        if len(found) == 2 and out.owner.inputs[0] is out.owner.inputs[1] and found[0][0] == found[1][0] == 1:
            return replace(squared(values[0]), shape=shape)
        result: tuple[DataTerm, ...] = (DataTerm(),)
        for exponent, value in found:
            power = self.power(value, exponent)
            result = tuple(multiplied_terms(a, b) for a in result for b in power.terms)
        return TermSum(result, shape)

    def power(self, value: TermSum, exponent: float) -> TermSum:
        if exponent == 1:
            return value
        if value.data is not None:
            return TermSum.of_data(value.data**exponent)
        if exponent == 2:
            return squared(value)
        (first, *others), raised = value.terms, f"power{exponent!r}"
        if not others and first.is_plain and (exponent == int(exponent) or np.all(first.weight > 0)):
            factors = tuple(apply(lambda g: g**exponent, raised, [f]) for f in first.factors)
            return TermSum((DataTerm(first.weight**exponent, factors),), value.shape)
        return TermSum((DataTerm(factors=(apply(lambda g: g**exponent, raised, [as_factor(value)]),)),), value.shape)

    def function(self, out: Any, values: list[TermSum]) -> TermSum:
        node, shape = out.owner, _broadcast(values)
        if applies(node, ps.Log):
            return self.logarithm(node, values[0])
        if applies(node, ps.Exp) and (data := [t for t in values[0].terms if t.is_data]):
            rest = self.general(node, [TermSum(tuple(t for t in values[0].terms if not t.is_data), shape)], shape)
            more = np.exp(sum((t.weight for t in data[1:]), data[0].weight))
            return TermSum(tuple(replace(t, weight=t.weight * more) for t in rest.terms), shape)
        if applies(node, ps.Pow) and (power := values[1].data) is not None and power.size == 1:
            return self.power(values[0], float(power.flat[0]))
        return values[0] if applies(node, ps.Cast) else self.general(node, values, shape)

    def general(self, node: Any, values: list[TermSum], shape: tuple[int, ...]) -> TermSum:
        if applies(node, ps.GE, ps.GT, ps.LE, ps.LT) and (bound := values[1].data) is not None and not bound.any():
            values = [_without_positive_weight(values[0]), values[1]]
        scalar, types = core_op(node).scalar_op, [i.type.dtype for i in node.inputs]

        def build(*graphs: Any) -> Any:
            # Numbers of data are kept as floats; logical operations take truth values.
            return Elemwise(scalar)(*[_as_type(g, d) for g, d in zip(graphs, types, strict=True)])

        found = apply(build, str(scalar), [as_factor(v) for v in values])
        return TermSum((DataTerm(factors=(found,)),), shape)

    def logarithm(self, node: Any, value: TermSum) -> TermSum:
        """log(w f) = log w + log f: w of 10⁶ exposures times f of ten groups has no 10⁶ functions."""
        (first, *others), shape = value.terms, value.shape
        if others or not first.is_plain or first.weight.size == 1 or not np.all(first.weight > 0):
            return self.general(node, [value], shape)
        rest = self.general(node, [TermSum((replace(first, weight=np.ones(())),), shape)], shape)
        return added_terms([(1.0, TermSum((DataTerm(np.log(first.weight)),), shape)), (1.0, rest)], shape)

    def choice(self, out: Any, values: list[TermSum]) -> TermSum:
        condition, *branches = values
        shape = _broadcast(values)
        if (mask := condition.data) is not None:
            chosen = [mask != 0, mask == 0]
            # Both, also where a chunk has rows of one kind only; but not what is impossible there.
            kept = [(m, b) for m, b in zip(chosen, branches, strict=True) if m.any() or b.is_finite]
            if len(kept) == 1:
                return replace(kept[0][1], shape=shape)
            return TermSum(tuple(masked(t, m) for m, b in kept for t in b.terms), shape)
        if self.has_no_probability(out.owner.inputs[0]):
            return replace(branches[1], shape=shape)
        for k, other in ((0, branches[1]), (1, branches[0])):
            if (numbers := branches[k].data) is not None and np.all(numbers == -np.inf):
                pair = (-np.inf, 0.0) if k == 0 else (0.0, -np.inf)
                inside = apply(lambda c, pair=pair: pt.switch(c, *pair), f"inside{k}", [as_factor(condition)])
                return TermSum((*other.terms, DataTerm(factors=(inside,))), shape)
        return self.general(out.owner, values, shape)

    def has_no_probability(self, condition: Any) -> bool:
        """Whether it holds only where a real number has a certain value: λ = 0, where k log λ is told from 0 log 0."""
        node = without_shuffles(condition).owner
        if node is None:
            return False
        if applies(node, ps.AND, ps.Mul):
            return any(self.has_no_probability(i) for i in node.inputs)
        if applies(node, ps.EQ):
            return any(v.type.dtype.startswith("float") and self.value(v).varies_everywhere for v in node.inputs)
        return False

    def check(self, out: Any, values: list[TermSum]) -> TermSum:
        for condition in values[1:]:
            self.require(condition, getattr(out.owner.op, "msg", "a check of the model"))
        return values[0]

    def conjunction(self, out: Any, values: list[TermSum]) -> TermSum:
        """All of some conditions, which are kept apart: each is a function of its own columns."""
        for value in values:
            self.require(value, "a condition on a parameter")
        return TermSum.of_data(np.ones((1,) * out.type.ndim))

    def require(self, condition: TermSum, what: str) -> None:
        numbers = condition.data
        if numbers is None:
            self.conditions.append(as_factor(condition))
        elif not np.all(numbers):
            raise DataError(f"the data or the constants of the model are not allowed: {what} does not hold")

    def move(self, out: Any, values: list[TermSum]) -> TermSum:
        node, (value, *others) = out.owner, values
        if any(o.data is None for o in others):
            raise NotAdditive("its log density reads data at places that a latent variable decides")
        if isinstance(node.op, DimShuffle):
            return shuffled(value, node.op.new_order)
        if isinstance(node.op, Alloc):
            return replace(value, shape=tuple(int(o.data) for o in others))  # type: ignore[arg-type]
        if not isinstance(node.op, Elemwise) and out.type.ndim == len(value.shape) and type(node.op).__name__ in _SAME:
            return value
        given = [
            _typed(self.data[i], i) if i in self.data else np.asarray(v.data)
            for i, v in zip(node.inputs[1:], others, strict=True)
        ]
        (source,) = entry_sources(node, [value.shape, *given])
        return taken(value, source)

    def join(self, out: Any, values: list[TermSum]) -> TermSum:
        if out.type.dtype == "bool":
            return self.conjunction(out, values)
        op = core_op(out.owner)
        # What rows have no part in is looked up in as it is.
        if not any(t.is_of_rows for v in values for t in v.terms):
            return self.unknown(out, values)
        if isinstance(op, MakeVector):
            return beside([shuffled(v, ("x",)) for v in values], 0)
        return beside(values, op.axis % out.type.ndim) if isinstance(op, Join) else self.unknown(out, values)

    def other(self, out: Any, values: list[TermSum]) -> TermSum:
        """The largest along axes, which logarithms of sums of exponentials are taken relative to."""
        op = core_op(out.owner)
        if not isinstance(op, Max | Min) or not any(t.is_of_rows for t in values[0].terms):
            return self.unknown(out, values)
        shape = values[0].shape
        axes = range(len(shape)) if op.axis is None else [a % len(shape) for a in op.axis]
        if any(shape[a] > WIDEST for a in axes):
            return self.unknown(out, values)
        return extreme(values[0], axes, pt.maximum if isinstance(op, Max) else pt.minimum, type(op).__name__)

    def sum(self, out: Any, values: list[TermSum]) -> TermSum:
        op = out.owner.op
        if not isinstance(op, Sum):
            return self.unknown(out, values)
        ndim = len(values[0].shape)
        axes = range(ndim) if op.axis is None else [a % ndim for a in op.axis]
        return summed(values[0], axes)

    def bilinear(self, out: Any, values: list[TermSum]) -> TermSum:
        left, right = out.owner.inputs
        if (rows := values[0].data) is not None and rows.ndim <= 2 and right.type.ndim <= 2:
            return rows_times(np.atleast_2d(rows), right, out.type.ndim, self.names)
        if (columns := values[1].data) is not None and left.type.ndim == 1 and columns.ndim == 2:
            return rows_times(columns.T, left, out.type.ndim, self.names)
        inner = values[1].shape[0]
        if left.type.ndim == 2 and right.type.ndim <= 2 and inner <= WIDEST:
            return matrix_product(*values)
        return self.unknown(out, values)

    def solve(self, out: Any, values: list[TermSum]) -> TermSum:
        """L⁻¹ (y − μ) of a multivariate Normal, whose rows share L."""
        node = out.owner
        position = linear_argument(node)
        matrix = node.inputs[0]
        shared = all(n == 1 for n in matrix.type.shape[:-2])
        if position != 1 or (values[1].data is not None and values[0].data is not None) or not shared:
            return self.unknown(out, values)
        if getattr(core_op(node), "b_ndim", 2) != 1 or any(not (t.is_plain or t.linear) for t in values[1].terms):
            return self.unknown(out, values)
        own = frozenset(self.names[v] for v in ancestors([matrix]) if v in self.names)
        sign = f"{node.op}({fingerprint(matrix, self.names)})"
        return TermSum((DataTerm(solved=Square(values[1].terms, node, sign, own)),), values[1].shape)


_SAME = ("TensorFromScalar", "ScalarFromTensor", "SpecifyShape", "ViewOp")


def _broadcast(values: list[TermSum]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[v.shape for v in values])


def _without_positive_weight(value: TermSum) -> TermSum:
    """What has the same sign as a node: of exposure times rate, the rate."""
    (first, *others) = value.terms
    if others or not first.factors or not np.all(first.weight > 0):
        return value
    return TermSum((replace(first, weight=np.ones(())),), value.shape)


def _as_type(graph: Any, dtype: str) -> Any:
    if dtype.startswith("float"):
        return graph
    return pt.constant(np.asarray(graph.data, dtype)) if isinstance(graph, Constant) else pt.cast(graph, dtype)


def _typed(value: Any, var: Any) -> Any:
    return np.asarray(value, dtype=var.type.dtype) if hasattr(var.type, "dtype") else value
