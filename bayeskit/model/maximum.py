"""The maximum of a log density on the unconstrained scale, in units of its own.

Each entry of x is measured by a distance over which the log density changes by about a nat, so that nothing here
depends on the units of the data. Where the maximum lies at the end of a support, or a direction is flat, it is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskit.errors import InferenceError
from bayeskit.model.ascent import climb
from bayeskit.model.unconstrained import Objective, Unconstrained, negative_hessian

__all__ = ["FLAT", "Maximum", "maximum", "maximum_near"]

STARTS = 6
CLIMBS, NEWTON = 10, 20  # climbs, each in the units of where the last one ended, and Newton steps
END = 30.0  # e⁻³⁰ of a scale, and of a probability: the end of the road
SCAN = np.linspace(-END, END, 41)  # how far apart a climb may begin, along a transformed axis
PROBES = 64  # draws from the prior, which say how far apart starts are
FURTHER = 150.0  # the same for a scale, whose unit nobody knows
FLAT = 1e-5  # nats a unit, below which a slope is none
NIL = (1e-8, 1e-11)  # curvature that counts as none: share of the largest, and of the log density, for rounding
CHANGE = (0.1, 4.0)  # nats over the unit of an entry


@dataclass(frozen=True, eq=False)
class Maximum:
    """A local maximum at x, with the unit of each entry, and what is known around it in these units."""

    x: np.ndarray
    units: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray  # negative, and NaN where the density has none
    far: np.ndarray  # the entries that are at the end of their support

    @property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the negative Hessian, zero where a direction is flat, and eigenvectors."""
        curvature, axes = np.linalg.eigh(self.hessian)
        nil = NIL[0] * np.max(np.abs(curvature)) + NIL[1] * (1 + abs(self.value))
        return np.where(np.abs(curvature) <= nil, 0.0, curvature), axes

    @property
    def regular(self) -> bool:
        """Whether no entry is at the end of its support, and the density bends upward in no direction."""
        return not np.any(self.far) and bool(np.all(np.isfinite(self.hessian)) and np.all(self.spectrum[0] >= 0))

    @property
    def converged(self) -> bool:
        """Whether it is a maximum, up to what is left of the slope."""
        return self.regular and bool(np.max(np.abs(self.gradient)) < FLAT * (1 + abs(self.value) * 1e-3))

    def log_gauss(self) -> float:
        """log ∫ exp(−½ xᵀHx) dx."""
        size = 0.5 * len(self.x) * np.log(2 * np.pi)
        return float(size - 0.5 * np.linalg.slogdet(self.hessian)[1] + np.sum(np.log(self.units)))


def maximum(objective: Objective, space: Unconstrained, rng: np.random.Generator) -> Maximum:
    """The best of several local maxima; an InferenceError if no start has a finite density."""
    first = np.nan_to_num(space.start, nan=0.0, posinf=0.0, neginf=0.0)
    units = _units(objective, first, np.ones(space.size), space)
    apart = np.ones(space.size)
    if not np.all(space.bounded):
        drawn = space.prior_draws(PROBES, int(rng.integers(2**31)))
        wide = np.ptp(np.quantile(drawn, [0.25, 0.75], axis=0), axis=0) if len(drawn) else 10 * units
        apart = np.where(space.bounded, apart, wide)
    starts = [first + 1.5 * apart * rng.normal(size=space.size) for _ in range(STARTS - 1)]
    scanned = _along_axes(objective, first, space)
    starts = [first, *([] if scanned is first else [scanned]), *starts]  # no climb is made twice
    tops = [_top(objective, start, units, space) for start in starts if np.isfinite(objective(start)[0])]
    if not tops:
        raise InferenceError("the log density is not finite at any starting point; give the variables an initval")
    return maximum_near(objective, space, max(tops, key=lambda top: objective(top)[0]), units)


