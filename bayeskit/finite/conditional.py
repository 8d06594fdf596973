r"""What a sum over finite variables leaves behind: p(z | φ, y), its draws and its probabilities.

The terms of the sum (:mod:`bayeskit.finite.sum_out`) are log p(y, z, φ) up to a constant in z. Variables summed out
last come back first, as they do not depend on those summed out before them:

.. math:: p(z_1, z_2 \mid \phi, y) = p(z_1 \mid \phi, y) \, p(z_2 \mid z_1, \phi, y)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import special

from bayeskit.errors import ModelError
from bayeskit.finite import hmm
from bayeskit.finite.discrete_distribution import FiniteDensity, draw_indices
from bayeskit.finite.sum_out import Summed
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import over_draws
from bayeskit.types import Graph

__all__ = ["StateRecovery"]

BATCH = 4_000_000  # numbers in the terms of a sum, for as many draws as are evaluated at once


@dataclass(frozen=True, eq=False)
class StateRecovery:
    """The conditional distribution of one finite variable given everything that its sum depends on.

    ``inputs`` are the values of all latent variables, ``shapes`` theirs.
    """

    summed: Summed
    inputs: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def size(self) -> int:
        """How many numbers the terms at one draw are, at most."""
        return len(self.summed.values) * max(1, int(np.prod(self.summed.shape, dtype=int)))

    @property
    def states(self) -> np.ndarray:
        """The values that an entry may have, in increasing order."""
        return np.unique(self.summed.values)

    @cached_property
    def graphs(self) -> list[Graph]:
        """The terms, and the parameters of a chain."""
        parts = [self.summed.table, self.summed.log_initial, self.summed.transitions]
        return inline([pt.as_tensor_variable(g) for g in parts if g is not None])

    @cached_property
    def _function(self) -> Any:
        return over_draws(self.graphs, self.inputs, unknown=self.shapes)

    def terms(self, draws: Mapping[str, np.ndarray], number: int) -> Iterator[tuple[slice, list[np.ndarray]]]:
        """The terms at each of ``number`` draws of what the sum depends on, some at a time; first axis the draws."""
        step = max(1, BATCH // self.size)
        for start in range(0, number, step):
            rows = slice(start, min(start + step, number))
            table, *chain = self._function({n: v[rows] for n, v in draws.items()}, rows.stop - rows.start)
            yield rows, [table, *(self._by_sequence(c, core) for c, core in zip(chain, (1, 3), strict=False))]

    def _by_sequence(self, values: np.ndarray, core: int) -> np.ndarray:
        """Parameters of a chain with an axis for each axis of the sequences, which may share them."""
        missing = 1 + len(self.summed.shape[:-1]) + core - values.ndim
        return values.reshape(len(values), *[1] * missing, *values.shape[1:])

    def draw(self, draws: Mapping[str, np.ndarray], number: int, rng: np.random.Generator) -> np.ndarray:
        """One value of the variable for each draw of what its sum depends on."""
        parts = []
        for _, (table, *chain) in self.terms(draws, number):
            if self.summed.kind == "chain":
                initial, transition = chain
                states = hmm.draw_states(initial, transition, table, rng)
            else:
                states = draw_indices(np.moveaxis(special.softmax(table, axis=1), 1, -1), rng)
            parts.append(self.summed.values[states])
        return np.concatenate(parts)

    def log_probability(self, point: Mapping[str, np.ndarray]) -> float:
        """log p(z | rest) at one point."""
        ((_, (table, *chain)),) = self.terms({n: np.asarray(v)[None] for n, v in point.items()}, 1)
        value = np.asarray(point[self.summed.name])
        if self.summed.kind == "joint":
            index = int(np.flatnonzero([np.array_equal(v, value) for v in self.summed.values])[0])
            return float(special.log_softmax(table[0])[index])
        states = np.searchsorted(self.summed.values, value)
        if self.summed.kind == "independent":
            return float(np.sum(np.take_along_axis(special.log_softmax(table[0], axis=0), states[None], axis=0)))
        initial, transition = (c[0] for c in chain)
        evidence = hmm.log_evidence(initial, transition, table[0])
        taken = np.take_along_axis(table[0], states[..., None], axis=-1)[..., 0].sum(axis=-1)
        taken = taken + np.take_along_axis(initial, states[..., :1], axis=-1)[..., 0]
        rows = np.take_along_axis(transition, states[..., :-1, None, None], axis=-2)[..., 0, :]
        steps = np.take_along_axis(rows, states[..., 1:, None], axis=-1)[..., 0].sum(axis=-1)
        return float(np.sum(taken + steps - evidence))

    def probabilities(self, draws: Mapping[str, np.ndarray], number: int) -> Iterator[tuple[slice, np.ndarray]]:
        """p(z entry = k | rest) for each draw and state, some draws at a time: (draws, *shape, K)."""
        for rows, (table, *chain) in self.terms(draws, number):
            if self.summed.kind == "chain":
                initial, transition = chain
                yield rows, hmm.smooth_states(initial, transition, table)
            elif self.summed.kind == "joint":
                is_in = self.summed.values[..., None] == self.states
                yield rows, np.tensordot(special.softmax(table, axis=1), is_in, axes=(1, 0))
            else:
                yield rows, np.moveaxis(special.softmax(table, axis=1), 1, -1)

    def averaged(self, draws: Mapping[str, np.ndarray], weights: np.ndarray) -> FiniteDensity:
        """p(z entry = k), averaged over weighted draws of the rest."""
        parts = (np.tensordot(weights[rows], p, axes=(0, 0)) for rows, p in self.probabilities(draws, len(weights)))
        return FiniteDensity(self.states, np.sum(list(parts), axis=0))

    def require_steady(self) -> None:
        """Refuse to look beyond the end of a chain of which every step has transitions of its own."""
        if self.summed.time_varying:
            name = self.summed.name
            raise ModelError(f"the transitions of {name!r} vary with time: those after the last step are not known")
