r"""Models compared by their evidence: log Bayes factors and posterior model probabilities, with LOO beside them.

For models M₁ … M_K of the *same* data y, with prior probabilities p(M_k),

.. math::
    \log B_{ab} = \log p(y \mid M_a) - \log p(y \mid M_b), \qquad
    p(M_k \mid y) = \frac{p(y \mid M_k) \, p(M_k)}{\sum_j p(y \mid M_j) \, p(M_j)}.

The evidence averages the likelihood over the prior, so it depends on the priors for good: a wide prior is a costly one
(the Jeffreys–Lindley paradox), an improper one has no evidence at all. The priors are therefore printed beside every
comparison. LOO averages over the posterior, hardly sees the prior, and answers another question: which model predicts
one more observation like these best.

Sources: Kass and Raftery (1995), "Bayes factors", JASA 90; Vehtari, Gelman, Gabry (2017), "Practical Bayesian model
evaluation using leave-one-out cross-validation and WAIC", Statistics and Computing 27.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy import special

from bayeskit.arguments import RandomSeed, checked, whole_seed
from bayeskit.comparison.comparable_models import comparable_posteriors
from bayeskit.comparison.comparison import COLUMNS, Comparison
from bayeskit.comparison.given_models import Models, named_models
from bayeskit.comparison.leave_one_out import leave_one_out
from bayeskit.errors import ModelError, OptionError
from bayeskit.jobs.work import Work
from bayeskit.model.snapshot import on_its_data, written_down
from bayeskit.model.written_priors import written_priors
from bayeskit.results.diagnostics import doubts_of
from bayeskit.results.log_evidence import error_of_sum
from bayeskit.results.records import Posterior

__all__ = ["compare", "priors_of"]

# As ``leave_one_out`` gives them; a posterior that was saved by an earlier version lacks the last.
OF_SCORES = ("elpd_loo", "se_loo", "high_pareto_k", "elpd_loo_error")
NO_SCORES = (math.nan,) * len(OF_SCORES)


@checked
def compare(
    models: Models,
    *,
    prior_odds: Mapping[str, float] | None = None,
    shared: Sequence[str] = (),
    loo: bool = True,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> Comparison:
    """Compare models of the same data by their evidence.

    Parameters
    ----------
    models : mapping of str to pymc.Model or Posterior
        At least two, or a list of them, which go by the names of the models or as ``model 1``, ``model 2``. A
        Posterior that is already there is not computed again.
    prior_odds : mapping of str to float, optional
        Prior weight of each model, on any scale; models not named have weight 1. Equal by default.
    shared : sequence of str, optional
        Nuisance parameters with an improper prior, ``pm.Flat`` or ``pm.HalfFlat``, that every model has in the same
        place, as a t test has its variance. The constant of the prior is arbitrary, the same in all evidences, and
        cancels in their differences. A ``pm.Potential`` that is a function of these variables only, as
        ``-pt.log(sigma2)`` for Jeffreys' prior, is part of their prior, and may be named too.
    loo : bool, default True
        Whether to compute LOO beside the evidence.
    client : dask.distributed.Client, optional
        Whose workers infer a model each; the current one, where there is one.
    checkpoint : path, optional
        A file that each posterior is written to. Run again with the same seed, what is in it is not inferred again.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the draws that LOO is computed from; the evidence does not depend on it where it is exact.
    progressbar : bool, default True
        Where observations are left out in runs of their own.

    Raises
    ------
    ModelError
        If there are fewer than two models; if they do not explain the same data; if one has an improper prior or a
        Potential that is not shared, whose evidence means nothing; if what was declared shared is not in all models,
        not the same there, or leaves an improper posterior; or if one has no evidence.
    OptionError
        If the prior odds name an unknown model or are not positive numbers.

    Notes
    -----
    The observed *values* must be the same, in variables of the same names (or, where the names differ, the same set of
    arrays; variables written class by class, ``x_<class>``, count as one). A Normal model of log y and a LogNormal
    model of y are therefore refused: their evidences differ by a Jacobian. Write both for the same y. So are a Normal
    model and one that is censored at some of the values, or has a spike there: these have a probability, not a density.
    """
    models = named_models(models)
    if len(models) < 2:
        raise ModelError(f"{len(models)} model(s) to compare: give at least two")
    weights, seed = _prior_weights(list(models), prior_odds), whole_seed(random_seed)
    work = Work(client, checkpoint, {"compare": list(models), "shared": list(shared), "seed": seed})
    posteriors, notes = comparable_posteriors(models, shared, seed, work)
    return replace(_compared(posteriors, weights, loo, notes, progressbar), random_seed=seed)


def _compared(
    posteriors: Mapping[str, Posterior], weights: np.ndarray, loo: bool, notes: list[str], bar: bool
) -> Comparison:
    rows: dict[str, tuple[float | str, ...]] = {}
    conventions = {posterior.log_evidence.convention for posterior in posteriors.values()}
    if len(conventions) == 1 and any(conventions):
        notes.append(f"every log evidence is {conventions.pop()}")
    for name, posterior in posteriors.items():
        scores, note = leave_one_out(posterior, bar) if loo else (NO_SCORES, "")
        if note:
            notes.append(f"{name}: {note}")
        evidence = posterior.log_evidence
        if evidence.convention and len(conventions) > 1:
            notes.append(f"{name}: the evidence is {evidence.convention}")
        notes += [f"{name}: {doubt}" for doubt in doubts_of(posterior, "its draws")]
        rows[name] = (evidence.value, evidence.error, evidence.label, *(*scores, math.nan)[: len(OF_SCORES)])
    if any(posterior.log_evidence.label != "exact" for posterior in posteriors.values()):
        notes.append("not every log evidence is exact: mind the error columns")
    table = _table(rows, weights)
    notes += _undecided(table)
    priors = {name: tuple(priors_of(posterior).values()) for name, posterior in posteriors.items()}
    return Comparison(table, priors, tuple(notes), dict(posteriors))


@written_down
@on_its_data
def priors_of(given: pm.Model | Posterior) -> dict[str, str]:
    """Of each free variable; missing entries of the data, which PyMC makes one of, have no prior of their own."""
    model = given.model if isinstance(given, Posterior) else given
    written = written_priors(model)
    return {
        str(rv.name): written.get(rv.name, f"{rv.name}: missing data, drawn from the likelihood")
        for rv in model.free_RVs
    }


def _prior_weights(names: list[str], prior_odds: Mapping[str, float] | None) -> np.ndarray:
    odds = dict(prior_odds or {})
    unknown = [name for name in odds if name not in names]
    if unknown:
        raise OptionError(f"prior_odds: no model {unknown[0]!r}; the models are {', '.join(names)}")
    for name, value in odds.items():
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"prior_odds: {name!r} has {value}; prior odds are positive, finite numbers")
    return np.array([float(odds.get(name, 1.0)) for name in names])


def _table(rows: Mapping[str, tuple[float | str, ...]], weights: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame.from_dict(rows, orient="index", columns=[*list(COLUMNS)[:3], *OF_SCORES])
    log_evidence = table["log_evidence"].to_numpy(dtype=float)
    error, best = table["error"].to_numpy(dtype=float), int(np.argmax(log_evidence))
    sampled = (table["label"] == "estimated").to_numpy()
    table["log_bayes_factor"] = log_evidence - log_evidence[best]
    table["log_bayes_factor_error"] = [
        0.0 if k == best else error_of_sum(error[[k, best]], sampled[[k, best]], np.ones(2)) for k in range(len(error))
    ]
    probability = special.softmax(log_evidence + np.log(weights))
    table["posterior_probability"] = probability
    # ∂p_k / ∂ log p(y | M_j) = p_k (1 if j = k, else 0) − p_k p_j
    slopes = np.diag(probability) - np.outer(probability, probability)
    table["posterior_probability_error"] = [error_of_sum(error, sampled, row) for row in slopes]
    table["prior_probability"] = weights / weights.sum()
    return table[list(COLUMNS)].sort_values("log_evidence", ascending=False, kind="stable")


def _undecided(table: pd.DataFrame) -> list[str]:
    """The models that the errors do not tell from the best one."""
    best = table.index[0]
    return [
        f"{best} and {name}: their log evidences differ by less than two standard errors; ask for more draws"
        for name in table.index[1:]
        if "estimated" in (table.at[name, "label"], table.at[best, "label"])
        and -table.at[name, "log_bayes_factor"] < 2 * table.at[name, "log_bayes_factor_error"]
    ]
