r"""Integrals over one real variable for many entries at once, by the trapezoid rule about each entry's own mode.

With x = m + s sinh(c u)/c, about as wide as a standard normal at the mode and growing like an exponential far out,

.. math:: \int e^{L(x)} dx \approx h \sum_k e^{L(x_k)} s \cosh(c u_k), \quad u_k = h k

converges exponentially for integrands that are analytic near the line (Trefethen and Weideman 2014). When the step is
halved the error is squared: so the sum over every other node, which costs nothing, shows of what order it is. The
lattice is made longer where its ends still count, and finer where the two sums disagree, for the φ that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from bayeskit.plates.entry_edges import edges

__all__ = [
    "AT_ONCE",
    "COARSE",
    "CURVED",
    "FINE",
    "EntryLattice",
    "EntryRule",
    "Integrals",
    "integrate_entries",
    "modes_of_entries",
]

# Of N values of φ (rows of what is given) and places (N, K, G) of all entries, L of the same shape.
EntryDensity = Callable[[np.ndarray, np.ndarray], np.ndarray]

CURVED = 0.3  # c
AGREED = 1e-5  # log of the ratio of the two sums, whose square is about the error
MANY = 100  # entries, up to which each may be off by as much
FALLEN = -25.0  # log of a term at an end over the sum of all
FINER, LONGER = 2, 1.6  # factors by which a lattice changes
MOST = 2_000  # nodes
# By which two sums have to agree better once nodes were halved, or where a density bends within its width: then a small
# share of an integral makes all that they differ by, and halving does not square it.
SURER = 1e-2
CROWDED = 160  # nodes beyond which an edge is looked for
ROUNDED, LOST = np.finfo(float).eps, 0.1  # of a place; and, in widths, where that leaves no integral
CLIMBS = 40  # steps up to which modes are looked for
NEAR = 0.2  # of a width, that the last step may take, and by which the width may change
FLAT = 1e-13  # of a log density, by which rounding alone may change it
CLOSER, TINY = 0.1, 1e-300  # of a step that led downhill, and the least
AT_ONCE = 100_000  # numbers in the terms that are evaluated together: of 300,000, memory takes half as long again


@dataclass(frozen=True)
class EntryLattice:
    """The nodes of one rule: u_k = h k, k from ``first`` to ``last``."""

    step: float = 0.5  # of the first lattice, which has 7 sds on either side
    first: int = -10
    last: int = 10

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.last - self.first + 1

    @property
    def nodes(self) -> np.ndarray:
        """u."""
        return self.step * np.arange(self.first, self.last + 1)

    def changed(self, left: bool, right: bool, coarse: bool) -> EntryLattice:
        """Longer to the left or right, or finer."""
        first = int(self.first * (LONGER if left else 1.0))
        last = int(self.last * (LONGER if right else 1.0))
        return (
            EntryLattice(self.step / FINER, FINER * first, FINER * last)
            if coarse
            else replace(self, first=first, last=last)
        )

    def within(self, longer: EntryLattice) -> np.ndarray:
        """Which nodes of a lattice that this one was changed into are its own, by their indices."""
        return np.arange(self.first, self.last + 1) * round(self.step / longer.step) - longer.first


@dataclass(frozen=True)
class EntryRule:
    """A first lattice, and when it will do: how well half of it has to agree, and how far its ends have to fall."""

    lattice: EntryLattice = EntryLattice()
    agreed: float = AGREED
    fallen: float = FALLEN

    def of_entries(self, number: int) -> EntryRule:
        """The same for so many entries, whose errors add up: of 2,000 counts with 5e-8 each no evidence was given."""
        return replace(self, agreed=self.agreed * min(1.0, MANY / max(number, 1)))


#: To about 1e-10 an entry; and to about 1e-8 for two fifths of the nodes, under a rule that knows 1e-5.
FINE, COARSE = EntryRule(), EntryRule(EntryLattice(0.7, -7, 7), 1e-3, -16.0)


@dataclass(frozen=True, eq=False)
class Integrals:
    """For each of N values of φ, first axis: log integrals of the entries (G), places and shares of K nodes (K, G)."""

    log_integral: np.ndarray
    places: np.ndarray  # x; where a lattice has fewer nodes than others, its last ones are the first again
    shares: np.ndarray  # of the integral; zero of those
    mode: np.ndarray  # (N, G), and with ``width`` where the nodes lie
    width: np.ndarray
    step: np.ndarray  # (N, G), between neighbouring nodes, in u
    first: np.ndarray  # (N, G), the number of the first node

    def copied(self, copies: np.ndarray | None) -> Integrals:
        """Those of entries that are copies of these."""
        return Integrals(**{f.name: getattr(self, f.name)[..., copies] for f in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[tuple[np.ndarray, Integrals]], number: int, size: int) -> Integrals:
        """Those of all φ, each given for some by their indices, the last counts; as long as the longest lattice."""
        most = max((p.places.shape[1] for _, p in parts), default=1)
        flat = {n: np.empty((number, size)) for n in ("log_integral", "mode", "width", "step", "first")}
        places, shares = (np.zeros((number, most, size)) for _ in range(2))
        for rows, part in parts:
            for name, values in flat.items():
                values[rows] = getattr(part, name)
            several = part.places.shape[1]
            places[rows], shares[rows] = part.places[:, :1], 0.0
            places[rows, :several], shares[rows, :several] = part.places, part.shares
        return cls(places=places, shares=shares, **flat)


@dataclass(frozen=True, eq=False)
class Sums:
    """What one lattice gives for some values of φ: their indices, log integrals (n, G), terms and places (n, K, G)."""

    of: np.ndarray
    log_integral: np.ndarray
    resolved: np.ndarray  # (n,), whether the sum over every other node agrees
    terms: np.ndarray  # their log sum is the log integral
    places: np.ndarray
    lattice: EntryLattice

    @property
    def shares(self) -> np.ndarray:
        """Of the integral, that each node has."""
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.exp(self.terms - self.log_integral[:, None]))

    def nodes(self, mode: np.ndarray, width: np.ndarray) -> Integrals:
        """With the nodes, about some places of all φ."""
        step, first = (np.full(self.log_integral.shape, float(v)) for v in (self.lattice.step, self.lattice.first))
        return Integrals(self.log_integral, self.places, self.shares, mode[self.of], width[self.of], step, first)


def _of_all_and_of_half(terms: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """The log sum of all nodes, and of every other from the ``first``, twice."""
    top = np.max(terms, axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(all="ignore"):
        shares = np.exp(terms - safe[:, None])
        return np.log(np.sum(shares, axis=1)) + safe, np.log(2.0 * np.sum(shares[:, first::2], axis=1)) + safe


def modes_of_entries(
    terms: EntryDensity, number: int, start: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each value of φ and each entry a mode of L and a width, (N, G), by parabolas through three points.

    A mode need not be found exactly, nor be the only one: the lattice about it is held to account, wherever it lies.
    """
    mode, scale = (np.array(np.broadcast_to(v, (number, *np.shape(v)[-1:]))) for v in (start, width))
    best, top = mode.copy(), np.full(mode.shape, -np.inf)
    left = np.arange(number)
    for _ in range(CLIMBS):
        # Nearer than this, places are no longer told apart.
        at, least = mode[left], ROUNDED / LOST * np.abs(mode[left])
        near = np.maximum(scale[left], least)
        three = np.stack([at - near, at, at + near], axis=1)
        values = terms(left, three)
        low, middle, high = np.moveaxis(values, 1, 0)
        with np.errstate(all="ignore"):
            # Where a step led downhill, or out of where there is a density: back to the best, for a closer look.
            worse = (middle < top[left] - 1e-9 * np.abs(top[left])) | (middle == -np.inf)
            highest = np.argmax(values, axis=1)[:, None]
            best_value = np.take_along_axis(values, highest, axis=1)[:, 0]
            found = best_value > top[left]
            best[left] = np.where(found, np.take_along_axis(three, highest, axis=1)[:, 0], best[left])
            top[left] = np.where(found, best_value, top[left])
            slope, bend = (high - low) / (2 * near), -(high - 2 * middle + low) / near**2
            level = np.maximum(np.abs(high - middle), np.abs(low - middle)) <= FLAT * np.abs(middle)
            curved = np.isfinite(bend) & (bend > 0) & ~level
            edge = ~worse & ~(np.isfinite(high) & np.isfinite(low))  # of what numbers can tell
            wider = np.where(edge, CLOSER, np.where(level, 1e3, 2.0)) * near
            new = np.where(curved, np.clip(1 / np.sqrt(bend), 1e-3 * near, 1e6 * near), wider)
            uphill = np.where(edge, 0.0, np.where(high > low, 2 * near, -2 * near))
            move = np.where(curved, np.clip(slope / bend, -1e6 * near, 1e6 * near), uphill)
            done = curved & ~worse & (np.abs(move) <= NEAR * new) & (np.abs(np.log(new / near)) <= NEAR)
            done |= curved & ~worse & (near <= least) & (new <= least)
            closer = np.maximum(CLOSER * np.where(at == best[left], near, np.abs(at - best[left])), TINY)
        mode[left] = np.where(worse, best[left], np.where(done, at, at + move))
        scale[left] = np.where(worse, closer, new)
        left = left[~np.all(done, axis=1)]
        if not len(left):
            break
    return mode, scale


