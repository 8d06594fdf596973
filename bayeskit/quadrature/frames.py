"""The choice of the coordinates in which a density is integrated, from its values on coarse lattices.

Location and covariance of the bulk come first; then each axis is stretched by how far the density reaches on either
side, and, where that promises fewer nodes, bent by the earlier axes (:mod:`bayeskit.quadrature.change_of_variable`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from bayeskit.quadrature.change_of_variable import Bend, Frame, Stretch, fit_stretch
from bayeskit.quadrature.counted_density import SlowDecay
from bayeskit.quadrature.many_scales import ManyScales
from bayeskit.quadrature.mode_search import Landscape
from bayeskit.quadrature.trapezoid import LAYERED, Lattice

__all__ = ["REACH", "SLOW", "bulk", "choose_frame", "frame_of_scales"]

SLOW = "the density falls off too slowly, not at all, or along too curved a ridge"
REACH = 60.0  # how far a lattice may grow, in widths of the bulk
COARSE = {1: 0.5, 2: 0.6, 3: 1.0, 4: 1.2}  # steps of the lattices that only steer, by the number of variables
OFFSETS = 0.2  # of their nodes, in steps
RESOLVING = 0.7  # step at which a standard normal is just resolved
SINH = Stretch(0.2, right=(0.4, 0.5), left=(0.4, 0.5))
BULK, BULK_CUT = 3.0, 10.0  # nats below the maximum that are bulk (and one a variable), and to which it is searched
BULK_ROUNDS, SETTLED = 5, 2.5  # rounds at most, until no variance changes by more than this factor
FLOOR = 0.02  # share of the covariance before that stays in the next, so that it is never singular
# Aliases of a normal density fall as exp(−c / step²), which would be a power of a half; a little more, to be safe.
ALIAS_POWER = 0.52
ALIASES = (1e-12, 0.5)  # between which they say something of the step
ENOUGH = 2.5  # times the nodes of a normal density that are not worth a search for fewer, in four variables
GAIN = 0.7  # share of the nodes that another bend must save
TEMPER = 0.3  # power of the density of which moments are taken, so that the tails count too
NEAR = 2.0  # nats below the maximum at which the near width of a side is taken
LEAST_NEAR, LEAST_FAR = 0.2, 0.8  # widths of a side, so that no stretch is built on nothing
MARGIN = 6.0  # nats beyond the cut that still take part in a fit
SINGLE = 1e-6  # of the mean variance: a line of the lattice with less has a single node that counts
LOCATION_RANGE, SCALE_RANGE = 3.0, 4.0  # of log scales, by which locations are weighed and to which a bend is fitted
MOVED, WIDER = 0.37, 1.14  # widths and factor by which a second frame of many scales differs from the first
RIDGE = 1e-3  # penalty of the regressions


def _coarse(land: Landscape, frame: Frame, reach: float, cut: float) -> Lattice:
    k = len(frame.order)
    lattice = Lattice(land.density, frame, np.full(k, COARSE[k]), np.full(k, OFFSETS), reach)
    lattice.fill(frame.backward(land.everywhere), cut)
    return lattice


def bulk(land: Landscape) -> tuple[np.ndarray, np.ndarray]:
    """Centre and covariance of the bulk, from coarse lattices; of the highest mode where there are several."""
    k = land.modes.shape[1]
    centre, covariance = land.modes[0], land.covariance
    if len(land.modes) > 1:
        return centre, covariance
    for _ in range(BULK_ROUNDS):
        frame = Frame.build(centre, covariance, tuple(range(k)), SINH)
        lattice = _coarse(land, frame, 2 * REACH, BULK_CUT)
        if lattice.escaped:
            raise SlowDecay(SLOW)
        t = lattice.positions(lattice.nodes)
        x, log_f = frame.forward(t), lattice.values - frame.log_jacobian(t)
        # By the height of f itself: a heavy tail has no covariance worth the name.
        weights = np.where(log_f > np.nanmax(log_f) - BULK - k, lattice.weights(), 0.0)
        weights = weights / weights.sum()
        centre = weights @ x
        moment = (weights[:, None] * (x - centre)).T @ (x - centre)
        before, covariance = covariance, moment + FLOOR * covariance
        change = np.linalg.eigvals(np.linalg.solve(before, covariance)).real
        if change.max() < SETTLED and change.min() > 1 / SETTLED:
            break
    return centre, covariance


def frame_of_scales(lines: Sequence[Landscape], order: tuple[int, ...], number: int) -> Frame:
    """A frame in which every mode on the line along each axis has its own scale; each ``number`` gives another."""
    stretches, index = [], list(order)
    centre = np.array([line.modes[0, 0] for line in lines])[index]
    scale = np.array([line.own_widths[0] for line in lines])[index]
    for i, c, w in zip(order, centre, scale, strict=True):
        places, widths = (lines[i].modes[:, 0] - c) / w, lines[i].own_widths / w
        stretches.append(ManyScales(places + number * MOVED * widths, WIDER**number * widths))
    return Frame(centre, np.diag(scale), order, tuple(stretches), (None,) * len(order))


def choose_frame(
    land: Landscape, centre: np.ndarray, covariance: np.ndarray, order: tuple[int, ...], tolerance: float
) -> tuple[Frame, np.ndarray]:
    """The frame that promises the fewest nodes (stretched only, or bent as well), and steps for it."""
    k = len(order)
    if len(land.modes) > 1:
        return Frame.build(centre, covariance, order, Stretch(1.0)), np.full(k, RESOLVING)
    frame = Frame.build(centre, covariance, order, SINH)
    lattice = _coarse(land, frame, 2 * REACH, land.cut)
    if lattice.escaped:
        raise SlowDecay(SLOW)
    straight = _fit_frame(lattice, land.cut, bent=False)
    if k == 1:
        return straight, np.full(1, RESOLVING)
    candidates = [(*_promise(_coarse(land, straight, REACH, land.cut), tolerance), straight)]
    if k > LAYERED and candidates[0][0] < ENOUGH * _nodes_of_normal(k, land.cut):
        return straight, candidates[0][1]
    for _ in range(3 if k == 2 else 2):
        frame = _fit_frame(lattice, land.cut, bent=True)
        lattice = _coarse(land, frame, 2 * REACH, land.cut)
        if lattice.escaped:
            break
        candidates.append((*_promise(lattice, tolerance), frame))
        if candidates[-1][0] > GAIN * candidates[-2][0]:
            break
    _, step, frame = min(candidates, key=lambda candidate: candidate[0])
    return frame, step


def _nodes_of_normal(k: int, cut: float) -> float:
    """About how many nodes of step one a standard normal density takes, with those beside the last that count."""
    return float(np.pi ** (k / 2) / special.gamma(k / 2 + 1) * (np.sqrt(2 * cut) + 1) ** k)


def _promise(lattice: Lattice, tolerance: float) -> tuple[float, np.ndarray]:
    """About how many nodes and which steps the tolerance will take, if the aliases fall as exponentials do."""
    if lattice.escaped:
        return np.inf, np.full(lattice.k, RESOLVING)
    by_axis = np.clip(lattice.aliasing()[1], *ALIASES)
    goal = tolerance / (8 if lattice.k <= LAYERED else 80)
    step = lattice.step * (np.log(by_axis) / np.log(goal)) ** ALIAS_POWER
    return float(len(lattice.nodes) * np.prod(lattice.step / step)), step


def _fit_stretch(z: np.ndarray, drop: np.ndarray, weights: np.ndarray, cut: float) -> Stretch:
    """Stretch an axis by how far the density reaches on either side, 2 nats and ``cut`` nats below its maximum."""
    near, far = np.empty(2), np.empty(2)
    for side, sign in enumerate((-1, 1)):
        rank = np.argsort(sign * z)
        # Least drop at this distance or farther: rises outward.
        envelope = np.minimum.accumulate(drop[rank][::-1])[::-1]
        level, first = np.unique(envelope, return_index=True)
        outermost = np.append(first[1:], len(rank)) - 1
        near[side], far[side] = np.interp(np.sqrt([NEAR, cut]), np.sqrt(level), sign * z[rank][outermost])
        # Corners of a coarse lattice fall short of the true reach; the second moment of f^0.3 does not.
        here = sign * z > 0
        if np.any(here):
            moment = 2 * np.sqrt(TEMPER * np.average(z[here] ** 2, weights=weights[here] + 1e-300))
            near[side] = np.clip(moment, near[side], 2 * near[side] + 0.5)
    return fit_stretch(np.maximum(near, LEAST_NEAR), np.maximum(far, LEAST_FAR), float(np.sqrt(2 * cut)))


def _fit_frame(lattice: Lattice, cut: float, bent: bool) -> Frame:
    """A better frame from the values on a coarse lattice.

    Location and log scale of each axis are regressed on the earlier ones, from the conditional moments along the lines
    of the lattice; of f^0.3, so that the tails count too.
    """
    frame = lattice.frame
    t = lattice.positions(lattice.nodes)
    with np.errstate(invalid="ignore"):
        log_f = lattice.values - frame.log_jacobian(t)
        tempered = lattice.values - (1 - TEMPER) * log_f
        weights = np.where(np.isfinite(log_f), np.exp(tempered - np.nanmax(tempered[np.isfinite(log_f)])), 0.0)
    keep = (weights > 0) & lattice.active(cut + MARGIN)
    t, nodes, log_f, weights = t[keep], lattice.nodes[keep], log_f[keep], weights[keep]
    drop = log_f.max() - log_f
    z = frame.whiten(frame.forward(t))
    stretches, bends, s, t_new = [], [], np.empty_like(z), np.empty_like(z)
    for i in range(z.shape[1]):
        bend = None
        s[:, i] = z[:, i]
        if bent and i:
            bend = _fit_bend(nodes[:, :i], t_new[:, :i], s[:, :i], z[:, i], weights)
            location, log_scale = bend(t_new[:, :i], s[:, :i])
            s[:, i] = (z[:, i] - location) / np.exp(log_scale)
        stretches.append(_fit_stretch(s[:, i], drop, weights, cut))
        bends.append(bend)
        t_new[:, i] = stretches[-1].backward(s[:, i])
    return Frame(frame.centre, frame.factor, frame.order, tuple(stretches), tuple(bends))


def _fit_bend(nodes: np.ndarray, t: np.ndarray, s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> Bend:
    _, first, line = np.unique(nodes, axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(line, weights)
    mean = np.bincount(line, weights * z) / mass
    variance = np.bincount(line, weights * (z - mean[line]) ** 2) / mass
    location, log_scale = Bend.columns(t[first], s[first])
    # A line with a single node says nothing about the scale.
    known = variance > SINGLE * np.average(variance, weights=mass)
    spread = np.log(np.maximum(variance, 1e-300)) / 2
    centre = float(np.average(spread[known], weights=mass[known]))
    root = np.sqrt(mass / mass.max())
    ratio = np.exp(np.clip(spread - centre, -LOCATION_RANGE, LOCATION_RANGE))
    location_fit = _ridge(location, mean, root / np.where(known, ratio, 1.0))
    scale_fit = _ridge(log_scale, np.clip(spread - centre, -SCALE_RANGE, SCALE_RANGE), np.where(known, root, 0.0))
    return Bend(location_fit, scale_fit)


def _ridge(columns: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    size = np.sqrt(((weights[:, None] * columns) ** 2).sum(0)) + 1e-300
    a = weights[:, None] * columns / size
    return np.linalg.solve(a.T @ a + RIDGE * np.eye(len(size)), a.T @ (weights * target)) / size
