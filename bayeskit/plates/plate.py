r"""One variable whose entries are independent given the rest φ, each integrated by itself.

.. math:: \log p(y, \phi) = \dots + \sum_g \log \int e^{L_g(b; \phi)} \, db

A bounded entry is moved to the line first, by x = log b or x = logit b, with the Jacobian. The places of the nodes
depend on φ; the integral does not depend on them, so that the gradient is that of the sum with the nodes held fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from scipy import special

from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.plates.concave_entries import ConcaveNumbers
from bayeskit.plates.entry_integral import (
    AT_ONCE,
    FINE,
    EntryDensity,
    EntryRule,
    Integrals,
    Sums,
    integrate_entries,
    modes_of_entries,
)
from bayeskit.plates.entry_terms import EntryTerms

__all__ = ["LINES", "Plate"]

CENTRED = 4  # times that concave entries are read, each about the modes before


def _logistic(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return special.expit(x), special.log_expit(x) + special.log_expit(-x)


#: For each kind of support b and log db/dx at x, any real number.
LINES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "real": lambda x: (x, np.zeros_like(x)),
    "positive": lambda x: (np.exp(x), x),
    "unit": _logistic,
}
BACK: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "real": lambda b: b,
    "positive": np.log,
    "unit": special.logit,
}


@dataclass(frozen=True, eq=False)
class Plate:
    """A variable whose entries were integrated one by one, given the variables that ``given`` names."""

    name: str
    kind: str  # of its support
    terms: EntryTerms
    given: tuple[str, ...]
    factor: str  # the name of the factor that stands for the integrals
    start: Variable | None = None  # where its prior is centred, on its support, in the same variables
    # Checks of parameters that depend on b: they have to hold wherever it may be.
    checks: tuple[Variable, ...] = ()
    rule: EntryRule = FINE
    # Of entries that are equal one is integrated: a plate of these, and for each entry which of them it is a copy of.
    one_each: Plate | None = None
    copies: np.ndarray | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_centre"}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the variable."""
        return self.terms.shape

    @property
    def weight(self) -> int:
        """About how many numbers the integrals at one φ take: the lattice, and the search for its middle."""
        return self.weight_of_all if self.one_each is None else self.one_each.weight

    @property
    def weight_of_all(self) -> int:
        """As :attr:`weight`, where each entry is looked at by itself."""
        return (self.rule.lattice.size + 9) * self.terms.length

    def on_line(self, given: Sequence[np.ndarray]) -> EntryDensity:
        """L of some values of φ, given by their indices, at x on the line, Jacobian included."""
        move, terms = LINES[self.kind], self.terms.at(given)

        def log_density(of: np.ndarray, x: np.ndarray) -> np.ndarray:
            parts = x.shape[1] * self.terms.length * len(of) // (2 * AT_ONCE)
            if parts > 1 and len(of) > 1:
                pairs = zip(np.array_split(of, parts), np.array_split(x, parts), strict=True)
                return np.concatenate([log_density(some, at) for some, at in pairs if len(some)])
            with np.errstate(all="ignore"):
                b, jacobian = move(x)
                return terms(of, b) + jacobian

        return log_density

    def starts(self, given: Sequence[np.ndarray], number: int) -> np.ndarray:
        """Where the prior of each entry is centred for each φ, on the line; zero where that is not known."""
        start = np.zeros((number, self.terms.size))
        if self.start is not None and number:
            with silently():
                centre = np.asarray(self._centre(*given))
                start = BACK[self.kind](np.broadcast_to(centre.reshape(len(centre), -1), start.shape))
        return np.where(np.isfinite(start), start, 0.0)

    def _centres(self, log_density: EntryDensity, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A mode and a width for each φ and entry, searched for from where the prior is centred."""
        number, shape = len(start), start.shape
        if not number:
            return start, np.ones(shape)
        first, width = modes_of_entries(log_density, 1, start[:1], np.ones(shape[1]))
        if number == 1:
            return first, width
        # The others begin at the mode of the first, where that is higher.
        either = np.stack([start, np.broadcast_to(first, shape)], axis=1)
        higher = np.argmax(log_density(np.arange(number), either), axis=1)[:, None]
        return modes_of_entries(log_density, number, np.take_along_axis(either, higher, axis=1)[:, 0], width)

    @cached_property
    def _centre(self) -> Any:
        assert self.start is not None
        function = compile_stacked(list(self.terms.given), self.start)
        axes = self.start.type.ndim
        return lambda *given: value if np.ndim(value := function(*given)) > axes else np.asarray(value)[None]

    def _sums(self, given: Sequence[np.ndarray], start: np.ndarray) -> tuple[np.ndarray, np.ndarray, Iterator[Sums]]:
        """Modes and widths of any density, and its integrals, some values of φ at a time."""
        log_density = self.on_line(given)
        mode, width = self._centres(log_density, start)
        return mode, width, integrate_entries(log_density, mode, width, self.terms.length, self.rule)

    def concave(self, given: Sequence[np.ndarray], start: np.ndarray) -> Iterator[tuple[np.ndarray, ConcaveNumbers]]:
        """Where all log densities are concave, their numbers, for some values of φ at a time, by their indices."""
        some = max(1, AT_ONCE // max(1, self.terms.length))
        if self.kind != "real" or (entries := self.terms.concave) is None:
            return
        pending = [(np.arange(k, min(k + some, len(start))), start[k : k + some]) for k in range(0, len(start), some)]
        for _ in range(CENTRED):
            far = []
            for rows, centre in pending:
                numbers, suited = entries.numbers([g[rows] for g in given], centre)
                away = suited & numbers.far
                if (fine := suited & ~away & ~numbers.lost).any():
                    yield rows[fine], numbers.of(fine)
                if away.any():
                    far.append((rows[away], (centre + numbers.modes[..., 0])[away]))
            pending = far

    def log_integrals(self, given: Sequence[np.ndarray], number: int) -> np.ndarray:
        """The log integrals of all entries for each φ, (N, *shape)."""
        if self.one_each is not None:
            return self.one_each.log_integrals(given, number)[:, self.copies]
        different = number if given else min(number, 1)  # given nothing, they are the same each time
        result, start = np.empty((different, self.terms.size)), self.starts(given, different)
        left = np.ones(different, dtype=bool)
        for rows, numbers in self.concave(given, start):
            result[rows] = found = numbers.log_integrals(self.rule)
            left[rows] = np.isnan(found).any(axis=1)
        if left.any():
            others = np.flatnonzero(left)
            for sums in self._sums([g[left] for g in given], start[left])[2]:
                result[others[sums.of]] = sums.log_integral
        return np.broadcast_to(result, (number, self.terms.size)).reshape(number, *self.shape)

    def integrals(self, given: Sequence[np.ndarray], number: int) -> Integrals:
        """As :meth:`log_integrals`, with the nodes."""
        if self.one_each is not None:
            return self.one_each.integrals(given, number).copied(self.copies)
        start = self.starts(given, number)
        left, parts = np.ones(number, dtype=bool), []
        for rows, numbers in self.concave(given, start):
            parts.append((rows, numbers.integrals(self.rule)))
            left[rows] = np.isnan(parts[-1][1].log_integral).any(axis=1)
        if left.any():
            mode, width, sums = self._sums([g[left] for g in given], start[left])
            parts += [(np.flatnonzero(left)[s.of], s.nodes(mode, width)) for s in sums]
        return Integrals.joined(parts, number, self.terms.size)
