r"""Evidence as data arrive: log evidence, Bayes factors and scores of forecasts after each block of observations.

.. math:: \log p(y_{1:n}) = \sum_{b} \log p(y_{B_b} \mid y_{B_1}, \dots, y_{B_{b-1}})

Each term is the score of a forecast that was made before the block was seen, so that a model's log evidence is the sum
of its prequential log scores, and a Bayes factor compares two forecasters over all of the data.

Source: Dawid (1984), "Statistical theory: the prequential approach", JRSS A 147.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import special

from bayeskit.arguments import Count, RandomSeed, checked, whole_seed
from bayeskit.comparison.comparable_models import carried_shared, comparable_posteriors
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.evidence_of_subsets import SubsetEvidence, difference, evidences_of_subsets
from bayeskit.comparison.given_models import OneOrSeveral, one_or_several
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer
from bayeskit.errors import OptionError
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.terminal import watched

__all__ = ["Sequential", "sequential"]

MOST = {"exact": 200, "quadrature": 50, "estimated": 10}  # blocks that are not asked for, by the label of the evidence


@dataclass(frozen=True, repr=False)
class Sequential(DrawnResult):
    """What each model had said of the data after each block of them.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a model and block, from no observations to all: ``observations`` seen, ``model``, ``log_evidence``,
        ``error``, ``label``, ``log_score`` (log p(block | what was seen before it), NaN of no observations),
        ``log_bayes_factor`` (relative to the first model given) and ``log_bayes_factor_error``,
        ``posterior_probability`` (from equal prior probabilities, or those of a Comparison), ``log_score_error``. NaN
        where some first observations leave no number; a note says why.
    order : tuple of int
        The numbers of the observations in the order in which they came.
    unit : str
        What an observation is: ``entry``, or the dim of which each label is one.
    notes : tuple of str
    """

    PICTURE: ClassVar[str] = "comparison.curve_pictures.draw_sequential"

    table: pd.DataFrame
    order: tuple[int, ...] = field(repr=False)
    unit: str
    notes: tuple[str, ...] = ()

    @property
    def log_scores(self) -> pd.DataFrame:
        """The log score of each block, one column a model; their sums are the log evidences."""
        scores = self.table.pivot(index="observations", columns="model", values="log_score")
        return scores.iloc[1:][list(dict.fromkeys(self.table["model"]))]

    def __str__(self) -> str:
        last = self.table[self.table["observations"] == self.table["observations"].max()]
        blocks = self.table["observations"].nunique() - 1
        head = f"{len(self.order)} observations ({self.unit}) in {blocks} blocks; after the last of them:"
        shown = last.drop(columns=["observations", "log_score", "log_score_error"]).set_index("model")
        errors = {column: "{:.1e}".format for column in ("error", "log_bayes_factor_error")}
        text = shown.to_string(float_format="{:.6g}".format, formatters=errors)
        return "\n".join([head, text, *(f"note: {n}" for n in self.notes)])


@checked
def sequential(
    models: OneOrSeveral,
    *,
    shared: Sequence[str] = (),
    blocks: Count | Sequence[int] | np.ndarray | None = None,
    order: Sequence[int] | np.ndarray | None = None,
    observations: str | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> Sequential:
    r"""Log evidence, Bayes factor and log score of each model after each block of observations.

    .. math:: \log p(y_B \mid y_A) = \log Z(y_A, y_B) - \log Z(y_A), \; A \text{ before } B

    Parameters
    ----------
    models : pymc.Model or Posterior, or several by name or in a list, or a Comparison
        Of the same data. A Posterior that is already there is not computed again.
    shared : sequence of str, optional
        Improper priors of all models, as of :func:`bayeskit.compare`; a Comparison, and its posteriors, bring them
        along. NaN, with a note, before the first observations that leave a proper posterior.
    blocks : int or sequence of int, optional
        Number of blocks, as equal as they can be, or the number of observations in each. Every observation is a block
        by default, but in at most 200 blocks (50 where a model's evidence is by quadrature, 10 where it is estimated).
    order : sequence of int, optional
        The numbers of the observations, from zero, as they came; as they are in the data by default.
    observations : str, optional
        The dim of which each label is one observation, or ``"entry"``: every entry of an observed variable, every row
        of a multivariate one. By default the first dim where several variables share it, else ``"entry"``.
    random_seed : int, sequence of int or numpy.random.Generator, optional
    progressbar : bool, default True
        Shown on a terminal only.

    Returns
    -------
    Sequential

    Raises
    ------
    ModelError
        As :func:`bayeskit.compare` does, and if observations cannot be told apart (an autoregressive variable is one
        density over all of its entries), or one enters the density of another.
    OptionError
        If the blocks or the order do not hold each observation once.

    Notes
    -----
    Cost: one evidence a block, without analysis: 5 to 30 ms where it is exact, about a second where it is by
    quadrature, a run of NUTS with bridge sampling where it is estimated. Observations that are missing do not count;
    covariates, a lag for example, are known from the beginning.

    Examples
    --------
    >>> arrived = bk.sequential({"line": line, "flat": flat})
    >>> arrived.table.pivot(index="observations", columns="model", values="log_bayes_factor").plot()
    """
    given, seed = one_or_several(models), whole_seed(random_seed)
    posteriors, notes = comparable_posteriors(given, shared or carried_shared(given), seed)
    evidences, conventions = evidences_of_subsets(posteriors, observations, seed)
    return _arrived(evidences, [*notes, *conventions], _log_odds(models, list(given)), blocks, order, progressbar)


def _log_odds(models: OneOrSeveral, names: list[str]) -> np.ndarray:
    if isinstance(models, Comparison):
        return np.log(models.table["prior_probability"][names].to_numpy(dtype=float))
    return np.zeros(len(names))


def _arrived(
    evidences: list[SubsetEvidence],
    notes: list[str],
    log_odds: np.ndarray,
    blocks: int | Sequence[int] | np.ndarray | None,
    order: Sequence[int] | np.ndarray | None,
    bar: bool,
) -> Sequential:
    number = len(evidences[0])
    places = _order(order, number)
    worst = min(MOST[e.posterior.log_evidence.label] for e in evidences)
    ends = [0, *np.cumsum(_sizes(blocks, number, worst)).tolist()]
    found: dict[int, list[LogEvidence]] = {}
    for end in watched(ends, "blocks of observations", bar):
        kept = np.isin(np.arange(number), places[:end])
        found[end] = [_after(kept, evidence) for evidence in evidences]
    table = _table([e.name for e in evidences], found, log_odds)
    fewer = isinstance(blocks, int) and blocks > number
    few = [f"{number} observations make {number} blocks, where {blocks} were asked for"] if fewer else []
    said = (*notes, *few, *_missing(evidences, found))
    return Sequential(table, tuple(places.tolist()), evidences[0].observations.unit, said)


def _after(kept: np.ndarray, evidence: SubsetEvidence) -> LogEvidence:
    """The log evidence of some observations; NaN, with the reason, where they leave none."""
    try:
        return evidence(kept)
    except NoSubsetAnswer as error:
        whole = evidence.posterior.log_evidence
        return replace(whole, value=math.nan, error=math.inf, reason=error.reason, unvisited="")


def _missing(evidences: Sequence[SubsetEvidence], found: Mapping[int, list[LogEvidence]]) -> list[str]:
    """Of each model, after how many observations it has no number, and why."""
    notes = []
    for m, evidence in enumerate(evidences):
        remedy = "" if evidence.shared else "; a model of these observations alone may have one, by bayeskit.infer"
        reasons: dict[str, list[int]] = {}
        for end, after in found.items():
            if math.isnan(after[m].value):
                reasons.setdefault(after[m].reason, []).append(end)
        for why, ends in reasons.items():
            counts = ", ".join(map(str, ends[:3])) + (f" … {ends[-1]}" if len(ends) > 3 else "")
            notes.append(f"{evidence.name}: no number after {counts} observations: {why}{remedy}")
    return notes


def _order(order: Sequence[int] | np.ndarray | None, number: int) -> np.ndarray:
    places = np.arange(number) if order is None else np.asarray(order)
    if places.dtype.kind not in "iu" or not np.array_equal(np.sort(places), np.arange(number)):
        raise OptionError(f"order must hold each number from 0 to {number - 1} once, the observations as they came")
    return places.astype(int)


def _sizes(blocks: int | Sequence[int] | np.ndarray | None, number: int, most: int) -> list[int]:
    if isinstance(blocks, Sequence | np.ndarray):
        sizes = np.asarray(blocks)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or sizes.sum() != number or sizes.min() < 1:
            said = sizes.tolist()
            raise OptionError(f"blocks are {said}; they must be whole numbers, at least 1 each, and {number} together")
        return [int(size) for size in sizes]
    wanted = most if blocks is None else blocks
    return [len(part) for part in np.array_split(np.arange(number), min(wanted, number))]


def _table(names: list[str], found: Mapping[int, list[LogEvidence]], log_odds: np.ndarray) -> pd.DataFrame:
    rows, before = [], None
    for end, after in found.items():
        probability = special.softmax([e.value for e in after] + log_odds)
        for m, (name, evidence) in enumerate(zip(names, after, strict=True)):
            score = difference(evidence, before[m]) if before else (math.nan, 0.0)
            # Nothing is known of a model against itself either where it has no number.
            factor = difference(evidence, after[0]) if m or math.isnan(evidence.value) else (0.0, 0.0)
            head = (end, name, evidence.value, evidence.error, evidence.label)
            rows.append((*head, score[0], *factor, float(probability[m]), score[1]))
        before = after
    columns = ["observations", "model", "log_evidence", "error", "label", "log_score", "log_bayes_factor"]
    columns += ["log_bayes_factor_error", "posterior_probability", "log_score_error"]
    return pd.DataFrame(rows, columns=columns)
