r"""One variable whose entries are independent given the rest φ, each integrated by itself.

.. math:: \log p(y, \phi) = \dots + \sum_g \log \int e^{L_g(b; \phi)} \, db

A bounded entry is moved to the line first, by x = log b or x = logit b, with the Jacobian. The places of the nodes
depend on φ; the integral does not depend on them, so that the gradient is that of the sum with the nodes held fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from scipy import special

from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.plates.entry_integral import (
    AT_ONCE,
    FINE,
    EntryDensity,
    EntryRule,
    Sums,
    integrate_entries,
    modes_of_entries,
)
from bayeskit.plates.entry_terms import EntryTerms

__all__ = ["LINES", "Integrals", "Plate"]


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
class Integrals:
    """For each of N values of φ, first axis: log integrals of the entries (G), places and shares of K nodes (K, G)."""

    log_integral: np.ndarray
    places: np.ndarray  # x; where a lattice has fewer nodes than others, its last ones are the first again
    shares: np.ndarray  # of the integral; zero of those
    mode: np.ndarray  # (N, G), and with ``width`` where the nodes lie
    width: np.ndarray
    step: np.ndarray  # (N,) between neighbouring nodes, in u
    first: np.ndarray  # (N,), the number of the first node

    def copied(self, copies: np.ndarray | None) -> Integrals:
        """Those of entries that are copies of these."""
        entries = {n: getattr(self, n)[..., copies] for n in ("log_integral", "places", "shares", "mode", "width")}
        return replace(self, **entries)


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

    def _centres(
        self, log_density: EntryDensity, given: Sequence[np.ndarray], number: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """A mode and a width for each φ and entry, searched for from where the prior is centred."""
        shape = number, self.terms.size
        start = np.zeros(shape)
        if self.start is not None and number:
            with silently():
                centre = np.asarray(self._centre(*given))
                start = BACK[self.kind](np.broadcast_to(centre.reshape(len(centre), -1), shape))
        start = np.where(np.isfinite(start), start, 0.0)
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

    def _sums(self, log_density: EntryDensity, mode: np.ndarray, width: np.ndarray) -> Iterator[Sums]:
        return integrate_entries(log_density, mode, width, self.terms.length, self.rule)

    def log_integrals(self, given: Sequence[np.ndarray], number: int) -> np.ndarray:
        """The log integrals of all entries for each φ, (N, *shape)."""
        if self.one_each is not None:
            return self.one_each.log_integrals(given, number)[:, self.copies]
        different = number if given else min(number, 1)  # given nothing, they are the same each time
        result = np.empty((different, self.terms.size))
        log_density = self.on_line(given)
        for sums in self._sums(log_density, *self._centres(log_density, given, different)):
            result[sums.of] = sums.log_integral
        return np.broadcast_to(result, (number, self.terms.size)).reshape(number, *self.shape)

    def integrals(self, given: Sequence[np.ndarray], number: int) -> Integrals:
        """As :meth:`log_integrals`, with the nodes."""
        if self.one_each is not None:
            return self.one_each.integrals(given, number).copied(self.copies)
        log_density = self.on_line(given)
        mode, width = self._centres(log_density, given, number)
        parts = list(self._sums(log_density, mode, width))
        most = max((s.lattice.size for s in parts), default=1)
        log_integral, step, first = np.empty((number, self.terms.size)), np.empty(number), np.empty(number, int)
        places, shares = (np.zeros((number, most, self.terms.size)) for _ in range(2))
        for s in parts:
            log_integral[s.of], step[s.of], first[s.of] = s.log_integral, s.lattice.step, s.lattice.first
            places[s.of] = s.places[:, :1]
            places[s.of, : s.lattice.size], shares[s.of, : s.lattice.size] = s.places, s.shares
        return Integrals(log_integral, places, shares, mode, width, step, first)
