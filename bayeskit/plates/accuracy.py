r"""How far the integrals of a plate are off, measured: another rule about another point, and other modes looked for.

The rule of the density judges itself by the sum over every other of its nodes, which is right where that error is the
root of its own. Here the integrals are taken again, on finer lattices that share no node with it and that have to agree
with their own half ten times as well. A lattice may step over a narrow peak altogether. The log density then rises
towards it on either side: where slopes at neighbouring nodes point at each other, a peak is climbed to, and the
integral taken about it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.plates.entry_integral import (
    CURVED,
    EntryDensity,
    EntryLattice,
    EntryRule,
    integrate_entries,
    modes_of_entries,
)
from bayeskit.plates.plate import LINES, Plate

__all__ = ["differences"]

STRICT = EntryRule(EntryLattice(0.19, -30, 30), 1e-6)
AFAR = EntryLattice(0.5, -120, 120)  # to 1e8 widths, in steps of a sixth of the distance
ASIDE, WIDER = 0.37, 1.3  # of a width, by which the second rule differs
BESIDE = 1e-3  # of a width, over which slopes are taken
PEAKS = 3  # of one entry that are looked at, beside its own
AT_ONCE = 2_000_000  # numbers in the terms of the φ that are looked at together
SHARE = 1e-10  # of an integral, that the nodes have in all at which a check of parameters fails


def differences(plate: Plate, given: Sequence[np.ndarray], number: int) -> np.ndarray:
    """For each φ, the sum over the entries of how far their log integrals are off; infinite where it cannot be told."""
    length = (plate.one_each or plate).terms.length
    some = max(1, AT_ONCE // max(1, length * AFAR.size))
    parts = [slice(k, min(k + some, number)) for k in range(0, number, some)]
    return np.concatenate([_differences(plate, [g[rows] for g in given], rows.stop - rows.start) for rows in parts])


def _differences(plate: Plate, given: Sequence[np.ndarray], number: int) -> np.ndarray:
    off = _of_entries(plate.one_each or plate, given, number)
    total = np.sum(off if plate.copies is None else off[:, plate.copies], axis=1)
    if plate.checks:  # of every entry: the data that they are of may differ where the density does not
        found = plate.integrals(given, number)
        total[_fails_a_check(plate, given, found.places, found.shares)] = np.inf
    return np.where(np.isfinite(total), total, np.inf)


def _of_entries(plate: Plate, given: Sequence[np.ndarray], number: int) -> np.ndarray:
    """For each φ and entry how far its log integral is off."""
    log_density, size = plate.on_line(given), plate.terms.length
    found = plate.integrals(given, number)
    again = np.full(found.log_integral.shape, np.nan)
    for sums in integrate_entries(log_density, found.mode + ASIDE * found.width, WIDER * found.width, size, STRICT):
        again[sums.of] = np.where(sums.resolved[:, None], sums.log_integral, np.nan)
    with np.errstate(all="ignore"):
        off = np.abs(found.log_integral - again)
    for mode, width, where in _other_peaks(log_density, found.mode, found.width):
        rows = np.flatnonzero(where.any(axis=1))
        some = _at(log_density, rows)
        for sums in integrate_entries(some, mode[rows], width[rows], size, STRICT):
            each = rows[sums.of]
            apart = np.abs(found.log_integral[each] - sums.log_integral)
            # No number where the two peaks are too far apart, for their widths, to be integrated over together.
            off[each] = np.where(where[each], np.maximum(off[each], apart), off[each])
    return off


def _at(log_density: EntryDensity, rows: np.ndarray) -> EntryDensity:
    return lambda of, x: log_density(rows[of], x)


def _other_peaks(log_density: EntryDensity, mode: np.ndarray, width: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Modes, widths and for which entries they are: peaks other than the one that the lattice is about."""
    number = len(mode)
    # Far beyond where the integral ends: what is another peak may lie behind a valley of hundreds of nats.
    peaks: list[tuple[np.ndarray, ...]] = []
    u = AFAR.nodes[:, None]
    nodes = mode[:, None] + width[:, None] * np.sinh(CURVED * u) / CURVED
    near = BESIDE * width[:, None] * np.cosh(CURVED * u)
    every = np.arange(number)
    with np.errstate(all="ignore"):
        rising = np.sign(log_density(every, nodes + near) - log_density(every, nodes - near))
    between = (rising[:, :-1] > 0) & (rising[:, 1:] < 0)
    between &= ~((nodes[:, :-1] - near[:, :-1] <= mode[:, None]) & (mode[:, None] <= nodes[:, 1:] + near[:, 1:]))
    for _ in range(PEAKS):
        where = between.any(axis=1)
        rows = np.flatnonzero(where.any(axis=1))
        if not len(rows):
            break
        first = np.argmax(between, axis=1)
        np.put_along_axis(between, first[:, None], False, axis=1)
        low, high = (np.take_along_axis(nodes, (first + k)[:, None], axis=1)[:, 0] for k in (0, 1))
        start, gap = np.where(where, 0.5 * (low + high), mode), np.where(where, 0.25 * (high - low), width)
        climbed, wide = modes_of_entries(_at(log_density, rows), len(rows), start[rows], gap[rows])
        start[rows], gap[rows] = climbed, wide
        peaks.append((start, gap, where))
    return peaks


def _fails_a_check(plate: Plate, given: Sequence[np.ndarray], places: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """For each φ, whether parameters are impossible where an entry has a share: Bernoulli(p=b) at b > 1, say."""
    number, several, _ = places.shape
    holds = compile_stacked([plate.terms.places, *plate.terms.given], list(plate.checks))
    with silently():
        values = holds(LINES[plate.kind](places)[0].reshape(number, several, *plate.shape), *given)
    fails = ~np.logical_and.reduce([np.broadcast_to(np.asarray(v, bool), (number, several)) for v in values])
    share: np.ndarray = np.max(np.sum(np.where(fails[..., None], shares, 0.0), axis=1), axis=1)
    return share > SHARE
