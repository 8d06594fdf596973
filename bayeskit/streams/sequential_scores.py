r"""The score of each chunk of a stream: the ratio of the integrals after it and before it.

.. math:: \log p(y_c \mid y_{1:c-1}) = \log p(y_{1:c}) - \log p(y_{1:c-1})
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from bayeskit.chunks.sums import ChunkSum
from bayeskit.inference.ladder import answer
from bayeskit.results.log_evidence import LogEvidence, sum_of

__all__ = ["SequentialScores"]

PENDING = 200_000_000  # bytes of sums that are kept for scores which nobody asked for yet


@dataclass(eq=False)
class SequentialScores:
    """What was known before and after each chunk: sums, and integrals in their place once one was asked for."""

    names: list[str] = field(default_factory=list)
    before: list[ChunkSum | LogEvidence] = field(default_factory=list)
    after: list[ChunkSum | LogEvidence] = field(default_factory=list)
    unforecast: list[str] = field(default_factory=list)  # why the ratio is no density of a forecast, if it is none

    def copy(self) -> SequentialScores:
        """One to go on with that leaves this one as it is."""
        return SequentialScores(list(self.names), list(self.before), list(self.after), list(self.unforecast))

    def add(self, name: str, before: ChunkSum | None, after: ChunkSum, unforecast: str) -> None:
        """Another chunk; without ``before``, the sum that there was after the last one."""
        self.before.append(self.after[-1] if before is None else before)
        self.after.append(after)
        self.names.append(name)
        self.unforecast.append(unforecast)
        if sum(s.size for s in self.after if isinstance(s, ChunkSum)) > PENDING:
            for held in (self.before, self.after):
                for k in range(len(held)):
                    self._integral(held, k)

    def score(self, place: int) -> LogEvidence:
        """Of one chunk; NaN with the reason where it was not forecast."""
        if why := self.unforecast[place]:
            return LogEvidence(math.nan, math.inf, "estimated", f"it was not forecast, for {why}")
        before, after = self._integral(self.before, place), self._integral(self.after, place)
        return sum_of([after, replace(before, value=-before.value)])

    def all(self) -> list[LogEvidence]:
        """Of every chunk."""
        return [self.score(k) for k in range(len(self.names))]

    @property
    def last_integral(self) -> LogEvidence:
        """After the last chunk."""
        return self._integral(self.after, -1)

    def _integral(self, held: list[ChunkSum | LogEvidence], place: int) -> LogEvidence:
        found = held[place]
        if isinstance(found, LogEvidence):
            return found
        if found.template is None:
            value = LogEvidence(0.0, 0.0, "exact")
        else:
            value = answer(found.model(), random_seed=0).log_evidence
        for both in (self.before, self.after):
            both[:] = [value if one is found else one for one in both]
        return value
