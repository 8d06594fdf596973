"""Where a density has its mass: ascent to a mode, its widths, other modes, and whether it falls off.

Everything here asks for many points at once and only steers: no number of it enters an answer except as a reason to
refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bayeskit.quadrature.counted_density import CountedDensity, NotIntegrable, safe
from bayeskit.quadrature.finite_differences import stencil_derivatives, stencil_of
from bayeskit.quadrature.rays import directions_from_a_mode, radii_from_a_mode

__all__ = ["Landscape", "first_peak", "survey", "survey_further", "widths"]

FAR = 1e7
STALE = 12  # climbs in a row that end in known modes, after which no more are made
CLIMBS = 120  # at most
MOST = 24  # modes
HEAVY = 0.01  # share of the largest mode's mass
EXCESS, EXAMINED = 5.0, 200  # nats above what known modes show, and probes so far above that are looked at
PROBED = (40, 40)  # probes that are tried whatever they are, and the highest of the others


_Suspects = tuple[np.ndarray, np.ndarray]  # points, and the log density at them
_Peak = tuple[np.ndarray, float, np.ndarray]  # a mode, its log density and its Hessian


def _ascend(f: CountedDensity, start: np.ndarray) -> _Peak:
    """Climb from a point to a local maximum by Newton's method on finite differences, many step lengths at a time."""
    k = len(start)
    x, delta, stencil = np.array(start, float), np.full(k, 0.1), stencil_of(k)
    lengths = 4.0 ** np.arange(-11, 3)
    value, hessian = -np.inf, np.zeros((k, k))
    for _ in range(100):
        values = safe(f(x + stencil * delta))
        value = values[0]
        if not np.isfinite(value):
            return x, value, hessian
        change = np.maximum(np.abs(values[1 : k + 1] - value), np.abs(values[k + 1 : 2 * k + 1] - value))
        # A zero or a nan anywhere on the stencil, and derivatives are meaningless along every axis.
        too_far = ~np.isfinite(change) | (change > 3) | ~np.all(np.isfinite(values))
        best = int(np.argmax(values))
        if np.any(too_far):
            # Outside the region where a parabola means anything: come closer before trusting derivatives.
            shrink = np.where(np.isfinite(change), np.sqrt(1 / np.clip(change, 1, 1e6)), 0.1)
            x = x + stencil[best] * delta
            delta = np.where(too_far, delta * np.clip(shrink, 0.02, 0.7), delta)
            if np.any(delta < 1e-13 * (1 + np.abs(x))):
                return x, float(values[best]), hessian
            continue
        gradient, curved = stencil_derivatives(values, k)
        hessian = curved / np.outer(delta, delta)
        eigenvalues, vectors = np.linalg.eigh(-curved)
        slope = vectors.T @ gradient
        curvature = np.maximum(np.abs(eigenvalues), np.abs(slope) / 1e6 + 1e-9)
        step = vectors @ (slope / curvature)
        gain = float(slope @ (slope / curvature))
        flat = change < 0.02
        if gain < 1e-4 and not np.any(flat & (delta < FAR)):
            return x, float(value), hessian
        candidates = x + lengths[:, None] * step * delta
        tried = safe(f(candidates))
        if tried.max() > value:
            x = candidates[int(np.argmax(tried))]
        elif values[best] > value:
            x = x + stencil[best] * delta
        elif gain < 1e-2 and not np.any(flat & (delta < FAR)):
            return x, float(value), hessian
        delta = np.where(flat & (delta < FAR), delta * 4, delta)
        if np.any(np.abs(x) > 1e12):
            break
    if np.any(np.abs(x - start) > FAR):
        raise NotIntegrable("the density keeps growing outward: it does not fall off and has no finite integral")
    return x, float(value), hessian


def widths(f: CountedDensity, x: np.ndarray, value: float, hessian: np.ndarray) -> np.ndarray:
    """A covariance: along every eigenvector of the curvature, a quarter of its squared half width 2 nats down."""
    k = len(x)
    eigenvalues, vectors = np.linalg.eigh(-(hessian + hessian.T) / 2)
    guess = 1 / np.sqrt(np.maximum(eigenvalues, 1e-14))
    guess = np.where(np.isfinite(guess), guess, 1.0)
    factors = 2.0 ** np.arange(-6, 8)
    scale = np.empty(k)
    for i in range(k):
        sides = []
        for sign in (1, -1):
            distance = guess[i] * factors
            for _ in range(4):
                drop = value - safe(f(x + sign * distance[:, None] * vectors[:, i]))
                beyond = np.flatnonzero(drop >= 2)
                if len(beyond) and beyond[0] > 0:
                    at = beyond[0]
                    low, high = max(drop[at - 1], 1e-3), min(drop[at], 1e3)
                    share = (np.log(2) - np.log(min(low, 1.999))) / (np.log(high) - np.log(min(low, 1.999)))
                    sides.append(distance[at - 1] * (distance[at] / distance[at - 1]) ** np.clip(share, 0, 1))
                    break
                distance = distance * (2.0**13 if not len(beyond) else 2.0**-13)
            else:
                what = "the density is flat or cut off in some direction"
                raise NotIntegrable(f"{what}: it does not fall off, or has an edge at its mode")
        scale[i] = sum(sides) / 4
    return (vectors * scale**2) @ vectors.T


