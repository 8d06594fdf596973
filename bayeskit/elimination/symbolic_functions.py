"""Scalar functions on expressions in φ, by exact rules only; what has none is refused unless it is free of φ.

Roots and logarithms of products are those of their factors' absolute values: √(x²) = |x|, ½ log x² = log |x|. Without
the bars exp(½ log (φ − 3)²) would be linear in φ, and its kink at 3 be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from pytensor.graph.basic import Apply
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Log1mexp, Sigmoid, Softplus

from bayeskit.elimination.symbols import Element, NotProved, Symbols
from bayeskit.graphs.nodes import core_op, name_of
from bayeskit.graphs.operations import coefficients, exponents
from bayeskit.types import Graph

__all__ = ["applied", "fixed_difference", "fixed_sign", "in_words", "magnitude", "matrix_function"]

WORDS = {
    "dot": "a matrix product",
    "cumsum": "a cumulative sum",
    "cumprod": "a cumulative product",
    "maximum": "the largest of several numbers",
    "minimum": "the smallest of several numbers",
    "mul": "a product",
    "true_div": "a quotient",
    "pow": "a power",
    "sqr": "a square",
    "switch": "a choice between cases",
    "scan": "a loop",
    "matrixinverse": "the inverse of a matrix",
    "cholesky": "the Cholesky factor of a matrix",
    "toeplitzterms": "the covariance of evenly spaced places",
    "maternwhitening": "the Kalman filter of a Matérn process",
    "solvetriangular": "a system of linear equations",
    "solve": "a system of linear equations",
}
LONGEST = 25  # operations in a sum whose factors are looked for


def applied(symbols: Symbols, node: Apply, x: Sequence[sympy.Expr]) -> sympy.Expr:
    """The expression of an elementwise node, given those of its inputs; NotProved if no exact rule gives one."""
    if (slopes := coefficients(node)) is not None:
        return sympy.Add(*[sympy.Integer(int(c)) * e for c, e in zip(slopes, x, strict=True) if c])
    if (powers := exponents(node)) is not None:
        return sympy.Mul(*[_power(symbols, b, symbols.number(e)) for e, b in zip(powers, x, strict=True) if e])
    op = core_op(node).scalar_op
    if isinstance(op, ps.Pow):
        return _variable_power(symbols, x[0], x[1])
    if isinstance(op, ps.Sin | ps.Cos) and not symbols.support.positive:
        return (sympy.sin if isinstance(op, ps.Sin) else sympy.cos)(sympy.expand(x[0]))
    if type(op) in _RULES:
        return _RULES[type(op)](symbols, x[0])
    simple = [sympy.simplify(a) for a in x]
    if not all(symbols.free_of_views(a) for a in simple):
        raise NotProved(f"it enters through {in_words(op)}")
    return symbols.fresh(sympy.Function(name_of(op))(*simple))


def in_words(op: Any) -> str:
    """What a person calls an operation."""
    return WORDS.get(name := name_of(op), name)


def _factors(symbols: Symbols, expression: sympy.Expr) -> list[tuple[sympy.Expr, sympy.Expr]]:
    """The factors of an expression, each a base and its exponent; sums are factorised first."""
    if not symbols.support.positive and not symbols.free_of_views(expression):
        raise NotProved("it enters through a root, a power or a logarithm, and may be negative")
    factors = []
    for base, exponent in (f.as_base_exp() for f in sympy.Mul.make_args(expression)):
        whole = _factorised(symbols, base) if base.is_Add else base
        parts = [f.as_base_exp() for f in sympy.Mul.make_args(whole)] if base.is_Add else [(base, sympy.Integer(1))]
        factors += [(b, k * exponent) for b, k in parts]
    return factors


def _factorised(symbols: Symbols, total: sympy.Expr) -> sympy.Expr:
    """A sum as a product; a long one only where its terms are multiples of one function of φ.

    The thirtieth variance of a GARCH process is a polynomial in sixty symbols, whose factors take minutes. Left as it
    is, a sum has no closed form that is not its own: that refuses, and claims nothing.
    """
    if sympy.count_ops(total) <= LONGEST:
        return sympy.factor(sympy.cancel(sympy.together(total)))
    pairs = [term.as_independent(*symbols.views.values(), as_Add=False) for term in total.args]
    return pairs[0][1] * sympy.Add(*[c for c, _ in pairs]) if len({part for _, part in pairs}) == 1 else total


def _power(symbols: Symbols, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    """bᵉ for a known number e: a root of a product is real where the product is not negative, |b₁|ᵉ |b₂|ᵉ … there."""
    if exponent.is_Integer:
        return base**exponent
    return sympy.Mul(*[magnitude(symbols, b) ** (k * exponent) for b, k in _factors(symbols, base)])


def _variable_power(symbols: Symbols, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    """bᵉ where e differs between entries, and may be an odd integer: (−2)³ is not |−2|³."""
    if not symbols.free_of_views(exponent):
        raise NotProved("it is an exponent")
    factors = _factors(symbols, base)
    constant = sympy.Mul(*[b**k for b, k in factors if symbols.free_of_views(b**k)])
    others = [(b, k) for b, k in factors if not symbols.free_of_views(b**k)]
    if any(magnitude(symbols, b) != b for b, _ in others):
        raise NotProved("a power is taken of something that changes sign within its support")
    scale = sympy.Integer(1) if constant == 1 else symbols.fresh(sympy.Function("pow")(constant, exponent))
    return scale * sympy.Mul(*[b ** (k * exponent) for b, k in others])


def _log(symbols: Symbols, x: sympy.Expr) -> sympy.Expr:
    """log Π bᵏ = Σ k log |b| where the product is positive."""
    if x.is_infinite:
        return sympy.log(x)
    return sympy.Add(*[k * sympy.log(magnitude(symbols, b)) for b, k in _factors(symbols, x)])


def _exp(x: sympy.Expr) -> sympy.Expr:
    """exp of an expression: exact where φ enters it through logarithms only."""
    return sympy.exp(sympy.expand(x))


def _sign(symbols: Symbols, x: sympy.Expr) -> sympy.Expr:
    """A sign that does not depend on φ: an atom, because it may differ between entries."""
    if not fixed_sign(symbols, x):
        why = "it enters through the sign or absolute value of something that changes sign within its support"
        raise NotProved(why)
    at_one = {s: sympy.Rational(1, 2) for s in symbols.views.values()}
    return symbols.fresh(sympy.Function("sign")(sympy.factor(sympy.cancel(x)).subs(at_one)))


_RULES: dict[type, Callable[[Symbols, sympy.Expr], sympy.Expr]] = {
    ps.Log: _log,
    ps.Log2: lambda s, x: _log(s, x) / sympy.log(2),
    ps.Log10: lambda s, x: _log(s, x) / sympy.log(10),
    ps.Log1p: lambda s, x: _log(s, 1 + x),
    ps.Exp: lambda s, x: _exp(x),
    ps.Expm1: lambda s, x: _exp(x) - 1,
    Sigmoid: lambda s, x: 1 / (1 + _exp(-x)),
    Softplus: lambda s, x: _log(s, 1 + _exp(x)),
    Log1mexp: lambda s, x: _log(s, 1 - _exp(x)),
    ps.Sign: _sign,
    ps.Abs: lambda s, x: x * _sign(s, x),
}

# φ enters C φ^k, with C a matrix free of φ, only through the power, and so it does these functions of such matrices.
_MATRIX_POWERS: dict[str, Callable[[list[sympy.Expr]], sympy.Expr]] = {
    "Cholesky": lambda k: k[0] / 2,
    "MatrixInverse": lambda k: -k[0],
    "Dot": sum,
    "SolveTriangular": lambda k: k[1] - k[0],
    "Solve": lambda k: k[1] - k[0],
    "CholeskySolve": lambda k: k[1] - 2 * k[0],
}


def matrix_function(symbols: Symbols, node: Apply, elements: Sequence[Element], depends: frozenset[Graph]) -> Element:
    """The generic element of linear algebra on multiples of powers of a scalar φ; NotProved of anything else."""
    name = type(core_op(node)).__name__
    if name not in _MATRIX_POWERS or not symbols.support.positive:
        raise NotProved(f"it enters through {in_words(core_op(node))}")
    (symbol,) = symbols.views.values()
    powers = []
    for element in elements:
        rest, part = element.options[0].as_independent(symbol, as_Add=False)
        base, exponent = (symbol, sympy.Integer(0)) if part == 1 else part.as_base_exp()
        if len(element.options) != 1 or element.summed or base != symbol or not exponent.is_number:
            raise NotProved(f"it enters through {in_words(core_op(node))} that is not a multiple of one power of it")
        powers.append(exponent)
        depends |= symbols.origins(rest)
    return Element((symbol ** _MATRIX_POWERS[name](powers) * symbols.atom(("matrix", node), depends),))


# --- signs that are the same over the whole support of φ, such as those of φ and 1 − φ where φ lies in (0, 1) ---------


def fixed_difference(symbols: Symbols, a: sympy.Expr, b: sympy.Expr) -> bool:
    """Whether the order of two expressions, one of which may be infinite, is the same for every φ in the support."""
    if a.is_infinite or b.is_infinite:
        finite = b if a.is_infinite else a
        arguments = [p.args[0] for p in finite.atoms(sympy.log)]
        return all(fixed_sign(symbols, e) for e in [*arguments, sympy.denom(sympy.together(finite))])
    return fixed_sign(symbols, a - b)


def fixed_sign(symbols: Symbols, expression: sympy.Expr) -> bool:
    """Whether an expression is (a φ-free one) times powers of what is positive: its sign does not depend on φ."""
    known = _signs_known(symbols, expression)
    return known or _signs_known(symbols, sympy.factor(sympy.cancel(sympy.together(expression))))


def _signs_known(symbols: Symbols, product: sympy.Expr) -> bool:
    """Whether every factor of a product as it stands is free of φ or one that is positive, up to its sign."""
    bases = [f.as_base_exp()[0] for f in sympy.Mul.make_args(product) if not symbols.free_of_views(f)]
    return all(_positive(symbols, b) is not None or _one_sided(symbols, b) for b in bases)


def magnitude(symbols: Symbols, expression: sympy.Expr) -> sympy.Expr:
    """|e|, without the bars where the sign of e is known."""
    if expression.is_nonnegative:
        return expression
    if expression.is_nonpositive:
        return -expression
    positive = _positive(symbols, expression)
    return sympy.Abs(expression) if positive is None else positive


def _positive(symbols: Symbols, expression: sympy.Expr) -> sympy.Expr | None:
    """±e, where that is one of the expressions that are positive over the support."""
    views = [s for s in expression.free_symbols if symbols.is_view(s)]
    positive = symbols.support.signs(views[0]) if len(views) == 1 else ()
    return next((p for p in positive if 0 in (sympy.expand(expression - p), sympy.expand(expression + p))), None)


def _one_sided(symbols: Symbols, expression: sympy.Expr) -> bool:
    """A sum of powers of φ (and numbers) that are all positive or all negative, such as φ + 1."""
    if not all(symbols.is_view(s) for s in expression.free_symbols):
        return False
    coefficients = [t.as_coeff_Mul() for t in sympy.Add.make_args(sympy.expand(expression))]
    if not all(rest.is_positive for _, rest in coefficients):
        return False
    return all(c > 0 for c, _ in coefficients) or all(c < 0 for c, _ in coefficients)
