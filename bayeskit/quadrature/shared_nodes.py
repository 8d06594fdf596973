r"""Integrals of densities that differ little, over the nodes of one of them.

.. math:: \log \int g_\eta \, dt \approx \log \int g \, dt + \log \frac{\sum_n g(t_n) r_\eta(t_n)}{\sum_n g(t_n)},
    \qquad r_\eta = g_\eta / g

on the lattice that was refined for g. The sum over it converges as fast for every density about as wide as that one;
how far it is off is read off its own values: its spectrum tells its aliases, its decay at the ends of each line what
lies beyond (:mod:`bayeskit.quadrature.trapezoid`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from bayeskit.quadrature.integrate import Quadrature
from bayeskit.quadrature.trapezoid import Lattice

__all__ = ["SharedNodes"]

COUNTED = 2  # times the estimates, as in the bound of an integral by itself


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The nodes of an integral, with which of them end a line, and the nodes before these."""

    lattice: Lattice
    points: np.ndarray  # (n, k)
    ends: np.ndarray
    before: np.ndarray  # of each end; −1 where there is none
    log_integral: float  # that they were made for
    error: float

    @classmethod
    def of(cls, result: Quadrature) -> SharedNodes:
        """The nodes of a finished integral."""
        lattice = result.lattice
        ends, before = [], []
        for axis, sign in product(range(lattice.k), (-1, 1)):
            last = np.flatnonzero(lattice.beside(axis, sign) < 0)
            ends.append(last)
            before.append(lattice.beside(axis, -sign)[last])
        points = lattice.frame.forward(lattice.positions(lattice.nodes))
        return cls(lattice, points, np.concatenate(ends), np.concatenate(before), result.log_integral, result.error)

    def reweighted(self, log_ratio: np.ndarray) -> tuple[float, float]:
        """log ∫ g r, and what it may be off, from log r at the nodes; infinite where they do not reach far enough."""
        found = self.with_ratio(log_ratio)
        return (np.nan, np.inf) if found is None else (found.log_integral, found.error)

    def with_ratio(self, log_ratio: np.ndarray) -> SharedNodes | None:
        """The nodes of g r, from log r at them; None where they do not reach far enough."""
        nowhere = ~(self.lattice.values > -np.inf)
        with np.errstate(invalid="ignore"):
            values = np.where(nowhere, -np.inf, self.lattice.values + log_ratio)
        # Of what lies where g is zero nothing is known.
        if np.any(np.isnan(values)) or np.any(log_ratio[nowhere] > -np.inf) or not np.isfinite(values.max()):
            return None
        twin = self.lattice.copy()
        twin.values = values
        total = twin.weights().sum()
        value = self.log_integral + twin.log_sum() - self.lattice.log_sum()
        error = self.error + COUNTED * (twin.aliasing()[0] + self._beyond(twin) / total)
        return replace(self, lattice=twin, log_integral=value, error=error)

    def _beyond(self, twin: Lattice) -> float:
        """What the lines hold beyond their ends, were they to fall on as they do there."""
        last = twin.values[self.ends] - twin.top
        inner = np.where(self.before < 0, -np.inf, twin.values[self.before] - twin.top)
        with np.errstate(invalid="ignore"):
            ratio = np.where(last == -np.inf, 0.0, np.exp(np.minimum(last - inner, 0.0)))
        # Lines that leave the region at a tangent fall slowly at first and faster later, as in Lattice.truncation.
        longest = 1e9 if twin.k == 1 else 10 / float(twin.step.min())
        return float(np.sum(np.exp(last) * np.minimum(ratio / np.maximum(1 - ratio, 1e-12), longest)))
