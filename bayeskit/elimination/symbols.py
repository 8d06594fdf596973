"""What an algebraic proof about a log density is written in: symbols for φ, and opaque symbols for all else.

φ seen through a chain of indices is a *view* (φ[i] and φ[j] are two). What does not depend on φ is an *atom*,
real. Equal keys have equal symbols; what was moved or summed over gets symbols of its own, so that nothing cancels that
is not the same number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from bayeskit.families import SupportKind
from bayeskit.types import Graph

__all__ = ["LIMIT", "Element", "NotProved", "Symbols"]

LIMIT = 48  # alternatives (of switches, joins) an element may have before the proof gives up


class NotProved(Exception):
    """The log density could not be shown to be of the family; the message says what stood in the way.

    Its advice, where it has one, is of this case, and is given in place of what the families advise.
    """

    def __init__(self, why: str = "", advice: str = "") -> None:
        super().__init__(why)
        self.advice = advice


@dataclass(frozen=True)
class Element:
    """The generic element of a node: one of several expressions; ``summed`` if it is a sum of such terms."""

    options: tuple[sympy.Expr, ...]
    summed: bool = False

    def __post_init__(self) -> None:
        if len(self.options) > LIMIT:
            raise NotProved("it enters in too many different ways")


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbols of one proof."""

    support: SupportKind  # where φ lies
    # Which latent values each atom depends on.
    origin: dict[sympy.Symbol, frozenset[Graph]] = field(default_factory=dict)
    views: dict[Any, sympy.Symbol] = field(default_factory=dict)
    atoms: dict[Any, sympy.Symbol] = field(default_factory=dict)
    keys: dict[sympy.Symbol, Any] = field(default_factory=dict)  # of both

    def view(self, key: Any) -> sympy.Symbol:
        """The symbol of φ seen through a chain of indices."""
        if key not in self.views:
            assumption = {"positive": True} if self.support.positive else {"real": True}
            symbol = sympy.Symbol(f"phi{len(self.views)}", **assumption)
            self.views[key] = symbol
            self.keys[symbol] = key
        return self.views[key]

    def atom(self, key: Any, origin: frozenset[Graph] = frozenset()) -> sympy.Symbol:
        """The symbol of something that does not depend on φ."""
        if key not in self.atoms:
            symbol = sympy.Symbol(f"a{len(self.atoms)}", real=True)
            self.atoms[key] = symbol
            self.keys[symbol] = key
            self.origin[symbol] = origin
        return self.atoms[key]

    def fresh(self, expression: sympy.Expr) -> sympy.Symbol:
        """An atom standing for a φ-free expression that has no simpler form."""
        return self.atom(("expression", expression), self.origins(expression))

    def number(self, value: float) -> sympy.Expr:
        """A float as an exact rational where it is a short one (2.5, 1/3), else as an atom of its own."""
        if np.isinf(value):
            return sympy.oo if value > 0 else -sympy.oo
        if np.isnan(value):
            return self.atom(("number", "nan"))
        if abs(value) == np.pi:
            return sympy.pi if value > 0 else -sympy.pi
        fraction = Fraction(value).limit_denominator(10_000)
        if abs(float(fraction) - value) <= 4e-16 * abs(value):
            return sympy.Rational(fraction.numerator, fraction.denominator)
        return self.atom(("number", value))

    def origins(self, expression: sympy.Expr) -> frozenset[Graph]:
        """Which latent values the atoms of an expression depend on."""
        return frozenset().union(*[self.origin.get(s, frozenset()) for s in expression.free_symbols])

    def is_view(self, symbol: sympy.Symbol) -> bool:
        """Whether a symbol stands for φ."""
        return symbol in self.keys and symbol not in self.origin

    def free_of_views(self, expression: sympy.Expr) -> bool:
        """Whether an expression does not depend on φ."""
        return not any(self.is_view(s) for s in expression.free_symbols)

    def renamed(self, element: Element, move: Any, *, scalar: bool) -> Element:
        """The element after a move of its entries: each symbol stands for the entry that came to this place.

        Where φ is ``scalar``, one number, it is the same at every place.
        """
        mapping: dict[sympy.Symbol, sympy.Symbol] = {}
        for symbol in set().union(*[o.free_symbols for o in element.options]):
            key = self.keys[symbol]
            if self.is_view(symbol):
                mapping[symbol] = symbol if scalar else self.view((move, key))
            elif not _is_scalar(key):
                mapping[symbol] = self.atom((move, key), self.origin[symbol])
        return Element(tuple(o.xreplace(mapping) for o in element.options), element.summed)


def _is_scalar(key: Any) -> bool:
    """Whether an atom is the same number at every place."""
    return key[:1] == ("number",) if isinstance(key, tuple) else all(key.type.broadcastable)
