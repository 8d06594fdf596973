r"""Which variables are a latent Gaussian: jointly Normal given the rest before data are seen, whatever the data are.

The log volatilities of a series, the values of a Gaussian process at a hundred places, the effects of groups. Their own
log densities are jointly quadratic in them, by proof (:mod:`bayeskit.graphs.polynomial_degree`); that of the data is
not.
"""

from __future__ import annotations

from bayeskit.elimination.analysis import Analysis, size_of
from bayeskit.graphs.polynomial_degree import degrees

__all__ = ["latent_gaussian"]


def latent_gaussian(analysis: Analysis) -> tuple[str, ...]:
    """The variables, in the order of the model; the largest are taken first, where not all can be.

    A persistence that multiplies the states of a series is quadratic in them: it is no part of a block with the states.
    """
    joint = analysis.original
    chosen: list[str] = []
    real = [n for n in joint.names if analysis.supports[n].kind == "real"]
    for name in sorted(real, key=lambda n: -size_of(analysis, n)):
        trial = [*chosen, name]
        targets = {joint.values[n]: 1.0 for n in trial}
        priors = [joint.factors[n] for n in joint.names if joint.scopes[n] & {*trial}]
        found = degrees(priors, targets)
        if all(found.get(graph, 0) <= 2 for graph in priors):
            chosen = trial
    return tuple(n for n in joint.names if n in chosen)
