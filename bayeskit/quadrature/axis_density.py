"""A density of one variable on the real line, known on a grid of nodes.

The logarithm of the density is a spline of degree seven on nodes t; its integrals are by Gauss-Legendre on every
interval, accumulated from both ends, so that either tail keeps its relative accuracy. Beyond the nodes the density is
carried on in whichever of x and log|x| its logarithm is more nearly a straight line: that is an exponential or an
algebraic tail, and decides which moments exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import roots_legendre

from bayeskit.quadrature.change_of_variable import Stretch, invert
from bayeskit.types import ArrayFunction

__all__ = ["AxisDensity"]

POINTS, WEIGHTS = roots_legendre(10)
DEGREE = 7  # of the spline, where there are nodes enough
NEWTON = 60  # steps at most; a handful unless the density between two nodes is far from straight
NEWTON_TOLERANCE = 1e-14  # of a quantile: of the range of t, or of the probability
TAIL = (2.0, 4.0)  # nats above the end of the grid by which its tail is judged: near enough to be the tail
PANELS = (0.25, 400.0)  # where the first and the last panel of a tail integral end, in lengths over which it decays
LARGEST_LOG = 300.0  # of a distance: its exponential is still a number
DECAYS = 0.02  # share of the slope of a tail by which a product with a function must still fall, to be integrated
KNOWN = 0.05  # share of the slope up to which its uncertainty leaves no doubt that an integral is infinite
CAUTION = 3  # times that the tail may become flatter than it is seen to


@dataclass(frozen=True)
class AxisDensity:
    """A density on the real line, given by log p at nodes t with x = centre + scale · s(t).

    Attributes
    ----------
    t : array of n
        Equally spaced.
    log_density : array of n
        Logarithm of the density of t, up to a constant.
    stretch : Stretch
    centre, scale : float
    """

    t: np.ndarray
    log_density: np.ndarray
    stretch: Stretch = field(default_factory=lambda: Stretch(1.0))
    centre: float = 0.0
    scale: float = 1.0

    def position(self, t: np.ndarray) -> np.ndarray:
        """x at t."""
        return np.asarray(self.centre + self.scale * self.stretch.forward(t))

    @cached_property
    def interpolant(self) -> Any:
        """log p, up to a constant, as a function of t within the nodes."""
        return make_interp_spline(self.t, self.log_density, k=min(DEGREE, 2 * ((len(self.t) - 1) // 2) - 1))

    @property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Probability below and above every node."""
        return self._integrals[:2]

    @cached_property
    def _integrals(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Integrals from the left and from the right up to every node, and the logarithm of the whole."""
        half = np.diff(self.t)[:, None] / 2
        inside = (half * WEIGHTS * np.exp(self.interpolant(self.t[:-1, None] + half * (1 + POINTS)) - self._top)).sum(1)
        left, right = (self._tail_integral(side, np.ones_like) for side in (0, 1))
        from_left = np.concatenate([[left], left + np.cumsum(inside)])
        from_right = np.concatenate([np.cumsum(inside[::-1])[::-1] + right, [right]])
        total = from_left[-1] + right
        return from_left / total, from_right / total, float(np.log(total))

    @cached_property
    def _top(self) -> float:
        return float(self.log_density.max())

    @cached_property
    def _tails(self) -> tuple[tuple[bool, float, float, float], tuple[bool, float, float, float]]:
        """For each side: whether the tail is algebraic, the slope of log p in |x| or log|x|, its uncertainty, and how
        much flatter than the slope it may become: a tail that steepens is bounded by the line that carries it on."""
        result = []
        log_p = self.log_density - self.stretch.log_slope(self.t)
        distance = np.abs(self.position(self.t) - self.centre)
        for order in (slice(None), slice(None, None, -1)):
            rise = log_p[order] - log_p[order][0]
            # Where the density has risen by 2 and by 4 nats, from the end inward: near enough to be the tail.
            near = max(int(np.argmax(rise >= TAIL[0])), 1)
            at = [0, near, max(int(np.argmax(rise >= TAIL[1])), near + 1)]
            log_tail, far = log_p[order][at], distance[order][at]
            candidates = []
            for y in (far, np.log(far)):
                slopes = np.diff(log_tail) / np.diff(y)
                bent = float(slopes[0] - slopes[1])
                candidates.append((float(slopes[0]), abs(bent), max(bent, 0.0)))
            bend = [u / max(abs(s), 1e-300) for s, u, _ in candidates]
            algebraic = bend[1] < bend[0]
            result.append((algebraic, *candidates[algebraic]))
        return result[0], result[1]

    def _tail_log_density(self, side: int, distance: np.ndarray) -> np.ndarray:
        """log p(x) (relative to the top) beyond the nodes, at a distance from the centre."""
        end = self.t[-side]
        algebraic, slope, _, _ = self._tails[side]
        border = np.abs(self.position(end) - self.centre)
        start = self.log_density[-side] - self._top - self.stretch.log_slope(end) - np.log(self.scale)
        far = np.log(distance / border) if algebraic else distance - border
        return start + min(slope, 0.0) * far

    def _tail_integral(self, side: int, function: ArrayFunction, bounded: bool = False) -> float:
        """∫ function(x) p(x) dx beyond the nodes; infinite or nan where it does not converge within its uncertainty."""
        algebraic, slope, doubt, flatter = self._tails[side]
        sign = (-1.0, 1.0)[side]
        border = abs(float(self.position(self.t[-side])) - self.centre)
        # Panels in u = log of the distance beyond the border, or in the distance itself, in units of the decay.
        if slope >= 0:
            return np.inf
        decay = -1 / slope

        def place(u: np.ndarray) -> np.ndarray:
            return np.asarray(border * np.exp(u) if algebraic else border + u)

        def integrand(u: np.ndarray) -> np.ndarray:
            distance = place(u)
            with np.errstate(over="ignore", invalid="ignore"):
                value = function(self.centre + sign * distance) * np.exp(self._tail_log_density(side, distance))
                return value * distance if algebraic else value

        edges = np.concatenate([[0.0], np.geomspace(decay * PANELS[0], decay * PANELS[1], 40)])
        if algebraic:
            edges = np.minimum(edges, LARGEST_LOG)
        half = np.diff(edges)[:, None] / 2
        values = integrand(edges[:-1, None] + half * (1 + POINTS))
        parts = (half * WEIGHTS * values).sum(1)
        ends = integrand(np.array([edges[1], edges[3]]))
        if not np.all(np.isfinite(ends)):
            return np.nan
        if ends[0] == 0:
            return 0.0
        rate = np.log(abs(ends[1] / ends[0])) / (edges[3] - edges[1]) if ends[1] != 0 else -np.inf
        # The density has a finite integral, which the quadrature has shown; so has its product with a bounded function.
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(function(self.centre + sign * place(edges[[1, 3]])))
        bounded = (bounded or size[1] <= size[0] * (1 + 1e-9)) and rate < 0
        if not bounded and rate + CAUTION * flatter >= -DECAYS * abs(slope):
            grows = rate >= -DECAYS * abs(slope) and doubt < KNOWN * abs(slope)
            return float(np.sign(ends[0]) * np.inf) if grows else np.nan
        parts = np.where(np.isfinite(parts), parts, 0.0)
        return float(parts.sum())

    def _split(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For t within the nodes: the interval, and the integrals from its left end to t and from t to its right."""
        at = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.t) - 2)
        return at, self._between(self.t[at], t), self._between(t, self.t[at + 1])

    def _between(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Probability between two points of one interval between nodes."""
        half = (stop - start)[..., None] / 2
        nodes = start[..., None] + half * (1 + POINTS)
        return (half * WEIGHTS * np.exp(self.interpolant(nodes) - self._top - self._integrals[2])).sum(-1)

    def _cumulative(self, x: Any, side: int) -> np.ndarray:
        """Probability below (side 0) or above (side 1) x."""
        x = np.asarray(x, float)
        low, high = self.position(self.t[[0, -1]])
        inside = (x >= low) & (x <= high)
        t = invert(self.position, np.where(inside, x, self.centre), self.t[0], self.t[-1])
        at, left, right = self._split(t)
        value = self._tables[0][at] + left if side == 0 else self._tables[1][at + 1] + right
        for end, outside in ((0, x < low), (1, x > high)):
            if np.any(outside):
                beyond = self._tables[end][-end] * self._tail_share(end, np.where(outside, x, (low, high)[end]))
                value = np.where(outside, beyond if end == side else 1 - beyond, value)
        return np.where(np.isnan(x), np.nan, value)

    def _tail_share(self, side: int, x: np.ndarray) -> np.ndarray:
        """Probability beyond x as a share of the probability beyond the border."""
        algebraic, slope, _, _ = self._tails[side]
        border = np.abs(self.position(self.t[-side]) - self.centre)
        distance = np.abs(x - self.centre)
        if algebraic:
            return (distance / border) ** (slope + 1)
        return np.exp(slope * (distance - border))

    def logpdf(self, x: Any) -> np.ndarray:
        """Logarithm of the density at x."""
        x = np.asarray(x, float)
        low, high = self.position(self.t[[0, -1]])
        t = invert(self.position, np.clip(x, low, high), self.t[0], self.t[-1])
        inside = self.interpolant(t) - self._top - self.stretch.log_slope(t) - np.log(self.scale)
        for side, outside in ((0, x < low), (1, x > high)):
            if np.any(outside):
                distance = np.abs(np.where(outside, x, (low, high)[side]) - self.centre)
                with np.errstate(invalid="ignore"):
                    inside = np.where(outside, self._tail_log_density(side, distance), inside)
        return inside - self._integrals[2]

    def pdf(self, x: Any) -> np.ndarray:
        """Density at x."""
        return np.exp(self.logpdf(x))

    def cdf(self, x: Any) -> np.ndarray:
        """Probability below x."""
        return self._cumulative(x, 0)

    def sf(self, x: Any) -> np.ndarray:
        """Probability above x."""
        return self._cumulative(x, 1)

    def _quantile(self, q: np.ndarray, side: int) -> np.ndarray:
        """The x with probability q below (side 0) or above (side 1), q at most about one half."""
        table = self._tables[side]
        x = self.position(self._invert(np.clip(q, table[-side], 1), side))
        algebraic, slope, _, _ = self._tails[side]
        outer = q < table[-side]
        if np.any(outer):
            with np.errstate(divide="ignore"):
                log_share = np.log(np.where(outer, q, 1) / table[-side])
            border = np.abs(self.position(self.t[-side]) - self.centre)
            with np.errstate(over="ignore"):
                distance = border * np.exp(log_share / (slope + 1)) if algebraic else border + log_share / slope
            x = np.where(outer, self.centre + (-1.0, 1.0)[side] * distance, x)
        return x

    def _invert(self, q: np.ndarray, side: int) -> np.ndarray:
        """The t with probability q below or above it, by Newton's method between the nodes on either side of it."""
        table = self._tables[side]
        sign, ascending = (1, table) if side == 0 else (-1, -table)
        at = np.clip(np.searchsorted(ascending, sign * q, side="right") - 1, 0, len(self.t) - 2)
        low, high = self.t[at], self.t[at + 1]
        known = low if side == 0 else high
        wanted = q - table[at + side]
        t = (low + high) / 2
        for _ in range(NEWTON):
            excess = sign * (self._between(*((known, t) if side == 0 else (t, known))) - wanted)
            low, high = np.where(excess < 0, t, low), np.where(excess < 0, high, t)
            step = t - excess / np.exp(self.interpolant(t) - self._top - self._integrals[2])
            t, before = np.where((step >= low) & (step <= high), step, (low + high) / 2), t
            small = np.abs(t - before) <= NEWTON_TOLERANCE * np.abs(self.t[-1] - self.t[0])
            if np.all(small | (np.abs(excess) <= NEWTON_TOLERANCE * q)):
                break
        return t

    def ppf(self, q: Any) -> np.ndarray:
        """Quantiles; nan outside [0, 1]."""
        q = np.asarray(q, float)
        valid = (q >= 0) & (q <= 1)
        p = np.where(valid, q, 0.5)
        x = np.where(p <= 0.5, self._quantile(np.minimum(p, 0.5), 0), self._quantile(np.minimum(1 - p, 0.5), 1))
        return np.where(valid, x, np.nan)

    def isf(self, q: Any) -> np.ndarray:
        """The x with probability q above it."""
        q = np.asarray(q, float)
        valid = (q >= 0) & (q <= 1)
        p = np.where(valid, q, 0.5)
        x = np.where(p <= 0.5, self._quantile(np.minimum(p, 0.5), 1), self._quantile(np.minimum(1 - p, 0.5), 0))
        return np.where(valid, x, np.nan)

    def expect(self, function: ArrayFunction, bounded: bool = False) -> float:
        """E function(x) for a vectorised function, ``bounded`` if it is known to be; infinite or nan where the tails do
        not let it converge."""
        half = np.diff(self.t)[:, None] / 2
        t = self.t[:-1, None] + half * (1 + POINTS)
        with np.errstate(over="ignore", invalid="ignore"):
            inside = float(
                (half * WEIGHTS * function(self.position(t)) * np.exp(self.interpolant(t) - self._top)).sum()
            )
            tails = sum(self._tail_integral(side, function, bounded) for side in (0, 1))
            return (inside + tails) * float(np.exp(-self._integrals[2]))