@dataclass(frozen=True)
class Landscape:
    """A density, its modes (rows, the highest first), their log densities and Hessians, and a covariance for the first.

    What lies ``cut`` nats below the highest does not matter.
    """

    density: CountedDensity
    cut: float
    modes: np.ndarray
    heights: np.ndarray
    covariance: np.ndarray
    hessians: tuple[np.ndarray, ...]
    # In one variable: the width of each mode, the sds of normal densities that reach as far as the bulk of the mass and
    # as nearly all of it, and the widest gap.
    own_widths: np.ndarray = field(default_factory=lambda: np.empty(0))
    reach: float = 0.0
    outermost: float = 0.0
    unseen: float = np.inf
    # In two or three: more points (rows) from which lattices are grown, in regions that no climb showed.
    seeds: np.ndarray | None = None

    @property
    def everywhere(self) -> np.ndarray:
        """The modes, and the other points from which a lattice is grown."""
        return self.modes if self.seeds is None else np.concatenate([self.modes, self.seeds])

    def separate(self) -> np.ndarray | None:
        """The modes that hold a share of the mass worth the name, by Laplace's estimate; None where only one does."""
        log_mass = [h - np.linalg.slogdet(-c)[1] / 2 for h, c in zip(self.heights, self.hessians, strict=True)]
        heavy = self.modes[np.array(log_mass) > np.nanmax(log_mass) + np.log(HEAVY)]
        return heavy if len(heavy) > 1 else None


def _around(start: np.ndarray) -> np.ndarray:
    k = len(start)
    return start + np.concatenate([np.zeros((1, k)), *[s * np.eye(k) for s in (1.0, -1.0, 4.0, -4.0)]])


def first_peak(f: CountedDensity, start: np.ndarray, probes: np.ndarray) -> _Peak:
    """The mode above the start; above the highest point around it, or the highest probe, where none can be climbed."""
    peak = None
    for points in (start[None], _around(start), probes):
        values = safe(f(points))
        if np.any(np.isfinite(values)):
            peak = _ascend(f, points[int(np.argmax(values))])
            if np.any(peak[2]):  # else it is too steep, far out in a tail that is exponential twice
                break
    if peak is None:
        raise NotIntegrable("the density is zero at the start and around it")
    return peak


def survey(f: CountedDensity, start: np.ndarray, probes: np.ndarray, cut: float, rng: np.random.Generator) -> Landscape:
    """Find the modes within reach: climb from the start, then from every point that may belong to another mode.

    Points around the start and the probes are joined to the known modes by straight lines; where the density does not
    rise all along any of them, the point may belong to another mode. Rays go out from every mode to 300 widths. The
    search ends when no such point is left, or when ``STALE`` climbs in a row found no mode that was not known.
    """
    peaks = [first_peak(f, start, probes)]
    loose = np.concatenate([_around(start), probes])
    values = safe(f(loose))
    near = len(loose) - len(probes) + PROBED[0]
    few = np.append(np.arange(min(near, len(loose))), near + np.argsort(-values[near:])[: PROBED[1]])
    suspects = [_unexplained(f, loose[few], values[few], [peaks[0]]), _outward(f, peaks[0], rng)]
    climbs, known = _climbed(f, suspects, peaks, cut, 0, rng), 0
    while known < len(peaks):
        known = len(peaks)
        climbs = _climbed(f, [_overlooked(f, loose, values, peaks, cut)], peaks, cut, climbs, rng)
    return _landscape(f, cut, peaks)


