"""Leave-one-out cross-validation of a posterior: by ratios of evidences, else by Pareto-smoothed importance sampling.

Where the log evidence is exact, or found by quadrature, so is log p(y_i | the others), the difference of two of them.
Of few observations of an exact posterior all are scored so, in 10 ms each; of others those that draws cannot score,
whose Pareto k is high, if these are few. Where an observation has a parameter of its own, that is integrated out of its
likelihood at each draw of the others (:mod:`bayeskit.comparison.integrated_likelihood`), before its weights are taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_observations

from bayeskit.comparison.evidence_of_subsets import SubsetEvidence, difference
from bayeskit.comparison.excluded_parameters import excluding
from bayeskit.comparison.integrated_likelihood import integrated_log_likelihood
from bayeskit.comparison.smoothed_loo import Smoothed, smoothed_loo
from bayeskit.errors import BayeskitError
from bayeskit.model.observations import ENTRY, by_observation
from bayeskit.model.snapshot import on_its_data, written_down
from bayeskit.model.summed_likelihood import ADDED_UP, known_rows
from bayeskit.results.log_densities import log_densities
from bayeskit.results.records import Posterior
from bayeskit.terminal import watched

__all__ = ["REMEDY", "LeaveOneOut", "leave_one_out", "loo_from_draws", "pointwise_loo"]

# Pointwise log likelihoods kept at once for LOO (draws × observations, 8 bytes each), and the fewest draws LOO is
# computed from.
LOO_ELEMENTS = 20_000_000
LOO_MIN_DRAWS = 500
SCORED_EXACTLY, RESCUED = 40, 10  # observations
REMEDY = "bayeskit.cross_validate leaves each out in a run of its own"


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """log p(y_i | the others) of each observation i; empty, or NaN where draws cannot have it, with a note.

    ``error`` is what draws leave open of the sum, NaN where some Pareto k is high.
    """

    elpd: np.ndarray
    k: np.ndarray  # Pareto k of its weights
    drawn: np.ndarray  # whether the score is from these, and no ratio of evidences
    good_k: float
    error: float
    note: str

    @property
    def decisive(self) -> np.ndarray:
        """The observations of high Pareto k, without which the posterior is another."""
        return self.k > self.good_k

    @property
    def high(self) -> np.ndarray:
        """Those of them whose score is from draws, and not reliable."""
        return self.decisive & self.drawn

    @property
    def known(self) -> bool:
        """Whether every observation has a score."""
        return self.elpd.size > 0 and bool(np.all(np.isfinite(self.elpd)))

    @property
    def total(self) -> tuple[float, float, float, float]:
        """Of all observations elpd, its standard error over data, the number of high Pareto k, and ``error``."""
        if not self.known:
            return math.nan, math.nan, math.nan, math.nan
        spread = math.sqrt(self.elpd.size * np.var(self.elpd, ddof=1)) if self.elpd.size > 1 else math.nan
        return float(self.elpd.sum()), spread, float(self.high.sum()), self.error


@written_down
def leave_one_out(posterior: Posterior, bar: bool = False) -> tuple[tuple[float, float, float, float], str]:
    """The ``total`` of :class:`LeaveOneOut` and its note."""
    found = pointwise_loo(posterior, bar)
    return found.total, found.note


def pointwise_loo(posterior: Posterior, bar: bool = False, costly: bool = True) -> LeaveOneOut:
    """Each observation given the others, under a ``bar`` where that takes long.

    What is not ``costly`` is a closed form, or from draws.
    """
    found, note = loo_from_draws(posterior)
    if found is None:
        none = np.empty(0)
        return LeaveOneOut(none, none, none.astype(bool), math.nan, math.nan, note)
    drawn = np.ones(found.elpd.size, dtype=bool)
    of_all = posterior.log_evidence.label == "exact" and found.elpd.size <= SCORED_EXACTLY
    which = np.flatnonzero(found.high | of_all)
    few = of_all or (costly and 0 < which.size <= RESCUED)
    if few and (exact := _exact_scores(posterior, which, bar)) is not None:
        elpd = found.elpd.copy()
        elpd[which], drawn[which] = exact[0], False
        error = exact[1] + (found.error_of(drawn) if drawn.any() else 0.0)
        rescued = f"{which.size} observation(s) of high Pareto k have exact scores, by ratios of evidences"
        return LeaveOneOut(elpd, found.k, drawn, found.good_k, error, "" if of_all else rescued)
    known = np.all(np.isfinite(found.elpd)) and not found.high.any()
    error = found.error_of(drawn) if known else math.nan
    return LeaveOneOut(found.elpd, found.k, drawn, found.good_k, error, note if known else f"{note}; {REMEDY}")


def _exact_scores(posterior: Posterior, which: np.ndarray, bar: bool) -> tuple[np.ndarray, float] | None:
    """log p(y_i | the others) of some observations, and what their sum may be off by.

    None where evidences of the others are not known.
    """
    if posterior.log_evidence.label == "estimated" or len(posterior.model.observed_RVs) != 1:
        return None
    try:
        subsets, scores = SubsetEvidence("model", posterior, ENTRY, posterior.random_seed or 0), []
        for i in watched(which.tolist(), "observations left out", bar):
            without = np.arange(len(subsets)) != i
            scores.append(difference(subsets(~np.zeros(len(subsets), dtype=bool)), subsets(without)))
    except BayeskitError:
        return None
    return np.array([value for value, _ in scores]), sum(error for _, error in scores)


@on_its_data
def loo_from_draws(
    posterior: Posterior, members: Mapping[str, np.ndarray] | None = None
) -> tuple[Smoothed | None, str]:
    """Each observation given the others, or none; and a note, which then says why.

    The score of an observation is NaN, its Pareto k infinite, where the draws cannot have it.

    ``members`` are the numbers of the observations that the entries of each observed variable belong to, where an
    observation is not an entry.
    """
    if not posterior.model.observed_RVs:
        why = ADDED_UP if known_rows(posterior.model) else "the model has no observed variable"
        return None, f"LOO was not computed: {why}"
    labels = [str(value.name) for value in posterior.model.discrete_value_vars if value.type.ndim]
    if labels:
        # Each observation has a label of its own, drawn given that observation: its weight would be infinite.
        return None, f"LOO was not computed: the draws of {', '.join(labels)} have seen each observation"
    draws = posterior.tree["posterior"].to_dataset()
    observations = sum(np.size(value) for value in find_observations(posterior.model).values())
    if posterior.model.free_RVs:
        number, room = draws.sizes["chain"] * draws.sizes["draw"], LOO_ELEMENTS // max(observations, 1)
        if (kept := min(number, room)) < LOO_MIN_DRAWS:
            few = f"{number} draws are too few, it takes {LOO_MIN_DRAWS}: infer with draws=4000"
            why = few if number < LOO_MIN_DRAWS else f"{observations} observations leave room for {kept} draws"
            return None, f"LOO was not computed: {why}"
        draws = draws.isel(draw=slice(kept // draws.sizes["chain"]))
    else:  # the likelihood is a number, and one draw of nothing is enough
        draws = xr.Dataset(coords={"chain": [0], "draw": [0]})
    known = posterior.tree["log_likelihood"].to_dataset() if "log_likelihood" in posterior.tree.children else None
    pointwise = pointwise_log_likelihood(posterior.model, draws, members, known)
    if pointwise is None or pointwise.shape[2] < 2:
        why = "there is one observation" if observations < 2 else "the likelihood does not factor into observations"
        return None, f"LOO was not computed: {why}"
    if not np.all(np.isfinite(pointwise)):
        count = int((~np.isfinite(pointwise)).any(axis=(0, 1)).sum())
        return None, f"LOO was not computed: the log likelihood of {count} observation(s) is not finite at some draw"
    integrated = integrated_log_likelihood(posterior.model, draws, members, posterior.analysis)
    worth = 1.0 if posterior.method == "exact" else None
    found = smoothed_loo(pointwise if integrated is None else integrated, draws, reff=worth)
    joint = None if posterior.analysis is None else posterior.analysis.original
    unseen = excluding(posterior.model, draws, members, pointwise.shape[2], joint)
    if unseen.any():
        what = "exclude parameters that all others allow, which no draw has seen"
        return found.without(unseen), f"no LOO from these draws: {int(unseen.sum())} observation(s) {what}"
    high = int(found.high.sum())
    return found, f"LOO is unreliable: {high} observation(s) with Pareto k above {found.good_k:.2f}" if high else ""


def pointwise_log_likelihood(
    model: pm.Model,
    draws: xr.Dataset,
    members: Mapping[str, np.ndarray] | None = None,
    known: xr.Dataset | None = None,
) -> np.ndarray | None:
    """The log likelihood at draws, its axes chains, draws, observations; none where it does not factor into these.

    It may be ``known``, of more draws that begin with these.
    """
    if known is None:
        known = log_densities(model, draws, ["log_likelihood"])["log_likelihood"]
    known = known.isel(draw=slice(draws.sizes["draw"]))
    terms = {str(n): v.transpose("chain", "draw", ...).to_numpy() for n, v in known.data_vars.items()}
    return by_observation(terms, members)
