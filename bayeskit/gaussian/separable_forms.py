"""Nodes that are affine in θ, with what depends on the remaining variables φ pulled out in front as small factors.

For a node u(θ, φ) that is affine in θ, this module finds constants M_r, a_r, indices k_r and small vectors b_r(φ) with

    u_i(θ, φ) = Σ_r b_r(φ)[k_r(i)] · (M_r θ + a_r)_i .

(y − Xw)/σ is one term, with factor 1/σ and constants −X and y; with a noise sd for each group the factor is the vector
1/σ and k the group of each row. Products of such nodes are then sums over a few values of φ times constant matrices
such as XᵀX, computed once: **sufficient statistics**, so that an evaluation costs the same for 10³ and for 10⁶ rows.

The walk is forward, node by node, as in :mod:`bayeskit.gaussian.jacobians`, whose constant Jacobians it uses term by
term. A node without θ always has an answer (in the worst case itself as its factor); one with θ that does not, because
φ mixes its entries as in ``cholesky(K(φ)) @ z``, is reported as not separable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor
from scipy import sparse

from bayeskit.gaussian.jacobians import Block, Jacobian, broadcast_jacobian, linear_jacobian, perform, sum_jacobians
from bayeskit.graphs.domain import Kind, kind_of
from bayeskit.graphs.nodes import core_op
from bayeskit.types import Graph

__all__ = ["OFFSET", "Form", "NotSeparable", "Separator", "Term", "dot_rows"]

OFFSET = ""  # the name of the column a of a Jacobian in homogeneous coordinates (θ, 1)
CLASSES = 32  # entries of a vector factor up to which a sum or product over rows is split into one term each
TERMS = 16  # terms up to which a product of sums is multiplied out
SPARED = 16  # times that each entry of a matrix of φ is used, from which a product with it is multiplied out

Classes = np.ndarray | None


class NotSeparable(Exception):
    """The node mixes θ with φ in a way that no small factor describes."""


@dataclass(frozen=True, eq=False)
class Term:
    """diag(b[index]) (M θ + a): constant Jacobian in (θ, 1), factor b, and the entry of b for each row.

    ``factor`` is None for 1; a factor of one entry has no index.
    """

    jacobian: Jacobian
    factor: Graph | None = None
    index: Classes = None

    def rows(self, index: np.ndarray, shape: tuple[int, ...]) -> Term:
        """The term of the node whose entries are the entries ``index`` of this one."""
        blocks = {n: b.rows(index) for n, b in self.jacobian.blocks.items()}
        return Term(Jacobian(shape, blocks), self.factor, None if self.index is None else self.index[index])

    def times(self, array: np.ndarray) -> Term:
        """Multiplied by a constant, one number or one for each row."""
        array = np.asarray(array, dtype=float).ravel()
        if array.size == 1 and array[0] == 1:
            return self
        blocks = {n: b.times(array) for n, b in self.jacobian.blocks.items()}
        return replace(self, jacobian=Jacobian(self.jacobian.shape, blocks))

    @property
    def pure(self) -> bool:
        """Whether θ does not enter."""
        return all(n == OFFSET for n in self.jacobian.blocks)

    @property
    def offset(self) -> np.ndarray:
        """a, flat."""
        block = self.jacobian.blocks.get(OFFSET)
        return np.zeros(self.jacobian.size) if block is None else block.dense()[:, 0]


@dataclass(frozen=True, eq=False)
class Form:
    """A node as a sum of terms."""

    shape: tuple[int, ...]
    terms: tuple[Term, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def pure(self) -> bool:
        return all(t.pure for t in self.terms)

    def rows(self, index: np.ndarray, shape: tuple[int, ...]) -> Form:
        return Form(shape, tuple(t.rows(index.ravel(), shape) for t in self.terms))

    def to_shape(self, shape: tuple[int, ...]) -> Form:
        """Broadcast."""
        if self.shape == shape:
            return self
        if int(np.prod(shape, dtype=int)) == self.size:  # only axes of length one are added: nothing is copied
            return self.reshaped(shape)
        return self.rows(np.broadcast_to(np.arange(self.size).reshape(self.shape), shape), shape)

    def reshaped(self, shape: tuple[int, ...]) -> Form:
        return Form(shape, tuple(replace(t, jacobian=Jacobian(shape, t.jacobian.blocks)) for t in self.terms))

    def times(self, array: np.ndarray) -> Form:
        return Form(self.shape, tuple(t.times(array) for t in self.terms))


def constant(value: Any) -> Form:
    """A constant as a form."""
    array = np.asarray(value, dtype=float)
    return Form(array.shape, (Term(Jacobian(array.shape, {OFFSET: Block(array.reshape(-1, 1))})),))


def _ones(shape: tuple[int, ...]) -> Jacobian:
    return Jacobian(shape, {OFFSET: Block(np.ones((int(np.prod(shape, dtype=int)), 1)))})


def joint_classes(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """For rows labelled by several integer columns: a representative row of each distinct label, and its number."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # Renumbered at every step, so that the codes cannot overflow.
        code = np.unique(code, return_inverse=True)[1]
        code = code * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse


