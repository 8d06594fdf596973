r"""What the integrals of a plate leave behind: p(b | φ, y), entry by entry, and how far the integrals may be off.

An entry is drawn by rejection from the interpolant of its density that is linear between the nodes of its lattice, in
u: the draws have exactly the density, wherever its ratio to the interpolant is below the bound used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeskit.plates.entry_integral import CURVED, Integrals
from bayeskit.plates.plate import LINES, Plate

__all__ = ["PlateRecovery"]

AT_ONCE = 2_000_000  # numbers in the nodes of the values of φ that are drawn for together
COUNTED = 1e-9  # share of an integral below which a node has no say in the bound of the ratio
SLACK = 1.1
ROUNDS = 1_000


@dataclass(frozen=True, eq=False)
class PlateRecovery:
    """The conditional distribution of the variable of a plate given everything that its integrals depend on."""

    plate: Plate

    def _given(self, draws: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(draws[n], dtype=float) for n in self.plate.given]

    def draw(self, draws: Mapping[str, np.ndarray], number: int, rng: np.random.Generator) -> np.ndarray:
        """One value of the variable for each draw of what its integrals depend on."""
        given, result = self._given(draws), np.empty((number, *self.plate.shape))
        some = max(1, AT_ONCE // max(1, self.plate.weight_of_all))
        for start in range(0, number, some):
            rows = slice(start, min(start + some, number))
            result[rows] = self._draw([g[rows] for g in given], rows.stop - rows.start, rng)
        return result

    def _draw(self, given: list[np.ndarray], number: int, rng: np.random.Generator) -> np.ndarray:
        own, size = self.plate.one_each or self.plate, self.plate.terms.size
        copies = np.arange(size) if self.plate.copies is None else self.plate.copies
        drawn, left = np.empty((number, size)), np.ones(number, dtype=bool)
        for rows, numbers in own.concave(given, own.starts(given, number)):
            drawn[rows] = found = numbers.draw(own.rule, copies, _bound_of_ratio, rng)
            left[rows] = np.isnan(found).any(axis=1)
        if left.any():
            drawn[left] = self._draw_of_any([g[left] for g in given], int(left.sum()), rng)
        return LINES[self.plate.kind](drawn)[0].reshape(number, *self.plate.shape)

    def _draw_of_any(self, given: list[np.ndarray], number: int, rng: np.random.Generator) -> np.ndarray:
        """x on the line, whatever the density."""
        found = self.plate.integrals(given, number)
        log_density, size = self.plate.on_line(given), self.plate.terms.size
        proposal = _Interpolant(found)
        bound, drawn = _bound_of_ratio(proposal.shares), np.empty((number, size))
        waiting = np.ones((number, size), dtype=bool)
        for _ in range(ROUNDS):
            left = np.flatnonzero(waiting.any(axis=1))
            if not len(left):
                break
            u, height = proposal.draw(left, rng)
            x = found.mode[left] + found.width[left] * np.sinh(CURVED * u) / CURVED
            log_f = log_density(left, x[:, None])[:, 0] - found.log_integral[left]
            with np.errstate(all="ignore"):
                # The interpolant is of shares, which are of lengths ``step`` in u.
                ratio = np.exp(log_f + np.log(found.width[left] * np.cosh(CURVED * u) * found.step[left])) / height
            taken = waiting[left] & (rng.uniform(size=u.shape) * bound[left] < ratio)
            drawn[left] = np.where(taken, x, drawn[left])
            exceeded = ratio > bound[left]
            bound[left] = np.where(exceeded, SLACK * ratio, bound[left])
            waiting[left] = np.where(exceeded, True, waiting[left] & ~taken)  # again, under the larger bound
        return drawn

    def log_density(self, point: Mapping[str, np.ndarray]) -> float:
        """log p(b | φ, y) at one point."""
        given = [g[None] for g in self._given(point)]
        value = np.asarray(point[self.plate.name], dtype=float).reshape(1, 1, -1)
        return float(
            np.sum(self.plate.terms.at(given)(np.zeros(1, int), value)) - np.sum(self.plate.log_integrals(given, 1))
        )


def _bound_of_ratio(shares: np.ndarray) -> np.ndarray:
    """Of the ratio of the density to the interpolant, for each entry: by leaving out every other node.

    Between nodes that are half as far apart, the ratio is about a quarter as far above one; half is taken.
    """
    middle, around = shares[:, 1:-1], 0.5 * (shares[:, :-2] + shares[:, 2:])
    with np.errstate(all="ignore"):
        above = np.where(middle > COUNTED, middle / around - 1.0, 0.0)
    bound: np.ndarray = SLACK * (1.0 + 0.5 * np.max(above, axis=1, initial=0.0))
    return bound


class _Interpolant:
    """The density of u, linear between nodes, with which entries are proposed."""

    def __init__(self, found: Integrals) -> None:
        self.found = found
        self.shares = found.shares
        cumulated = np.cumsum(self.shares, axis=1)
        self.cumulated = cumulated / cumulated[:, -1:]

    def draw(self, of: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """u of a draw for some values of φ, and the height of the interpolant there, in shares."""
        shape = (len(of), self.shares.shape[2])
        at = (rng.uniform(size=(len(of), 1, shape[1])) > self.cumulated[of]).sum(axis=1)
        hat = rng.uniform(size=shape) + rng.uniform(size=shape) - 1.0
        last, row, entry = self.shares.shape[1] - 1, of[:, None], np.arange(shape[1])
        beside = at + np.where(hat < 0, -1, 1)
        inside = (beside >= 0) & (beside <= last)
        other = np.where(inside, self.shares[row, np.clip(beside, 0, last), entry], 0.0)
        height = (1.0 - np.abs(hat)) * self.shares[row, at, entry] + np.abs(hat) * other
        u = self.found.step[of] * (self.found.first[of] + at + hat)
        return u, height
