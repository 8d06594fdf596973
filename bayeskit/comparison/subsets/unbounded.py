"""A scalar variable as a function of u on the whole line, and the way up a log density along it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy import optimize, special

from bayeskit.errors import ModelError
from bayeskit.model.support import support_without_transform
from bayeskit.model.transforms import Natural

__all__ = ["Line", "line_of", "peak", "uphill"]

STEP, FAR = 4.0, 80.0  # of the walk to the mode, and where it gives up


@dataclass(frozen=True)
class Line:
    """φ = u on the real line, low + eᵘ above one end, low + (high − low) / (1 + e⁻ᵘ) between two."""

    name: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def bounded(self) -> bool:
        """Whether there is an end."""
        return math.isfinite(self.low)

    def value(self, u: float) -> np.ndarray:
        """φ at u."""
        if not self.bounded:
            return np.asarray(float(u))
        if math.isfinite(self.high):
            return np.asarray(self.low + (self.high - self.low) * float(special.expit(u)))
        return np.asarray(self.low + math.exp(u))

    def log_slope(self, u: float) -> float:
        """log dφ/du."""
        if not self.bounded:
            return 0.0
        if math.isfinite(self.high):
            return math.log(self.high - self.low) + float(special.log_expit(u) + special.log_expit(-u))
        return float(u)


def line_of(model: pm.Model, name: str) -> Line:
    """Of a scalar variable; a ModelError where its support is no interval, or none that is known."""
    natural = Natural(model, [name])
    if natural.transform(name) is None:
        rv = model[name]
        if support_without_transform(rv).kind == "real" or type(rv.owner.op).__name__ == "FlatRV":
            return Line(name)
    elif natural.elementwise(name):
        low, high = (float(end) for end in natural.ends[name])
        if math.isfinite(low):
            return Line(name, low, high)
    raise ModelError(f"select cannot integrate over {name!r}: its support is no interval that it knows")


def uphill(log_density: Callable[[float], float], start: float) -> float:
    """Within a unit of where a density on the line is highest; NaN where it is so at the end of all numbers."""
    best, value = start, log_density(start)
    for step in (STEP, 1.0):
        for sign in (1.0, -1.0):
            while (higher := log_density(best + sign * step)) > value:
                best, value = best + sign * step, higher
                if abs(best) > FAR:
                    return math.nan
    return best if math.isfinite(value) else math.nan


def peak(log_density: Callable[[float], float], near: float) -> tuple[float, float]:
    """Where a density is highest within a unit or so, and how far it takes to fall by half a nat, at least."""
    bounds = (near - 1.0, near + 1.0)
    options = {"xatol": 0.02}
    found = optimize.minimize_scalar(lambda u: -log_density(u), bounds=bounds, method="bounded", options=options)
    best, top, nearest = float(found.x), -float(found.fun), 8.0
    for sign in (-1.0, 1.0):
        step = 0.01
        while step < 8 and log_density(best + sign * step) > top - 0.5:
            step *= 1.7
        nearest = min(nearest, step)
    return best, nearest
