r"""A smooth change of variable that gives each of many modes its own scale.

With modes at :math:`m_j` of widths :math:`w_j`, however different,

.. math::

    t(z) = \sum_j \operatorname{arsinh} \frac{z - m_j}{w_j}, \qquad
    t'(z) = \sum_j \frac{1}{\sqrt{w_j^2 + (z - m_j)^2}}

is increasing and analytic: within a mode equal steps in t are equal steps in z, of a share of its width, and away from
all modes they are shares of the distance. An analytic integrand stays one, and the trapezoidal rule keeps its
exponential convergence; the number of nodes grows with the number of modes and the logarithms of the gaps between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicHermiteSpline

__all__ = ["ManyScales"]

HELD = 2_000_000  # terms of the sum that are held at once
# Places about a mode, in its widths, between which z is bracketed and from which Newton's method needs two steps.
NEAR = np.sinh(np.linspace(-6.0, 6.0, 97))
OUTWARD = np.exp(np.linspace(-6.0, 40.0, 369))  # beyond all modes, in units of their range
NEWTON = 60
ROUNDING = 1e-14  # of each term of t


@dataclass(frozen=True, eq=False)
class ManyScales:
    """z = s(t), the inverse of t(z) = Σ arsinh((z − m_j) / w_j)."""

    centres: np.ndarray
    widths: np.ndarray

    def _blocks(self, z: np.ndarray) -> Iterator[np.ndarray]:
        """(z − m_j) / w_j, a block of z at a time."""
        flat, step = np.ravel(z), max(1, HELD // len(self.centres))
        for i in range(0, max(len(flat), 1), step):
            yield (flat[i : i + step, None] - self.centres) / self.widths

    def backward(self, z: np.ndarray) -> np.ndarray:
        """t(z)."""
        return np.concatenate([np.arcsinh(u).sum(axis=1) for u in self._blocks(z)]).reshape(np.shape(z))

    def _rate(self, z: np.ndarray) -> np.ndarray:
        per_width = 1 / self.widths
        with np.errstate(over="ignore"):  # infinitely far from a mode, it adds nothing
            return np.concatenate([(1 / np.sqrt(1 + u * u)) @ per_width for u in self._blocks(z)]).reshape(np.shape(z))

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, CubicHermiteSpline]:
        low, high = self.centres - self.widths, self.centres + self.widths
        unit = high.max() - low.min()
        about = (self.centres[:, None] + self.widths[:, None] * NEAR).ravel()
        z = np.unique(np.concatenate([about, low.min() - unit * OUTWARD, high.max() + unit * OUTWARD]))
        t, first = np.unique(self.backward(z), return_index=True)
        return t, z[first], CubicHermiteSpline(t, z[first], 1 / self._rate(z[first]))

    def forward(self, t: np.ndarray) -> np.ndarray:
        """s(t), by Newton's method between places where t is known."""
        shape, t = np.shape(t), np.ravel(t).astype(float)
        known, places, between = self._table
        at = np.clip(np.searchsorted(known, t), 1, len(known) - 1)
        low, high = places[at - 1], places[at]
        z = np.clip(between(t), low, high)
        left = np.arange(len(t))
        for _ in range(NEWTON):
            excess, rate = self.backward(z[left]) - t[left], self._rate(z[left])
            low[left] = np.where(excess < 0, z[left], low[left])
            high[left] = np.where(excess > 0, z[left], high[left])
            step = z[left] - excess / rate
            inside = (step >= low[left]) & (step <= high[left])
            moved = np.where(inside, step, (low[left] + high[left]) / 2)
            # To the rounding of z, or of the sum.
            far = np.abs(moved - z[left]) > np.maximum(4e-16 * np.abs(z[left]), ROUNDING * len(self.centres) / rate)
            z[left], left = moved, left[far]
            if not len(left):
                break
        return z.reshape(shape)

    def log_slope(self, t: np.ndarray) -> np.ndarray:
        """log s′(t)."""
        return -np.log(self._rate(self.forward(t)))
