"""Proof that a score is linear in a conjugate family's score basis, by exact algebra on the graph of the log density.

For a variable φ of a conjugate family's support, a factor of log p(y, φ | rest) is walked once, and the
generic element of every node is written as a SymPy expression in φ; whatever does not depend on φ becomes an opaque
symbol, an *atom*. p(φ | y, rest) is then conjugate if and only if

    w(φ) · ∂/∂φ log p = c₀ b₀(φ) + c₁ b₁(φ),

with the family's weight w and basis b (1 and φ, or sin φ and cos φ on the circle) and c₀, c₁ free of φ. This is an
identity of rational functions, or of polynomials in sin φ and cos φ, decided by SymPy, and so holds for every φ in the
support: nothing far from the data is missed, and the spelling (rate, scale, precision, sd, Deterministics, indexing,
broadcasting) does not matter. A ``switch`` is followed only where its condition is proved constant over the support.

A vector φ may enter an element through several indices (φ[i], φ[j]); each is a *view* with a symbol of its own, and a
score that mixes views is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Log1mexp, Sigmoid, Softplus
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.families import ConjugateFamily, SupportKind
from bayeskit.graphs.domain import Kind, kind_of, parts
from bayeskit.graphs.nodes import core_op

__all__ = ["Element", "NotProved", "Walker", "linear_score"]

LIMIT = 48  # alternatives (of switches, joins) an element may have before the proof gives up


class NotProved(Exception):
    """The log density could not be shown to be of the family; the message says what stood in the way."""


@dataclass(frozen=True)
class Element:
    """The generic element of a node: one of several expressions; ``summed`` if it is a sum of such terms."""

    options: tuple[sympy.Expr, ...]
    summed: bool = False


@dataclass(frozen=True)
class Condition:
    """A boolean node; ``fixed`` if its truth is the same for every value of φ in the support."""

    fixed: bool


@dataclass
class Walker:
    """Walks the graph of one factor for one variable.

    Attributes
    ----------
    variable : tensor
        φ.
    support : SupportKind
        Where φ lies.
    depends : mapping of tensor to frozenset of tensor
        Which latent values each node depends on.
    truth : callable
        For a boolean node: (always true, always false) at a reference point.
    """

    variable: Variable
    support: SupportKind
    depends: Mapping[Variable, frozenset[Variable]]
    truth: Callable[[Variable], tuple[bool, bool]]
    atoms: dict[Any, sympy.Symbol] = field(default_factory=dict)
    origin: dict[sympy.Symbol, frozenset[Variable]] = field(default_factory=dict)
    views: dict[Any, sympy.Symbol] = field(default_factory=dict)
    keys: dict[sympy.Symbol, Any] = field(default_factory=dict)
    found: dict[Variable, Element | Condition] = field(default_factory=dict)
    collapsed: dict[Element, Element] = field(default_factory=dict)

    # -- symbols -----------------------------------------------------------------------------------------------------
    def view(self, key: Any) -> sympy.Symbol:
        """The symbol of φ seen through a chain of indices."""
        if key not in self.views:
            assumption = {"positive": True} if self.support.positive else {"real": True}
            symbol = sympy.Symbol(f"phi{len(self.views)}", **assumption)
            self.views[key] = symbol
            self.keys[symbol] = key
        return self.views[key]

    def atom(self, key: Any, origin: frozenset[Variable]) -> sympy.Symbol:
        """The symbol of something that does not depend on φ."""
        if key not in self.atoms:
            symbol = sympy.Symbol(f"a{len(self.atoms)}", real=True)
            self.atoms[key] = symbol
            self.keys[symbol] = key
            self.origin[symbol] = origin
        return self.atoms[key]

    def fresh(self, expression: sympy.Expr) -> sympy.Symbol:
        """An atom standing for a φ-free expression that has no simpler form."""
        origin = frozenset().union(*[self.origin.get(s, frozenset()) for s in expression.free_symbols])
        return self.atom(("expression", expression), origin)

    def is_view(self, symbol: sympy.Symbol) -> bool:
        return symbol in self.keys and symbol not in self.origin

    def free_of_views(self, expression: sympy.Expr) -> bool:
        return not any(self.is_view(s) for s in expression.free_symbols)

    # -- leaves ------------------------------------------------------------------------------------------------------
    def leaf(self, var: Variable) -> Element:
        """A node that does not depend on φ: a number where it is one, else an atom."""
        base = var
        while base.owner and isinstance(base.owner.op, DimShuffle) and _only_pads(base.owner.op):
            base = base.owner.inputs[0]
        if isinstance(base, Constant):
            data = np.asarray(base.data)
            if data.size and data.dtype.kind in "biuf" and np.all(data == data.flat[0]):
                return Element((_number(float(data.flat[0]), self),))
        return Element((self.atom(base, self.depends.get(base, frozenset())),))

    def element(self, var: Variable) -> Element:
        """The element of an input of a node."""
        if var in self.found:
            found = self.found[var]
            if isinstance(found, Condition):
                raise NotProved("a comparison is used as a number")
            return found
        return self.leaf(var)

    # -- the walk ----------------------------------------------------------------------------------------------------
    def walk(self, graph: Variable) -> Element:
        """The generic element of a factor."""
        self.found[self.variable] = Element((self.view(()),))
        self.visit_all(_value_nodes(graph))
        return self.element(graph)

    def visit_all(self, nodes: Iterable[Apply]) -> None:
        """Visit the nodes that depend on φ, inputs before outputs."""
        for node in nodes:
            if all(self.variable not in self.depends.get(i, ()) for i in node.inputs):
                continue
            if isinstance(node.op, Shape | Shape_i):
                continue
            for position, out in enumerate(node.outputs):
                if out not in self.found:
                    self.found[out] = self.visit(node, position)

    def unsettled_checks(self, graph: Variable) -> list[Variable]:
        """Conditions of parameter checks above a factor whose truth is not proved to be the same for every φ.

        Bernoulli(p=2φ) with φ in (0, 1) is checked for p ≤ 1: that cuts the support, though log(2φ) looks conjugate.
        """
        unsettled = []
        for var in ancestors([graph]):
            if var.owner is None or not isinstance(var.owner.op, CheckParameterValue | CheckAndRaise):
                continue
            for test in var.owner.inputs[1:]:
                if self.variable in self.depends.get(test, ()) and not self.settled(test):
                    unsettled.append(test)
        return unsettled

    def settled(self, test: Variable) -> bool:
        try:
            self.visit_all(toposort([test]))
        except NotProved:
            return False
        others = self.depends.get(test, frozenset()) - {self.variable}
        return self.condition(test).fixed and (bool(others) or self.truth(test)[0])

    def visit(self, node: Apply, position: int) -> Element | Condition:
        op = core_op(node)
        if isinstance(op, CheckParameterValue | CheckAndRaise):
            return self.found.get(node.inputs[0]) or self.leaf(node.inputs[0])
        if isinstance(op, CAReduce) and not isinstance(op, Sum):
            if isinstance(op.scalar_op, ps.AND | ps.OR):
                return Condition(self.condition(node.inputs[0]).fixed)
            raise NotProved(f"it enters through {_name(op)}")
        if node.outputs[position].type.dtype == "bool":
            return self.comparison(node)
        if isinstance(op, Elemwise):
            return self.elementwise(op.scalar_op, node)
        if kind_of(node) in (Kind.MOVE, Kind.CHECK):
            if any(self.variable in self.depends.get(i, ()) for i in node.inputs[1:]):
                raise NotProved("it is used as an index")
            return self.moved(node, position)
        if isinstance(op, Sum):
            return self.sum(node)
        if kind_of(node) is Kind.JOIN:
            return self.union([self.moved_part(node, k, node.inputs[k]) for k in parts(node)])
        return self.linear_algebra(node)

    def union(self, parts: list[Element]) -> Element:
        options = tuple(dict.fromkeys(o for p in parts for o in p.options))
        if len(options) > LIMIT:
            raise NotProved("it enters in too many different ways")
        return Element(options, any(p.summed for p in parts))

    def moved(self, node: Apply, position: int) -> Element:
        """Entries moved: every symbol in the element now stands for the entry that came to this place."""
        element = self.element(node.inputs[0])
        if node.inputs[0].type.ndim == 0 or _only_pads(node.op):
            return element
        return self.rename(element, _move_key(node, position))

    def sum(self, node: Apply) -> Element:
        """A sum of terms of the element's forms: (their number) × (a form with symbols of its own).

        With the symbols of the terms themselves, a·φ² − Σ a·φ² would cancel. The condition on a score is linear, so
        that a form with free symbols passes it if and only if every sum of such terms does.
        """
        element = self.rename(self.element(node.inputs[0]), ("sum", id(node)))
        number = self.atom(("number of terms", id(node)), frozenset())
        return Element(tuple(number * o for o in element.options), True)

    def moved_part(self, node: Apply, part: int, var: Variable) -> Element:
        element = self.element(var)
        return element if var.type.ndim == 0 else self.rename(element, ("part", part, id(node)))

    def rename(self, element: Element, move: Any) -> Element:
        mapping = {}
        for symbol in set().union(*[o.free_symbols for o in element.options]):
            key = self.keys[symbol]
            if self.is_view(symbol):
                mapping[symbol] = symbol if self.variable.type.ndim == 0 else self.view((move, key))
            elif not _is_scalar(key):
                mapping[symbol] = self.atom((move, key), self.origin[symbol])
        return Element(tuple(o.xreplace(mapping) for o in element.options), element.summed)

    # -- elementwise functions ---------------------------------------------------------------------------------------
    def elementwise(self, op: ps.ScalarOp, node: Apply) -> Element:
        if isinstance(op, ps.Switch):
            return self.switch(node)
        parts = [self.element(i) for i in node.inputs]
        linear = isinstance(op, ps.Add | ps.Sub | ps.Neg | ps.Identity | ps.Cast)
        if any(p.summed for p in parts) and not linear:
            scaled = isinstance(op, ps.Mul | ps.TrueDiv) and [p for p in parts if self.depends_on_view(p)]
            if not (scaled and len(scaled) == 1 and (scaled[0] is parts[0] or isinstance(op, ps.Mul))):
                # A function of a sum is not the sum of the function.
                parts = [self.collapse(p) if p.summed else p for p in parts]
        summed = any(p.summed for p in parts)
        count = int(np.prod([len(p.options) for p in parts]))
        if count > LIMIT:
            raise NotProved("it enters in too many different ways")
        options = [self.apply(op, list(arguments)) for arguments in itertools.product(*[p.options for p in parts])]
        return Element(tuple(dict.fromkeys(options)), summed)

    def depends_on_view(self, element: Element) -> bool:
        return not all(self.free_of_views(o) for o in element.options)

    def apply(self, op: ps.ScalarOp, x: list[sympy.Expr]) -> sympy.Expr:
        """One scalar function on expressions; exact rules only."""
        if isinstance(op, ps.Add):
            return sympy.Add(*x)
        if isinstance(op, ps.Sub):
            return x[0] - x[1]
        if isinstance(op, ps.Mul):
            return sympy.Mul(*x)
        if isinstance(op, ps.TrueDiv):
            return x[0] / x[1]
        if isinstance(op, ps.Neg):
            return -x[0]
        if isinstance(op, ps.Identity) or (isinstance(op, ps.Cast) and op.o_type.dtype.startswith("float")):
            return x[0]
        if isinstance(op, ps.Second):
            return x[1]
        if isinstance(op, ps.Reciprocal):
            return 1 / x[0]
        if isinstance(op, ps.Sqr):
            return x[0] ** 2
        if isinstance(op, ps.Sin | ps.Cos) and not self.support.positive:
            return (sympy.sin if isinstance(op, ps.Sin) else sympy.cos)(sympy.expand(x[0]))
        if isinstance(op, ps.Sqrt):
            self.require_positive(x[0])
            return sympy.sqrt(x[0])
        if isinstance(op, ps.Pow):
            if not self.free_of_views(x[1]):
                raise NotProved("it is an exponent")
            return self.log_power(x[0], x[1])
        if isinstance(op, ps.Log):
            return self.log(x[0])
        if isinstance(op, ps.Log2 | ps.Log10):
            return self.log(x[0]) / sympy.log(2 if isinstance(op, ps.Log2) else 10)
        if isinstance(op, ps.Log1p):
            return self.log(1 + x[0])
        if isinstance(op, ps.Exp):
            return self.exp(x[0])
        if isinstance(op, ps.Expm1):
            return self.exp(x[0]) - 1
        if isinstance(op, Sigmoid):
            return 1 / (1 + self.exp(-x[0]))
        if isinstance(op, Softplus):
            return self.log(1 + self.exp(x[0]))
        if isinstance(op, Log1mexp):
            return self.log(1 - self.exp(x[0]))
        if isinstance(op, ps.Abs):
            if not self.fixed_sign(x[0]):
                raise NotProved("it enters through an absolute value that changes sign within its support")
            # |e| = ±e with a sign that does not depend on φ: an atom, because it may differ between entries.
            sign = self.fresh(sympy.Function("sign")(sympy.factor(sympy.cancel(x[0])).subs(self._at_one())))
            return x[0] * sign
        if isinstance(op, ps.Sign) and self.fixed_sign(x[0]):
            return self.fresh(sympy.Function("sign")(x[0].subs(self._at_one())))
        simple = [sympy.simplify(a) for a in x]
        if all(self.free_of_views(a) for a in simple):
            return self.fresh(sympy.Function(_name(op))(*simple))
        raise NotProved(f"it enters through {_name(op)}")

    def _at_one(self) -> dict[sympy.Symbol, sympy.Expr]:
        return {s: sympy.Rational(1, 2) for s in self.views.values()}

    def log_power(self, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
        if exponent.is_Integer:
            return base**exponent
        self.require_positive(base)
        base = sympy.factor(sympy.cancel(sympy.together(base))) if base.is_Add else base
        return sympy.powdenest(sympy.expand_power_base(base**exponent, force=True), force=True)

    def require_positive(self, x: sympy.Expr) -> None:
        """√(φ²) is φ and log φ² is 2 log φ where φ > 0 only."""
        if not self.support.positive and not self.free_of_views(x):
            raise NotProved("it enters through a root, a power or a logarithm, and may be negative")

    def log(self, x: sympy.Expr) -> sympy.Expr:
        self.require_positive(x)
        if x.is_Add:
            x = sympy.factor(sympy.cancel(sympy.together(x)))
        return sympy.expand_log(sympy.log(x), force=True)

    def exp(self, x: sympy.Expr) -> sympy.Expr:
        """exp of an expression: exact where φ enters it through logarithms only."""
        return sympy.exp(sympy.expand(x))

    def collapse(self, element: Element) -> Element:
        """A sum over entries of functions of one scalar φ, as a function of φ with new atoms for its coefficients."""
        if self.variable.type.ndim != 0:
            raise NotProved("a sum over its entries enters nonlinearly")
        if element not in self.collapsed:
            (symbol,) = self.views.values()
            total = sympy.Integer(0)
            for option in element.options:
                for term in sympy.Add.make_args(sympy.expand(option)):
                    rest, power = term.as_independent(symbol, as_Add=False)
                    if power.free_symbols - {symbol}:
                        # Σ 1/(aᵢ + φ) is not a multiple of 1/(a + φ).
                        raise NotProved("a sum over functions of it that differ from entry to entry enters nonlinearly")
                    total += self.atom(("sum", len(self.atoms)), self._origin_of(rest)) * power
            self.collapsed[element] = Element((total,))
        return self.collapsed[element]

    def _origin_of(self, expression: sympy.Expr) -> frozenset[Variable]:
        return frozenset().union(*[self.origin.get(s, frozenset()) for s in expression.free_symbols])

    # -- conditions --------------------------------------------------------------------------------------------------
    def switch(self, node: Apply) -> Element:
        test, yes, no = node.inputs
        if not self.condition(test).fixed:
            raise NotProved("its density has a kink or a step inside the support")
        others = self.depends.get(test, frozenset()) - {self.variable}
        if not others:
            always, never = self.truth(test)
            if always:
                return self.element(yes)
            if never:
                return self.element(no)
        return self.union([self.element(yes), self.element(no)])

    def condition(self, var: Variable) -> Condition:
        if self.variable not in self.depends.get(var, ()):
            return Condition(True)
        found = self.found[var]
        return found if isinstance(found, Condition) else Condition(False)

    def comparison(self, node: Apply) -> Condition:
        """A boolean node: is its truth the same wherever φ lies in its support?"""
        op = core_op(node)
        if kind_of(node) in (Kind.MOVE, Kind.CHECK):
            return self.condition(node.inputs[0])
        if kind_of(node) is Kind.JOIN:
            return Condition(all(self.condition(i).fixed for i in node.inputs if i.type.dtype == "bool"))
        if not isinstance(op, Elemwise):
            return Condition(False)
        if all(i.type.dtype == "bool" for i in node.inputs):
            decided = [self.truth(i)[isinstance(op.scalar_op, ps.AND)] for i in node.inputs if not self.depends.get(i)]
            settled = isinstance(op.scalar_op, ps.AND | ps.OR) and any(decided)  # False and …, True or …
            return Condition(settled or all(self.condition(i).fixed for i in node.inputs))
        if not isinstance(op.scalar_op, ps.LT | ps.LE | ps.GT | ps.GE | ps.EQ | ps.NEQ):
            return Condition(False)
        try:
            left, right = (self.element(i) for i in node.inputs)
        except NotProved:
            return Condition(False)
        if left.summed or right.summed:
            return Condition(False)
        pairs = itertools.product(left.options, right.options)
        return Condition(all(self.fixed_difference(a, b) for a, b in pairs))

    def fixed_difference(self, a: sympy.Expr, b: sympy.Expr) -> bool:
        if a.is_infinite or b.is_infinite:
            finite = b if a.is_infinite else a
            return all(self.fixed_sign(p.args[0]) for p in finite.atoms(sympy.log)) and self.fixed_sign_of_poles(finite)
        return self.fixed_sign(a - b)

    def fixed_sign_of_poles(self, expression: sympy.Expr) -> bool:
        return self.fixed_sign(sympy.denom(sympy.together(expression)))

    def fixed_sign(self, expression: sympy.Expr) -> bool:
        """Whether an expression is (a φ-free one) times powers of φ and 1 − φ: its sign does not depend on φ."""
        if self.free_of_views(expression):
            return True
        for factor in sympy.Mul.make_args(sympy.factor(sympy.cancel(sympy.together(expression)))):
            base = factor.as_base_exp()[0]
            if self.free_of_views(factor) or (self.support.positive and self.is_view(base)):
                continue
            views = [s for s in base.free_symbols if self.is_view(s)]
            fixed = self.support.signs(views[0]) if len(views) == 1 else ()
            if any(sympy.expand(base - s) == 0 or sympy.expand(base + s) == 0 for s in fixed):
                continue
            if self.one_sided(base):
                continue
            return False
        return True

    def one_sided(self, expression: sympy.Expr) -> bool:
        """A sum of powers of φ (and numbers) that are all positive or all negative, such as φ + 1."""
        if not all(self.is_view(s) for s in expression.free_symbols):
            return False
        coefficients = [t.as_coeff_Mul() for t in sympy.Add.make_args(sympy.expand(expression))]
        if not all(rest.is_positive for _, rest in coefficients):
            return False
        return all(c > 0 for c, _ in coefficients) or all(c < 0 for c, _ in coefficients)

    # -- linear algebra ----------------------------------------------------------------------------------------------
    def linear_algebra(self, node: Apply) -> Element:
        """Matrix functions of φ^k · (φ-free matrix), for a scalar φ: homogeneous, so only the power is needed."""
        op = core_op(node)
        name = type(op).__name__
        power = {
            "Cholesky": lambda k: k[0] / 2,
            "MatrixInverse": lambda k: -k[0],
            "Dot": sum,
            "SolveTriangular": lambda k: k[1] - k[0],
            "Solve": lambda k: k[1] - k[0],
            "CholeskySolve": lambda k: k[1] - 2 * k[0],
        }.get(name)
        if power is None or self.variable.type.ndim != 0 or not self.support.positive:
            raise NotProved(f"it enters through {name}")
        (symbol,) = self.views.values()
        exponents: list[sympy.Expr] = []
        origin: frozenset[Variable] = frozenset()
        for var in node.inputs:
            element = self.element(var)
            if len(element.options) != 1 or element.summed:
                raise NotProved(f"it enters through {name} of a matrix that is not a multiple of one power of it")
            rest, part = element.options[0].as_independent(symbol, as_Add=False)
            base, exponent = part.as_base_exp()
            if part != 1 and (base != symbol or not exponent.is_number):
                raise NotProved(f"it enters through {name} of a matrix that is not a multiple of one power of it")
            exponents.append(sympy.Integer(0) if part == 1 else exponent)
            origin |= self._origin_of(rest) | (self.depends.get(var, frozenset()) - {self.variable})
        return Element((symbol ** power(exponents) * self.atom(("matrix", node), origin),))


def _value_nodes(graph: Variable) -> list[Apply]:
    """The nodes that the value of a graph depends on, in order: the conditions of checks are left out."""

    def inputs_of(var: Variable) -> list[Variable] | None:
        if var.owner is None:
            return None
        return (
            var.owner.inputs[:1] if isinstance(var.owner.op, CheckParameterValue | CheckAndRaise) else var.owner.inputs
        )

    seen = {v.owner for v in walk([graph], inputs_of) if v.owner}
    return [n for n in toposort([graph]) if n in seen]


def _name(op: Any) -> str:
    return str(getattr(op, "scalar_op", op)).split("{")[0].lower()


def _only_pads(op: Any) -> bool:
    """Whether a DimShuffle leaves broadcasting as it is (new axes on the left only)."""
    if not isinstance(op, DimShuffle):
        return type(op).__name__ in ("TensorFromScalar", "ScalarFromTensor", "SpecifyShape", "Alloc")
    kept = [k for k in op.new_order if k != "x"]
    lead = list(op.new_order[: len(op.new_order) - len(kept)])
    return all(k == "x" for k in lead) and kept == sorted(kept) and not op.drop


def _move_key(node: Apply, position: int) -> Any:
    """What tells one rearrangement of entries from another: the op, its indices, and which output."""
    return (node.op, tuple(node.inputs[1:]), position)


def _is_scalar(key: Any) -> bool:
    if isinstance(key, Variable):
        return all(key.type.broadcastable)
    return isinstance(key, tuple) and bool(key) and key[0] == "number"


def _number(value: float, walker: Walker) -> sympy.Expr:
    """A float as an exact rational where it is a short one (2.5, 1/3), else as an atom of its own."""
    if np.isposinf(value):
        return sympy.oo
    if np.isneginf(value):
        return -sympy.oo
    if np.isnan(value):
        return walker.atom(("number", "nan"), frozenset())
    if abs(value) == np.pi:
        return sympy.pi if value > 0 else -sympy.pi
    fraction = Fraction(value).limit_denominator(10_000)
    if abs(float(fraction) - value) <= 4e-16 * abs(value):
        return sympy.Rational(fraction.numerator, fraction.denominator)
    return walker.atom(("number", value), frozenset())


def linear_score(walker: Walker, element: Element, family: ConjugateFamily) -> None:
    """Prove w(φ) ∂/∂φ log p to be linear in a family's score basis, for every view and every alternative.

    Parameters
    ----------
    walker : Walker
    element : Element
        The factor, from :meth:`Walker.walk`.
    family : ConjugateFamily

    Raises
    ------
    NotProved
    """
    for option in element.options:
        if option.is_infinite:
            continue
        for view in [s for s in option.free_symbols if walker.is_view(s)]:
            basis = [sympy.sympify(b) for b in family.basis(view, sympy)]
            functions = [b for b in basis if not b.is_number]
            plain = set(functions) <= {view}
            if plain and _of_plain_terms(walker, option, view, family.weight, len(functions)):
                continue
            score = sympy.expand(sympy.sympify(family.weight(view)) * sympy.diff(option, view))
            score = sympy.cancel(sympy.together(score)) if plain else sympy.expand(sympy.expand_trig(score))
            try:
                polynomial = sympy.Poly(score, *(functions or [view]))
            except sympy.PolynomialError as error:
                raise NotProved("its score is not linear in the family's score basis") from error
            # Of degree one at most, and without a constant or a linear term that is not in the basis.
            allowed = {0} if len(functions) < len(basis) else set()
            allowed |= {1} if functions else set()
            degrees = {sum(monomial) for monomial, c in polynomial.terms() if c != 0}
            if not degrees <= allowed or not all(walker.free_of_views(c) for c in polynomial.coeffs()):
                raise NotProved("its score is not linear in the family's score basis")


def _of_plain_terms(
    walker: Walker, option: sympy.Expr, view: sympy.Symbol, weight: Callable[[sympy.Symbol], sympy.Expr], order: int
) -> bool:
    """Whether it is a sum of multiples of log φ and integer powers of φ whose score is of at most a given order.

    Most conjugate densities are such sums, and need no rational algebra.
    """
    slopes: dict[int, sympy.Expr] = {}  # of ∂/∂φ, by power of φ
    for term in sympy.Add.make_args(sympy.expand(option)):
        factor, part = term.as_independent(view, as_Add=False)
        base, power = (view, sympy.Integer(0)) if part == sympy.log(view) else part.as_base_exp()
        if part == 1:
            continue
        if base != view or not power.is_Integer or not walker.free_of_views(factor):
            return False
        slopes[int(power) - 1] = slopes.get(int(power) - 1, 0) + factor * (power if power != 0 else 1)
    coefficients: dict[int, sympy.Expr] = {}
    for monomial in sympy.Add.make_args(sympy.expand(sympy.sympify(weight(view)))):
        number, part = monomial.as_independent(view, as_Add=False)
        shift = 0 if part == 1 else int(part.as_base_exp()[1])
        for power, slope in slopes.items():
            coefficients[power + shift] = sympy.expand(coefficients.get(power + shift, 0) + number * slope)
    return all(c == 0 for k, c in coefficients.items() if not 0 <= k <= order)