class Separator:
    """One walk over a set of graphs.

    Parameters
    ----------
    targets : mapping of tensor to (str, tuple of int)
        θ: name and shape of each variable.
    dependence : mapping of tensor to frozenset
        Which latent variables each node depends on.
    value_of : callable
        The value of a node that depends on none.
    shape_of : callable
        The shape of a node.
    """

    def __init__(
        self,
        targets: Mapping[Graph, tuple[str, tuple[int, ...]]],
        dependence: Mapping[Graph, frozenset[Graph]],
        value_of: Callable[[Graph], np.ndarray],
        shape_of: Callable[[Graph], tuple[int, ...]],
    ) -> None:
        self.dependence = dependence
        self.targets = frozenset(targets)
        self.value_of = value_of
        self.shape_of = shape_of
        self.forms: dict[Graph, Form | None] = {}  # None: not separable
        self.conditions: dict[Graph, None] = {}  # checks of parameters that depend on φ
        self._factors: dict[tuple[Any, ...], Any] = {}
        for var, (name, shape) in targets.items():
            size = int(np.prod(shape, dtype=int))
            identity = Block(sparse.csr_array(sparse.eye_array(size, format="csr")))
            self.forms[var] = Form(shape, (Term(Jacobian(shape, {name: identity})),))

    # -- the walk ----------------------------------------------------------------------------------------------------
    def walk(self, outputs: Iterable[Graph]) -> None:
        """Find the forms of nodes and of everything above them."""
        for node in toposort(list(outputs)):
            if isinstance(node.op, Shape | Shape_i):
                continue
            if node.outputs[0] in self.forms or not self.dependence.get(node.outputs[0]):
                continue
            self._visit(node)

    def form(self, var: Graph) -> Form:
        """The form of one node.

        Raises
        ------
        NotSeparable
            If it has none.
        """
        if not self.dependence.get(var):
            return constant(self.value_of(var))
        self.walk([var])
        if var not in self.forms:
            self.forms[var] = self.opaque(var)
        found = self.forms[var]
        if found is None:
            raise NotSeparable
        return found

    def _visit(self, node: Apply) -> None:
        out = node.outputs[0]
        with_theta = bool(self.dependence[out] & self.targets)
        if kind_of(node) is Kind.CHECK:
            self.conditions.update((c, None) for c in node.inputs[1:] if self.dependence.get(c))
        try:
            results: list[Form | None] = list(self._rule(node, [self._part(i) for i in node.inputs]))
        except NotSeparable:
            results = [None if with_theta else self.opaque(o) for o in node.outputs]
        self.forms.update(zip(node.outputs, results, strict=True))

    def _part(self, var: Graph) -> Any:
        """A number array, or a form; a condition or index that depends on φ is given as itself."""
        if not self.dependence.get(var):
            return self.value_of(var) if hasattr(var.type, "dtype") else getattr(var, "data", var)
        if not hasattr(var.type, "dtype"):
            raise NotSeparable
        return self.form(var)

    def opaque(self, var: Graph) -> Form:
        """A node without θ as its own factor."""
        shape = self.shape_of(var)
        size = int(np.prod(shape, dtype=int))
        vector = pt.cast(pt.reshape(var, (size,)), "float64")
        return Form(shape, (Term(_ones(shape), vector, None if size == 1 else np.arange(size)),))

    def _rule(self, node: Apply, parts: list[Any]) -> list[Form]:
        op = core_op(node)
        if kind_of(node) is Kind.CHECK:
            return [_as_form(parts[0])]
        if isinstance(op, Elemwise):
            shape = np.broadcast_shapes(*[p.shape for p in parts])
            return [self._tidy(self._elementwise(node, parts, shape))]
        if kind_of(node) is Kind.MOVE:
            return self._gather(node, parts)
        if kind_of(node) is Kind.JOIN:
            count = 2 if isinstance(op, IncSubtensor | AdvancedIncSubtensor) else len(parts)
            return [self._assemble(node, [_as_form(p) for p in parts[:count]], parts[count:])]
        if isinstance(op, Sum):
            return [self._sum(node, parts[0])]
        if isinstance(op, Dot) and all(isinstance(p, Form) for p in parts):
            return [self._matrix_product(node, *parts)]
        return [self._linear(node, parts)]

    def _tidy(self, form: Form) -> Form:
        """Terms with the same factor, added up: (y − Xw)/σ must stay one residual."""
        groups: list[tuple[Term, list[Jacobian]]] = []
        for term in form.terms:
            for first, members in groups:
                same_index = first.index is term.index or (
                    first.index is not None and term.index is not None and np.array_equal(first.index, term.index)
                )
                if first.factor is term.factor and same_index:
                    members.append(term.jacobian)
                    break
            else:
                groups.append((term, [term.jacobian]))
        if len(groups) == len(form.terms):
            return form
        return Form(form.shape, tuple(replace(f, jacobian=sum_jacobians(m, form.shape)) for f, m in groups))

    # -- factors -----------------------------------------------------------------------------------------------------
    def _kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """One tensor for one expression, so that equal factors are the same object; the key keeps its parts alive."""
        if key not in self._factors:
            self._factors[key] = make()
        return self._factors[key]

    def multiply(self, one: Graph | None, i: Classes, two: Graph | None, j: Classes) -> tuple[Graph | None, Classes]:
        """The product of two factors, row by row."""
        if one is None or two is None:
            return (two, j) if one is None else (one, i)
        if i is None or j is None or (one is two and np.array_equal(i, j)):
            pair = tuple(sorted((one, two), key=id))
            return self._kept(("multiply", *pair), lambda: one * two), j if i is None else i
        first, inverse = joint_classes([i, j])
        return one[i[first]] * two[j[first]], inverse

    # -- elementwise -------------------------------------------------------------------------------------------------
    def _elementwise(self, node: Apply, parts: list[Any], shape: tuple[int, ...]) -> Form:
        op: Any = core_op(node).scalar_op
        if isinstance(op, ps.Add | ps.Sub | ps.Neg | ps.Identity | ps.Cast | ps.Second):
            if isinstance(op, ps.Cast) and not node.outputs[0].type.dtype.startswith("float"):
                return self._pointwise(node, parts, shape)
            if isinstance(op, ps.Second):
                parts = [parts[1]]
            signs = {0: -1.0} if isinstance(op, ps.Neg) else {1: -1.0} if isinstance(op, ps.Sub) else {}
            forms = [_as_form(p).to_shape(shape).times(np.asarray(signs.get(k, 1.0))) for k, p in enumerate(parts)]
            return Form(shape, tuple(t for f in forms for t in f.terms))
        if isinstance(op, ps.Switch) and isinstance(parts[0], np.ndarray):
            chosen = np.broadcast_to(parts[0] != 0, shape).ravel()
            if np.all(chosen) or not np.any(chosen):
                return _as_form(parts[1] if np.all(chosen) else parts[2]).to_shape(shape)
            forms = [_chosen(_as_form(p).to_shape(shape), c) for p, c in zip(parts[1:], (chosen, ~chosen), strict=True)]
            return Form(shape, tuple(t for f in forms for t in f.terms))
        if isinstance(op, ps.Mul):
            return self._product(node, parts, shape)
        if isinstance(op, ps.TrueDiv) and not (isinstance(parts[1], Form) and not _single(parts[1])):
            return self._product(node, [parts[0], self._power(parts[1], -1.0)], shape)
        if isinstance(op, ps.Sqr | ps.Sqrt | ps.Reciprocal) and _single(parts[0]):
            exponent = 2.0 if isinstance(op, ps.Sqr) else 0.5 if isinstance(op, ps.Sqrt) else -1.0
            return self._power(parts[0], exponent).to_shape(shape)
        if isinstance(op, ps.Pow) and _single(parts[0]) and isinstance(parts[1], np.ndarray):
            exponents = np.unique(parts[1])
            if len(exponents) == 1:
                return self._power(parts[0], float(exponents[0])).to_shape(shape)
        return self._pointwise(node, parts, shape)

    def _product(self, node: Apply, parts: list[Any], shape: tuple[int, ...]) -> Form:
        numbers = [p for p in parts if not isinstance(p, Form)]
        forms = [p for p in parts if isinstance(p, Form)]
        if sum(not f.pure for f in forms) > 1 or np.prod([len(f.terms) for f in forms]) > TERMS:
            raise NotSeparable
        total = forms[0].to_shape(shape)
        for other in forms[1:]:
            total = self._multiply_forms(total, other.to_shape(shape))
        for number in numbers:
            array = np.asarray(number, dtype=float)
            total = total.times(array if array.size == 1 else np.broadcast_to(array, shape).ravel())
        return total

    def _multiply_forms(self, one: Form, two: Form) -> Form:
        terms = []
        for a in one.terms:
            for b in two.terms:
                moving, still = (a, b) if b.pure else (b, a)
                factor, index = self.multiply(a.factor, a.index, b.factor, b.index)
                terms.append(replace(moving.times(_uniform(still.offset)), factor=factor, index=index))
        return Form(one.shape, tuple(terms))

    def _power(self, part: Any, exponent: float) -> Any:
        """A constant, or a form of one term without θ, to a power."""
        if not isinstance(part, Form):
            with np.errstate(all="ignore"):
                return np.asarray(part, dtype=float) ** exponent
        (term,) = part.terms
        offset = term.offset
        if exponent != int(exponent) and np.any(offset < 0):
            raise NotSeparable
        if exponent < 0 and np.any(offset == 0):
            raise NotSeparable
        factor = term.factor
        if factor is not None:
            base: Graph = factor
            factor = self._kept(("power", exponent, base), lambda: 1.0 / base if exponent == -1 else base**exponent)
        jacobian = Jacobian(part.shape, {OFFSET: Block((offset**exponent)[:, None])})
        return Form(part.shape, (Term(jacobian, factor, term.index),))

    def _pointwise(self, node: Apply, parts: list[Any], shape: tuple[int, ...]) -> Form:
        """Any function of nodes without θ, evaluated once for each distinct set of arguments."""
        if any(isinstance(p, Form) and (not _single(p)) for p in parts):
            raise NotSeparable
        size = int(np.prod(shape, dtype=int))
        columns, arguments = [], []
        for part in parts:
            if isinstance(part, Form):
                (term,) = part.to_shape(shape).terms
                values = term.offset
                if term.index is not None:
                    columns.append(term.index)
            else:
                values = np.broadcast_to(np.asarray(part), shape).ravel()
                term = None
            if not np.all(values == values[:1]):
                columns.append(np.unique(values, return_inverse=True)[1])
            arguments.append((term, values))
        first, inverse = joint_classes(columns) if columns else (np.zeros(min(size, 1), dtype=int), None)
        if len(first) > max(64, size // 2):
            raise NotSeparable
        inputs: list[Any] = []
        for term, values in arguments:
            if term is None or term.factor is None:
                inputs.append(pt.constant(values[first]))
            else:
                picked = term.factor if term.index is None else term.factor[term.index[first]]
                plain = np.all(values[first] == 1)
                inputs.append(picked if plain else picked * values[first])
        # Factors are float64; an operation on truth values takes them as such.
        inputs = [
            pt.cast(i, o.type.dtype) if o.type.dtype == "bool" else i for i, o in zip(inputs, node.inputs, strict=True)
        ]
        result: Any = core_op(node)(*inputs)
        if len(first) == 1:
            result, inverse = pt.reshape(result, (1,)), None
        return Form(shape, (Term(_ones(shape), pt.cast(result, "float64"), inverse),))

    # -- entries moved, joined, summed -------------------------------------------------------------------------------
    def _gather(self, node: Apply, parts: list[Any]) -> list[Form]:
        if any(isinstance(p, Form) for p in parts[1:]):
            raise NotSeparable
        form = _as_form(parts[0])
        if isinstance(node.op, DimShuffle) and list(node.op.shuffle) == sorted(node.op.shuffle):
            (empty,) = perform(node, [np.empty(form.shape), *parts[1:]])
            return [form.reshaped(np.shape(empty))]
        sources = perform(node, [np.arange(form.size).reshape(form.shape), *parts[1:]])
        return [form.rows(np.asarray(s, dtype=int), np.shape(s)) for s in sources]

    def _assemble(self, node: Apply, forms: list[Form], arguments: list[Any]) -> Form:
        if any(isinstance(a, Form) for a in arguments):
            raise NotSeparable
        pieces: list[tuple[Form, int]] = []
        start, inputs = 0, []
        op = core_op(node)
        for position, form in enumerate(forms):
            if position == 0 and type(op).__name__ == "Join" and node.inputs[0].type.ndim == 0:
                inputs.append(np.asarray(form.terms[0].offset[0], dtype=int))  # the axis
                continue
            inputs.append(np.arange(start, start + form.size).reshape(form.shape))
            pieces.append((form, start))
            start += form.size
        (source,) = perform(node, [*inputs, *arguments])
        source = np.asarray(source, dtype=int)
        flat = source.ravel()
        terms: list[Term] = []
        for form, begin in pieces:
            inside = (flat >= begin) & (flat < begin + form.size)
            if np.any(inside):
                moved = form.rows(np.where(inside, flat - begin, 0), source.shape)
                terms += _chosen(moved, inside).terms
        return self._tidy(Form(source.shape, tuple(terms)))

    def _split(self, term: Term) -> list[Term]:
        """One term a value of a vector factor."""
        if term.index is None:
            return [term]
        used = np.unique(term.index)
        if len(used) > CLASSES:
            raise NotSeparable
        assert term.factor is not None
        factor = term.factor
        whole = Form(term.jacobian.shape, (replace(term, index=None),))
        pieces = [(int(k), _chosen(whole, term.index == k).terms[0]) for k in used]
        return [replace(piece, factor=self._entry(factor, k)) for k, piece in pieces]

    def _entry(self, factor: Graph, k: int) -> Graph:
        return self._kept(("entry", k, factor), lambda: factor[[k]])

    def _sum(self, node: Apply, form: Form) -> Form:
        terms: list[Term] = []
        for term in form.terms:
            if term.index is not None and term.pure:
                terms.append(_sum_of_factor(node, term))
            else:
                terms += [replace(t, jacobian=linear_jacobian(node, [t.jacobian])) for t in self._split(term)]
        shape = terms[0].jacobian.shape
        return self._tidy(Form(shape, tuple(terms)))

    def _matrix_product(self, node: Apply, left: Form, right: Form) -> Form:
        """Coordinates in θ times loadings in φ, one term for each column of the coordinates."""
        rows, columns, _ = dot_rows(left.shape, right.shape)
        length = rows.shape[-1]
        pure = left if left.pure else right
        if left.pure == right.pure or length * len(left.terms) * len(right.terms) > TERMS:
            raise NotSeparable
        if SPARED * pure.size > rows.size:
            raise NotSeparable
        shape = self.shape_of(node.outputs[0])
        terms: list[Term] = []
        for k in range(length):
            terms += self._multiply_forms(left.rows(rows[..., k], shape), right.rows(columns[..., k], shape)).terms
        return self._tidy(Form(shape, tuple(terms)))

    def _linear(self, node: Apply, parts: list[Any]) -> Form:
        """An op that is linear in its one argument that is not constant, applied to each term's constants."""
        moving = [k for k, p in enumerate(parts) if isinstance(p, Form)]
        if len(moving) != 1:
            raise NotSeparable
        (position,) = moving
        form: Form = parts[position]
        terms: list[Term] = []
        for term in [t for whole in form.terms for t in self._split(whole)]:
            arguments = [term.jacobian if k == position else p for k, p in enumerate(parts)]
            try:
                terms.append(replace(term, jacobian=linear_jacobian(node, arguments)))
            except NotImplementedError as error:
                raise NotSeparable from error
        return self._tidy(Form(terms[0].jacobian.shape, tuple(terms)))


def dot_rows(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix product as scalar products: entries of the left, of the right, and of the result."""
    a = np.arange(int(np.prod(left, dtype=int))).reshape(left)
    b = np.arange(int(np.prod(right, dtype=int))).reshape(right)
    a = a[None, :] if a.ndim == 1 else a
    b = b[:, None] if b.ndim == 1 else b
    rows, columns = np.broadcast_arrays(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
    repeat = np.arange(int(np.prod(rows.shape[:-1], dtype=int))).reshape(rows.shape[:-1])
    return rows, columns, np.broadcast_to(repeat[..., None], rows.shape)


def _as_form(part: Any) -> Form:
    return part if isinstance(part, Form) else constant(part)


def _single(part: Any) -> bool:
    return isinstance(part, Form) and len(part.terms) == 1 and part.pure


def _uniform(values: np.ndarray) -> np.ndarray:
    return values[:1] if values.size and np.all(values == values[0]) else values


def _chosen(form: Form, chosen: np.ndarray) -> Form:
    """Zero in the rows not chosen; selected rather than multiplied, because 0·∞ is not 0."""
    if np.all(chosen):
        return form
    terms = []
    for term in form.terms:
        blocks = {}
        for name, block in term.jacobian.blocks.items():
            matrix = block.plain()
            if sparse.issparse(matrix):
                keep = sparse.csr_array(sparse.diags_array(chosen.astype(float)))
                blocks[name] = Block(sparse.csr_array(keep @ matrix))
            else:
                blocks[name] = Block(np.where(chosen[:, None], matrix, 0.0))
        terms.append(replace(term, jacobian=Jacobian(term.jacobian.shape, blocks)))
    return Form(form.shape, tuple(terms))


def _sum_of_factor(node: Apply, term: Term) -> Term:
    """Σ a_i b[k_i] as counts times b."""
    assert term.factor is not None and term.index is not None
    shape = term.jacobian.shape
    axes: Any = node.op.axis
    axes = tuple(range(len(shape))) if axes is None else tuple(a % len(shape) for a in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    out = tuple(n for i, n in enumerate(shape) if i not in axes)
    size = int(np.prod(out, dtype=int))
    target = np.broadcast_to(np.arange(size).reshape(kept), shape).ravel()
    length = int(term.index.max(initial=0)) + 1
    weights = sparse.coo_array((term.offset, (target, term.index)), shape=(size, length)).tocsr()
    if size * length <= 1_000_000:
        summed = pt.dot(weights.toarray(), term.factor[:length])
    else:
        flat = term.factor[term.index] * term.offset
        summed = pt.zeros(size)[target].inc(flat)
    return Term(_ones(out), summed, None if size == 1 else np.arange(size))


def broadcast_term(term: Term, shape: tuple[int, ...]) -> Term:
    """A term of a node as one of the node broadcast to a larger shape."""
    if term.jacobian.shape == shape:
        return term
    index = np.broadcast_to(np.arange(term.jacobian.size).reshape(term.jacobian.shape), shape).ravel()
    moved = broadcast_jacobian(term.jacobian, shape)
    return Term(moved, term.factor, None if term.index is None else term.index[index])
