"""All submodels in pieces, side by side where there are workers: where each node of a scale takes a sweep of its own.

A piece is the submodels that agree on the first coefficients, 2^15 of them whoever does the work, so that no digit
depends on who does it. Where one sweep serves all nodes, or there are fewer submodels, all is done at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from bayeskit.comparison.subsets.averaging import NodeShare, shares_of_nodes
from bayeskit.comparison.subsets.inclusion_prior import InclusionPrior
from bayeskit.comparison.subsets.model_search import Walk, walk
from bayeskit.comparison.subsets.populations import AllSubsets
from bayeskit.comparison.subsets.scale_integral import Evidences, ScaleIntegral
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.jobs.work import Work

__all__ = ["Submodels"]

TOGETHER = 15  # coefficients that are in or out within a piece: a second or two of work over a hundred nodes


@dataclass(frozen=True, eq=False)
class Submodels:
    """What is asked of the submodels of a linear model, and where the work is done."""

    integral: ScaleIntegral
    prior: InclusionPrior
    work: Work

    def evidences(self) -> Evidences:
        """Of all; NotDefinite or a ModelError where there is none."""
        pieces = self._pieces()
        jobs = {f"evidences {k} of {len(pieces)}": piece for k, piece in enumerate(pieces)}
        done = self.work.results(_evidences_of, self.integral, jobs, "submodels")
        if not pieces:
            return self.integral.log_evidence(AllSubsets(self._size))
        found = [piece for piece in done if piece is not None]
        if len(found) < len(done):
            raise NotDefinite(self._size)
        # The first coefficients are the lowest bits of a submodel's number.
        value, error = (np.stack(of, axis=1).reshape(-1) for of in ([f.value for f in found], [f.error for f in found]))
        return Evidences(value, error, found[0].label)

    def shares(self, average: float) -> list[NodeShare] | None:
        """Of all, by nodes, with log p(y) averaged over them; None where they take no pieces."""
        if not (pieces := self._pieces()):
            return None
        jobs = {f"moments {k} of {len(pieces)}": piece for k, piece in enumerate(pieces)}
        done = self.work.results(_shares_of, (self.integral, self.prior, average), jobs, "moments")
        return [reduce(add, of) for of in zip(*done, strict=True)]

    def walk(self, draws: int, seed: int) -> Walk:
        """A walk over them, which is one job; NotDefinite where it meets a submodel without an evidence."""
        (found,) = self.work.results(
            _walking, (self.integral, self.prior), {f"walk {draws} {seed}": (draws, seed)}, "walk"
        )
        if found is None:
            raise NotDefinite(self._size)
        return found

    @property
    def _size(self) -> int:
        return len(self.prior.log_odds)

    def _pieces(self) -> list[AllSubsets]:
        one_sweep = self._size <= TOGETHER or self.integral.ratios is not None
        return [] if one_sweep else AllSubsets(self._size).branches(TOGETHER)


def _evidences_of(integral: ScaleIntegral) -> Callable[[AllSubsets], Evidences | None]:
    def evidences(piece: AllSubsets) -> Evidences | None:
        try:
            return integral.log_evidence(piece)
        except NotDefinite:  # which another process would call a failure
            return None

    return evidences


def _shares_of(given: tuple[ScaleIntegral, InclusionPrior, float]) -> Callable[[AllSubsets], list[NodeShare]]:
    integral, prior, average = given
    return lambda piece: shares_of_nodes(integral, piece, prior.log(piece) - average)


def _walking(given: tuple[ScaleIntegral, InclusionPrior]) -> Callable[[tuple[int, int]], Walk | None]:
    integral, prior = given

    def walked(job: tuple[int, int]) -> Walk | None:
        draws, seed = job
        try:
            return walk(integral, prior, draws, seed)
        except NotDefinite:
            return None

    return walked
