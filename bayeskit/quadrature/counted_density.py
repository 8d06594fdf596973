"""A log density that counts how often it is asked, and why quadrature over it may end without an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["CountedDensity", "NotIntegrable", "SlowDecay", "safe"]


FAR = 1e4  # nats
WAY = 0.5 ** np.arange(1, 12)[:, None, None]


class NotIntegrable(Exception):
    """Why quadrature does not answer; one sentence for people, and the modes (rows) where it knows of several.

    Who knows what the numbers are gives the modes by the names of variables, too.
    """

    modes: np.ndarray | None = None
    named_modes: tuple[Mapping[str, np.ndarray], ...] = ()
    heavy_tails: bool = False


class SlowDecay(NotIntegrable):
    """The density falls off more slowly than quadrature can follow; a sampler may not reach its tails either."""

    heavy_tails: bool = True


class CountedDensity:
    """Counts evaluations of a vectorised log density and stops at the budget."""

    def __init__(self, log_density: Callable[[np.ndarray], np.ndarray], budget: int):
        self.log_density, self.budget, self.count = log_density, budget, 0
        self.top, self.height = np.zeros(0), -np.inf  # the best point so far, and its value

    def __call__(self, x: np.ndarray) -> np.ndarray:
        value = self.unchecked(x)
        if self.top.size and np.any(far := value == np.inf):
            # 1/0 where sds of 10⁹ and 10 are differences of squares: what rises there has fallen on the way.
            way = self.top + WAY * (x[far] - self.top)
            far[far] = (
                np.fmin.reduce(self.unchecked(way.reshape(-1, x.shape[1])).reshape(way.shape[:2])) < self.height - FAR
            )
            value[far] = -np.inf
        if len(value) and (height := np.max(finite := np.where(np.isfinite(value), value, -np.inf))) > self.height:
            self.top, self.height = x[np.argmax(finite)], height
        if np.any(value == np.inf):
            place = ", ".join(f"{v:.4g}" for v in x[np.argmax(value == np.inf)])
            raise NotIntegrable(f"the density is infinite at ({place})")
        return value

    def unchecked(self, x: np.ndarray) -> np.ndarray:
        """Values that may be infinite."""
        if not len(x):
            return np.empty(0)
        self.require(len(x))
        self.count += len(x)
        with np.errstate(all="ignore"):
            return np.array(self.log_density(x), float).reshape(len(x))

    def require(self, more: int) -> None:
        """NotIntegrable where so many more evaluations are not left."""
        if self.count + more > self.budget:
            raise NotIntegrable(f"the error bound was not met within {self.budget} evaluations of the density")


def safe(values: np.ndarray) -> np.ndarray:
    """Log densities, those that are not a number taken for zero density."""
    return np.where(np.isnan(values), -np.inf, values)
