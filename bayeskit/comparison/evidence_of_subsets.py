r"""The evidence of any subset of the observations of a model; scores of forecasts are ratios of such evidences.

.. math:: \log p(y_A \mid y_B) = \log Z(A \cup B) - \log Z(B)

The model with weights is proved to be the model: with all of them one it has the log evidence that was there before,
to what both may be wrong by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bayeskit.comparison.posteriors_of_subsets import DRAWS, NoSubsetAnswer, SubsetPosteriors
from bayeskit.errors import CertificateError, ModelError
from bayeskit.results.log_evidence import LogEvidence, error_of_sum
from bayeskit.results.records import Posterior

__all__ = ["SubsetEvidence", "difference", "evidences_of_subsets", "require_paired"]

ROUNDING = 1e-9  # nats by which the two evidences may differ beside their errors, for each nat of them


class SubsetEvidence(SubsetPosteriors):
    """log Z of subsets of the observations of a posterior's model, each computed once."""

    def __init__(self, name: str, posterior: Posterior, unit: str | None, random_seed: int) -> None:
        whole = posterior.log_evidence
        if not math.isfinite(whole.value):
            raise ModelError(f"{name}: its log evidence is {whole}, so that of no subset is known")
        super().__init__(name, posterior, unit, random_seed)
        everything = np.ones(len(self), dtype=bool)
        nothing = LogEvidence(0.0, 0.0, whole.label, convention=whole.convention)
        self._known: dict[bytes, LogEvidence] = {} if self.shared else {_key(~everything): nothing}
        if whole.label == "estimated":
            self.require_same_density()
        else:
            self._require_the_same(self(everything))
        self._known[_key(everything)] = whole

    def __call__(self, kept: np.ndarray) -> LogEvidence:
        """The log evidence of the observations of which ``kept`` is true."""
        key = _key(kept)
        if key not in self._known:
            sampled = self.posterior.log_evidence.label == "estimated"
            found = self.given(kept, DRAWS if sampled else 0, self.posterior.method).log_evidence
            if not math.isfinite(found.value):
                given = f"{self.name}: given {int(kept.sum())} of {len(self)} observations"
                raise NoSubsetAnswer(given, f"its log evidence is {found}")
            # What the integral is taken over is that of the whole; the weights are no Potentials of the user's.
            self._known[key] = replace(found, convention=self.posterior.log_evidence.convention)
        return self._known[key]

    def _require_the_same(self, found: LogEvidence) -> None:
        whole = self.posterior.log_evidence
        if abs(found.value - whole.value) > found.error + whole.error + ROUNDING * max(1.0, abs(whole.value)):
            by = f"{found.value:.10g} where the model has {whole.value:.10g}"
            raise CertificateError(
                f"{self.name}: with every observation counted once, the weighted model has the log evidence {by}; "
                "its subsets are not proved, please report the model"
            )


def _key(kept: np.ndarray) -> bytes:
    return np.packbits(kept).tobytes()


def evidences_of_subsets(
    posteriors: Mapping[str, Posterior], unit: str | None, random_seed: int
) -> tuple[list[SubsetEvidence], list[str]]:
    """Of posteriors of the same data, whose observations are the same ones; and what a reader must know."""
    found = [SubsetEvidence(name, posterior, unit, random_seed) for name, posterior in posteriors.items()]
    require_paired(found)
    conventions = {e.name: e.posterior.log_evidence.convention for e in found}
    if len(found) > 1 and len({*conventions.values()}) == 1 and (same := next(iter(conventions.values()))):
        return found, [f"every log evidence is {same}"]
    return found, [f"{name}: the evidence is {convention}" for name, convention in conventions.items() if convention]


def difference(a: LogEvidence, b: LogEvidence) -> tuple[float, float]:
    """log Z(a) − log Z(b) and its error."""
    errors, sampled = np.array([a.error, b.error]), np.array([e.label == "estimated" for e in (a, b)])
    return a.value - b.value, error_of_sum(errors, sampled, np.array([1.0, -1.0]))


def require_paired(subsets: Sequence[SubsetPosteriors]) -> None:
    """Refuse models whose observations are not the same ones, in the same order."""
    first, *others = subsets
    for other in others:
        a, b = first.observations, other.observations
        if len(a) != len(b) or a.unit != b.unit:
            counts = f"{len(a)} observations ({a.unit}) in {first.name}, {len(b)} ({b.unit}) in {other.name}"
            raise ModelError(f"{counts}: name the dim that counts them in all models, observations='row'")
        if len(a.members) > 1 and list(a.members) != list(b.members):
            names = f"{', '.join(a.members)} in {first.name}, {', '.join(b.members)} in {other.name}"
            raise ModelError(f"the observed variables are {names}: give them the same names, in the same order")
