"""Whether lattices cover a density of two or three variables: what lies where they were not grown is evaluated too.

A search for modes by climbing follows the points that it is given. ``sin(b) − a² = 0``, seen with a normal error, has a
mode in every period of b; the prior of b shows the near ones to its draws, and the far ones held 2e-3 of the mass. The
line is looked at as a whole (:mod:`bayeskit.quadrature.line_scan`); here as much is done with points spread evenly over
the range of the probes, twice as wide, and as many spread as the probes are, along each axis. One that is high enough
to matter and not among the nodes of a lattice has been passed over.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from bayeskit.quadrature.counted_density import CountedDensity, safe
from bayeskit.quadrature.trapezoid import Lattice

__all__ = ["Lookout"]

NUMBER, SHARE = (2_000, 16_000), 110  # points, and the share of the budget that they take
FEW = 500  # points in four variables, where they are far apart and evaluations far out are dear
WIDER = 0.5  # of the range of the probes, on either side
NEGLIGIBLE = 16.0  # nats below the top: a region that is no higher holds about a ten-millionth


class Lookout:
    """Points at which a density of several variables is looked at beside its lattices."""

    def __init__(self, f: CountedDensity, probes: np.ndarray, modes: np.ndarray, seed: int) -> None:
        k = modes.shape[1]
        known = np.concatenate([probes[np.all(np.isfinite(probes), axis=1)], modes])
        number = int(np.clip(f.budget // SHARE, *NUMBER)) if k < 4 else FEW
        uniform = qmc.Halton(k, rng=np.random.default_rng(seed)).random(number)
        low, high = known.min(axis=0), known.max(axis=0)
        even = low + (high - low) * ((1 + 2 * WIDER) * uniform[: number // 2] - WIDER)
        alike = [np.quantile(column, share) for column, share in zip(known.T, uniform[number // 2 :].T, strict=True)]
        self.points = np.concatenate([even, np.column_stack(alike)])
        self.values = safe(f(self.points))
        self.highest = float(max(self.values.max(), f.height))

    def passed_over(self, lattice: Lattice) -> tuple[np.ndarray, np.ndarray]:
        """The points that are high enough to matter and not among the nodes of a lattice, and the log density there."""
        high = np.flatnonzero(self.values > self.highest - NEGLIGIBLE)
        t = lattice.frame.backward(self.points[high])
        above = self.values[high] + lattice.frame.log_jacobian(t) > lattice.top - NEGLIGIBLE
        missed = high[above & ~lattice.holds(t)]
        return self.points[missed], self.values[missed]
