"""A climb to a local maximum of a log density, by its exact gradient (L-BFGS-B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
from scipy import optimize

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import inline
from bayeskit.model.transforms import Natural
from bayeskit.model.unconstrained import Objective
from bayeskit.types import Graph

__all__ = ["climb", "value_and_gradient"]

DEEP = 1e300  # what a log density that is not finite counts as: the line search steps back from it, but not from −∞


def value_and_gradient(
    natural: Natural, graph: Graph, others: Sequence[Graph] = ()
) -> Callable[..., tuple[float, np.ndarray]]:
    """A graph in the value variables, and in others, as a function of x and these; −∞ where it or a slope is none."""
    gradient: Any = pytensor.grad(graph, natural.variables, disconnected_inputs="ignore")
    function = compile_small([*natural.variables, *others], inline([graph, *gradient]))

    def evaluate(x: np.ndarray, *values: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            with silently():
                value, *slopes = function(*natural.arguments(x), *values)
        except (ValueError, np.linalg.LinAlgError, AssertionError):
            return -np.inf, np.zeros_like(x)
        slope = np.concatenate([np.ravel(s) for s in slopes])
        return (float(value), slope) if np.all(np.isfinite(slope)) else (-np.inf, np.zeros_like(x))

    return evaluate


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
