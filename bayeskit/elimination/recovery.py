"""Exact draws of the eliminated variables given what remains, and their conditional log density.

Last eliminated first: score families' variables from their own distribution, then Gaussian blocks, each by its strategy
(:mod:`bayeskit.gaussian.strategies`), then finite variables that were summed out, then variables that nothing depends
on, drawn forward from their own distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.collapsed_density import Collapsed
from bayeskit.finite.conditional import StateRecovery
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.strategies import Conditional, strategy_of
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import draw_given, over_draws
from bayeskit.plates.conditional import PlateRecovery
from bayeskit.types import Draws, Graph

__all__ = ["Recovery", "draw_the_rest", "needed_for", "state_marginals", "state_recovery"]

AT_ONCE = 5_000_000  # numbers that what is drawn together may depend on: a matrix for each draw
MARGINALS_LIMIT = 100_000_000  # numbers in all the matrices that moments take


def state_recovery(analysis: Analysis) -> dict[str, StateRecovery]:
    """For each variable summed out, the way back; in the order in which they come back."""
    inputs, shapes = analysis.original.values, analysis.shapes
    return {s.name: StateRecovery(s, inputs, shapes) for s in reversed(analysis.summed)}


def needed_for(analysis: Analysis, name: str) -> set[str]:
    """The variables that a variable summed out depends on given the data: those in the same factors, but for leaves."""
    order, leaves = [s.name for s in analysis.summed], set(analysis.ancestral)
    # What was summed out before it has no part in its terms.
    reached = set(order[: order.index(name) + 1])
    if analysis.given_states is not None:
        return set(analysis.given_states.remaining) - reached
    scopes = [s for s in analysis.original.scopes.values() if s & reached and not s & leaves]
    return set().union(*scopes) - reached


def state_marginals(analysis: Analysis, draws: Mapping[str, np.ndarray], weights: np.ndarray) -> dict[str, Any]:
    """The distributions of variables summed out that depend on nothing but these, averaged over weighted draws.

    Not where that takes more numbers than a marginal is worth.
    """
    return {
        name: states.averaged(draws, weights)
        for name, states in state_recovery(analysis).items()
        if needed_for(analysis, name) <= set(draws) and len(weights) * states.size <= MARGINALS_LIMIT
    }


def draw_the_rest(analysis: Analysis, draws: Draws, number: int, rng: np.random.Generator) -> Draws:
    """Some draws with, for each, one of what was integrated entry by entry or summed out, and of the leaves."""
    values = dict(draws)
    for plate in reversed(analysis.plates):
        values[plate.name] = PlateRecovery(plate).draw(values, number, rng)
    for name, states in state_recovery(analysis).items():
        values[name] = states.draw(values, number, rng)
    if analysis.given_states is not None:
        collapsed = analysis.given_states
        values = Recovery(collapsed).draw({n: values[n] for n in collapsed.remaining}, rng, leaves=False)
    if analysis.ancestral:
        values |= draw_given(analysis.joint.model, analysis.ancestral, values, rng, number)
    return {n: values[n] for n in analysis.original.names}


@dataclass(frozen=True, eq=False)
class Recovery:
    """The conditional distribution of everything eliminated given what remains."""

    collapsed: Collapsed

    def draw(self, remaining: Mapping[str, np.ndarray], rng: np.random.Generator, *, leaves: bool = True) -> Draws:
        """One draw of every variable for each draw of the remaining ones on their own support, first axis the draws.

        Without ``leaves``, variables that nothing depends on and those that were summed out are left out.
        """
        values: Draws = {n: np.asarray(v) for n, v in remaining.items()}
        number = len(next(iter(values.values())))
        for scale, _ in reversed(self.collapsed.scales):
            values[scale.name] = scale.family.draw(self._parameters(scale, values), rng, 1)[0]
        for block, conditional in self.conditionals.items():
            parts = self._together(block, conditional, values, number)
            drawn = _one_below_another((conditional.draw(self._at(block, some), rng) for some in parts), number)
            values |= block.theta.split(drawn)
        if leaves:
            return draw_the_rest(self.collapsed.analysis, values, number, rng)
        return {n: values[n] for n in self.collapsed.analysis.original.names if n in values}

    def log_density(self, point: Mapping[str, np.ndarray]) -> float:
        """log p(eliminated | remaining, y) at one point, without the variables drawn forward."""
        one = {n: np.asarray(v)[None] for n, v in point.items()}
        total = 0.0
        for scale, _ in self.collapsed.scales:
            parameters = {k: v[0] for k, v in self._parameters(scale, one).items()}
            total += float(np.sum(scale.family.log_density(parameters, np.asarray(point[scale.name]))))
        for block, conditional in self.conditionals.items():
            total += conditional.log_density(self._at(block, one), block.theta.ravel(point))
        return total

    def marginals(self, remaining: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """For each variable with a closed-form marginal given φ, its frozen distribution, first axis the values of φ.

        A Gaussian block that a score family scales has none here, nor has a block too large for a stack of matrices.
        """
        values: Draws = {n: np.asarray(v) for n, v in remaining.items()}
        number = len(next(iter(values.values())))
        found: dict[str, Any] = {s.name: s.family.frozen(self._parameters(s, values)) for s, _ in self.collapsed.scales}
        scaled = set(found)
        for block, conditional in self.conditionals.items():
            outside = set().union(*[self.collapsed.analysis.joint.scopes[f] for f in block.factors])
            if outside & scaled or number * conditional.entries > MARGINALS_LIMIT:
                continue
            mean, sd = conditional.moments(self._at(block, values))
            means, sds = block.theta.split(mean), block.theta.split(sd)
            found |= {n: stats.norm(means[n], sds[n]) for n in block.names}
        return found

    @cached_property
    def conditionals(self) -> dict[GaussianBlock, Conditional]:
        """Of each block."""
        return {block: strategy_of(form).conditional(form) for block, form in self.collapsed.blocks}

    @cached_property
    def _functions(self) -> dict[Scale | GaussianBlock, Any]:
        """Of each scale its parameters, of each block what depends on φ, as functions of draws."""
        inputs, shapes = self.collapsed.analysis.joint.values, self.collapsed.analysis.shapes
        graphs: dict[Any, list[Graph]] = {scale: list(found.values()) for scale, found in self.collapsed.scales}
        graphs |= {block: conditional.graphs for block, conditional in self.conditionals.items()}
        return {of: over_draws(inline(each), inputs, unknown=shapes) for of, each in graphs.items()}

    def _at(self, of: Scale | GaussianBlock, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        results: list[np.ndarray] = self._functions[of](values, len(next(iter(values.values()))))
        return results

    def _together(self, block: GaussianBlock, conditional: Conditional, values: Draws, number: int) -> Iterator[Draws]:
        """The draws in parts for which no more than so many numbers depend on φ."""
        step = number
        if number * conditional.entries > AT_ONCE:
            one = self._at(block, {n: v[:1] for n, v in values.items()})
            step = max(1, AT_ONCE // sum(a.size for a in one))
        for first in range(0, number, step):
            yield {n: v[first : first + step] for n, v in values.items()}

    def _parameters(self, scale: Scale, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(dict(self.collapsed.scales)[scale], self._at(scale, values), strict=True))


def _one_below_another(parts: Iterator[np.ndarray], rows: int) -> np.ndarray:
    """Arrays as one of so many rows, without holding all of them twice."""
    part = next(parts)
    if len(part) == rows:
        return part
    whole, done = np.empty((rows, *part.shape[1:])), len(part)
    whole[:done] = part
    for part in parts:  # under one name, so that the one before is not held
        whole[done : done + len(part)] = part
        done += len(part)
    return whole
