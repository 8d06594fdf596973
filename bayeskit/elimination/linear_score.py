"""Proof that a score is linear in a conjugate family's score basis, by exact algebra on the graph of the log density.

For a variable φ of a conjugate family's support, a factor of log p(y, φ | rest) is walked once, and the
generic element of every node is written as a SymPy expression in φ; whatever does not depend on φ becomes an opaque
symbol, an *atom*. p(φ | y, rest) is then conjugate if and only if

    w(φ) · ∂/∂φ log p = c₀ b₀(φ) + c₁ b₁(φ),

with the family's weight w and basis b (powers of φ, mostly 1 and φ, or sin φ and cos φ on the circle) and c₀, c₁ free
of φ. This is an identity of rational functions, or of polynomials in sin φ and cos φ, decided by SymPy, and so holds
for every φ in the support: nothing far from the data is missed, and the spelling (rate, scale, precision, sd,
Deterministics, indexing, broadcasting) does not matter. A vector φ may enter through several indices (φ[i], φ[j]); a
score that mixes them is refused.
"""

from __future__ import annotations

import sympy

from bayeskit.elimination.symbols import Element, Symbols
from bayeskit.families import ConjugateFamily

__all__ = ["has_linear_score"]


def has_linear_score(symbols: Symbols, element: Element, family: ConjugateFamily) -> bool:
    """Whether w(φ) ∂/∂φ log p is proved linear in a family's score basis, for every view and every alternative."""
    finite = [option for option in element.options if not option.is_infinite]
    views = ((option, view) for option in finite for view in option.free_symbols if symbols.is_view(view))
    return all(_in_span(symbols, option, view, family) for option, view in views)


def _in_span(symbols: Symbols, option: sympy.Expr, view: sympy.Symbol, family: ConjugateFamily) -> bool:
    basis = [sympy.sympify(b) for b in family.basis(view, sympy)]
    powers = _powers(basis, view)
    score = sympy.expand(sympy.sympify(family.weight(view)) * sympy.diff(option, view))
    if not powers:
        score = sympy.expand(sympy.expand_trig(score))
    elif not score.is_polynomial(view):
        score = sympy.cancel(sympy.together(score))
    generators = [view] if powers else [b for b in basis if not b.is_number]
    try:
        polynomial = sympy.Poly(score, *generators)
    except sympy.PolynomialError:
        return False
    # Of functions that are no powers, of degree one, and without a constant that is not in the basis.
    allowed = powers or {1} | {0 for b in basis if b.is_number}
    degrees = {sum(monomial) for monomial, c in polynomial.terms() if c != 0}
    return degrees <= allowed and all(map(symbols.free_of_views, polynomial.coeffs()))


def _powers(basis: list[sympy.Expr], view: sympy.Symbol) -> set[int]:
    """The exponents of a basis of powers of φ; empty for any other."""
    pairs = [(view, sympy.Integer(0)) if b.is_number else b.as_base_exp() for b in basis]
    return {int(k) for _, k in pairs} if all(b == view and k.is_Integer and k >= 0 for b, k in pairs) else set()