def maximum_near(objective: Objective, space: Unconstrained, x: np.ndarray, units: np.ndarray) -> Maximum:
    """The local maximum that a climb from x ends at, polished by Newton steps."""
    for _ in range(CLIMBS):
        units, before = _units(objective, x, units, space), objective(x)[0]
        x = _top(objective, x, units, space)
        if not objective(x)[0] > before + FLAT:
            break
    x, far = _to_the_end(objective, space, x, units)
    top = _around(objective, x, units, far)
    for _ in range(0 if np.any(far) else NEWTON):
        if np.max(np.abs(top.gradient)) < 1e-10 or not np.all(np.isfinite(top.hessian)):
            break
        # In every eigendirection by its own curvature: along a flat one there is no slope either.
        curvature, axes = top.spectrum
        step = axes @ ((axes.T @ top.gradient) / np.where(curvature == 0, 1.0, np.abs(curvature)))
        tried = _around(objective, top.x + units * step, units, far)
        if not tried.value >= top.value - 1e-9 * (1 + abs(top.value)):
            break
        top = tried
    return top


def _along_axes(objective: Objective, start: np.ndarray, space: Unconstrained) -> np.ndarray:
    """The highest of the points that are far apart along each transformed axis, one axis after the other.

    A prior HalfNormal(1e4) starts a climb at log τ = 9. If the data say 0.3, the first step from there leads far past
    it, to where τ is as good as zero and nothing has a slope. Where the prior's mean overflows, it says nothing.
    """
    best, value = start, objective(start)[0]
    for j in np.flatnonzero(space.bounded):
        for place in (*(start[j] + SCAN), *SCAN):
            tried = best.copy()
            tried[j] = place
            if (found := objective(tried)[0]) > value:
                best, value = tried, found
    return best


def _around(objective: Objective, x: np.ndarray, units: np.ndarray, far: np.ndarray) -> Maximum:
    local = _in_units(objective, x, units)
    return Maximum(x, units, *local(0 * x), negative_hessian(local, 0 * x), far)


def _in_units(objective: Objective, centre: np.ndarray, units: np.ndarray) -> Objective:
    def moved(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(centre + units * z)
        return value, gradient * units

    return moved


def _reach(space: Unconstrained) -> np.ndarray:
    """How far out the end of each entry's support is, on the unconstrained scale."""
    reach = np.where(space.bounded, END, np.inf)
    for name, block in space.slices.items():
        if space.elementwise(name) and not np.all(np.isfinite(space.ends[name])):
            reach[block] = FURTHER
    return reach


def _units(objective: Objective, x: np.ndarray, units: np.ndarray, space: Unconstrained) -> np.ndarray:
    """A distance for each entry of x over which the objective changes by about a nat; at most one on a log scale."""
    value, units = objective(x)[0], units.copy()
    for j, direction in enumerate(np.eye(len(x))):
        for _ in range(60):
            moved = [objective(x + sign * units[j] * direction)[0] for sign in (-1, 1)]
            with np.errstate(invalid="ignore"):  # a start may have no density, nor may what is next to it
                change = float(np.nan_to_num(np.max(np.abs(np.array(moved) - value)), nan=np.inf))
            if CHANGE[0] <= change <= CHANGE[1] or (change < CHANGE[0] and space.bounded[j] and units[j] >= 1):
                break
            units[j] *= np.clip((change + 1e-300) ** -0.5, 1e-3, 1e3)
        if space.bounded[j] or not 1e-200 < units[j] < 1e200:
            units[j] = np.clip(units[j], 1e-12, 1.0)
    return units


def _top(objective: Objective, start: np.ndarray, units: np.ndarray, space: Unconstrained) -> np.ndarray:
    """Where a climb from a start ends."""
    reach = _reach(space)
    bounds = list(zip((-reach - start) / units, (reach - start) / units, strict=True))
    return start + units * climb(_in_units(objective, start, units), 0 * start, bounds=bounds)[0]


def _to_the_end(
    objective: Objective, space: Unconstrained, x: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move entries along which the objective does not fall to the end of their support, and say which."""
    value, moved, reach = objective(x)[0], x.copy(), _reach(space)
    far = np.abs(x) >= reach * (1 - 1e-9)
    away = np.where(space.bounded, 1.0, units)
    for j in range(len(x)):
        for sign in (-1.0, 1.0):
            tried = moved.copy()
            tried[j] += 5 * sign * away[j]
            if objective(tried)[0] > value - FLAT * (1 + 1e-3 * abs(value)):
                moved[j] = np.clip(moved[j] + sign * END * away[j], -reach[j], reach[j])
                far[j] = True
                break
    return (moved, far) if objective(moved)[0] >= value - 1e-3 else (x, far)