def integrate_entries(
    terms: EntryDensity,
    mode: np.ndarray,
    width: np.ndarray,
    cost: int,
    rule: EntryRule = FINE,
) -> Iterator[Sums]:
    """log ∫ exp L of each entry for each value of φ, some of these at a time; ``cost`` are the rows of all entries.

    Where a lattice about a ``mode`` becomes too fine, for an edge beside it, it is moved there and has its ``width``.
    """
    agreed, fallen, moved = rule.agreed, rule.fallen, np.zeros(len(mode), dtype=bool)
    # With what is known already: L at the nodes of the lattice before.
    pending = [(np.arange(len(mode)), rule.lattice, np.empty((len(mode), 0, 0)), np.empty(0, int))] if len(mode) else []
    while pending:
        several, lattice, before, own = pending.pop()
        some = max(1, AT_ONCE // max(1, cost * (lattice.size - len(own))))
        if len(several) > some:
            cuts = [slice(k, k + some) for k in range(0, len(several), some)]
            pending += [(several[cut], lattice, before[cut], own) for cut in cuts]
            continue
        u = lattice.nodes[:, None]
        places = mode[several, None] + width[several, None] * (np.sinh(CURVED * u) / CURVED)
        found = _at_others(terms, several, places, before, own)
        values = found + np.log(lattice.step * np.cosh(CURVED * u)) + np.log(width[several, None])
        whole, half = _of_all_and_of_half(values, lattice.first % 2)
        with np.errstate(all="ignore"):
            apart = np.where(whole == half, 0.0, np.abs(whole - half))
            ends = values[:, [0, -1]] - whole[:, None]
        open_ends = np.any((ends > fallen) & np.isfinite(whole)[:, None], axis=2)
        # Nodes are rounded: of a width of 1e-14 about 8 a handful of numbers is left.
        noise = ROUNDED * np.abs(mode[several]) / width[several]
        whole[(noise > LOST) | (whole == np.inf)] = np.nan
        # Sums that are cut off differ by what is missing at the ends: these come first.
        wanting = open_ends.any(axis=1)
        sure = (agreed if lattice.step == rule.lattice.step else agreed * SURER) + noise
        coarse = ~wanting & ~np.all((apart <= sure) | ~np.isfinite(whole), axis=1)
        wanting |= coarse
        again = coarse & ~moved[several] & (lattice.size > CROWDED)
        if again.any():
            rows, unlike = several[again], apart[again] > sure[again]
            place, narrow = edges(terms, rows, places[again], found[again])
            unlike &= narrow > 0
            mode[rows], width[rows] = np.where(unlike, place, mode[rows]), np.where(unlike, narrow, width[rows])
            moved[rows] = True
            pending.append((rows, rule.lattice, np.empty((len(rows), 0, 0)), np.empty(0, int)))
        final = ~again & (~wanting | (lattice.size >= MOST))
        if np.any(final):
            # An integral whose lattice has no end does not exist, as far as can be seen; one with a kink is not known.
            whole[final & wanting] = np.nan
            yield Sums(several[final], whole[final], ~coarse[final], values[final], places[final], lattice)
        changes = open_ends[:, 0] * 4 + open_ends[:, 1] * 2 + coarse
        for change in map(int, np.flatnonzero(np.bincount(changes[~final & ~again]))):
            same = ~final & ~again & (changes == change)
            other = lattice.changed(change >= 4, change % 4 >= 2, change % 2 == 1)
            pending.append((several[same], other, found[same], lattice.within(other)))


def _at_others(
    terms: EntryDensity, several: np.ndarray, places: np.ndarray, before: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """L at places (n, K, G), of which some are known ``before``, by their indices ``own``."""
    if not len(own):
        return terms(several, places)
    found, others = np.empty(places.shape), np.setdiff1d(np.arange(places.shape[1]), own)
    found[:, own] = before
    found[:, others] = terms(several, places[:, others])
    return found
