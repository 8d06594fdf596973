"""What a log evidence is off for what a density leaves out: a bound by draws from the posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
from scipy import special

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.matern.bound import bound_of_filters
from bayeskit.model.summed_likelihood import sum_rounding
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["bound_of_left_out", "bound_of_sums"]

DRAWS = 100
FEW = 10


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
        return _log_mean([float(bound(*space.arguments(point))) for point in some])


def bound_of_sums(model: pm.Model, draws: Mapping[str, np.ndarray]) -> float:
    """The same for the rounding of sums over rows, where rows were added up.

    ``draws`` are those of the free variables by name, first axis the draws, of which a few are looked at.
    """
    rounding = sum_rounding(model)
    if rounding is None:
        return 0.0
    bound = compile_small(list(rounding.variables.values()), rounding.graph)
    number = len(next(iter(draws.values())))
    with silently():
        return _log_mean(
            [
                float(bound(*[np.asarray(draws[n][k], v.type.dtype) for n, v in rounding.variables.items()]))
                for k in range(0, number, max(1, number // FEW))
            ]
        )


def _log_mean(bounds: Sequence[float]) -> float:
    """log of the mean of their exponentials."""
    return float(special.logsumexp(bounds) - np.log(len(bounds)))
