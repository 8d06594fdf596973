"""A density of one variable on the real line, known on a grid of nodes.

The logarithm of the density is a spline of degree seven on nodes t; its integrals are by Gauss-Legendre on every
interval, accumulated from both ends, so that either tail keeps its relative accuracy. Beyond the nodes the density is
carried on in whichever of x and log|x| its logarithm is more nearly a straight line: that is an exponential or an
algebraic tail, and decides which moments exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import roots_legendre

from bayeskit.quadrature.change_of_variable import Stretch, invert
from bayeskit.quadrature.many_scales import ManyScales
from bayeskit.types import ArrayFunction

__all__ = ["AxisDensity"]

POINTS, WEIGHTS = roots_legendre(10)
SPLINED = 2_000  # nodes from which positions between them are read off a spline
DEGREE = 7  # of the spline, where there are nodes enough
NEWTON = 60  # steps at most; a handful unless the density between two nodes is far from straight
NEWTON_TOLERANCE = 1e-14  # of a quantile: of the range of t, or of the probability
TAIL = (2.0, 4.0, 8.0)  # nats above the end of the grid by which its tail is judged: near enough to be the tail
SAME_BEND = 0.02  # share by which second differences of a normal tail may differ
PANELS = (0.25, 400.0)  # where the first and the last panel of a tail integral end, in lengths over which it decays
ENOUGH = 256  # nodes from an end that are looked at first
LARGEST_LOG = 300.0  # of a distance: its exponential is still a number
NO_MORE = 1e-12  # share of the largest panel that the last of a tail integral may hold
DECAYS = 0.02  # share of the slope of a tail by which a product with a function must still fall, to be integrated
KNOWN = 0.05  # share of the slope up to which its uncertainty leaves no doubt that an integral is infinite
RISEN = 10.0  # times the least panel of a tail integral, from which on the last shows that it does not converge
CAUTION = 3  # times that the tail may become flatter than it is seen to


class _Tail(NamedTuple):
    """How log p goes on beyond one end of the nodes: as a straight line in |x − centre|, or in its logarithm."""

    algebraic: bool
    border: float  # |x − centre| at the end
    slope: float
    doubt: float  # of the slope
    flatter: float  # how much flatter it may become: a tail that steepens is bounded by the line that carries it on
    bend: float = 0.0  # its second derivative, where that is seen to be constant as of a normal density

    def beyond(self, distance: np.ndarray) -> np.ndarray:
        """How far a distance from the centre is beyond the border, where the tail is a straight line."""
        return np.asarray(np.log(distance / self.border) if self.algebraic else distance - self.border)

    def share(self, distance: np.ndarray) -> np.ndarray:
        """The probability beyond a distance from the centre, as a share of that beyond the border."""
        if self.algebraic:
            return np.asarray((distance / self.border) ** (self.slope + 1))
        return np.exp(self.slope * (distance - self.border))

    def distance(self, log_share: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`share`."""
        if self.algebraic:
            return np.asarray(self.border * np.exp(log_share / (self.slope + 1)))
        return np.asarray(self.border + log_share / self.slope)