def survey_further(land: Landscape, points: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> Landscape:
    """A landscape with the modes above points that were passed over, from which lattices grow in any case."""
    f, peaks = land.density, list(zip(land.modes, map(float, land.heights), land.hessians, strict=True))
    highest = np.argsort(-values)[:EXAMINED]
    _climbed(f, [(points[highest], values[highest])], peaks, land.cut, 0, rng)
    seeds = points if land.seeds is None else np.concatenate([land.seeds, points])
    return replace(_landscape(f, land.cut, peaks), seeds=seeds)


def _landscape(f: CountedDensity, cut: float, peaks: list[_Peak]) -> Landscape:
    peaks.sort(key=lambda peak: -peak[1])
    modes, heights, hessians = zip(*peaks, strict=True)
    return Landscape(f, cut, np.array(modes), np.array(heights), widths(f, *peaks[0]), tuple(hessians))


def _climbed(
    f: CountedDensity, suspects: list[_Suspects], peaks: list[_Peak], cut: float, climbs: int, rng: np.random.Generator
) -> int:
    """Climb from suspects until ``STALE`` climbs in a row find nothing new; peaks grow, and the climbs are counted."""
    stale = 0
    while suspects and stale < STALE:
        points, values = suspects.pop(0)
        for i in np.argsort(-values):
            # Modes may have been found since: ask again before climbing.
            if not len(_unexplained(f, points[[i]], values[[i]], peaks)[0]):
                continue
            if stale >= STALE:
                break
            if climbs >= CLIMBS:
                raise NotIntegrable(f"after {CLIMBS} climbs new modes of the density were still being found")
            climbs, stale = climbs + 1, stale + 1
            peak = _ascend(f, points[i])
            highest = max(height for _, height, _ in peaks)
            if not np.isfinite(peak[1]) or peak[1] < highest - cut - 20:
                continue
            if _same(f, peak, peaks):
                if peak[1] > highest + 1e-3:
                    peaks[int(np.argmax([height for _, height, _ in peaks]))] = peak
                continue
            peaks.append(peak)
            if len(peaks) > MOST:
                raise NotIntegrable(f"the density has more than {MOST} modes")
            stale = 0
            suspects.append(_outward(f, peak, rng))
    return climbs


def _overlooked(f: CountedDensity, probes: np.ndarray, values: np.ndarray, peaks: list[_Peak], cut: float) -> _Suspects:
    """The highest probes at which the density is more than normal densities at the known modes show.

    Of nine narrow modes alike the forty highest probes lay in eight: the ninth held a twentieth of the mass.
    """
    away = [probes - mode for mode, _, _ in peaks]
    shown = [h + np.einsum("ni,ij,nj->n", d, c, d) / 2 for d, (_, h, c) in zip(away, peaks, strict=True)]
    highest = max(height for _, height, _ in peaks)
    extra = np.flatnonzero((values > highest - cut) & (values > np.logaddexp.reduce(shown, axis=0) + EXCESS))
    extra = extra[np.argsort(-values[extra])][:EXAMINED]
    return _unexplained(f, probes[extra], values[extra], peaks)


def _outward(f: CountedDensity, peak: _Peak, rng: np.random.Generator) -> _Suspects:
    """Points on rays from a mode to 300 widths that seem to belong to another mode.

    Along a ray within one mode −d log f / d log r rises (Gaussian, exponential) or is constant (algebraic tails); where
    it falls, another mode has taken over.
    """
    mode, k, scale = peak[0], len(peak[0]), widths(f, *peak)
    directions = directions_from_a_mode(k) @ np.linalg.qr(rng.standard_normal((k, k)))[0]
    radii = radii_from_a_mode(k)
    last = len(radii) - 1
    points = mode + radii[:, None, None] * (directions @ np.linalg.cholesky(scale).T)
    values = safe(f(points.reshape(-1, k))).reshape(points.shape[:2])
    with np.errstate(invalid="ignore"):
        steepness = -np.diff(values, axis=0)
        falls = steepness[1:] < 0.9 * steepness[:-1] - 0.5
    # The first fall on each ray, at its outer end.
    first = np.argmax(falls, axis=0) + 2
    ray = np.flatnonzero(falls.any(axis=0) & np.isfinite(values[np.minimum(first, last), np.arange(len(directions))]))
    return points[first[ray], ray], values[first[ray], ray]


def _profile(f: CountedDensity, points: np.ndarray, mode: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Log density at shares of the way from each point to a mode."""
    line = points[:, None] + shares[:, None] * (mode - points)[:, None]
    return safe(f(line.reshape(-1, len(mode)))).reshape(len(points), len(shares))


def _unexplained(f: CountedDensity, points: np.ndarray, values: np.ndarray, peaks: list[_Peak]) -> _Suspects:
    """The points from which the density does not rise all along the straight line to some known mode."""
    keep = np.isfinite(values)
    points, values = points[keep], values[keep]
    shares = np.concatenate([[0.02], np.linspace(0.1, 0.97, 11)])
    for mode, height, _ in peaks:
        if not len(points):
            break
        line = np.column_stack([values, _profile(f, points, mode, shares), np.full(len(points), height)])
        falls = np.any(np.diff(line, axis=1) < -1e-7 * (1 + np.abs(line[:, 1:])), axis=1)
        points, values = points[falls], values[falls]
    return points, values


def _same(f: CountedDensity, peak: _Peak, peaks: list[_Peak]) -> bool:
    """Whether no valley deeper than 1e-3 nats separates a peak from some known one on the straight line."""
    shares = np.linspace(0.04, 0.96, 24)
    lines = ((_profile(f, peak[0][None], mode, shares), min(peak[1], height)) for mode, height, _ in peaks)
    return any(np.all(line > lower - 1e-3) for line, lower in lines)
