"""What a log evidence is off for what a density leaves out: a bound by draws from the posterior."""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.matern.bound import bound_of_filters
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["bound_of_left_out"]

DRAWS = 100


def bound_of_left_out(space: Unconstrained, draws: np.ndarray) -> float:
    r"""How much log ∫ f may be off where log f is off by up to B at x: :math:`\log E_{f} e^{B(x)}`.

    Parameters
    ----------
    space : Unconstrained
        The density f.
    draws : array
        Draws from it, of shape (n, k), of which a hundred are looked at.

    Returns
    -------
    float
        In nats; zero where the density leaves nothing out.
    """
    graph = bound_of_filters(space.graph)
    if graph is None:
        return 0.0
    bound = compile_small(space.variables, graph)
    some = draws[:: max(1, len(draws) // DRAWS)]
    with silently():
        found = np.array([float(bound(*space.arguments(point))) for point in some])
    return float(found.max() + np.log(np.mean(np.exp(found - found.max()))))
