"""The generic element of every node of a log density, as an expression in φ: one walk over the graph.

Whatever does not depend on φ is an atom; a ``switch`` is followed only where its condition is proved constant over the
support. A vector φ may enter an element through several indices (φ[i], φ[j]); each is a view of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import sympy
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.traversal import ancestors, toposort, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise

from bayeskit.elimination.symbolic_functions import applied, fixed_difference, in_words, matrix_function
from bayeskit.elimination.symbols import LIMIT, Element, NotProved, Symbols
from bayeskit.families import SupportKind
from bayeskit.graphs.domain import GraphAnalysis
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.operations import Kind, exponents, kind_of, parts
from bayeskit.types import Graph

__all__ = ["GenericElements"]

# Of a boolean node, whether its truth is the same for every φ in the support. A node that only conditions of parameter
# checks need may have no expression; the value then says why.
Value = Element | bool | NotProved


class GenericElements(GraphAnalysis[Value]):
    """The elements of the nodes of one factor, for one variable φ.

    ``depends`` has the latent values that each node depends on, ``truth`` says of a boolean node whether it is always
    true, and whether it is always false, at a reference point.
    """

    def __init__(
        self,
        variable: Graph,
        support: SupportKind,
        depends: Mapping[Graph, frozenset[Graph]],
        truth: Callable[[Graph], tuple[bool, bool]],
    ) -> None:
        self.symbols = Symbols(support)
        super().__init__({variable: Element((self.symbols.view(()),))})
        self.variable, self.depends, self.truth = variable, depends, truth
        self.scalar = variable.type.ndim == 0
        self._constants: dict[Graph, Element] = {}
        self._sums: dict[Element, Element] = {}
        self._of_checks: set[Apply] = set()
        self._choices: dict[Graph, None] = {}  # conditions and indices that choose among forms and entries

    def of(self, graph: Graph) -> Element:
        """The generic element of a factor; NotProved if its value depends on φ in a way that no rule covers."""
        self._of_checks = set(toposort([graph])) - _value_nodes(graph)
        self.walk([graph])
        return _element(self.value(graph))

    def unsettled_checks(self, graph: Graph) -> list[Graph]:
        """Conditions of parameter checks above a factor whose truth is not proved to be the same for every φ.

        Bernoulli(p=2φ) with φ in (0, 1) is checked for p ≤ 1: that cuts the support, though log(2φ) looks conjugate.
        """
        checks = [v.owner for v in ancestors([graph]) if v.owner and isinstance(v.owner.op, CheckAndRaise)]
        tests = dict.fromkeys(test for node in checks for test in node.inputs[1:] if test in self.values)
        return [test for test in tests if not self._settled(test)]

    def apart(self, graph: Graph, other: GenericElements) -> bool:
        """Whether a factor is proved a product of a function of φ and one of another variable, both of the rest.

        No term has both, and what chooses among terms is the same wherever either lies in its support.
        """
        expanded = [sympy.expand(option) for option in _element(self.values[graph]).options]
        terms = [t for e in expanded for t in sympy.Add.make_args(e) if not self.symbols.free_of_views(t)]
        choices = [c for c in self._choices if other.variable in self._others(c)]
        return other.variable not in set().union(*map(self.symbols.origins, terms)) and all(
            map(other.is_fixed, choices)
        )

    def _settled(self, test: Graph) -> bool:
        return self.is_fixed(test) and (bool(self._others(test)) or self.truth(test)[0])

    def _others(self, var: Graph) -> frozenset[Graph]:
        return self.depends.get(var, frozenset()) - {self.variable}

    # -- values --------------------------------------------------------------------------------------------------------
    def constant(self, var: Graph) -> Element:
        """A node that does not depend on φ: a number where it is one, else an atom."""
        if var not in self._constants:
            self._constants[var] = Element((self._constant(var),))
        return self._constants[var]

    def _constant(self, var: Graph) -> sympy.Expr:
        while var.owner and isinstance(var.owner.op, DimShuffle) and _only_pads(var.owner.op):
            var = var.owner.inputs[0]
        if isinstance(var, Constant):
            data = np.asarray(var.data)
            if data.size and data.dtype.kind in "biuf" and np.all(data == data.flat[0]):
                return self.symbols.number(float(data.flat[0]))
        return self.symbols.atom(var, self.depends.get(var, frozenset()))

    def transfer(self, out: Graph, values: list[Value]) -> Value:
        try:
            op, kind = core_op(out.owner), kind_of(out.owner)
            if isinstance(op, CAReduce) and kind is not Kind.SUM:
                if isinstance(op.scalar_op, ps.AND | ps.OR):
                    return self.is_fixed(out.owner.inputs[0])
                raise NotProved(f"it enters through {in_words(op)}")
            if out.type.dtype == "bool" and kind is not Kind.CHECK:
                return self.comparison(out, values)
            return super().transfer(out, values)
        except NotProved as error:
            if out.owner in self._of_checks:
                return error
            raise

    def check(self, out: Graph, values: list[Value]) -> Value:
        return values[0]  # the conditions are asked for by `unsettled_checks`

    # -- entries moved, joined and added -------------------------------------------------------------------------------
    def _require_free_indices(self, node: Apply) -> None:
        indices = [var for k, var in enumerate(node.inputs) if k not in parts(node)]
        if any(var in self.values for var in indices):
            raise NotProved("it is used as an index")
        self._choices.update(dict.fromkeys(indices))

    def move(self, out: Graph, values: list[Value]) -> Element:
        node = out.owner
        self._require_free_indices(node)
        element = _element(values[0])
        if node.inputs[0].type.ndim == 0 or _only_pads(node.op):
            return element
        return self.symbols.renamed(element, (node.op, tuple(node.inputs[1:]), out.index), scalar=self.scalar)

    def join(self, out: Graph, values: list[Value]) -> Element:
        node = out.owner
        self._require_free_indices(node)
        return _union(
            self.symbols.renamed(e, ("part", k, id(node)), scalar=self.scalar) if node.inputs[k].type.ndim else e
            for k, e in ((k, _element(values[k])) for k in parts(node))
        )

    def sum(self, out: Graph, values: list[Value]) -> Element:
        """A sum of terms of the element's forms: (their number) × (a form with symbols of its own).

        With the symbols of the terms themselves, a·φ² − Σ a·φ² would cancel. The condition on a score is linear, so
        that a form with free symbols passes it if and only if every sum of such terms does.
        """
        node = out.owner
        self._require_free_indices(node)
        terms = []
        for k in parts(node):
            element = self.symbols.renamed(_element(values[k]), ("sum", k, id(node)), scalar=self.scalar)
            number = self.symbols.atom(("number of terms", k, id(node)))
            terms.append([number * option for option in element.options])
        return Element(tuple(sympy.Add(*each) for each in _combinations(terms)), True)

    def collapse(self, element: Element) -> Element:
        """A sum over entries of functions of one scalar φ, as a function of φ with new atoms for its coefficients."""
        if not self.scalar:
            raise NotProved("a sum over its entries enters nonlinearly")
        if element not in self._sums:
            (symbol,) = self.symbols.views.values()
            total = sympy.Integer(0)
            for option in element.options:
                for term in sympy.Add.make_args(sympy.expand(option)):
                    rest, power = term.as_independent(symbol, as_Add=False)
                    if power.free_symbols - {symbol}:
                        # Σ 1/(aᵢ + φ) is not a multiple of 1/(a + φ).
                        raise NotProved("a sum over functions of it that differ from entry to entry enters nonlinearly")
                    total += self.symbols.atom(("sum", len(self.symbols.atoms)), self.symbols.origins(rest)) * power
            self._sums[element] = Element((total,))
        return self._sums[element]

    # -- functions -----------------------------------------------------------------------------------------------------
    def linear(self, out: Graph, values: list[Value]) -> Element:
        return self._applied(out, [_element(v) for v in values])

    def elementwise(self, out: Graph, values: list[Value]) -> Element:
        elements = [_element(v) for v in values]
        depending = [k for k, e in enumerate(elements) if not all(map(self.symbols.free_of_views, e.options))]
        powers = exponents(out.owner)
        if not (powers and len(depending) == 1 and powers[depending[0]] == 1):
            # A function of a sum is not the sum of the function.
            elements = [self.collapse(e) if e.summed else e for e in elements]
        return self._applied(out, elements)

    def _applied(self, out: Graph, elements: list[Element]) -> Element:
        options = _combinations([e.options for e in elements])
        expressions = dict.fromkeys(applied(self.symbols, out.owner, arguments) for arguments in options)
        return Element(tuple(expressions), any(e.summed for e in elements))

    def unknown(self, out: Graph, values: list[Value]) -> Element:
        """Matrix functions of φ^k · (φ-free matrix), for a scalar φ: homogeneous, so only the power is needed."""
        if not self.scalar:
            raise NotProved(f"it enters through {in_words(core_op(out.owner))}")
        others = frozenset().union(*map(self._others, out.owner.inputs))
        return matrix_function(self.symbols, out.owner, [_element(v) for v in values], others)

    bilinear = solve = unknown

    # -- conditions ----------------------------------------------------------------------------------------------------
    def choice(self, out: Graph, values: list[Value]) -> Element:
        test = out.owner.inputs[0]
        if not self.is_fixed(test):
            # What is chosen may say more: PyMC takes a negative binomial for Poisson from a size of 1e10 on.
            _union([_element(v) for v in values[1:]])
            raise NotProved("it decides itself which of two expressions holds (a switch, or a parameter's range)")
        self._choices[test] = None
        if not self._others(test):
            always, never = self.truth(test)
            if always or never:
                return _element(values[1 if always else 2])
        return _union([_element(v) for v in values[1:]])

    def is_fixed(self, var: Graph) -> bool:
        """Whether the truth of a node is the same wherever φ lies in its support."""
        return self.values.get(var, True) is True

    def comparison(self, out: Graph, values: list[Value]) -> bool:
        """Of a boolean node that depends on φ."""
        node, kind = out.owner, kind_of(out.owner)
        op = core_op(node)
        if kind in (Kind.MOVE, Kind.JOIN):
            self._require_free_indices(node)
            return all(self.is_fixed(node.inputs[k]) for k in parts(node))
        if not isinstance(op, Elemwise):
            return False
        if all(i.type.dtype == "bool" for i in node.inputs):
            decided = [self.truth(i)[isinstance(op.scalar_op, ps.AND)] for i in node.inputs if not self.depends.get(i)]
            settled = isinstance(op.scalar_op, ps.AND | ps.OR) and any(decided)  # False and …, True or …
            return settled or all(map(self.is_fixed, node.inputs))
        if not isinstance(op.scalar_op, ps.LT | ps.LE | ps.GT | ps.GE | ps.EQ | ps.NEQ):
            return False
        if not all(isinstance(v, Element) and not v.summed for v in values):
            return False
        pairs = itertools.product(*[_element(v).options for v in values])
        return all(fixed_difference(self.symbols, a, b) for a, b in pairs)


def _element(value: Value) -> Element:
    """The element that a node's value is."""
    if isinstance(value, NotProved):
        raise value
    if isinstance(value, bool):
        raise NotProved("a comparison is used as a number")
    return value


