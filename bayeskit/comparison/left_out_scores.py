r"""The score of each observation that was left out, exactly from evidences of subsets, else from draws.

From evidences, given the observations B that were seen,

.. math:: \log p(y_i \mid y_B) = \log Z(B \cup \{i\}) - \log Z(B)

and for a whole fold in the place of i the joint density of its observations. From draws of the posterior given B, it is
the log of the mean of :math:`p(y_i \mid \theta)`, where the model is sampled once a fold, of random numbers of its own;
leave-one-out needs this only where Pareto k does not leave it clear that draws given all observations can answer.
Scores from one run err together: the error of a sum of scores is that of their sum at each draw, run by run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bayeskit.comparison.evidence_of_subsets import SubsetEvidence, difference
from bayeskit.comparison.folds import Fold
from bayeskit.comparison.leave_one_out import pointwise_log_likelihood
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer, SubsetPosteriors
from bayeskit.comparison.smoothed_loo import Smoothed, error_of_draws, mean_over_draws
from bayeskit.errors import ModelError
from bayeskit.model.snapshot import restored
from bayeskit.results.diagnostics import problems_of
from bayeskit.results.records import Posterior
from bayeskit.terminal import watched

__all__ = ["Scores", "scores_by_smoothing", "scores_from_draws", "scores_from_evidence"]

FEW = 50  # draws that carry a mean, below which its error is doubtful


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one model, one an observation, or a fold, in the order of the folds."""

    values: np.ndarray
    errors: np.ndarray
    sampled: np.ndarray  # whether an error is a standard error
    label: str
    notes: tuple[str, ...] = ()
    sum_error: float | None = None  # of their sum, where their errors are not independent


def scores_from_evidence(evidence: SubsetEvidence, folds: Iterable[Fold], joint: bool) -> Scores:
    """Differences of log evidences."""
    found = []
    for fold in folds:
        before = evidence(fold.seen)
        for scored in [fold.scored] if joint else fold.scored[:, None]:
            with_them = fold.seen.copy()
            with_them[scored] = True
            found.append(difference(evidence(with_them), before))
    values, errors = np.array(found).T
    return Scores(values, errors, np.zeros(len(values), dtype=bool), evidence.posterior.log_evidence.label)


def scores_from_draws(subsets: SubsetPosteriors, folds: Iterable[Fold], joint: bool) -> Scores:
    """Means over draws of the posterior given what was seen.

    Raises
    ------
    ModelError
        If the likelihood does not factor into the observations given the parameters.
    """
    runs = _Runs(subsets, joint)
    found = [runs(fold) for fold in folds]
    values, errors, carried = (np.concatenate(parts) for parts in zip(*found, strict=True))
    notes = (*_doubtful(carried), *runs.notes)
    return Scores(values, errors, np.ones(values.size, dtype=bool), "estimated", notes, math.hypot(*runs.sum_errors))


def scores_by_smoothing(subsets: SubsetPosteriors, smoothed: Smoothed, bar: bool) -> Scores:
    """Leave-one-out from draws given all; from a run without that one where Pareto k may be too high for that."""
    values, errors, carried = smoothed.elpd.copy(), smoothed.error.copy(), np.full(len(subsets), np.inf)
    numbers, runs, again = np.arange(len(subsets)), _Runs(subsets, False), smoothed.doubtful
    for i in watched(np.flatnonzero(again).tolist(), f"{subsets.name}: observations left out", bar):
        values[[i]], errors[[i]], carried[[i]] = runs(Fold(numbers[[i]], numbers != i))
    count = f"{int(again.sum())} observation(s), whose Pareto k is high, may be, or is not known,"
    notes = (f"{count} were left out in runs of their own",) if again.any() else ()
    notes = (*notes, *_doubtful(carried), *_problems(subsets.posterior, "its draws"), *runs.notes)
    together = math.hypot(smoothed.error_of(~again), *runs.sum_errors)
    return Scores(values, errors, np.ones(values.size, dtype=bool), "estimated", notes, together)


def _doubtful(carried: np.ndarray) -> tuple[str, ...]:
    few = int(np.sum(carried < FEW))
    return (f"{few} score(s) rest on fewer than {FEW} draws: their errors may be too small",) if few else ()


def _problems(posterior: Posterior, whose: str) -> tuple[str, ...]:
    found = problems_of(posterior)
    return (f"{whose} are not to be relied on: {'; '.join(found)}",) if found else ()


class _Runs:
    """Scores of folds, each from a run on what it leaves in; ``notes`` say what was wrong with the draws of a run.

    ``sum_errors`` are those of the sums of the scores of each fold.
    """

    def __init__(self, subsets: SubsetPosteriors, joint: bool) -> None:
        self._subsets = subsets
        self._joint = joint
        self._troubled: list[str] = []
        self.sum_errors: list[float] = []

    @property
    def notes(self) -> tuple[str, ...]:
        others = f" (and of {len(self._troubled) - 1} other runs)" if len(self._troubled) > 1 else ""
        return tuple(f"{note}{others}" for note in self._troubled[:1])

    def __call__(self, fold: Fold) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        subsets = self._subsets
        given = subsets.given(fold.seen, run=1 + len(self.sum_errors))
        left_out = [subsets.observations.labels[i] for i in np.flatnonzero(~fold.seen)]
        without = f"observation {left_out[0]}" if len(left_out) == 1 else f"{len(left_out)} observations"
        self._troubled += _problems(given, f"the draws without {without}")
        draws = given.tree["posterior"].to_dataset()
        with restored(subsets.posterior.snapshot):
            terms = pointwise_log_likelihood(subsets.posterior.model, draws, subsets.observations.members)
        if terms is None:
            why = "given its parameters the observations are not independent, so draws give no score of one of them"
            raise ModelError(f"{subsets.name}: {why}; compare by evidence")
        terms = terms[..., fold.scored]
        terms = terms.sum(axis=2, keepdims=True) if self._joint else terms
        if np.any(np.isneginf(terms).all(axis=(0, 1))):
            why = "an observation has no density at any draw given those that are left in, so draws give no score of it"
            raise NoSubsetAnswer(subsets.name, f"{why}; compare by evidence")
        values, influence, carried = mean_over_draws(terms)
        self.sum_errors.append(float(error_of_draws(influence.sum(axis=-1))))
        return values, error_of_draws(influence), carried
