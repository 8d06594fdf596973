"""A climb to a local maximum of a log density, by its exact gradient (L-BFGS-B)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from bayeskit.graphs.environment import silently
from bayeskit.model.unconstrained import Objective

__all__ = ["climb"]

DEEP = 1e300  # what a log density that is not finite counts as: the line search steps back from it, but not from −∞


def climb(
    objective: Objective,
    start: np.ndarray,
    *,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    steps: int = 15_000,
    scale: float = 1.0,
    **tolerances: float,
) -> tuple[np.ndarray, float]:
    """Where a climb ends, and how high that is.

    The objective is divided by ``scale``: a first slope that is far from one makes the first step far too long. The
    tolerances are ``ftol`` and ``gtol`` of :func:`scipy.optimize.minimize`.
    """

    def descent(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(x)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return DEEP, np.zeros_like(x)
        return -value / scale, -gradient / scale

    options = {"maxiter": steps, **tolerances}
    with silently():
        answer = optimize.minimize(descent, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(answer.x), -float(answer.fun) * scale
