r"""Arrays made of a column x of places, as functions of one or two of its entries: what is known of each.

Of an array whose entries are functions of :math:`x_i` and :math:`x_j`, i and j its places along two axes, it is held
how they vary along the one with the other at the first place, as graphs of vectors: of a matrix the first column and
the first row. Where the function is a polynomial its coefficients are held as fractions; where it is seen to be one of
:math:`x_i - x_j` nothing else is, for any elementwise function of such arrays and of numbers is of the same kind. A
polynomial is one of the difference if and only if

.. math::

   \left( \tfrac{\partial}{\partial x_i} + \tfrac{\partial}{\partial x_j} \right) P = 0.

Squared distances are written :math:`x_i^2 - 2 x_i x_j + x_j^2`, whose parts are no functions of the difference.
Entries of one column only, and not polynomial ones (a warped input), or polynomials of a high degree, are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pytensor.scalar import basic as ps

__all__ = ["ArrayOfPlaces", "Polynomial", "combined", "moved_axes", "of_difference"]

Polynomial = Mapping[tuple[int, int], Fraction]  # the coefficients of x_i^p x_j^q
DEGREE = 4


@dataclass(frozen=True)
class ArrayOfPlaces:
    """An array that varies along ``axes``, none to two of them, in ascending order.

    ``down`` is how it varies along the first with the second at its first place, ``across`` the other way round.
    Without a polynomial it is a function of the difference of places.
    """

    axes: tuple[int, ...]
    down: Any
    across: Any
    polynomial: Polynomial | None

    @property
    def is_stationary(self) -> bool:
        """Whether all entries are one number, or a function of the difference."""
        return not self.axes or self.polynomial is None


def of_difference(polynomial: Polynomial) -> bool:
    """Whether a polynomial in two places is one in their difference."""
    slopes: dict[tuple[int, int], Fraction] = {}
    for (p, q), c in polynomial.items():
        for key, slope in (((p - 1, q), p * c), ((p, q - 1), q * c)):
            slopes[key] = slopes.get(key, Fraction(0)) + slope
    return not any(slopes.values())


def moved_axes(part: ArrayOfPlaces, places: Sequence[int]) -> ArrayOfPlaces:
    """The part with its axes at other places."""
    if len(places) == 2 and places[0] > places[1]:
        turned = None if part.polynomial is None else {(q, p): c for (p, q), c in part.polynomial.items()}
        return ArrayOfPlaces((places[1], places[0]), part.across, part.down, turned)
    return ArrayOfPlaces(tuple(places), part.down, part.across, part.polynomial)


def combined(
    operation: Any, kind: Any, parts: Sequence[ArrayOfPlaces], power: float | None = None
) -> ArrayOfPlaces | None:
    """An elementwise ``operation``, of a scalar ``kind``, on arrays that are spread over each other's axes.

    ``power`` is the second argument of a power where it is known. None where the result is of no kind that is held.
    """
    axes = tuple(sorted({axis for part in parts for axis in part.axes}))
    if len(axes) > 2:
        return None
    spread = [_spread(part, axes) for part in parts]
    polynomials = [part.polynomial for part in spread]
    known = [p for p in polynomials if p is not None]
    found = _applied(kind, known, power) if axes and len(known) == len(parts) else None
    if axes and found is None and not (len(axes) == 2 and all(p.is_stationary for p in parts)):
        return None
    down, across = operation(*(p.down for p in spread)), operation(*(p.across for p in spread))
    if found is not None and len(axes) == 2 and of_difference(found):
        found = None
    if found is not None and not any(c for power_, c in found.items() if power_ != (0, 0)):
        return ArrayOfPlaces((), down[0], down[0], {(0, 0): found.get((0, 0), Fraction(0))})
    return ArrayOfPlaces(axes, down, across, found)


def _spread(part: ArrayOfPlaces, axes: tuple[int, ...]) -> ArrayOfPlaces:
    """The same array as one that may vary along more axes."""
    if part.axes == axes or not part.axes:
        return ArrayOfPlaces(axes, part.down, part.across, part.polynomial)
    if part.axes == axes[:1]:
        return ArrayOfPlaces(axes, part.down, part.down[0], part.polynomial)
    turned = {(q, p): c for (p, q), c in (part.polynomial or {}).items()}
    return ArrayOfPlaces(axes, part.down[0], part.down, turned)


def _applied(kind: Any, given: Sequence[Polynomial], power: float | None) -> Polynomial | None:
    """An operation on polynomials; None where the result is none, or one of a high degree."""
    if isinstance(kind, ps.Identity | ps.Cast):
        return given[0]
    if isinstance(kind, ps.Second):
        return given[1]
    if isinstance(kind, ps.Add | ps.Sub | ps.Neg):
        signs = [-1 if isinstance(kind, ps.Neg) or (isinstance(kind, ps.Sub) and i) else 1 for i in range(len(given))]
        keys = {key for p in given for key in p}
        return {
            k: sum((s * p.get(k, Fraction(0)) for s, p in zip(signs, given, strict=True)), Fraction(0)) for k in keys
        }
    if isinstance(kind, ps.TrueDiv) and set(given[1]) <= {(0, 0)} and any(given[1].values()):
        return {key: c / given[1][0, 0] for key, c in given[0].items()}
    if isinstance(kind, ps.Mul):
        return _product(given)
    if isinstance(kind, ps.Sqr):
        return _product([given[0]] * 2)
    if isinstance(kind, ps.Pow) and power in (1, 2, 3, 4):
        return _product([given[0]] * int(power))
    return None


def _product(given: Sequence[Polynomial]) -> Polynomial | None:
    found: dict[tuple[int, int], Fraction] = {(0, 0): Fraction(1)}
    for polynomial in given:
        longer: dict[tuple[int, int], Fraction] = {}
        for (p, q), c in found.items():
            for (r, s), d in polynomial.items():
                if c * d:
                    longer[p + r, q + s] = longer.get((p + r, q + s), Fraction(0)) + c * d
        found = longer
    return found if all(p + q <= DEGREE for p, q in found) else None
