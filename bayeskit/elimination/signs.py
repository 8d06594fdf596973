"""Signs that are the same over the whole support of φ, such as those of φ and 1 − φ where φ lies in (0, 1)."""

from __future__ import annotations

import sympy

from bayeskit.elimination.symbols import Symbols

__all__ = ["fixed_difference", "fixed_sign", "magnitude"]


def fixed_difference(symbols: Symbols, a: sympy.Expr, b: sympy.Expr) -> bool:
    """Whether the order of two expressions, one of which may be infinite, is the same for every φ in the support."""
    if a.is_infinite or b.is_infinite:
        finite = b if a.is_infinite else a
        arguments = [p.args[0] for p in finite.atoms(sympy.log)]
        return all(fixed_sign(symbols, e) for e in [*arguments, sympy.denom(sympy.together(finite))])
    return fixed_sign(symbols, a - b)


def fixed_sign(symbols: Symbols, expression: sympy.Expr) -> bool:
    """Whether an expression is (a φ-free one) times powers of what is positive: its sign does not depend on φ."""
    if symbols.free_of_views(expression):
        return True
    for factor in sympy.Mul.make_args(sympy.factor(sympy.cancel(sympy.together(expression)))):
        base = factor.as_base_exp()[0]
        if symbols.free_of_views(factor):
            continue
        if _positive(symbols, base) is None and not _one_sided(symbols, base):
            return False
    return True


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
