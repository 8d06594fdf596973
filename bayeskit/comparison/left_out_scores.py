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
from bayeskit.comparison.fold_runs import fold_runs, notes_of, troubles
from bayeskit.comparison.folds import Fold
from bayeskit.comparison.posteriors_of_subsets import SubsetPosteriors
from bayeskit.comparison.smoothed_loo import Smoothed
from bayeskit.jobs.work import HERE, Work

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


def scores_from_draws(subsets: SubsetPosteriors, folds: Iterable[Fold], joint: bool, work: Work = HERE) -> Scores:
    """Means over draws of the posterior given what was seen.

    Raises
    ------
    ModelError
        If the likelihood does not factor into the observations given the parameters.
    """
    runs = fold_runs(subsets, list(folds), joint, work)
    parts = zip(*((run.values, run.errors, run.carried) for run in runs), strict=True)
    values, errors, carried = (np.concatenate(part) for part in parts)
    notes, together = (*_doubtful(carried), *notes_of(runs)), math.hypot(*(run.sum_error for run in runs))
    return Scores(values, errors, np.ones(values.size, dtype=bool), "estimated", notes, together)


def scores_by_smoothing(subsets: SubsetPosteriors, smoothed: Smoothed, work: Work = HERE) -> Scores:
    """Leave-one-out from draws given all; from a run without that one where Pareto k may be too high for that."""
    values, errors, carried = smoothed.elpd.copy(), smoothed.error.copy(), np.full(len(subsets), np.inf)
    numbers, again = np.arange(len(subsets)), smoothed.doubtful
    places = np.flatnonzero(again).tolist()
    runs = fold_runs(subsets, [Fold(numbers[[i]], numbers != i) for i in places], False, work)
    for i, run in zip(places, runs, strict=True):
        values[[i]], errors[[i]], carried[[i]] = run.values, run.errors, run.carried
    count = f"{int(again.sum())} observation(s), whose Pareto k is high, may be, or is not known,"
    notes = (f"{count} were left out in runs of their own",) if again.any() else ()
    notes = (*notes, *_doubtful(carried), *troubles(subsets.posterior, "its draws"), *notes_of(runs))
    together = math.hypot(smoothed.error_of(~again), *(run.sum_error for run in runs))
    return Scores(values, errors, np.ones(values.size, dtype=bool), "estimated", notes, together)


def _doubtful(carried: np.ndarray) -> tuple[str, ...]:
    few = int(np.sum(carried < FEW))
    return (f"{few} score(s) rest on fewer than {FEW} draws: their errors may be too small",) if few else ()
