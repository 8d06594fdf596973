"""Trapezoidal sums over a lattice that grows only where the integrand is, with an error read off its spectrum.

For a function g on R^k the sum over a lattice is |cell| · Σ g(B n) = Σ_ε ĝ(B⁻ᵀ ε) over integer ε: the integral ĝ(0)
plus aliases, which for an analytic g fall exponentially as the lattice gets finer (Trefethen and Weideman, SIAM Review
56, 2014). The aliases themselves cannot be seen, but the spectrum at fractions of those frequencies can: a quarter and
about a half of the way out. Exponential decay carries on from there, algebraic decay (a kink, a jump) shows as a ratio
near one and is carried on as such.

The lattice is a stack of layers t₁ = const, each shifted against the last, so that the sum over a layer gives the
marginal density of t₁ by itself while the whole stack is a good lattice for the integral.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from itertools import product

import numpy as np

from bayeskit.quadrature.change_of_variable import Frame
from bayeskit.quadrature.counted_density import CountedDensity
from bayeskit.quadrature.mass_by_depth import mass_below
from bayeskit.quadrature.nodes_ahead import NodesAhead, key_of, largest_coordinate, moves
from bayeskit.terminal import let_alarms_through

__all__ = ["LAYERED", "Lattice", "depth"]

# Irrational shifts from layer to layer (powers of the reciprocal of the plastic number, brought near zero).
SHEAR = (0.0, 0.7548776662466927 - 1.0, 0.5698402909980532 - 1.0)
LAYER_CUT = 14.0
LAYERED = 3  # variables, at most, of which each has a lattice whose layers are its marginal density
NEAR = 1.4  # times the cut, up to which t² of a node is sure to be asked for: at the border it is about twice the cut
PLENTY = 600_000  # evaluations in a budget from which one takes far less than a call: those not asked for do no harm
AHEAD = 48  # nodes of a line that are evaluated before the sum has grown as far: a call takes longer than so many
MOST_ROUNDS = 1_000  # by which a lattice grows: a strip as long takes minutes, where a region as wide is many nodes
# Just below one half, where the sum is real and may vanish by the symmetry of the integrand alone.
QUARTER, NEAR_HALF = 0.25, 0.47


def depth(cut: float) -> float:
    """How far below the top the sums over layers are to be trusted."""
    return max(cut - 4, 18.0)


def _spectrum(g: np.ndarray, frequency: float, turn: np.ndarray, group: np.ndarray) -> float:
    phase = 2 * np.pi * frequency * np.arange(turn.max(initial=0) + 1)
    real, imaginary = (np.bincount(group, g * wave(phase)[turn]) for wave in (np.cos, np.sin))
    return float(np.hypot(real, imaginary).sum())


class Lattice:
    """Values of log g at the nodes of a lattice, evaluated outward from seeds until they are ``cut`` below the maximum.

    g is the density in the coordinates t of a frame, where nan is counted as an error. The nodes are a ``step`` apart
    along each axis, of which the first is that of the layers, from a ``shift`` in steps. Nodes beyond the ``reach`` in
    any coordinate are not visited; an integrand that gets there does not fall off.
    """

    def __init__(self, density: CountedDensity, frame: Frame, step: np.ndarray, shift: np.ndarray, reach: float):
        self.density, self.frame, self.reach = density, frame, reach
        self.step, self.shift = np.array(step, float), np.array(shift, float)
        self.k = len(self.step)
        self.shear = np.array(SHEAR[: self.k]) if self.k <= LAYERED else np.zeros(self.k)
        self.nodes = np.empty((0, self.k), np.int64)
        self.values = np.empty(0)
        self.keys = np.empty(0, np.int64)
        self.expanded = np.empty(0, bool)
        self.escaped = False
        self._ahead = NodesAhead()

    def log_density(self, t: np.ndarray) -> np.ndarray:
        """log g at rows t."""
        return self.density(self.frame.forward(t)) + self.frame.log_jacobian(t)

    def copy(self) -> Lattice:
        """The lattice as it is now; filling or halving the original leaves the copy alone."""
        twin = copy(self)
        for name in ("nodes", "expanded", "step", "shift", "shear"):
            setattr(twin, name, getattr(self, name).copy())
        twin._ahead = NodesAhead()
        return twin

    def positions(self, nodes: np.ndarray) -> np.ndarray:
        """Coordinates t of nodes given by (possibly fractional) lattice coordinates."""
        return (nodes + self.shift + self.shear * nodes[:, :1]) * self.step

    def nearest(self, t: np.ndarray) -> np.ndarray:
        """The nodes nearest to points t, within their layers."""
        n = np.empty(t.shape, np.int64)
        n[:, 0] = np.rint(t[:, 0] / self.step[0] - self.shift[0])
        n[:, 1:] = np.rint(t[:, 1:] / self.step[1:] - self.shift[1:] - self.shear[1:] * n[:, :1])
        return n

    def _around(self, t: np.ndarray) -> np.ndarray:
        """The nodes nearest to points t and their neighbours, of shape (points, 3^k, k)."""
        around = np.stack(np.meshgrid(*[[-1, 0, 1]] * self.k), -1).reshape(-1, self.k)
        return self.nearest(t)[:, None] + around

    def holds(self, t: np.ndarray) -> np.ndarray:
        """Mask of the points t that have a node of the lattice beside them."""
        nodes = self._around(t)
        return (self._find(nodes.reshape(-1, self.k)) >= 0).reshape(nodes.shape[:2]).any(axis=1)

    def beside(self, axis: int, sign: int) -> np.ndarray:
        """For each node, the position in the store of the next along an axis, −1 where there is none."""
        return self._find(self.nodes + sign * np.eye(self.k, dtype=np.int64)[axis])

    def _find(self, nodes: np.ndarray) -> np.ndarray:
        """Positions of nodes in the store, -1 where they are not."""
        if not len(self.keys):
            return np.full(len(nodes), -1)
        key = key_of(nodes)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[at] == key, at, -1)

    def _sort(self) -> None:
        key = key_of(self.nodes)
        # Stable, because most of it is in order already.
        order = np.argsort(key, kind="stable")
        self.nodes, self.values, self.expanded = self.nodes[order], self.values[order], self.expanded[order]
        self.keys = key[order]

    def _add(self, nodes: np.ndarray, cut: float) -> None:
        """Evaluate those of the nodes that are new."""
        nodes = nodes[np.unique(key_of(nodes), return_index=True)[1]]
        nodes = nodes[self._find(nodes) < 0]
        inside = self._within_reach(nodes)
        self.escaped |= not inside.all()
        nodes = nodes[inside]
        if len(nodes):
            if self.k == 1 and len(nodes) <= AHEAD:
                nodes, values = self._with_line(nodes, cut)
            else:
                # What nobody asks for in the end counts as well: not where that may use up what there is.
                ahead = self.k > 1 and self.density.count < self.density.budget / 2
                values = self._ahead.at(nodes, self._log_density_at, partial(self._to_come, cut) if ahead else None)
            self.nodes, self.values = np.concatenate([self.nodes, nodes]), np.concatenate([self.values, values])
            self.expanded = np.concatenate([self.expanded, np.zeros(len(nodes), bool)])
            self._sort()

    def _within_reach(self, nodes: np.ndarray) -> np.ndarray:
        inside = np.abs(self.positions(nodes)) < self.reach
        return np.all(inside & (np.abs(nodes) < largest_coordinate(self.k) - 1), axis=1)

    def _log_density_at(self, nodes: np.ndarray) -> np.ndarray:
        return self.log_density(self.positions(nodes))

    def _to_come(self, cut: float, nodes: np.ndarray, beside: bool) -> np.ndarray:
        """Mask of the nodes that are new; unless ``beside`` others, so near that they are active as t is normal."""
        near = (beside and self.density.budget >= PLENTY) | (np.sum(self.positions(nodes) ** 2, axis=1) < NEAR * cut)
        return near & self._within_reach(nodes) & (self._find(nodes) < 0)

    def _with_line(self, nodes: np.ndarray, cut: float) -> tuple[np.ndarray, np.ndarray]:
        """New nodes of a lattice in one variable, which grows by one or two at a time, with those beyond them."""
        line = np.unique(nodes + np.arange(-AHEAD, AHEAD + 1))[:, None]
        line = line[(self._find(line) < 0) & (np.abs(self.positions(line)[:, 0]) < self.reach)]
        try:
            values = self.log_density(self.positions(line))
        except Exception as error:
            let_alarms_through(error)  # else: it need not be defined where nobody has asked for it
            return nodes, self.log_density(self.positions(nodes))
        high = line[values >= max(self.top, np.nanmax(values, initial=-np.inf)) - max(cut, depth(cut))]
        wanted = np.isin(line[:, 0], np.concatenate([nodes, high, high - 1, high + 1]))
        return line[wanted], values[wanted]

    @property
    def top(self) -> float:
        """Largest value so far."""
        return float(np.nanmax(self.values, initial=-np.inf))

    def active(self, cut: float) -> np.ndarray:
        """Mask of the nodes at most ``cut`` below the top.

        In the layers that come within :func:`depth` of it, also those at most ``LAYER_CUT`` below the highest of
        their layer, so that the sums over layers are right relative to themselves.
        """
        values = np.where(np.isnan(self.values), -np.inf, self.values)
        if self.k > LAYERED:
            return values >= self.top - cut
        # Nodes are kept in the order of their layers.
        starts = np.flatnonzero(np.diff(self.nodes[:, 0], prepend=self.nodes[0, 0] - 1))
        highest = np.repeat(np.maximum.reduceat(values, starts), np.diff(np.append(starts, len(values))))
        within = np.where(highest >= self.top - depth(cut), highest - LAYER_CUT, np.inf)
        return values >= np.minimum(self.top - cut, within)

    def fill(self, t: np.ndarray, cut: float) -> None:
        """Evaluate the nodes around points t, and the neighbours of every active node."""
        self._add(self._around(t).reshape(-1, self.k), cut)
        self.expanded[:] = False
        for _ in range(MOST_ROUNDS):
            if self.escaped:
                return
            frontier = self.active(cut) & ~self.expanded
            if not frontier.any():
                return
            self.expanded |= frontier
            self._add((self.nodes[frontier][:, None] + moves(self.k)).reshape(-1, self.k), cut)
        self.escaped = True

    def halve(self, axis: int) -> None:
        """Halve the step along an axis; every node stays one."""
        self._ahead = NodesAhead()
        self.step[axis] /= 2
        self.nodes[:, axis] *= 2
        self.shift[axis] *= 2
        if axis:
            self.shear[axis] *= 2
        else:
            self.shear /= 2
        turns = np.rint(self.shear).astype(np.int64)
        self.shear -= turns
        self.nodes += turns * self.nodes[:, :1]
        self._sort()

    def weights(self) -> np.ndarray:
        """g at the nodes, relative to the top; 0 where it is not a number."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isnan(self.values), 0.0, np.exp(self.values - self.top))

    def log_sum(self) -> float:
        """Logarithm of the trapezoidal sum."""
        return float(self.top + np.log(self.weights().sum()) + np.log(self.step).sum())

    def truncation(self, cut: float) -> float:
        """Estimate of what lies outside the nodes, relative to the sum, from the decay across the border."""
        active = self.active(cut)
        with np.errstate(invalid="ignore"):
            total, beyond = self.weights().sum(), 0.0
        inner = self.values[active] - self.top
        for axis, sign in product(range(self.k), (-1, 1)):
            move = np.zeros(self.k, np.int64)
            move[axis] = sign
            at = self._find(self.nodes[active] + move)
            border = (at < 0) | ~active[at]
            outer = np.where(at[border] < 0, np.nan, self.values[at[border]] - self.top)
            # A node that is not a number stands for no decay at all.
            ratio = np.where(np.isnan(outer), 1.0, np.exp(np.minimum(outer - inner[border], 0.0)))
            # Lines that leave the region at a tangent fall slowly at first and faster later: within ten units.
            longest = 1e9 if self.k == 1 else 10 / self.step[axis]
            geometric = np.minimum(ratio / np.maximum(1 - ratio, 1e-12), longest)
            further = np.exp(inner[border]) * ratio * geometric
            beyond += float(np.sum(further)) if self.k <= LAYERED else 0.0
            beyond += float(np.sum(np.exp(inner[border][np.isnan(outer)])))
        if self.k > LAYERED:
            beyond += mass_below(self.top - self.values, self.weights(), cut)
        return beyond / total

    def aliasing(self) -> tuple[float, np.ndarray]:
        """Estimated relative error of the sum of each layer and of the whole, and the part each axis has in it."""
        g = self.weights()
        total = g.sum()
        keep = g != 0
        g, nodes = g[keep], self.nodes[keep]
        layer = nodes[:, 0] - nodes[:, 0].min(initial=0)
        error, by_axis = 0.0, np.zeros(self.k)
        # In four variables nodes are dear: exponential decay is carried on as such, and taken for it at fewer nodes.
        few = self.k > LAYERED
        beyond, slow = ((1 - NEAR_HALF) / (NEAR_HALF - QUARTER), 0.15) if few else (2.0, 0.05)
        for direction in product((-1, 0, 1), repeat=self.k):
            if next((d for d in direction if d), -1) < 0:
                continue
            turn = nodes @ np.array(direction)
            turn -= turn.min(initial=0)
            # Frequencies within the layers are judged layer by layer: no cancellation between layers is relied on.
            group = layer if direction[0] == 0 else np.zeros(len(g), np.int64)
            quarter, half = (_spectrum(g, f, turn, group) / total for f in (QUARTER, NEAR_HALF))
            floor = 1e-16
            decay = min(1.0, max(half, floor) / max(quarter, floor))
            estimate = 2 * half * (decay if decay > slow else decay**beyond)
            error += estimate
            estimate = 2 * half * decay**beyond if few else estimate  # steps are chosen by what they gain
            by_axis = np.maximum(by_axis, np.where(np.array(direction) != 0, estimate / np.count_nonzero(direction), 0))
        return error, by_axis

    def layers(self) -> tuple[np.ndarray, np.ndarray]:
        """The coordinate t₁ of every layer and the logarithm of the integral of g over it."""
        low = self.nodes[:, 0].min()
        sums = np.bincount(self.nodes[:, 0] - low, self.weights())
        t = (np.arange(len(sums)) + low + self.shift[0]) * self.step[0]
        with np.errstate(divide="ignore"):
            return t, np.log(sums) + self.top + np.log(self.step[1:]).sum()

    def propose(self, rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Points drawn from the multilinear interpolant of g, and the logarithm of the interpolant there.

        A node chosen in proportion to g, moved by the sum of two uniform variables along each lattice vector, has
        exactly that density: the hat functions of the nodes sum to the interpolant.
        """
        weights = self.weights()
        start = self.nodes[rng.choice(len(weights), number, p=weights / weights.sum())]
        place = start + rng.triangular(-1, 0, 1, size=start.shape)
        corner = np.floor(place).astype(np.int64)
        share = place - corner
        height = np.zeros(number)
        for bits in product((0, 1), repeat=self.k):
            at = self._find(corner + np.array(bits))
            factor = np.prod(np.where(np.array(bits) == 1, share, 1 - share), axis=1)
            height += np.where(at < 0, 0.0, weights[at]) * factor
        return self.positions(place), np.log(height) + self.top