def _union(elements: Iterable[Element]) -> Element:
    """An entry of any of several elements."""
    elements = list(elements)
    return Element(tuple(dict.fromkeys(o for e in elements for o in e.options)), any(e.summed for e in elements))


def _combinations(options: list[tuple[sympy.Expr, ...]] | list[list[sympy.Expr]]) -> list[tuple[sympy.Expr, ...]]:
    """One option of each input, in every way."""
    if int(np.prod([len(o) for o in options])) > LIMIT:
        raise NotProved("it enters in too many different ways")
    return list(itertools.product(*options))


def _value_nodes(graph: Graph) -> set[Apply]:
    """The nodes that the value of a graph depends on: the conditions of checks are left out."""

    def inputs_of(var: Graph) -> list[Graph] | None:
        if var.owner is None:
            return None
        return var.owner.inputs[:1] if isinstance(var.owner.op, CheckAndRaise) else var.owner.inputs

    return {v.owner for v in walk([graph], inputs_of) if v.owner}


def _only_pads(op: object) -> bool:
    """Whether a DimShuffle leaves broadcasting as it is (new axes on the left only)."""
    if not isinstance(op, DimShuffle):
        return type(op).__name__ in ("TensorFromScalar", "ScalarFromTensor", "SpecifyShape", "Alloc")
    return tuple(op.new_order[len(op.new_order) - op.input_ndim :]) == tuple(range(op.input_ndim))
