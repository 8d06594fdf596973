"""The probability of inequalities under an exact posterior, or an exact prior, where its parts have a closed form.

Inequalities in the same sum of parameters are one interval of it. Sums in one Gaussian block are a rectangle of a
Normal or Student-t vector; those of two independent numbers, the difference of two proportions, say, or of two means
with variances of their own, an integral over one of them of the distribution of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bayeskit.comparison.closed_form import Elliptical, Mixture, SingleEntry
from bayeskit.comparison.rectangle import Chance, both, integral, interval, rectangle, shares
from bayeskit.elimination.conjugate_posterior import Component
from bayeskit.model.conditioning import LinearForm
from bayeskit.queries.conjugate_predictive import NoClosedForm
from bayeskit.results.log_evidence import LABELS

__all__ = ["Inequality", "Interval", "chance_of", "intervals_of"]


@dataclass(frozen=True)
class Inequality:
    """A sum of parameters that is above zero, or not below it."""

    form: LinearForm
    strict: bool


@dataclass(frozen=True)
class Interval:
    """A sum of parameters without its constant, and the ends that it lies between."""

    form: LinearForm
    low: float = -math.inf
    high: float = math.inf


def intervals_of(inequalities: Sequence[Inequality]) -> list[Interval]:
    """One interval for each sum of parameters, whatever it is multiplied by."""
    found: dict[Any, Interval] = {}
    for inequality in inequalities:
        form = inequality.form
        first = min(form.terms)
        key = tuple(sorted((e, c / form.terms[first]) for e, c in form.terms.items()))
        known = found.setdefault(key, Interval(LinearForm(form.terms)))
        # form = ratio · known + constant > 0
        ratio = form.terms[first] / known.form.terms[first]
        end = -form.constant / ratio
        low, high = (end, math.inf) if ratio > 0 else (-math.inf, end)
        found[key] = Interval(known.form, max(known.low, low), min(known.high, high))
    return list(found.values())


def chance_of(mixture: Mixture, inequalities: Sequence[Inequality], random_seed: int) -> Chance:
    """The probability that all of them hold; NoClosedForm where it has none."""
    total: list[tuple[float, Chance]] = []
    for component, log_weight in zip(mixture.components, mixture.log_weights, strict=True):
        total.append((math.exp(log_weight), _within(mixture, component, inequalities, random_seed)))
    label = max((c.label for _, c in total), key=LABELS.index)
    inside, outside, error, other = (
        math.fsum(w * getattr(c, name) for w, c in total)
        for name in ("inside", "outside", "inside_error", "outside_error")
    )
    return Chance(inside, outside, error, other, label)


def _within(mixture: Mixture, component: Component, inequalities: Sequence[Inequality], random_seed: int) -> Chance:
    left = []
    for inequality in inequalities:
        if not inequality.form.names <= set(component.fixed):
            left.append(inequality)
            continue
        form = inequality.form
        value = math.fsum(c * float(np.ravel(component.fixed[n])[k]) for (n, k), c in form.terms.items())
        excess = value + form.constant
        if not (excess > 0 if inequality.strict else excess >= 0):
            return Chance(0.0, 1.0, 0.0, 0.0, "exact")
    intervals = intervals_of(left)
    if any(not i.low < i.high for i in intervals):
        return Chance(0.0, 1.0, 0.0, 0.0, "exact")
    groups = _independent(component, intervals)
    return both([_of_group(mixture, component, group, random_seed) for group in groups])


def _independent(component: Component, intervals: Sequence[Interval]) -> list[list[Interval]]:
    """Intervals that have to do with each other, together."""
    groups: list[tuple[set[Any], list[Interval]]] = []
    for one in intervals:
        keys, own = {_key(component, entry) for entry in one.form.terms}, [one]
        for other in [g for g in groups if g[0] & keys]:
            groups.remove(other)
            keys, own = keys | other[0], other[1] + own
        groups.append((keys, own))
    return [own for _, own in groups]


def _key(component: Component, entry: tuple[str, int]) -> Any:
    """Numbers of different keys are independent of each other; an entry of a scale has that of what it governs."""
    name, place = entry
    for number, part in enumerate(component.parts):
        if part.scale is not None and part.scale.name == name:
            return number, -1 if part.scale.family.support.event else place
        if part.gaussian is not None and name in part.gaussian.slices:
            return number, -1 if part.group is None else int(part.group[part.gaussian.slices[name].start + place])
    raise NoClosedForm(f"{name!r} has no closed-form marginal")


def _of_group(mixture: Mixture, component: Component, group: Sequence[Interval], random_seed: int) -> Chance:
    try:
        pieces = mixture.pieces(component, [i.form for i in group])
    except NoClosedForm:
        if len(group) != 1:
            raise
        return _of_two(*_summands(mixture, component, group[0].form), group[0])
    return both([_of_piece(piece, group, random_seed) for piece in pieces])


def _of_piece(piece: Elliptical | SingleEntry, intervals: Sequence[Interval], random_seed: int) -> Chance:
    if isinstance(piece, SingleEntry):
        own = intervals[piece.row]
        return interval(piece.tails(own.low), piece.tails(own.high))
    low, high = (np.array([getattr(intervals[row], end) for row in piece.rows]) for end in ("low", "high"))
    unit = np.sqrt(np.diag(piece.scale))
    if len(unit) > 1 and np.linalg.matrix_rank(piece.scale / np.outer(unit, unit), hermitian=True) < len(unit):
        raise NoClosedForm("a linear relation ties these numbers to each other")
    chance = rectangle(piece.mean, piece.scale, piece.df, low, high, random_seed)
    # What rounding of the mean and of the scale moves: the density at the ends, times the move.
    ends = np.concatenate([(e - piece.mean) / unit for e in (low, high)])
    ends = ends[np.isfinite(ends)]
    moved = np.finfo(float).eps * piece.condition * (1 + np.abs(piece.mean / unit).max() + np.abs(ends))
    rounding = float(np.sum(moved * _density(ends, piece.df)))
    errors = chance.inside_error + rounding, chance.outside_error + rounding
    return Chance(chance.inside, chance.outside, *errors, chance.label)


def _density(x: np.ndarray, df: float) -> np.ndarray:
    return np.asarray(stats.norm.pdf(x) if np.isinf(df) else stats.t.pdf(x, df))


def _summands(mixture: Mixture, component: Component, form: LinearForm) -> tuple[_Number, _Number]:
    """The distributions of the two independent parts of a sum."""
    parts: dict[Any, LinearForm] = {}
    for entry, coefficient in form.terms.items():
        key = _key(component, entry)
        parts[key] = parts.get(key, LinearForm()) + LinearForm({entry: coefficient})
    if len(parts) != 2:
        raise NoClosedForm("a sum of several independent numbers, or of numbers that depend on each other")
    first, second = (_one(mixture.pieces(component, [part])[0]) for part in parts.values())
    return first, second


@dataclass(frozen=True)
class _Number:
    """The distribution of one number: a SciPy one, multiplied."""

    dist: Any
    factor: float = 1.0
    place: int = 0

    def _each(self, values: Any) -> np.ndarray:
        shape = np.shape(self.dist.mean())
        return np.asarray(values, dtype=float)[(..., *(None for _ in shape))]

    def _own(self, found: Any) -> np.ndarray:
        shape = np.shape(self.dist.mean())
        found = np.asarray(found)
        return found.reshape(*found.shape[: found.ndim - len(shape)], -1)[..., self.place]

    def ppf(self, q: Any) -> np.ndarray:
        q = np.asarray(q)
        return self.factor * self._own(self.dist.ppf(self._each(q if self.factor > 0 else 1 - q)))

    def tails(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        at = self._each(np.asarray(x) / self.factor)
        below, above = self._own(self.dist.cdf(at)), self._own(self.dist.sf(at))
        return (below, above) if self.factor > 0 else (above, below)


def _one(piece: Elliptical | SingleEntry) -> _Number:
    if isinstance(piece, SingleEntry):
        return _Number(piece.dist, piece.coefficient, piece.place)
    spread = math.sqrt(float(piece.scale[0, 0]))
    dist = stats.norm(piece.mean[0], spread) if np.isinf(piece.df) else stats.t(piece.df, piece.mean[0], spread)
    return _Number(dist)


def _of_two(first: _Number, second: _Number, between: Interval) -> Chance:
    """P(low < x₁ + x₂ < high), over the quantiles of x₁."""

    def side(which: int) -> Callable[[np.ndarray], np.ndarray]:
        def of(u: np.ndarray) -> np.ndarray:
            x = first.ppf(u)
            low, high = (second.tails(end - x if math.isfinite(end) else np.full_like(x, end)) for end in ends)
            return np.asarray(shares(low, high)[which])

        return of

    ends = between.low, between.high
    # The integrands bend where the median of the second number meets an end.
    middle = float(second.ppf(0.5))
    bends = [float(first.tails(end - middle)[0]) for end in ends if math.isfinite(end)]
    (inside, error), (outside, other) = (integral(side(k), 0.0, 1.0, bends) for k in (0, 1))
    return Chance(inside, outside, error, other, "quadrature")