@dataclass(frozen=True)
class AxisDensity:
    """A density on the real line, given by log p at nodes t with x = centre + scale · s(t).

    ``log_density`` is the logarithm of the density of t, up to a constant, at equally spaced ``t``. ``side`` is 0 for
    what is below a point, 1 for what is above it.
    """

    t: np.ndarray
    log_density: np.ndarray
    stretch: Stretch | ManyScales = field(default_factory=lambda: Stretch(1.0))
    centre: float = 0.0
    scale: float = 1.0

    def position(self, t: np.ndarray) -> np.ndarray:
        """x at t."""
        return np.asarray(self.centre + self.scale * self.stretch.forward(t))

    @cached_property
    def interpolant(self) -> Any:
        """log p, up to a constant, as a function of t within the nodes."""
        return make_interp_spline(self.t, self.log_density, k=min(DEGREE, 2 * ((len(self.t) - 1) // 2) - 1))

    @cached_property
    def _masses(self) -> np.ndarray:
        """p relative to its top at the points of the panels between nodes, times their weights."""
        points, weights = _panels(self.t[:-1], self.t[1:])
        return np.asarray(weights * np.exp(self.interpolant(points) - self._top))

    @cached_property
    def _places(self) -> np.ndarray:
        """x at these points; where there are many modes from a spline, for each inverse is a sum over all of them."""
        t, _ = _panels(self.t[:-1], self.t[1:])
        if not isinstance(self.stretch, ManyScales) or len(self.t) < SPLINED:
            return self.position(t)
        return np.asarray(make_interp_spline(self.t, self.position(self.t), k=DEGREE)(t))

    @cached_property
    def _integrals(self) -> tuple[tuple[np.ndarray, np.ndarray], float]:
        """Probability below and above every node, and the logarithm of the whole."""
        inside = self._masses.sum(1)
        left, right = (self._tail_integral(side, np.ones_like) for side in (0, 1))
        from_left = np.concatenate([[left], left + np.cumsum(inside)])
        from_right = np.concatenate([np.cumsum(inside[::-1])[::-1] + right, [right]])
        total = from_left[-1] + right
        return (from_left / total, from_right / total), float(np.log(total))

    @cached_property
    def _top(self) -> float:
        return float(self.log_density.max())

    @cached_property
    def _tails(self) -> tuple[_Tail, _Tail]:
        result = []
        for inward in (slice(None), slice(None, None, -1)):
            rise, few = np.zeros(1), ENOUGH
            while rise.max() < TAIL[2] and len(rise) < len(self.t):
                t, log_p = self.t[inward][:few], self.log_density[inward][:few]
                log_p = log_p - self.stretch.log_slope(t)
                rise, few = log_p - log_p[0], few * 4
            # Where the density has risen by 2 and by 4 nats, from the end inward: near enough to be the tail.
            near = max(int(np.argmax(rise >= TAIL[0])), 1)
            at = [0, near, max(int(np.argmax(rise >= TAIL[1])), near + 1)]
            inner = max(int(np.argmax(rise >= TAIL[2])), at[2] + 1)
            at += [inner] if inner < len(rise) else []
            log_tail, far = log_p[at], np.abs(self.position(t[at]) - self.centre)
            candidates = []
            for algebraic, y in ((False, far), (True, np.log(far))):
                slopes = np.diff(log_tail) / np.diff(y)
                bent = float(slopes[0] - slopes[1])
                bend = 0.0 if algebraic else _constant_bend(far, slopes)
                slope = float(slopes[0]) + bend * float(far[0] - far[1]) / 2
                candidates.append(_Tail(algebraic, float(far[0]), slope, abs(bent), max(bent, 0.0), bend))
            result.append(min(candidates, key=lambda tail: tail.doubt / max(abs(tail.slope), 1e-300)))
        return result[0], result[1]

    @property
    def tails_are_seen(self) -> bool:
        """Whether both ends lie beyond the last shoulder, where the tails no longer become much flatter."""
        return all(CAUTION * tail.flatter < abs(tail.slope) / 2 for tail in self._tails)

    def _tail_log_density(self, side: int, distance: np.ndarray) -> np.ndarray:
        """log p(x) (relative to the top) beyond the nodes, at a distance from the centre."""
        end, tail = self.t[-side], self._tails[side]
        start = self.log_density[-side] - self._top - self.stretch.log_slope(end) - np.log(self.scale)
        beyond = tail.beyond(distance)
        return start + min(tail.slope, 0.0) * beyond + tail.bend * beyond**2 / 2

    def _tail_integral(self, side: int, function: ArrayFunction, bounded: bool = False) -> float:
        """∫ function(x) p(x) dx beyond the nodes; infinite or nan where it does not converge within its uncertainty."""
        tail = self._tails[side]
        sign, slope = (-1.0, 1.0)[side], tail.slope
        if slope >= 0:
            return np.inf

        # Panels in u = log of the distance beyond the border, or in the distance itself, in units of the decay.
        def place(u: np.ndarray) -> np.ndarray:
            return np.asarray(tail.border * np.exp(u) if tail.algebraic else tail.border + u)

        def integrand(u: np.ndarray) -> np.ndarray:
            distance = place(u)
            with np.errstate(over="ignore", invalid="ignore"):
                value = function(self.centre + sign * distance) * np.exp(self._tail_log_density(side, distance))
                return value * distance if tail.algebraic else value

        decay = -1 / slope
        edges = np.concatenate([[0.0], np.geomspace(decay * PANELS[0], decay * PANELS[1], 40)])
        if tail.algebraic:
            edges = np.minimum(edges, LARGEST_LOG)
        nodes, weights = _panels(edges[:-1], edges[1:])
        parts = (weights * integrand(nodes)).sum(1)
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
        known = parts[: len(parts) if (finite := np.isfinite(parts)).all() else int(np.argmin(finite))]
        if tail.bend and len(known) and abs(known[-1]) <= NO_MORE * np.abs(known).max():
            return float(known.sum())  # a normal tail outruns what grows as an exponential does
        if not bounded and rate + CAUTION * tail.flatter >= -DECAYS * abs(slope):
            grows = rate >= -DECAYS * abs(slope) and tail.doubt < KNOWN * abs(slope)
            return float(np.sign(ends[0]) * np.inf) if grows else np.nan
        # An algebraic tail times an exponential falls next to the nodes and rises without end far beyond them.
        risen = len(known) < len(parts) or abs(known[-1]) > RISEN * np.abs(known).min()
        if tail.algebraic and not bounded and risen and np.abs(known).max() > np.abs(parts[0]):
            return np.nan
        return float(np.where(np.isfinite(parts), parts, 0.0).sum())

    def _between(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Probability between two points of one interval between nodes."""
        nodes, weights = _panels(start, stop)
        return (weights * np.exp(self.interpolant(nodes) - self._top - self._integrals[1])).sum(-1)

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
        return inside - self._integrals[1]

    def probability(self, x: Any, side: int) -> np.ndarray:
        """Probability on one side of x."""
        x = np.asarray(x, float)
        low, high = self.position(self.t[[0, -1]])
        inside = (x >= low) & (x <= high)
        t = invert(self.position, np.where(inside, x, self.centre), self.t[0], self.t[-1])
        at = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.t) - 2)
        rest = self._between(*((self.t[at], t) if side == 0 else (t, self.t[at + 1])))
        value = self._integrals[0][side][at + side] + rest
        for end, outside in ((0, x < low), (1, x > high)):
            if np.any(outside):
                distance = np.abs(np.where(outside, x, (low, high)[end]) - self.centre)
                beyond = self._integrals[0][end][-end] * self._tails[end].share(distance)
                value = np.where(outside, beyond if end == side else 1 - beyond, value)
        return np.where(np.isnan(x), np.nan, value)

    def quantile(self, q: Any, side: int) -> np.ndarray:
        """The x with probability q on one side of it; nan outside [0, 1]."""
        q = np.asarray(q, float)
        valid = (q >= 0) & (q <= 1)
        x = np.full(q.shape, np.nan)
        near, far = valid & (q <= 0.5), valid & (q > 0.5)
        x[near], x[far] = self._nearer_end(q[near], side), self._nearer_end(1 - q[far], 1 - side)
        return x

    def _nearer_end(self, q: np.ndarray, side: int) -> np.ndarray:
        """The same for q of at most about one half."""
        table = self._integrals[0][side]
        x = self.position(self._invert(np.clip(q, table[-side], 1), side))
        outer = q < table[-side]
        if np.any(outer):
            with np.errstate(divide="ignore", over="ignore"):
                distance = self._tails[side].distance(np.log(np.where(outer, q, 1) / table[-side]))
            x = np.where(outer, self.centre + (-1.0, 1.0)[side] * distance, x)
        return x

    def _invert(self, q: np.ndarray, side: int) -> np.ndarray:
        """The t with probability q on one side of it, by Newton's method between the nodes around it."""
        table = self._integrals[0][side]
        sign, ascending = (1, table) if side == 0 else (-1, -table)
        at = np.clip(np.searchsorted(ascending, sign * q, side="right") - 1, 0, len(self.t) - 2)
        low, high = self.t[at], self.t[at + 1]
        known = low if side == 0 else high
        wanted = q - table[at + side]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = wanted / np.abs(table[at + 1] - table[at])
        share = np.where((share >= 0) & (share <= 1), share, 0.5)
        t = low + (high - low) * (share if side == 0 else 1 - share)
        for _ in range(NEWTON):
            excess = sign * (self._between(*((known, t) if side == 0 else (t, known))) - wanted)
            low, high = np.where(excess < 0, t, low), np.where(excess < 0, high, t)
            step = t - excess / np.exp(self.interpolant(t) - self._top - self._integrals[1])
            t, before = np.where((step >= low) & (step <= high), step, (low + high) / 2), t
            small = np.abs(t - before) <= NEWTON_TOLERANCE * np.abs(self.t[-1] - self.t[0])
            if np.all(small | (np.abs(excess) <= NEWTON_TOLERANCE * q)):
                break
        return t

    def expect(self, function: ArrayFunction, bounded: tuple[bool, bool] = (False, False)) -> float:
        """E function(x), ``bounded`` to a side if it is known to be; infinite or nan where it does not converge."""
        with np.errstate(over="ignore", invalid="ignore"):
            inside = float((function(self._places) * self._masses).sum())
            tails = sum(self._tail_integral(side, function, bounded[side]) for side in (0, 1))
            return (inside + tails) * float(np.exp(-self._integrals[1]))


def _constant_bend(far: np.ndarray, slopes: np.ndarray) -> float:
    """The second derivative of a tail that steepens evenly, from the slopes between four places; zero of any other."""
    if len(slopes) < 3:
        return 0.0
    middle = (far[1:] + far[:-1]) / 2
    bends = np.diff(slopes) / np.diff(middle)
    return float(bends[0]) if bends.max() < 0 and np.ptp(bends) <= SAME_BEND * abs(bends[0]) else 0.0


def _panels(start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss–Legendre on intervals, along a last axis."""
    half = (stop - start)[..., None] / 2
    return start[..., None] + half * (1 + POINTS), half * WEIGHTS
