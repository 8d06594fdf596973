"""Scores of observations that were left out, from a run without them each; side by side where there are workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskit.comparison.folds import Fold
from bayeskit.comparison.leave_one_out import pointwise_log_likelihood
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer, SubsetPosteriors
from bayeskit.comparison.smoothed_loo import error_of_draws, mean_over_draws
from bayeskit.errors import ModelError
from bayeskit.graphs.fingerprint import digest
from bayeskit.jobs.work import Work
from bayeskit.model.mark import mark_of
from bayeskit.model.snapshot import restored
from bayeskit.results.diagnostics import problems_of
from bayeskit.results.records import Posterior

__all__ = ["FoldRun", "fold_runs", "notes_of", "troubles"]

type _Numbered = tuple[int, Fold, bool]


@dataclass(frozen=True, eq=False)
class FoldRun:
    """Scores of one fold; ``carried`` is how many draws carry each, ``sum_error`` that of the sum of the scores."""

    values: np.ndarray
    errors: np.ndarray
    carried: np.ndarray
    sum_error: float
    troubles: tuple[str, ...] = ()  # what was wrong with the draws


def fold_runs(subsets: SubsetPosteriors, folds: Sequence[Fold], joint: bool, work: Work) -> list[FoldRun]:
    """A run for each fold, of random numbers of its own."""
    mark = ""
    if work.checkpoint is not None:
        with restored(subsets.posterior.snapshot):
            mark = mark_of(subsets.posterior.model)
    jobs: dict[str, _Numbered] = {
        f"{subsets.name} {mark} {number} {joint} {digest(fold.scored, fold.seen)}": (number, fold, joint)
        for number, fold in enumerate(folds, 1)
    }
    return work.results(_runs_of, subsets.given_as, jobs, f"{subsets.name}: folds", lambda job: _run(subsets, *job))


def notes_of(runs: Sequence[FoldRun]) -> tuple[str, ...]:
    """What was wrong with the draws of runs, in one note."""
    troubled = [note for run in runs for note in run.troubles]
    others = f" (and of {len(troubled) - 1} other runs)" if len(troubled) > 1 else ""
    return tuple(f"{note}{others}" for note in troubled[:1])


def troubles(posterior: Posterior, whose: str) -> tuple[str, ...]:
    """What is wrong with draws, in a sentence, if anything is."""
    found = problems_of(posterior)
    return (f"{whose} are not to be relied on: {'; '.join(found)}",) if found else ()


def _runs_of(given: tuple[Any, ...]) -> Callable[[_Numbered], FoldRun]:
    subsets = SubsetPosteriors(*given)
    return lambda job: _run(subsets, *job)


def _run(subsets: SubsetPosteriors, number: int, fold: Fold, joint: bool) -> FoldRun:
    given = subsets.given(fold.seen, run=number)
    left_out = [subsets.observations.labels[i] for i in np.flatnonzero(~fold.seen)]
    without = f"observation {left_out[0]}" if len(left_out) == 1 else f"{len(left_out)} observations"
    draws = given.tree["posterior"].to_dataset()
    with restored(subsets.posterior.snapshot):
        terms = pointwise_log_likelihood(subsets.posterior.model, draws, subsets.observations.members)
    if terms is None:
        why = "given its parameters the observations are not independent, so draws give no score of one of them"
        raise ModelError(f"{subsets.name}: {why}; compare by evidence")
    terms = terms[..., fold.scored]
    terms = terms.sum(axis=2, keepdims=True) if joint else terms
    if np.any(np.isneginf(terms).all(axis=(0, 1))):
        why = "an observation has no density at any draw given those that are left in, so draws give no score of it"
        raise NoSubsetAnswer(subsets.name, f"{why}; compare by evidence")
    values, influence, carried = mean_over_draws(terms)
    together = float(error_of_draws(influence.sum(axis=-1)))
    found = troubles(given, f"the draws without {without}")
    return FoldRun(values, error_of_draws(influence), carried, together, found)
