r"""Cross-validation: how well each model predicts observations that it has not seen, exactly where evidences are known.

.. math:: \mathrm{elpd} = \sum_i s_i, \quad s_i = \log p(y_i \mid y_{B(i)}), \quad \mathrm{se}^2 = n \, \mathrm{var}(s)

with B(i) the observations that the fold of i leaves in. Each term is a ratio of two evidences; where these are known,
so is the term. Of a fold of several observations the joint density is another number than the sum of theirs, since each
tells of the others.

Sources: Vehtari, Gelman, Gabry (2017), "Practical Bayesian model evaluation using leave-one-out cross-validation and
WAIC", Statistics and Computing 27; Bürkner, Gabry, Vehtari (2020), "Approximate leave-future-out cross-validation for
Bayesian time series models", Journal of Statistical Computation and Simulation 90.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.arguments import Count, RandomSeed, Range, checked, whole_seed
from bayeskit.comparison.comparable_models import carried_shared, comparable_posteriors
from bayeskit.comparison.evidence_of_subsets import SubsetEvidence, require_paired
from bayeskit.comparison.folds import Fold, FoldLayout
from bayeskit.comparison.given_models import OneOrSeveral, inferred_models, one_or_several
from bayeskit.comparison.leave_one_out import loo_from_draws
from bayeskit.comparison.left_out_scores import Scores, scores_by_smoothing, scores_from_draws, scores_from_evidence
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer, SubsetPosteriors
from bayeskit.comparison.same_data import require_same_data
from bayeskit.comparison.shared_priors import inferred_shared
from bayeskit.comparison.smoothed_loo import Smoothed
from bayeskit.errors import ModelError, OptionError
from bayeskit.jobs.work import Work
from bayeskit.results.drawn_results import TabledResult
from bayeskit.results.log_evidence import error_of_sum
from bayeskit.results.records import Posterior
from bayeskit.terminal import watched

__all__ = ["CrossValidation", "cross_validate"]

COLUMNS = ["elpd", "error", "se", "label", "difference", "difference_se", "psis_elpd", "psis_se", "high_pareto_k"]
JOINT = "each score is of a whole fold: the joint density of its observations, which is not the sum of theirs"


@dataclass(frozen=True, repr=False)
class CrossValidation(TabledResult):
    """Log predictive densities of observations that were left out, the best model first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a model: ``elpd``, the sum of the scores; ``error``, what the sum may be off by; ``se``, its standard
        error over other data of the kind; ``label``; ``difference`` to the best, with ``difference_se`` from the
        differences of the scores; and of leave-one-out ``psis_elpd``, ``psis_se`` and ``high_pareto_k`` by importance
        sampling from the draws, NaN where that was not computed.
    pointwise : pandas.DataFrame
        The scores, one column a model; one row an observation, by its label, or a fold where the scores are joint.
    errors : pandas.DataFrame
        What each score may be off by, as ``pointwise``.
    fold : pandas.Series
        The number of the fold that each row of ``pointwise`` was left out with.
    method : str
    unit : str
        What an observation is: ``entry``, or the dim of which each label is one.
    notes : tuple of str
    """

    table: pd.DataFrame
    pointwise: pd.DataFrame = field(repr=False)
    errors: pd.DataFrame = field(repr=False)
    fold: pd.Series = field(repr=False)
    method: str
    unit: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        forms = dict.fromkeys(self.table.columns, "{:.2f}".format) | {"error": "{:.1e}".format, "label": str}
        forms["high_pareto_k"] = "{:.0f}".format
        scored = "folds" if self.pointwise.index.name == "fold" else f"observations ({self.unit})"
        head = f"{self.method}: {len(self.pointwise)} {scored} in {self.fold.nunique()} folds"
        text = self.table.to_string(na_rep="–", formatters=forms)
        return "\n".join([head, text, *(f"note: {note}" for note in self.notes)])


@checked
def cross_validate(
    models: OneOrSeveral,
    *,
    shared: Sequence[str] = (),
    method: Literal["loo", "kfold", "stratified", "grouped", "leave_future_out"] = "loo",
    folds: Count | None = None,
    groups: Any = None,
    initial: Annotated[int, Range(0)] | None = None,
    joint: bool = False,
    observations: str | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> CrossValidation:
    """Score each model by log p(y_i | what its fold leaves in), by ratios of evidences where these are known.

    Parameters
    ----------
    models : pymc.Model or Posterior, or several by name or in a list, or a Comparison
        Of the same data. A Posterior that is already there is not computed again.
    shared : sequence of str, optional
        Improper priors of all models, as of :func:`bayeskit.compare`; a Comparison, and its posteriors, bring them
        along. What a fold leaves in has to make the posterior proper.
    method : {"loo", "kfold", "stratified", "grouped", "leave_future_out"}
        One left out at a time; random folds; folds with a share of each group; whole groups; or each given the past.
    folds : int, optional
        10 random or stratified ones, each group, or each later observation.
    groups : sequence, optional
        A label for each observation.
    initial : int, optional
        How many observations ``leave_future_out`` begins with; a quarter of them by default.
    joint : bool, default False
        Score the folds by the joint density of their observations instead of each of these.
    observations : str, optional
        The dim of which each label is one observation, or ``"entry"``; as of :func:`bayeskit.sequential`.
    client, checkpoint : dask.distributed.Client and path, optional
        Whose workers infer and make the runs of folds; a file that keeps what is finished, for the same seed.
    random_seed : int, sequence of int or numpy.random.Generator, optional
    progressbar : bool, default True

    Raises
    ------
    ModelError, InferenceError
        If data differ, observations cannot be told apart, or what a fold leaves in keeps an improper prior improper.
    OptionError, DataError
        If folds, groups or initial observations do not fit.

    Notes
    -----
    Cost: an evidence an observation and fold (5 to 30 ms if exact, a second by quadrature). Where that is not known,
    leave-one-out is by importance sampling, with NUTS for each whose Pareto k is not clearly below what is high (below
    0.39 of 4,000 draws), and all else is a run a fold. Of a lag that is data, the value left out is still seen.

    Examples
    --------
    >>> print(bk.cross_validate({"line": line, "curve": curve}, method="kfold", random_seed=1))
    """
    layout, work = FoldLayout(method, folds, groups, initial), Work(client, checkpoint, {}, progressbar)
    return _scored(one_or_several(models), shared, layout, joint, observations, whole_seed(random_seed), work)


def _posteriors(
    given: Mapping[str, pm.Model | Posterior], shared: Sequence[str], seed: int, work: Work
) -> tuple[dict[str, Posterior], list[str]]:
    """They need no evidence, but where they share improper priors."""
    if shared := shared or carried_shared(given):
        return comparable_posteriors(given, shared, seed, work)
    notes = require_same_data(given)
    return inferred_models(given, seed, work), notes


def _scored(
    given: Mapping[str, pm.Model | Posterior],
    shared: Sequence[str],
    layout: FoldLayout,
    joint: bool,
    unit: str | None,
    seed: int,
    work: Work,
) -> CrossValidation:
    loo = layout.method == "loo"
    of = {"cross_validate": [*given], "method": layout.method, "of": unit, "shared": [*shared], "seed": seed}
    work = replace(work, of=of)
    if joint and loo:
        raise OptionError("joint=True is for folds of several observations, and method='loo' has none")
    posteriors, notes = _posteriors(given, shared, seed, replace(work, bar=False))
    subsets = [_subsets(name, posterior, unit, seed, notes) for name, posterior in posteriors.items()]
    require_paired(subsets)
    folds = layout.of(len(subsets[0]), np.random.default_rng(seed))
    scores, smoothed = [], []
    for each in subsets:
        found, note = loo_from_draws(each.posterior, each.observations.members) if loo else (None, "")
        beside = "in the psis columns, " if isinstance(each, SubsetEvidence) else ""
        notes += [f"{each.name}: {beside}{note}"] if note else []
        smoothed.append(found)
        scores.append(_scores(each, folds, joint, found, loo, work))
        notes += [f"{each.name}: {said}" for said in scores[-1].notes]
    notes += [JOINT] if joint else []
    return _collected(subsets, folds, scores, smoothed, layout.method, notes, joint)


def _subsets(name: str, posterior: Posterior, unit: str | None, seed: int, notes: list[str]) -> SubsetPosteriors:
    """With their evidences, where these are known and no estimates."""
    if posterior.log_evidence.label != "estimated" and math.isfinite(posterior.log_evidence.value):
        try:
            return SubsetEvidence(name, posterior, unit, seed)
        except NoSubsetAnswer as error:
            if inferred_shared(posterior):
                raise
            notes.append(f"{error}; its scores are from draws")
    found = SubsetPosteriors(name, posterior, unit, seed)
    found.require_same_density()
    return found


def _scores(
    subsets: SubsetPosteriors, folds: list[Fold], joint: bool, smoothed: Smoothed | None, loo: bool, work: Work
) -> Scores:
    notes: tuple[str, ...] = ()
    if isinstance(subsets, SubsetEvidence):
        try:
            return scores_from_evidence(subsets, watched(folds, f"{subsets.name}: folds", work.bar), joint)
        except NoSubsetAnswer as error:
            if subsets.shared:  # draws would not show that a posterior is improper
                error.args = (f"{error}; leave more observations in, by more folds or a larger initial",)
                raise
            subsets.require_same_density()
            notes = (f"{error}; its scores are from draws".removeprefix(f"{subsets.name}: "),)
    if not loo:
        found = scores_from_draws(subsets, folds, joint, work)
    elif smoothed is None:
        raise ModelError(f"{subsets.name}: no leave-one-out from its draws; use method='kfold', which samples anew")
    else:
        found = scores_by_smoothing(subsets, smoothed, work)
    return replace(found, notes=(*notes, *found.notes))


def _collected(
    subsets: list[SubsetPosteriors],
    folds: list[Fold],
    scores: list[Scores],
    smoothed: list[Smoothed | None],
    method: str,
    notes: list[str],
    joint: bool,
) -> CrossValidation:
    """Scores in the order of the observations, and what they add up to."""
    names = [each.name for each in subsets]
    scored = np.concatenate([fold.scored for fold in folds])
    place = np.arange(len(folds)) if joint else np.argsort(scored)
    labels = place if joint else [subsets[0].observations.labels[i] for i in scored[place]]
    index = pd.Index(labels, name="fold" if joint else "observation")
    values, errors = (
        pd.DataFrame({n: of[place] for n, of in zip(names, columns, strict=True)}, index=index)
        for columns in ([s.values for s in scores], [s.errors for s in scores])
    )
    numbers = place if joint else np.repeat(np.arange(len(folds)), [fold.scored.size for fold in folds])[place]
    best = values.sum().idxmax()
    rows = {}
    for name, of, by_draws in zip(names, scores, smoothed, strict=True):
        error = of.sum_error
        if error is None:
            error = error_of_sum(of.errors, of.sampled, np.ones(of.errors.size))
        apart = (values[name] - values[best]).to_numpy()
        found = (math.nan, math.nan, math.nan)
        if by_draws is not None:
            found = (by_draws.elpd.sum(), _spread(by_draws.elpd), float(by_draws.high.sum()))
        rows[name] = (of.values.sum(), error, _spread(of.values), of.label, apart.sum(), _spread(apart), *found)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    table = table.sort_values("elpd", ascending=False, kind="stable")
    fold = pd.Series(numbers, index=index, name="fold")
    return CrossValidation(table, values, errors, fold, method, subsets[0].observations.unit, tuple(notes))


def _spread(scores: np.ndarray) -> float:
    """The standard error of a sum of scores, over other data of the kind."""
    return math.sqrt(scores.size * np.var(scores, ddof=1)) if scores.size > 1 else math.nan
