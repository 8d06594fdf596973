r"""The evidence of any subset of the observations of a model, from weights of one and zero; scores are its ratios.

.. math:: \log p(y_A \mid y_B) = \log Z(A \cup B) - \log Z(B)

The model with weights is proved to be the model: with all of them one it has the log evidence that was there before,
to what both may be wrong by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pymc as pm

from bayeskit.comparison.given_models import inferred
from bayeskit.comparison.leave_one_out import require_evidence
from bayeskit.comparison.same_data import require_same_data
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, CertificateError, InferenceError, ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.inference.ladder import answer
from bayeskit.model.observations import Observations, observations_of
from bayeskit.model.separate_observations import require_separate
from bayeskit.model.snapshot import WrittenModel, restored
from bayeskit.model.weighted_likelihood import weighted_likelihood
from bayeskit.results.log_evidence import LogEvidence, error_of_sum
from bayeskit.results.records import Posterior
from bayeskit.terminal import warnings_of

__all__ = ["SubsetEvidence", "difference", "evidences_of_subsets"]

ROUNDING = 1e-9  # nats by which the weighted model may differ from the model beside the errors, for each of its size
LIKELY = 5.0  # standard errors
DRAWS = 4000  # for an estimate


class SubsetEvidence:
    """log Z of subsets of the observations of a posterior's model, each computed once."""

    def __init__(self, name: str, posterior: Posterior, unit: str | None, random_seed: int) -> None:
        if isinstance(posterior.model, WrittenModel):
            raise ModelError(f"{name}: it was loaded without its model: bayeskit.load(path, model=model)")
        if not math.isfinite(posterior.log_evidence.value):
            raise ModelError(f"{name}: its log evidence is {posterior.log_evidence}, so that of no subset is known")
        self.posterior = posterior
        self.name = name
        self._seed = random_seed
        with restored(posterior.snapshot), lightly():
            self._weighted = weighted_likelihood(posterior.model)
            self.observations: Observations = observations_of(posterior.model, self._weighted.shapes, unit)
            require_separate(posterior.model, self.observations)
            self._analysis = analyse(self._weighted.model)
        self._known: dict[bytes, LogEvidence] = {self._key(np.zeros(len(self), dtype=bool)): self._of_nothing}
        everything = np.ones(len(self), dtype=bool)
        self._require_the_same(self(everything))
        self._known[self._key(everything)] = posterior.log_evidence

    def __len__(self) -> int:
        return len(self.observations)

    def __call__(self, kept: np.ndarray) -> LogEvidence:
        """The log evidence of the observations of which ``kept`` is true."""
        key = self._key(kept)
        if key not in self._known:
            self._known[key] = replace(self.answer(kept).log_evidence, convention=self._of_nothing.convention)
        return self._known[key]

    def answer(self, kept: np.ndarray, draws: int = 0) -> Posterior:
        """The posterior given the observations of which ``kept`` is true, by the method of the whole."""
        sampled = self.posterior.log_evidence.label == "estimated"
        draws = draws or (DRAWS if sampled else 0)
        weights = self._weighted.data(self.observations.weights(kept))
        try:
            with warnings_of(self.name):
                found = answer(self._analysis.with_data(weights), self.posterior.method, draws, self._seed)
        except BayeskitError as error:
            error.args = (f"{self.name}: given {int(kept.sum())} of {len(self)} observations, {error}",)
            raise
        if not math.isfinite(found.log_evidence.value):
            given = f"given {int(kept.sum())} of {len(self)} observations its log evidence is {found.log_evidence}"
            raise InferenceError(f"{self.name}: {given}")
        return found

    @property
    def _of_nothing(self) -> LogEvidence:
        whole = self.posterior.log_evidence
        return LogEvidence(0.0, 0.0, whole.label, convention=whole.convention)

    @staticmethod
    def _key(kept: np.ndarray) -> bytes:
        return np.packbits(kept).tobytes()

    def _require_the_same(self, found: LogEvidence) -> None:
        whole = self.posterior.log_evidence
        allowed = error_of_sum(*_errors(found, whole), np.ones(2)) * (LIKELY if whole.label == "estimated" else 1.0)
        if abs(found.value - whole.value) > allowed + ROUNDING * max(1.0, abs(whole.value)):
            by = f"{found.value:.10g} where the model has {whole.value:.10g}"
            raise CertificateError(
                f"{self.name}: with every observation counted once, the weighted model has the log evidence {by}; "
                "its subsets are not proved, please report the model"
            )


def evidences_of_subsets(
    given: Mapping[str, pm.Model | Posterior], unit: str | None, random_seed: int
) -> tuple[list[SubsetEvidence], list[str]]:
    """Of models that explain the same data, whose observations are the same ones; and what a reader must know."""
    if not given:
        raise ModelError("there are no models; give one, or several by name")
    for name, model in given.items():
        require_evidence(name, model)
    notes = require_same_data(given)
    found = [
        SubsetEvidence(n, m if isinstance(m, Posterior) else inferred(n, m, random_seed), unit, random_seed)
        for n, m in given.items()
    ]
    _require_paired(found)
    said = [(e.name, e.posterior.log_evidence.convention) for e in found]
    return found, [*notes, *(f"{name}: the evidence is {convention}" for name, convention in said if convention)]


def difference(a: LogEvidence, b: LogEvidence) -> tuple[float, float]:
    """log Z(a) − log Z(b) and its error."""
    return a.value - b.value, error_of_sum(*_errors(a, b), np.array([1.0, -1.0]))


def _errors(a: LogEvidence, b: LogEvidence) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a.error, b.error]), np.array([e.label == "estimated" for e in (a, b)])


def _require_paired(evidences: Sequence[SubsetEvidence]) -> None:
    """Refuse models whose observations are not the same ones, in the same order."""
    first, *others = evidences
    for other in others:
        a, b = first.observations, other.observations
        if len(a) != len(b) or a.unit != b.unit:
            counts = f"{len(a)} observations ({a.unit}) in {first.name}, {len(b)} ({b.unit}) in {other.name}"
            raise ModelError(f"{counts}: name the dim that counts them in all models, observations='row'")
        if len(a.members) > 1 and list(a.members) != list(b.members):
            names = f"{', '.join(a.members)} in {first.name}, {', '.join(b.members)} in {other.name}"
            raise ModelError(f"the observed variables are {names}: give them the same names, in the same order")
