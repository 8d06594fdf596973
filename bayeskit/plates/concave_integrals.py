r"""Integrals over entries whose log densities are concave, one entry at a time, compiled by numba.

The rule about the mode is that of :mod:`bayeskit.plates.entry_integral`: its lattice, and when it is made longer or
finer, are the same; nothing is evaluated twice. For one entry all is in the cache of the processor, where NumPy goes
through the memory some thirty times.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written
from bayeskit.plates import concave_density
from bayeskit.plates.concave_density import ConcaveEntry, concave_log_density, entry_function, mode_and_width
from bayeskit.plates.entry_integral import CURVED, FINER, LONGER, LOST, MOST, ROUNDED, SURER

__all__ = [
    "FIRST",
    "LAST",
    "LOG_INTEGRAL",
    "MODE",
    "STEP",
    "WIDTH",
    "ConcaveRows",
    "draws_of_concave",
    "integrals_of_concave",
    "modes_of_concave",
]

LOG_INTEGRAL, MODE, WIDTH, STEP, FIRST, LAST = range(6)  # columns of what is found for an entry
SLACK, ROUNDS = 1.1, 1_000  # by which a bound is raised above a ratio that exceeds it; and draws that are tried
#: a, s and w (N, R), of the last two one for all φ where they are the same, and which are exp, of rows in the order of
#: their entries; and where the rows of each entry begin, and the last end.
ConcaveRows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

WIDER, REACH = 3.0, 10.0  # widths about a mode: times that of a bend near it, and how far that counts
HALVED, TABLE = 3, 8 * 40  # steps of nodes that are kept, and how many of them on either side


@as_written()
def _sum_and_half(values: np.ndarray, size: int, first: int) -> tuple[float, float]:
    """The log sum of all, and of every other from the ``first``, twice."""
    top = -np.inf
    for k in range(size):
        top = max(top, values[k])
    if not np.isfinite(top):
        return top, top
    sums = np.zeros(2)
    for k in range(size):
        sums[k & 1] += np.exp(values[k] - top)
    whole, half = sums[0] + sums[1], sums[first]
    return np.log(whole) + top, (np.log(2.0 * half) if half > 0.0 else -np.inf) + top


@as_written()
def _table_of_nodes(step: float) -> np.ndarray:
    """The distances of nodes from the mode, in widths, and the logs of their weights, for steps that are halved."""
    table = np.empty((2 * TABLE + 1, 2))
    for k in range(-TABLE, TABLE + 1):
        u = CURVED * step / FINER**HALVED * k
        table[TABLE + k, 0], table[TABLE + k, 1] = np.sinh(u) / CURVED, np.log(step * np.cosh(u))
    return table


@as_written()
def _nodes(table: np.ndarray, step: float, halved: int, first: int, size: int, to: np.ndarray) -> None:
    """The distances of the nodes of a lattice, whose step was ``halved`` so often, and the logs of their weights."""
    apart, stride = step / FINER**halved, FINER ** max(HALVED - halved, 0)
    known = halved <= HALVED and max(abs(first), abs(first + size - 1)) * stride <= TABLE
    less = halved * np.log(FINER)
    for k in range(size):
        if known:
            row = TABLE + (first + k) * stride
            to[0, k], to[1, k] = table[row, 0], table[row, 1] - less
        else:
            u = CURVED * apart * (first + k)
            to[0, k], to[1, k] = np.sinh(u) / CURVED, np.log(apart * np.cosh(u))


@as_written()
def _others(first: int, size: int, old_first: int, old_size: int, finer: int, kept: np.ndarray, to: np.ndarray) -> int:
    """Move values of the nodes of a lattice, ``finer`` steps apart, to where they are in a longer one.

    Which of its nodes are others is noted in the front of ``kept``, and their number returned.
    """
    number = 0
    for k in range(size):
        at, rest = first + k, 0
        if finer > 1:
            at, rest = at // finer, at % finer
        if rest == 0 and 0 <= at - old_first < old_size:
            to[k] = kept[1, at - old_first]
        else:
            kept[0, number] = k
            number += 1
    return number


@as_written(concave_density.__file__)
def _integrate(
    entry: ConcaveEntry,
    mode: float,
    width: float,
    noise: float,
    agreed: float,
    rule: np.ndarray,
    table: np.ndarray,
    room: np.ndarray,
) -> tuple[float, int, int, int]:
    """The log integral of an entry, how often the step was halved, and the first and last node.

    The nodes are left in the first row of ``room``, in widths from the mode, and the logs of their terms in the fourth.
    """
    lattice, total, values, kept, t, work = room[:2], room[2], room[3], room[4:6], room[6], room[7:]
    first, last, finer, halved, old_first, old_size = int(rule[1]), int(rule[2]), 1, 0, 0, 0
    while True:
        size = last - first + 1
        _nodes(table, rule[0], halved, first, size, lattice)
        others = _others(first, size, old_first, old_size, finer, kept, total)
        for k in range(others):
            t[k] = mode + width * lattice[0, int(kept[0, k])]
        concave_log_density(t, others, entry, work, values)
        for k in range(others):
            total[int(kept[0, k])] = values[k]
        for k in range(size):
            kept[1, k] = total[k]
            values[k] = total[k] + lattice[1, k] + np.log(width)
        whole, half = _sum_and_half(values, size, first % 2)
        left = values[0] - whole > rule[4] and np.isfinite(whole)
        right = values[size - 1] - whole > rule[4] and np.isfinite(whole)
        coarse = not (left or right) and np.isfinite(whole) and not abs(whole - half) <= agreed + noise
        if not (left or right or coarse):
            return (whole if noise <= LOST and whole != np.inf else np.nan), halved, first, last
        if size >= MOST:
            return np.nan, halved, first, last
        old_first, old_size, finer = first, size, FINER if coarse else 1
        first, last = int(first * (LONGER if left else 1.0)), int(last * (LONGER if right else 1.0))
        if coarse:
            halved, first, last = halved + 1, FINER * first, FINER * last


@as_written()
def _bend_of_rows(entry: ConcaveEntry, mode: float, reach: float) -> tuple[float, float]:
    """Where a row bends, and how wide that is: the one that bends the most within ``reach`` of the mode."""
    _, offsets, _, slopes, weights, grows = entry
    place, width = np.nan, np.inf
    for r in range(len(offsets)):
        if weights[r] > 0.0 and slopes[r] != 0.0:
            at = -(offsets[r] + (np.log(weights[r]) if grows[r] else 0.0)) / slopes[r]
            own, apart = 1.0 / abs(slopes[r]), abs(at - mode)
            if apart < reach and (own < width or (own == width and apart < abs(place - mode))):
                place, width = at, own
    return place, width


@as_written(concave_density.__file__)
def _integrated(
    entry: ConcaveEntry, mode: float, width: float, centre: float, rule: np.ndarray, table: np.ndarray, room: np.ndarray
) -> tuple[float, float, float, int, int, int]:
    """The log integral of an entry; where its nodes lie about, and how wide; and the numbers of the lattice.

    Under a prior of sd 20, counts that are all zero cut a Normal off within one unit. A lattice about its mode may step
    over that and have two sums agree by chance, with an error of 2e-5; about where it is cut off, nodes are near.
    """
    place, narrow = _bend_of_rows(entry, mode, REACH * width)
    agreed = rule[3] * (SURER if narrow < width else 1.0)
    if narrow * WIDER < width:
        noise = ROUNDED * abs(centre + place) / narrow
        whole, halved, first, last = _integrate(entry, place, narrow, noise, agreed, rule, table, room)
        if not np.isnan(whole):
            return whole, place, narrow, halved, first, last
    noise = ROUNDED * abs(centre + mode) / width
    whole, halved, first, last = _integrate(entry, mode, width, noise, agreed, rule, table, room)
    return whole, mode, width, halved, first, last


@as_written()
def _entry(quadratics: np.ndarray, rows: ConcaveRows, powers: np.ndarray, n: int, g: int) -> ConcaveEntry:
    offsets, slopes, weights, grows, begin = rows
    i, j = begin[g], begin[g + 1]
    s, w = slopes[n % len(slopes), i:j], weights[n % len(weights), i:j]
    return quadratics[n, g], offsets[n, i:j], powers[i:j], s, w, grows[i:j]


@as_written(concave_density.__file__)
def modes_of_concave(quadratics: np.ndarray, rows: ConcaveRows) -> np.ndarray:
    """For N values of φ and G entries the mode, as a distance from the centre, and the width, (N, G, 2).

    ``quadratics`` are (N, G, 3).
    """
    number, entries, _ = quadratics.shape
    found = np.empty((number, entries, 2))
    for n in range(number):
        powers = np.exp(rows[0][n])
        for g in range(entries):
            found[n, g, 0], found[n, g, 1] = mode_and_width(_entry(quadratics, rows, powers, n, g))
    return found


@as_written(concave_density.__file__)
def integrals_of_concave(
    quadratics: np.ndarray,
    rows: ConcaveRows,
    modes: np.ndarray,
    centre: np.ndarray,
    rule: np.ndarray,
    places: np.ndarray,
    shares: np.ndarray,
) -> np.ndarray:
    """For N values of φ and G entries, (N, G, 6): the columns are named above; modes are distances from the ``centre``.

    The first arguments and the ``modes`` are those of :func:`modes_of_concave`; ``rule`` are the step, first and last
    node, and the bounds of the difference between the two sums and of what ends may have, in logarithms. No number
    where there is none. As many nodes as there is room for, and their shares of the integral, are left in ``places``
    and ``shares`` (N, K, G); further ones are the first, without a share.
    """
    number, entries, _ = quadratics.shape
    found = np.empty((number, entries, 6))
    room, table = np.empty((11, 4 * MOST)), _table_of_nodes(rule[0])
    for n in range(number):
        powers = np.exp(rows[0][n])
        for g in range(entries):
            entry = _entry(quadratics, rows, powers, n, g)
            whole, mode, width, halved, first, last = _integrated(
                entry, modes[n, g, 0], modes[n, g, 1], centre[n, g], rule, table, room
            )
            found[n, g, LOG_INTEGRAL], found[n, g, MODE], found[n, g, WIDTH] = whole, mode, width
            found[n, g, STEP], found[n, g, FIRST], found[n, g, LAST] = rule[0] / FINER**halved, first, last
            for k in range(places.shape[1]):
                is_node = k <= last - first
                places[n, k, g] = mode + width * room[0, k if is_node else 0]
                share = np.exp(room[3, k] - whole) if is_node else 0.0
                shares[n, k, g] = share if np.isfinite(share) else 0.0
    return found


@as_written(concave_density.__file__)
def draws_of_concave(
    quadratics: np.ndarray,
    rows: ConcaveRows,
    found: np.ndarray,
    node_shares: np.ndarray,
    copies: np.ndarray,
    rng: np.random.Generator,
    bounds: np.ndarray,
) -> np.ndarray:
    """t of entries that are copies of those given, (N, copies), drawn as :mod:`bayeskit.plates.conditional` says.

    ``bounds`` are the first ones of the ratio of the density to the interpolant between its nodes, (N, G), whose shares
    are given (N, K, G). No number where there is no integral.
    """
    number, most, _ = node_shares.shape
    drawn = np.full((number, len(copies)), np.nan)
    cumulated = np.empty(most)
    for n in range(number):
        of = -1
        for member in range(len(copies)):
            g = copies[member]
            q, a, _, s, w, grow = _entry(quadratics, rows, rows[0][n], n, g)  # exp a is not asked for
            shares, bound = node_shares[n, :, g], bounds[n, g]
            whole, mode, width = found[n, g, LOG_INTEGRAL], found[n, g, MODE], found[n, g, WIDTH]
            step, first = found[n, g, STEP], found[n, g, FIRST]
            if np.isnan(whole):
                continue
            if g != of:
                of, total = g, 0.0
                for k in range(most):
                    total += shares[k]
                    cumulated[k] = total
            for _ in range(ROUNDS):
                at, aim = 0, rng.random() * cumulated[most - 1]
                while at < most - 1 and aim > cumulated[at]:
                    at += 1
                hat = rng.random() + rng.random() - 1.0
                beside = at - 1 if hat < 0.0 else at + 1
                other = shares[beside] if 0 <= beside < most else 0.0
                height = (1.0 - abs(hat)) * shares[at] + abs(hat) * other
                if height == 0.0:  # numba raises where it is divided by
                    continue
                u = CURVED * step * (first + at + hat)
                t = mode + width * np.sinh(u) / CURVED
                value = q[0] + t * (q[1] - 0.5 * q[2] * t)
                for r in range(len(a)):
                    value -= w[r] * entry_function(a[r] + s[r] * t, grow[r])
                ratio = np.exp(value - whole) * width * np.cosh(u) * step / height
                if ratio > bound:
                    bound = SLACK * ratio
                elif rng.random() * bound < ratio:
                    drawn[n, member] = t
                    break
            bounds[n, g] = bound
    return drawn
