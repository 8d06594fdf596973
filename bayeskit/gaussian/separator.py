"""The walk that finds the separable form of every node of a graph.

A node without θ always has a form (in the worst case itself as its factor); one with θ that has none, because φ mixes
its entries as in ``cholesky(K(φ)) @ z``, is reported as not separable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.math import Sum
from scipy import sparse

from bayeskit.gaussian.jacobians import Jacobian, JacobianBlock, dot_rows, linear_image, product_shape
from bayeskit.gaussian.separable_forms import (
    Factors,
    Form,
    NotSeparable,
    Term,
    constant,
    factor_form,
    joined,
    joint_classes,
)
from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.operations import (
    Kind,
    added_entries,
    coefficients,
    entry_sources,
    exponents,
    kind_of,
    linear_argument,
    parts,
    sum_targets,
)
from bayeskit.types import Graph

__all__ = ["MIXED", "Separator", "Targets"]

TERMS = 16  # terms up to which a product of sums is multiplied out
SPARED = 16  # times that each entry of a matrix of φ is used, from which a product with it is multiplied out

Shape = tuple[int, ...]
Targets = Mapping[Graph, tuple[str, Shape]]  # θ: name and shape of each variable
MIXED: Any = object()  # the value of a node that has no form


class Separator(GraphAnalysis[Any]):
    """The forms of nodes; a node that depends on no latent variable has an array of numbers.

    ``latent`` are θ and φ; ``value_of`` gives the value of a node that depends on none, ``shape_of`` that of any node.
    """

    def __init__(
        self,
        targets: Targets,
        latent: Iterable[Graph],
        value_of: Callable[[Graph], Any],
        shape_of: Callable[[Graph], Shape],
    ) -> None:
        self.value_of = value_of
        self.shape_of = shape_of
        self.factors = Factors()
        super().__init__(dict.fromkeys(latent))  # those of φ are made where they are first met
        for var, (name, shape) in targets.items():
            identity = JacobianBlock(sparse.csr_array(sparse.eye_array(math.prod(shape), format="csr")))
            self.values[var] = Form(shape, (Term(Jacobian(shape, {name: identity})),))

    def form(self, var: Graph) -> Form:
        """The form of one node; NotSeparable if it has none."""
        if var not in self.values:
            self.walk([var])
        value = self.value(var)
        if value is MIXED:
            raise NotSeparable
        return self.as_form(value)

    @property
    def conditions(self) -> list[Graph]:
        """The checks of parameters that depend on φ, in the nodes visited."""
        checks = [out.owner for out in self.values if out.owner is not None and kind_of(out.owner) is Kind.CHECK]
        return list(dict.fromkeys(c for node in checks for c in node.inputs[1:] if c in self.values))

    def as_form(self, value: Any) -> Form:
        """A form, or a constant as one."""
        return value if isinstance(value, Form) else constant(value)

    def opaque(self, var: Graph) -> Form:
        """A node without θ as its own factor."""
        if not hasattr(var.type, "dtype"):
            return Form((), ())  # a slice: it can only be an index, and forms are none
        shape = self.shape_of(var)
        return factor_form(pt.cast(pt.reshape(var, (math.prod(shape),)), "float64"), shape)

    # -- the walk ----------------------------------------------------------------------------------------------------
    def constant(self, var: Graph) -> Any:
        return np.asarray(self.value_of(var)) if hasattr(var.type, "dtype") else getattr(var, "data", var)

    def value(self, var: Graph) -> Any:
        if var in self.values and self.values[var] is None:
            self.values[var] = self.opaque(var)
        return super().value(var)

    def unknown(self, out: Graph, values: list[Any]) -> Any:
        raise NotSeparable

    def transfer(self, out: Graph, values: list[Any]) -> Any:
        try:
            if any(v is MIXED for v in values):
                raise NotSeparable
            return super().transfer(out, values).tidied()
        except NotSeparable:
            known = all(v is not MIXED and (not isinstance(v, Form) or v.pure) for v in values)
            return self.opaque(out) if known else MIXED

    # -- entry by entry ----------------------------------------------------------------------------------------------
    def linear(self, out: Graph, values: list[Any]) -> Form:
        shape = np.broadcast_shapes(*[v.shape for v in values])
        weights = zip(values, coefficients(out.owner) or (), strict=True)
        forms = [self.as_form(v).to_shape(shape).times(np.asarray(c)) for v, c in weights if c]
        return Form(shape, tuple(t for form in forms for t in form.terms))

    def choice(self, out: Graph, values: list[Any]) -> Form:
        if isinstance(values[0], Form):
            return self.elementwise(out, values)
        shape = np.broadcast_shapes(*[v.shape for v in values])
        chosen = np.broadcast_to(values[0] != 0, shape).ravel()
        # Where all rows are chosen the other branch does not count, not even as a term of zeros.
        branches = [(v, c) for v, c in zip(values[1:], (chosen, ~chosen), strict=True) if np.any(c) or not c.size]
        forms = [self.as_form(v).to_shape(shape).where(c) for v, c in branches]
        return Form(shape, tuple(t for form in forms for t in form.terms))

    def product(self, out: Graph, values: list[Any]) -> Form:
        shape = np.broadcast_shapes(*[v.shape for v in values])
        raised = [(v, e) for v, e in zip(values, exponents(out.owner) or (), strict=True) if e]
        forms = [v if e == 1 else self.factors.power(v, e) for v, e in raised if isinstance(v, Form)]
        if sum(not f.pure for f in forms) > 1 or math.prod(len(f.terms) for f in forms) > TERMS:
            raise NotSeparable
        numbers = [v if e == 1 else _power(v, e) for v, e in raised if not isinstance(v, Form)]
        total = forms[0].to_shape(shape) if forms else self.as_form(np.ones(shape))
        for other in forms[1:]:
            total = self.factors.product(total, other.to_shape(shape))
        for number in numbers:
            total = total.times(number if number.size == 1 else np.broadcast_to(number, shape))
        return total

    def elementwise(self, out: Graph, values: list[Any]) -> Form:
        """Any function of nodes without θ, evaluated once for each distinct set of arguments."""
        if any(isinstance(v, Form) and not v.single for v in values):
            raise NotSeparable
        shape = np.broadcast_shapes(*[v.shape for v in values])
        terms = [self.as_form(v).to_shape(shape).terms[0] for v in values]
        numbers = [t.offset for t in terms]
        columns = [np.unique(n, return_inverse=True)[1] for n in numbers if not np.all(n == n[:1])]
        columns += [t.index for t in terms if t.index is not None]
        size = math.prod(shape)
        first, inverse = joint_classes(columns) if columns else (np.zeros(min(size, 1), dtype=int), None)
        if len(first) > max(64, size // 2):
            raise NotSeparable
        arguments: list[Any] = []
        for var, value, term, number in zip(out.owner.inputs, values, terms, numbers, strict=True):
            if term.factor is None:
                given = number if isinstance(value, Form) else np.broadcast_to(value, shape).ravel()
                argument: Any = pt.constant(given[first])
            else:
                picked = term.factor if term.index is None else term.factor[term.index[first]]
                argument = picked if np.all(number[first] == 1) else picked * number[first]
            # Factors are float64; an operation on truth values takes them as such.
            arguments.append(pt.cast(argument, "bool") if var.type.dtype == "bool" else argument)
        result: Any = pt.cast(core_op(out.owner)(*arguments), "float64")
        return factor_form(*((pt.reshape(result, (1,)), shape, None) if len(first) == 1 else (result, shape, inverse)))

    # -- entries moved, joined, summed -------------------------------------------------------------------------------
    def check(self, out: Graph, values: list[Any]) -> Form:
        return self.as_form(values[0])

    def move(self, out: Graph, values: list[Any]) -> Form:
        form = self.as_form(values[0])
        source = entry_sources(out.owner, _indices(out.owner, values))[out.index]
        return form.rows(source, source.shape)

    def join(self, out: Graph, values: list[Any]) -> Form:
        (source,) = entry_sources(out.owner, _indices(out.owner, values))
        return joined([self.as_form(values[k]) for k in parts(out.owner)], source)

    def sum(self, out: Graph, values: list[Any]) -> Form:
        if isinstance(out.owner.op, Sum):
            targets, shape = sum_targets(out.owner, values[0].shape)
            return Form(shape, tuple(t for term in values[0].terms for t in self.factors.summed(term, targets, shape)))
        summed = parts(out.owner)
        if added := added_entries(out.owner, _indices(out.owner, values)):
            into, what = (self.as_form(v) for v in values[:2])
            sources, targets = added
            pieces = what.rows(sources, sources.shape).terms
            terms = (t for term in pieces for t in self.factors.summed(term, targets, into.shape))
            return Form(into.shape, (*into.terms, *terms))
        arguments = [np.zeros(v.shape) if k in summed else v for k, v in enumerate(_indices(out.owner, values))]
        images = [self._image(out.owner, k, self.as_form(values[k]), arguments) for k in summed]
        return Form(images[0].shape, tuple(term for image in images for term in image.terms))

    # -- linear algebra ----------------------------------------------------------------------------------------------
    def bilinear(self, out: Graph, values: list[Any]) -> Form:
        if all(isinstance(v, Form) for v in values):
            return self._matrix_product(*values)
        position = 0 if isinstance(values[0], Form) else 1
        return self._image(out.owner, position, values[position], values)

    def solve(self, out: Graph, values: list[Any]) -> Form:
        position = linear_argument(out.owner)
        if position is None or any(isinstance(v, Form) for k, v in enumerate(values) if k != position):
            raise NotSeparable
        return self._image(out.owner, position, values[position], values)

    def _image(self, node: Apply, position: int, form: Form, values: list[Any]) -> Form:
        """An operation that is linear in one argument, applied to each term's constants."""
        terms = self.factors.split(form)
        images = [t.with_jacobian(linear_image(node, position, t.jacobian, values)) for t in terms]
        image = images[0].jacobian if images else linear_image(node, position, Jacobian(form.shape, {}), values)
        return Form(image.shape, tuple(images))

    def _matrix_product(self, left: Form, right: Form) -> Form:
        """Coordinates in θ times loadings in φ, one term for each column of the coordinates."""
        rows, columns, _ = dot_rows(left.shape, right.shape)
        length = rows.shape[-1]
        few = length * len(left.terms) * len(right.terms) <= TERMS
        if left.pure == right.pure or not few or SPARED * (left if left.pure else right).size > rows.size:
            raise NotSeparable
        shape = product_shape(left.shape, right.shape)
        terms: list[Term] = []
        for k in range(length):
            pair = left.rows(rows[..., k], shape), right.rows(columns[..., k], shape)
            terms += self.factors.product(*pair).terms
        return Form(shape, tuple(terms))


def _power(number: np.ndarray, exponent: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(number, dtype=float) ** exponent


def _indices(node: Apply, values: list[Any]) -> list[Any]:
    """The values of a node's inputs, where those that are indices are known."""
    moved = parts(node)
    if any(isinstance(v, Form) for k, v in enumerate(values) if k not in moved):
        raise NotSeparable
    return values
