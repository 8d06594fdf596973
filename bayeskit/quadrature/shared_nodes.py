"""Integrals of densities that differ little, over the nodes of one of them.

    ∫ g_η dt ≈ |cell| · Σ_n g_η(t_n)

on the lattice that was refined for some η₀. The sum over it converges as fast for every density about as wide as that
one; how far it is off is read off its own values: its spectrum tells its aliases, its decay at the ends of each line
what lies beyond (:mod:`bayeskit.quadrature.trapezoid`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from bayeskit.quadrature.integrate import Quadrature
from bayeskit.quadrature.trapezoid import Lattice
from bayeskit.types import ArrayFunction

__all__ = ["SharedNodes"]

COUNTED = 2  # times the estimates, as in the bound of an integral by itself


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The nodes of an integral, with which of them end a line, and the nodes before these."""

    lattice: Lattice
    points: np.ndarray  # (n, k)
    log_jacobian: np.ndarray
    ends: np.ndarray
    before: np.ndarray  # of each end; −1 where there is none
    error: float  # of the integral that they were made for

    @classmethod
    def of(cls, result: Quadrature) -> SharedNodes:
        """The nodes of a finished integral."""
        lattice = result.lattice
        at = {node: k for k, node in enumerate(map(tuple, lattice.nodes.tolist()))}
        ends, before = [], []
        for node, k in at.items():
            for axis, sign in product(range(lattice.k), (-1, 1)):
                beside = [(*node[:axis], node[axis] + step, *node[axis + 1 :]) for step in (sign, -sign)]
                if beside[0] not in at:
                    ends.append(k)
                    before.append(at.get(beside[1], -1))
        t = lattice.positions(lattice.nodes)
        made = lattice.frame.forward(t), lattice.frame.log_jacobian(t)
        return cls(lattice, *made, np.array(ends, dtype=int), np.array(before, dtype=int), result.error)

    def log_integral(self, log_density: ArrayFunction) -> tuple[float, float]:
        """log ∫ exp(log_density), and what it may be off; infinite where the nodes do not reach far enough."""
        values = np.asarray(log_density(self.points), float) + self.log_jacobian
        twin = self.lattice.copy()
        twin.values = np.where(np.isnan(values), -np.inf, values)
        if not np.isfinite(twin.top):
            return np.nan, np.inf
        total = twin.weights().sum()
        return twin.log_sum(), self.error + COUNTED * (twin.aliasing()[0] + self._beyond(twin) / total)

    def _beyond(self, twin: Lattice) -> float:
        """What the lines hold beyond their ends, were they to fall on as they do there."""
        last = twin.values[self.ends] - twin.top
        inner = np.where(self.before < 0, -np.inf, twin.values[self.before] - twin.top)
        with np.errstate(invalid="ignore"):
            ratio = np.where(last == -np.inf, 0.0, np.exp(np.minimum(last - inner, 0.0)))
        # Lines that leave the region at a tangent fall slowly at first and faster later, as in Lattice.truncation.
        longest = 1e9 if twin.k == 1 else 10 / float(twin.step.min())
        return float(np.sum(np.exp(last) * np.minimum(ratio / np.maximum(1 - ratio, 1e-12), longest)))
