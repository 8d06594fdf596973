r"""A plate over the real line whose entries have concave log densities, read from its graphs: for many φ at once.

.. math:: L_g(b; \phi) = q_g(b; \phi) - \sum_{r: g(r) = g} w_r \, h_r(a_r + s_r b)

The quadratic is told from its values at three places, the rows from theirs at two. Where one of the w is negative, or a
number is not finite, it is left to the integrals of any density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.graphs.operation_costs import charge
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.plates.concave_integrals import (
    FIRST,
    LAST,
    LOG_INTEGRAL,
    ConcaveRows,
    draws_of_concave,
    integrals_of_concave,
    modes_of_concave,
)
from bayeskit.plates.concave_rows import FactorParts, parts_of_factor
from bayeskit.plates.entry_integral import EntryRule, Integrals
from bayeskit.plates.entry_rows import EntryRows
from bayeskit.plates.merged_rows import with_exponentials_merged
from bayeskit.types import Graph

__all__ = ["ConcaveEntries", "ConcaveNumbers"]

AWAY = 2.0**20  # how far apart slopes and bends are told, of places, where rounding has no part in them
ROUNDED, LOST = 2.0**-52, 1e-8  # of a quadratic; and nats over the width that the bend of one makes
BENT = 1e-11  # of the bend, by which rounding may change it
FAR = 1e3  # twice the nats that the quadratic of an entry differs by at its mode, with which it is read again there
SIGN = 1e-12  # by which a slope may differ from one
PLACE, ROW = 60.0, 5.0  # nanoseconds of a node of an entry, and of a row at it
OFTEN = 64  # nodes that an integral seldom has more of
SEARCHED = 6  # nodes that the search for a mode costs as much as


@dataclass(frozen=True, eq=False)
class ConcaveNumbers:
    """L of the entries for N values of φ, as :func:`integrals_of_concave` takes it."""

    quadratics: np.ndarray  # (N, G, 3), about the centre
    offsets: np.ndarray  # (N, R), rows in the order of their entries
    slopes: np.ndarray  # (N, R), or (1, R) where they are the same for all φ
    weights: np.ndarray  # likewise
    grows: np.ndarray  # (R,)
    begin: np.ndarray
    centre: np.ndarray  # (N, G)
    modes: np.ndarray  # (N, G, 2): of each entry its distance from the centre, and a width

    def of(self, some: np.ndarray) -> ConcaveNumbers:
        """Those of some values of φ."""
        if some.all():
            return self
        named = {n: getattr(self, n) for n in ("quadratics", "offsets", "slopes", "weights", "centre", "modes")}
        return replace(self, **{n: v[some] if len(v) == len(some) else v for n, v in named.items()})

    @property
    def far(self) -> np.ndarray:
        """For which φ an entry has its mode so far from the centre that its quadratic is rounded there, (N,)."""
        return np.asarray(np.any(self.quadratics[..., 2] * self.modes[..., 0] ** 2 > FAR, axis=1))

    @property
    def lost(self) -> np.ndarray:
        """For which φ the prior of an entry is so wide that its bend is lost beside the slope that rows have, (N,)."""
        _, slope, bend = np.moveaxis(self.quadratics, -1, 0)
        with np.errstate(all="ignore"):
            return np.asarray(~np.all(ROUNDED * np.abs(slope) < LOST * np.sqrt(bend), axis=1))

    @property
    def _rows(self) -> ConcaveRows:
        return self.offsets, self.slopes, self.weights, self.grows, self.begin

    def _integrated(self, rule: EntryRule, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What is found for each entry, and up to so many of its nodes and their shares."""
        number, entries = self.centre.shape
        charge(number * (rule.lattice.size + SEARCHED) * (PLACE * entries + ROW * len(self.grows)))
        places, shares = np.empty((2, number, most, entries))
        lattice = rule.lattice
        numbers = np.array([lattice.step, lattice.first, lattice.last, rule.agreed, rule.fallen])
        found = integrals_of_concave(self.quadratics, self._rows, self.modes, self.centre, numbers, places, shares)
        size = int(np.max(found[..., LAST] - found[..., FIRST], initial=0.0)) + 1
        if 0 < most < size:
            return self._integrated(rule, size)
        return found, places[:, :size], shares[:, :size]

    def log_integrals(self, rule: EntryRule) -> np.ndarray:
        """The log integral of each entry, (N, G)."""
        found: np.ndarray = self._integrated(rule, 0)[0][..., LOG_INTEGRAL]
        return found

    def integrals(self, rule: EntryRule) -> Integrals:
        """With the nodes."""
        found, places, shares = self._integrated(rule, OFTEN)
        log_integral, mode, width, step, first = np.moveaxis(found[..., :LAST], -1, 0)
        centre = self.centre
        return Integrals(log_integral, centre[:, None] + places, shares, centre + mode, width, step, first)

    def draw(
        self, rule: EntryRule, copies: np.ndarray, bounds: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Draws of entries that are copies of these, (N, copies), no numbers where they have no integral.

        ``bounds`` gives those of the ratio of the density to what the shares of nodes say.
        """
        found, _, shares = self._integrated(rule, OFTEN)
        shares, order = np.ascontiguousarray(shares), np.argsort(copies, kind="stable")
        several = found, shares, copies[order], rng, bounds(shares)
        drawn = np.empty((len(found), len(copies)))
        drawn[:, order] = draws_of_concave(self.quadratics, self._rows, *several) + self.centre[:, copies[order]]
        return drawn


@dataclass(frozen=True, eq=False)
class ConcaveEntries:
    """The factors of a plate in their parts, as graphs with a leading axis of K places."""

    shape: tuple[int, ...]
    places: Graph
    given: tuple[Graph, ...]
    factors: tuple[Graph, ...]
    parts: tuple[FactorParts, ...]
    rows: tuple[EntryRows, ...]
    constant_slopes: bool  # of all functions: their arguments are affine in b and φ together

    @classmethod
    def of(
        cls, graphs: Sequence[Any], variable: Any, places: Any, given: tuple[Graph, ...], rows: Sequence[EntryRows]
    ) -> ConcaveEntries | None:
        """Of factors as graphs in a variable, each with the entries of its rows; None where one is of another form."""
        parts = [found for g in graphs if (found := parts_of_factor(g, variable)) is not None]
        if len(parts) < len(graphs):
            return None

        def everywhere(graph: Any) -> Any:
            moved: Any = vectorize_graph(graph, {variable: places})
            return moved if moved.type.ndim > graph.type.ndim else pt.expand_dims(moved, 0)

        moved = [
            FactorParts(
                everywhere(p.quadratic), tuple(replace(f, argument=everywhere(f.argument)) for f in p.functions)
            )
            for p in parts
        ]
        arguments = [f.argument for p in parts for f in p.functions]
        joint = degrees(arguments, dict.fromkeys([variable, *given], 1.0))
        constant = all(joint.get(x, 0.0) <= 1.0 for x in arguments)
        factors = [everywhere(g) for g in graphs]
        return cls(places.type.shape[1:], places, given, tuple(factors), tuple(moved), tuple(rows), constant)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}  # compiled anew where it is unpickled

    @cached_property
    def _compiled(self) -> tuple[Any, ...]:
        """The factors, their quadratics, and the arguments and coefficients of all functions, of places and φ."""
        functions = [f for p in self.parts for f in p.functions]
        graphs = self.factors, [p.quadratic for p in self.parts], [f.argument for f in functions]
        of_places = [compile_stacked([self.places, *self.given], list(g)) for g in graphs]
        return *of_places, compile_stacked(list(self.given), [f.coefficient for f in functions])

    def _at(self, which: int, places: np.ndarray, given: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Graphs at places (N, K, G), with both axes in front."""
        number, several, _ = places.shape
        found = self._compiled[which](places.reshape(number, several, *self.shape), *given)
        return [np.asarray(v) for v in found]

    def numbers(self, given: Sequence[np.ndarray], centre: np.ndarray) -> tuple[ConcaveNumbers, np.ndarray]:
        """L for N values of φ about a place of each entry, (N, G); and for which of them it can be computed with."""
        with silently(), np.errstate(all="ignore"):
            lengths = self._lengths([g[:1] for g in given])
            quadratics = self._quadratics(given, centre, lengths)
            (offsets, slopes, weights), grows, begin = self._rows(given, centre, lengths)
        suited = np.all(np.isfinite(quadratics), axis=(1, 2)) & np.all(quadratics[..., 2] > 0, axis=1)
        suited &= np.all((weights >= 0) & np.isfinite(offsets + slopes + weights), axis=1)
        # One layout: numba compiles once for each.
        quadratics, offsets, slopes, weights = map(np.ascontiguousarray, (quadratics, offsets, slopes, weights))
        rows = offsets, slopes, weights, grows, begin
        modes = modes_of_concave(quadratics, rows) if suited.any() else np.full((*centre.shape, 2), np.nan)
        return ConcaveNumbers(quadratics, *rows, centre, modes), suited & np.all(np.isfinite(modes), axis=(1, 2))

    def _lengths(self, given: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
        """Of the axes of each factor."""
        values = self._at(0, np.zeros((1, 1, int(np.prod(self.shape, dtype=int)))), given)
        return [v.shape[v.ndim - g.type.ndim + 1 :] for v, g in zip(values, self.factors, strict=True)]

    def _quadratics(
        self, given: Sequence[np.ndarray], centre: np.ndarray, lengths: Sequence[tuple[int, ...]]
    ) -> np.ndarray:
        """q, (N, G, 3), about the centre: level, slope and bend."""

        def at(*places: np.ndarray) -> np.ndarray:
            stacked = np.stack(places, axis=1)
            total = np.zeros(stacked.shape)
            for values, rows, axes in zip(self._at(1, stacked, given), self.rows, lengths, strict=True):
                rows.add_up(np.broadcast_to(values, (*stacked.shape[:2], *axes)), total)
            return np.moveaxis(total, 1, 0)

        bend = np.full(centre.shape, np.nan)
        for away in (AWAY, AWAY**2, AWAY**3):  # the wider, the farther: at 2²⁰, the bend of an sd of 10¹⁰ is rounding
            left, right = centre - away, centre + away
            low, level, high = at(left, centre, right)
            found = 2.0 * ((level - low) / (centre - left) - (high - level) / (right - centre)) / (right - left)
            told = ROUNDED * np.maximum(np.abs(level), 1.0) <= BENT * np.abs(found) * away**2
            bend = np.where(np.isnan(bend) & told, found, bend)
            if not np.any(np.isnan(bend)):
                break
        width = 1.0 / np.sqrt(bend)
        # A slope so far away would be rounded by what is the bend's.
        low, high = at(centre - width, centre + width)
        return np.stack([level, (high - low) / ((centre + width) - (centre - width)), bend], axis=-1)

    def _rows(
        self, given: Sequence[np.ndarray], centre: np.ndarray, lengths: Sequence[tuple[int, ...]]
    ) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """a about the centre, s and w (N, R), of which kind each row is, and where those of an entry begin.

        Slopes and weights that are the same for all φ are given once.
        """
        number, size = centre.shape
        functions = [(f, e, n) for p, e, n in zip(self.parts, self.rows, lengths, strict=True) for f in p.functions]
        of = np.concatenate([np.empty(0, int), *(rows.of_rows(axes) for _, rows, axes in functions)])
        kinds = np.concatenate(
            [np.empty(0, bool), *(np.full(np.prod(n, dtype=int), f.exponential) for f, _, n in functions)]
        )

        def flat(values: Sequence[Any], front: int) -> np.ndarray:
            each = [
                np.broadcast_to(np.asarray(v), (front, *axes)).reshape(front, -1)
                for v, (_, _, axes) in zip(values, functions, strict=True)
            ]
            return each[0] if len(each) == 1 else np.concatenate([np.empty((front, 0)), *each], axis=1)

        coefficients = self._compiled[3](*given)
        alike = all(np.ndim(c) == f.coefficient.type.ndim for c, (f, _, _) in zip(coefficients, functions, strict=True))
        weights = -flat(coefficients, 1 if alike else number)
        order = np.argsort(of, kind="stable")
        order = order[np.any(weights[:, order] != 0, axis=0)]
        weights, of = weights[:, order], of[order]
        low = flat([v[:, 0] for v in self._at(2, np.zeros((number, 1, size)), given)], number)[:, order]
        some = 1 if self.constant_slopes else number
        far = self._at(2, np.full((some, 1, size), AWAY), [g[:some] for g in given])
        slopes = (flat([v[:, 0] for v in far], some)[:, order] - low[:some]) / AWAY
        sign = np.sign(slopes)
        slopes = np.where(np.abs(slopes - sign) < SIGN, sign, slopes)
        offsets = low + slopes * centre[:, of] if centre.any() else low
        if not np.all(weights):
            offsets, slopes = np.where(weights, offsets, 0.0), np.where(weights, slopes, 0.0)
        *numbers, kinds, of = with_exponentials_merged((offsets, slopes, weights, kinds[order], of))
        return numbers, kinds, np.searchsorted(of, np.arange(size + 1))
