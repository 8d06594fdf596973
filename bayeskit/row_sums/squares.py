"""The square of a sum of terms, kept as one: its sums over rows are those of a Normal likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytensor.tensor as pt

from bayeskit.row_sums.terms import DataTerm, Factor, Square, TermSum, apply, as_factor

__all__ = ["squared"]


def squared(value: TermSum) -> TermSum:
    """The square of a node, as one term: what all of its terms share is taken out of it first."""
    first, *others = value.terms
    if not others and first.solved is not None:
        doubled = tuple(apply(pt.sqr, "sqr", [f]) for f in first.factors)
        return TermSum((DataTerm(first.weight**2, doubled, square=first.solved),), value.shape)
    if not others and first.is_plain:
        return TermSum(
            (DataTerm(first.weight**2, tuple(apply(pt.sqr, "sqr", [f]) for f in first.factors)),), value.shape
        )
    if any(t.square or t.solved for t in value.terms):
        return TermSum((DataTerm(factors=(apply(pt.sqr, "sqr", [as_factor(value)]),)),), value.shape)
    shared, terms = _without_shared(value.terms)
    outside = tuple(apply(pt.sqr, "sqr", [f]) for f in shared)
    return TermSum((DataTerm(factors=outside, square=Square(terms)),), value.shape)


def _without_shared(terms: Sequence[DataTerm]) -> tuple[list[Factor], tuple[DataTerm, ...]]:
    """The functions that all terms have as a factor, and the terms without them."""
    shared = []
    left = [list(t.factors) for t in terms]
    for factor in terms[0].factors:
        places = [next((k for k, f in enumerate(own) if _equal(f, factor)), None) for own in left]
        if all(k is not None for k in places):
            shared.append(factor)
            for own, k in zip(left, places, strict=True):
                own.pop(k)  # type: ignore[arg-type]
    return shared, tuple(replace(t, factors=tuple(own)) for t, own in zip(terms, left, strict=True))


def _equal(a: Factor, b: Factor) -> bool:
    alike = a.sign == b.sign and len(a.columns) == len(b.columns)
    return alike and all(c.same(d) for c, d in zip(a.columns, b.columns, strict=True))
