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

from collections.abc import Callable

import sympy

from bayeskit.elimination.symbols import Element, NotProved, Symbols
from bayeskit.families import ConjugateFamily

__all__ = ["NotProved", "linear_score"]


def linear_score(symbols: Symbols, element: Element, family: ConjugateFamily) -> None:
    """Prove w(φ) ∂/∂φ log p to be linear in a family's score basis, for every view and every alternative.

    Parameters
    ----------
    symbols : Symbols
    element : Element
        The factor, from :class:`~bayeskit.elimination.generic_element.GenericElements`.
    family : ConjugateFamily

    Raises
    ------
    NotProved
    """
    for option in element.options:
        if option.is_infinite:
            continue
        for view in [s for s in option.free_symbols if symbols.is_view(s)]:
            basis = [sympy.sympify(b) for b in family.basis(view, sympy)]
            powers = _powers(basis, view)
            if powers and _of_plain_terms(symbols, option, view, family.weight, powers):
                continue
            score = sympy.expand(sympy.sympify(family.weight(view)) * sympy.diff(option, view))
            score = sympy.cancel(sympy.together(score)) if powers else sympy.expand(sympy.expand_trig(score))
            generators = [view] if powers else [b for b in basis if not b.is_number]
            try:
                polynomial = sympy.Poly(score, *generators)
            except sympy.PolynomialError as error:
                raise NotProved("its score is not linear in the family's score basis") from error
            # Of functions that are no powers, of degree one, and without a constant that is not in the basis.
            allowed = powers or {1} | {0 for b in basis if b.is_number}
            degrees = {sum(monomial) for monomial, c in polynomial.terms() if c != 0}
            if not degrees <= allowed or not all(symbols.free_of_views(c) for c in polynomial.coeffs()):
                raise NotProved("its score is not linear in the family's score basis")


def _powers(basis: list[sympy.Expr], view: sympy.Symbol) -> set[int]:
    """The exponents of a basis of powers of φ; empty for any other."""
    pairs = [(view, sympy.Integer(0)) if b.is_number else b.as_base_exp() for b in basis]
    return {int(k) for _, k in pairs} if all(b == view and k.is_Integer and k >= 0 for b, k in pairs) else set()


def _of_plain_terms(
    symbols: Symbols,
    option: sympy.Expr,
    view: sympy.Symbol,
    weight: Callable[[sympy.Symbol], sympy.Expr],
    powers: set[int],
) -> bool:
    """Whether it is a sum of multiples of log φ and integer powers of φ whose score has given powers only.

    Most conjugate densities are such sums, and need no rational algebra.
    """
    slopes: dict[int, sympy.Expr] = {}  # of ∂/∂φ, by power of φ
    for term in sympy.Add.make_args(sympy.expand(option)):
        factor, part = term.as_independent(view, as_Add=False)
        base, power = (view, sympy.Integer(0)) if part == sympy.log(view) else part.as_base_exp()
        if part == 1:
            continue
        if base != view or not power.is_Integer or not symbols.free_of_views(factor):
            return False
        slopes[int(power) - 1] = slopes.get(int(power) - 1, 0) + factor * (power if power != 0 else 1)
    coefficients: dict[int, sympy.Expr] = {}
    for monomial in sympy.Add.make_args(sympy.expand(sympy.sympify(weight(view)))):
        number, part = monomial.as_independent(view, as_Add=False)
        shift = 0 if part == 1 else int(part.as_base_exp()[1])
        for power, slope in slopes.items():
            coefficients[power + shift] = sympy.expand(coefficients.get(power + shift, 0) + number * slope)
    return all(c == 0 for k, c in coefficients.items() if k not in powers)
