"""One lattice, refined until the error of its sum is small: aliases, what lies outside, modes missed, wide layers.

Each round halves the step of the axis that aliases most, or lowers the cut at which the lattice ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from bayeskit.quadrature.axis_density import AxisDensity
from bayeskit.quadrature.change_of_variable import Frame
from bayeskit.quadrature.counted_density import NotIntegrable, SlowDecay
from bayeskit.quadrature.frames import REACH, SLOW
from bayeskit.quadrature.mode_search import Landscape
from bayeskit.quadrature.trapezoid import LAYERED, Lattice, depth

__all__ = ["LatticeSum", "marginal", "refined"]

UNDEFINED = "the density is not a number at points where it matters"
# What the spline through the layers may be off, relative to its top, by the number of variables.
SMOOTH = {1: 1e-9, 2: 5e-7, 3: 2e-6, 4: np.inf}
# Share of the tolerance for the estimate of one lattice, by the number of variables: in four, two of them agree.
FOR_ONE = {1: 0.25, 2: 0.25, 3: 0.25, 4: 0.75}
ROUGH = 10  # times that, where the budget has run out
RESOLVED = 1.0  # steps in widths of a mode: the sum over a normal density at this distance is good to 1e-8
# Refinements without gain after which what remains is noise of the density itself: PyMC takes the distance of two
# inputs as x² + y² − 2xy, which for a short length scale is off by more than one.
STALLED = 3
# Halvings of one variable's step over which the spline must gain so much for each, or reach its goal within the budget:
# at a kink, |y − x| of a Laplace density, a halving gains two, and half a million nodes are too few.
SLOW_FOR, LEAST_GAIN = 5, 8.0
STEPS, LONG = (0.3, 1.0), 1.3  # of a first lattice, in widths; and at most in four variables
# Its largest step from layer to layer, by the number of variables: closer than the sum needs, for the spline through
# them; in one variable nodes cost less than rounds.
LAYERS = {1: 0.1, 2: 0.45, 3: 0.45, 4: LONG}
BEYOND_MODES, UNSTRETCHED = 1.2, 150.0  # how far it may reach: times the farthest mode, and farther without stretches
DEEPEST, DEEPER, LITTLE = (
    60.0,
    4.0,
    1.0,
)  # nats: no cut is lowered from below the first; each is lowered by the second at least, in four variables the third
SMALL_TAIL = 1e-3  # share of the integral outside the lattice below which values that are no numbers do no harm
SEEN = 8.0  # nats below a mode at which a node near it still sees it
LARGEST_LOG = 100.0  # of a ratio of heights
LOWEST_LAYER = 45.0  # nats below the top under which the spline takes all layers for equal
FEWEST_LAYERS = 17  # that a spline can be judged by
FINER = 8  # points a layer at which its integral and its mean are taken
HALVING = 64  # what one halving of the step gains, at least, for a spline of degree seven


@dataclass(frozen=True)
class LatticeSum:
    """One finished lattice."""

    lattice: Lattice
    cut: float
    log_integral: float
    error: float


def refined(
    land: Landscape, frame: Frame, step: np.ndarray, tolerance: float, acceptable: float, rng: Generator, later: int
) -> LatticeSum:
    """Refine one lattice until its own error estimate is a quarter of the tolerance, as long as others can follow."""
    k, goal, cut = len(step), tolerance * FOR_ONE[len(step)], land.cut
    modes, seeds = frame.backward(land.modes), frame.backward(land.everywhere)
    step = np.clip(step, STEPS[0], STEPS[1] if k <= LAYERED else LONG)
    step[0] = min(step[0], LAYERS[k])
    # Without stretches, as where there are several modes, tails reach farther; where each has its scale, as often.
    farther = UNSTRETCHED * (len(modes) if k == 1 else 1) if len(modes) > 1 else 0.0
    reach = REACH + BEYOND_MODES * float(np.abs(seeds).max()) + farther
    lattice = Lattice(land.density, frame, step, rng.uniform(size=k), reach)
    best: tuple[float, LatticeSum] | None = None
    stalled, rough, refusal = 0, False, None
    splines: list[float] = []  # since the cut was last moved
    try:
        while stalled < STALLED and not rough:
            lattice.fill(seeds, cut)
            if lattice.escaped:
                raise SlowDecay(SLOW)
            tail = lattice.truncation(cut)
            if tail > SMALL_TAIL and np.isnan(lattice.values).any():
                raise NotIntegrable(UNDEFINED)
            alias, by_axis = lattice.aliasing()
            missed = _missed(lattice, land, modes)
            run = LatticeSum(lattice.copy(), cut, lattice.log_sum(), float(2 * (tail + alias + missed)))
            spline = 0.0 if k > LAYERED else _spline_error(lattice, cut, run.error) if missed == 0 else np.inf
            if run.error <= goal and spline <= SMOOTH[k]:
                if k > 1 or cut > DEEPEST or marginal(run).tails_are_seen:
                    return run
                best, cut, splines = (spline, run), cut + 2 * DEEPER, []
                continue
            splines.append(spline)
            gain = best is None or spline <= best[0] / 2 or run.error <= best[1].error / 2
            stalled = stalled + 1 if not gain and run.error <= acceptable / 4 else 0
            if best is None or _better(spline, run, best, acceptable / 4):
                best = spline, run
            deeper = cut <= DEEPEST and not np.isnan(lattice.values).any()
            # A lower cut takes a third of the nodes more where halving doubles them: first what is larger.
            if deeper and tail > goal / 4 and (tail > alias + missed or alias + missed <= goal / 4):
                lower = cut + (DEEPER if k <= LAYERED else LITTLE) + max(0.0, np.log(tail / goal) / 2)
                land.density.require(int(((1 + later) * (lower / cut) ** (k / 2) - 1) * len(lattice.nodes)))
                cut, splines = lower, []
            elif alias + missed > goal / 4 or tail <= goal / 4:
                # Halving doubles them, and later lattices have many.
                land.density.require((1 + later) * len(lattice.nodes))
                aliased = alias + missed > goal / 4
                lattice.halve(int(np.argmax(by_axis if missed == 0 else lattice.step)) if aliased else 0)
            else:
                break
            rough = k == 1 and _kinked(lattice, splines)
    except NotIntegrable as error:
        refusal = error  # out of budget, say: what there is must do, or nothing
    if best is not None and best[1].error <= acceptable / 4 and best[0] <= ROUGH * SMOOTH[k]:
        return best[1]
    if (stalled or rough) and not refusal:
        raise NotIntegrable("the density is not smooth: refinement gains nothing")
    undefined = UNDEFINED if np.isnan(lattice.values).any() else ""
    slow = SlowDecay("the density falls off too slowly for the error bound to be met")
    raise refusal or (NotIntegrable(undefined) if undefined else slow)


def _better(spline: float, run: LatticeSum, best: tuple[float, LatticeSum], enough: float) -> bool:
    """Whether a finished lattice is to be kept, if none is better, rather than the ``best`` before it."""
    if best[1].error > enough:
        return True
    return run.error < best[1].error if max(spline, best[0]) <= SMOOTH[run.lattice.k] else spline < best[0]


def _kinked(lattice: Lattice, splines: list[float]) -> bool:
    """Whether the last halvings gained so little that the spline is out of reach of the budget."""
    last = np.array(splines[-SLOW_FOR - 1 :])
    if len(last) <= SLOW_FOR or not np.all(np.isfinite(last)):
        return False
    half = len(last) // 2  # one error alone may be small by chance
    for before, now, steps in ((last[0], last[-1], SLOW_FOR), (last[:half].max(), last[half:].max(), half)):
        gain = (before / now) ** (1 / steps)
        halvings = np.log(now / (ROUGH * SMOOTH[1])) / np.log(max(gain, 1.0 + 1e-9))
        if gain > LEAST_GAIN or len(lattice.nodes) * 2.0 ** min(halvings, 60.0) <= lattice.density.budget:
            return False
    return True


def _missed(lattice: Lattice, land: Landscape, modes: np.ndarray) -> float:
    """Share of the mass at modes that the lattice is too coarse for, as if each filled a cell of it."""
    heights = land.heights + lattice.frame.log_jacobian(modes)
    missed = 0.0
    for node, height, hessian in zip(lattice.nearest(modes), heights, land.hessians, strict=True):
        near = np.all(np.abs(lattice.nodes - node) <= 2, axis=1)
        unseen = np.nanmax(lattice.values[near], initial=-np.inf) < height - SEEN
        # One mode alone is left to the spectrum: the lattice was made for it.
        if unseen or (len(modes) > 1 and _unresolved(lattice, node, hessian)):
            missed += float(np.exp(min(height - lattice.top, LARGEST_LOG)) / lattice.weights().sum())
    return missed


def _unresolved(lattice: Lattice, node: np.ndarray, hessian: np.ndarray) -> bool:
    """Whether a mode is narrower than the lattice, by its curvature.

    A spike upon a slab may be less than 8 nats above it, and the nodes at its foot say nothing about it.
    """
    values, vectors = np.linalg.eigh(-(hessian + hessian.T) / 2)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    nodes = np.concatenate([node[None], node + np.eye(lattice.k, dtype=np.int64)])
    corners = lattice.frame.forward(lattice.positions(nodes))
    steps = np.linalg.norm((corners[1:] - corners[0]) @ root.T, axis=1)
    return bool(steps.max(initial=0.0) > RESOLVED)


def _trimmed(lattice: Lattice, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """The layers whose sums are not spoilt by the cut, and those relative to the highest, as logs; without gaps."""
    t, log_sum = lattice.layers()
    keep = np.flatnonzero(log_sum > log_sum.max() - (cut if lattice.k == 1 else depth(cut) - 1))
    window = slice(keep[0], keep[-1] + 1)
    return t[window], np.maximum(log_sum[window] - log_sum.max(), -max(LOWEST_LAYER, cut))


def _spline_error(lattice: Lattice, cut: float, error: float) -> float:
    """How far a spline is off: through every second layer at the others, over what one halving gains; in its moments.

    Between layers it may swing, as at a missing one: its integral and mean are those of the sum but for its ``error``.
    """
    t, log_share = _trimmed(lattice, cut)
    if len(t) < FEWEST_LAYERS:
        return np.inf
    share, fine = np.exp(log_share), np.linspace(t[0], t[-1], FINER * (len(t) - 1) + 1)
    coarse, whole = (AxisDensity(t[::n], log_share[::n]).interpolant for n in (2, 1))
    missed = np.abs(np.exp(np.minimum(coarse(t), 9)) - share)[5:-5].max() / HALVING
    density, mean = np.exp(np.minimum(whole(fine), 9)) / (FINER * share.sum()), np.average(t, weights=share)
    shift = density @ (fine - mean) / np.sqrt(np.average((t - mean) ** 2, weights=share))
    return float(max(missed, abs(density.sum() - 1) - error, abs(shift) - error))


def marginal(run: LatticeSum) -> AxisDensity:
    """The density of the variable along whose axis the layers lie."""
    t, log_share = _trimmed(run.lattice, run.cut)
    frame = run.lattice.frame
    centre, scale = float(frame.centre[0]), float(frame.factor[0, 0])
    return AxisDensity(t, log_share, frame.stretches[0], centre, scale)
