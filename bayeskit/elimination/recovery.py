"""Exact draws of the eliminated variables given what remains, and their conditional log density.

Last eliminated first: score families' variables from their own distribution, then Gaussian blocks

    δ | φ, y ~ Normal(Λ⁻¹η, Λ⁻¹),   θ = θ₀ + δ,

solved by the strategy of the block (:mod:`bayeskit.gaussian.strategies`), then variables drawn forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from bayeskit.elimination.ancestral import draw_ancestral
from bayeskit.elimination.collapsed_density import Collapsed
from bayeskit.elimination.states_of_plan import state_recovery
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.conditional import Conditional
from bayeskit.gaussian.strategies import strategy_of
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import over_draws
from bayeskit.types import Draws

__all__ = ["Recovery"]

MARGINALS_LIMIT = 100_000_000  # numbers in all the matrices that moments take


@dataclass(frozen=True, eq=False)
class Recovery:
    """The conditional distribution of everything eliminated given what remains."""

    collapsed: Collapsed

    def draw(self, remaining: Mapping[str, np.ndarray], rng: np.random.Generator, *, leaves: bool = True) -> Draws:
        """One draw of every variable for each draw of the remaining ones.

        Parameters
        ----------
        remaining : mapping of str to array
            Draws of φ on its own support, first axis the draws.
        rng : numpy.random.Generator
        leaves : bool
            Whether the variables that nothing depends on, and finite ones that were summed out, are drawn too.
        """
        values: Draws = {n: np.asarray(v) for n, v in remaining.items()}
        number = len(next(iter(values.values())))
        for position in reversed(range(len(self.collapsed.scales))):
            solved = self.collapsed.scales[position]
            parameters = self._parameters(position, values)
            values[solved.scale.name] = solved.scale.family.draw(parameters, rng, 1)[0]
        for position, (block, _) in enumerate(self.collapsed.blocks):
            values |= _split(block, self.conditionals[position].draw(self._results(position, values), rng))
        if leaves:
            for name, states in state_recovery(self.collapsed.analysis).items():
                values[name] = states.draw(values, number, rng)
            values |= draw_ancestral(self.collapsed.analysis, values, rng, number)
        return {n: values[n] for n in self.collapsed.analysis.original.names if n in values}

    def log_density(self, point: Mapping[str, np.ndarray]) -> float:
        """log p(eliminated | remaining, y) at one point, without the variables drawn forward."""
        one = {n: np.asarray(v)[None] for n, v in point.items()}
        total = 0.0
        for position, solved in enumerate(self.collapsed.scales):
            parameters = {k: v[0] for k, v in self._parameters(position, one).items()}
            total += float(np.sum(solved.scale.family.log_density(parameters, np.asarray(point[solved.scale.name]))))
        for position, (block, _) in enumerate(self.collapsed.blocks):
            theta = np.concatenate([np.ravel(point[n]) for n in block.names])
            total += self.conditionals[position].log_density(self._results(position, one), theta)
        return total

    def marginals(self, remaining: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """For each variable with a closed-form marginal given φ, its frozen distribution, first axis the values of φ.

        A Gaussian block that a score family scales has none here, nor has a block too large for a stack of matrices.
        """
        values: Draws = {n: np.asarray(v) for n, v in remaining.items()}
        number = len(next(iter(values.values())))
        found: dict[str, Any] = {}
        scaled = {s.scale.name for s in self.collapsed.scales}
        for position, solved in enumerate(self.collapsed.scales):
            found[solved.scale.name] = solved.scale.family.frozen(self._parameters(position, values))
        for position, (block, _) in enumerate(self.collapsed.blocks):
            outside = set().union(*[self.collapsed.analysis.joint.scopes[f] for f in block.factors])
            conditional = self.conditionals[position]
            if outside & scaled or number * conditional.entries > MARGINALS_LIMIT:
                continue
            mean, sd = conditional.moments(self._results(position, values))
            means, sds = _split(block, mean), _split(block, sd)
            found |= {n: stats.norm(means[n], sds[n]) for n in block.names}
        return found

    @cached_property
    def conditionals(self) -> list[Conditional]:
        """Of each block."""
        return [strategy_of(form).conditional(form) for _, form in self.collapsed.blocks]

    @cached_property
    def _functions(self) -> tuple[list[Any], list[Any]]:
        inputs, shapes = self.collapsed.analysis.joint.values, self.collapsed.analysis.shapes
        scales = [list(s.parameters.values()) for s in self.collapsed.scales]
        blocks = [c.graphs for c in self.conditionals]
        together = [
            [over_draws(inline(graphs), inputs, unknown=shapes) for graphs in part] for part in (scales, blocks)
        ]
        return together[0], together[1]

    def _parameters(self, position: int, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = self._functions[0][position](values, len(next(iter(values.values()))))
        return dict(zip(self.collapsed.scales[position].parameters, results, strict=True))

    def _results(self, position: int, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What of a block depends on φ, for each draw."""
        results: list[np.ndarray] = self._functions[1][position](values, len(next(iter(values.values()))))
        return results


def _split(block: GaussianBlock, stacked: np.ndarray) -> Draws:
    result, start = {}, 0
    for name in block.names:
        stop = start + int(np.prod(block.shapes[name], dtype=int))
        result[name] = stacked[:, start:stop].reshape(len(stacked), *block.shapes[name])
        start = stop
    return result
