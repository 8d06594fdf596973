r"""Which variables are a latent Gaussian: jointly Normal given the rest before data are seen, whatever the data are.

The log volatilities of a series, the values of a Gaussian process at a hundred places, the effects of groups. Their own
log densities are jointly quadratic in them, by proof (:mod:`bayeskit.graphs.polynomial_degree`); that of the data is
not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort

from bayeskit.elimination.analysis import Analysis, size_of
from bayeskit.graphs.operations import exponents
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.model.log_joint import LogJoint

__all__ = ["latent_gaussian"]


def latent_gaussian(analysis: Analysis) -> tuple[str, ...]:
    """The variables, in the order of the model; the largest are taken first, where not all can be.

    A persistence that multiplies the states of a series is quadratic in them: it is no part of a block with the states.
    Nor is the mean of returns with their log volatilities, though either is Normal beforehand: the density of the data
    is not log-concave in both, (y − m)² exp(−h), and has no approximation that could be trusted.

    Where every variable is one, the smallest is none: of abilities and difficulties of known scales, say, one is to be
    given when the other is approximated.
    """
    joint = analysis.original
    chosen: list[str] = []
    real = [n for n in joint.names if analysis.supports[n].kind == "real"]
    for name in sorted(real, key=lambda n: -size_of(analysis, n)):
        trial = [*chosen, name]
        targets = {joint.values[n]: 1.0 for n in trial}
        priors = [joint.factors[n] for n in joint.names if joint.scopes[n] & {*trial}]
        found = degrees(priors, targets)
        if all(found.get(graph, 0) <= 2 for graph in priors) and not _multiplied(joint, trial):
            chosen = trial
    if len(chosen) > 1 and len(chosen) == len(joint.names):
        chosen.pop()
    return tuple(n for n in joint.names if n in chosen)


def _multiplied(joint: LogJoint, names: Sequence[str]) -> bool:
    """Whether data depend on products of functions of different variables among them that are not both linear."""
    values = {joint.values[n] for n in names}
    graphs = [g for f, g in joint.factors.items() if f not in joint.values and joint.scopes[f] & {*names}]
    found = degrees(graphs, dict.fromkeys(values, 1.0))

    def of(variable: Variable) -> frozenset[Variable]:
        return joint.dependence.get(variable, frozenset()) & values

    for node in toposort(graphs):
        if found.get(node.outputs[0], 0) == math.inf and exponents(node) is not None:
            inside = [of(i) for i in node.inputs if of(i)]
            if any(one != inside[0] for one in inside):
                return True
    return False
