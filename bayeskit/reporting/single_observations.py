"""Leave-one-out cross-validation on a page: which observations the model did not expect, and which decide too much."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np
import xarray as xr

from bayeskit.comparison.leave_one_out import REMEDY, LeaveOneOut, pointwise_loo
from bayeskit.graphs.environment import silently
from bayeskit.model.observations import ENTRY, observations_of
from bayeskit.reporting.records import Section, Table
from bayeskit.reporting.subject import Subject, listed

__all__ = ["loo_section"]

TITLE = "Single observations"
SHOWN, NAMED = 5, 5
MEANING = "Each observation is predicted from the others (leave-one-out, {}): "
SUM = "the log density sums to elpd {:.2f}, with a standard error over other data of {:.2f}."
NO_SUM = "{:,} of {:,} observations have no score, so that there is no sum over all of them."
BY_EVIDENCE = "exactly, by ratios of evidences"
BY_DRAWS = "by Pareto-smoothed importance sampling of {} draws"
ERROR = " The draws leave {:.2g} of the sum open (Monte Carlo standard error)."
HIGH = " A Pareto k above {:.2f} says that an observation decides too much for {} draws to tell what is without it."


def loo_section(subject: Subject) -> Section | None:
    """The observations of high Pareto k by name, and those that were least expected."""
    if not subject.names("observed") or not subject.names("free") or subject.written:
        return None
    if isinstance(subject.densities, str):
        return Section("loo", TITLE, (f"LOO was not computed: {subject.densities}.",))
    tree = subject.densities
    with silently():  # an observation that some draws exclude all but
        found = pointwise_loo(replace(subject.post, tree=tree), costly=False)
    if not found.elpd.size:
        return Section("loo", TITLE, (f"{found.note}.",))
    names = _names(subject, tree["log_likelihood"].to_dataset(), found.elpd.size)
    doubts = _doubts(found, names)
    if found.note and not (doubts and found.known):
        doubts = (found.note, *doubts)
    said = _meaning(found, tree["posterior"].sizes)
    return Section("loo", TITLE, (said,), tables=(_table(found, names),), doubts=doubts)


def _meaning(found: LeaveOneOut, sizes: Mapping[Hashable, int]) -> str:
    """What the scores are, what they sum to, and how far that is open."""
    number, drawn = f"{sizes['chain'] * sizes['draw']:,}", bool(found.drawn.any())
    elpd, spread, _, open_by = found.total
    unscored = int(np.sum(~np.isfinite(found.elpd)))
    total = SUM.format(elpd, spread) if found.known else NO_SUM.format(unscored, found.elpd.size)
    error = ERROR.format(open_by) if drawn and not math.isnan(open_by) else ""
    how = BY_DRAWS.format(number) if drawn else BY_EVIDENCE
    return MEANING.format(how) + total + error + HIGH.format(found.good_k, number)


def _names(subject: Subject, pointwise: xr.Dataset, number: int) -> list[str]:
    """What the observations are called, by the coords of their dims."""
    shapes = {str(n): v.transpose("chain", "draw", ...).shape[2:] for n, v in pointwise.data_vars.items()}
    labels = observations_of(subject.post.model, shapes, ENTRY).labels
    return [str(label) for label in labels] if len(labels) == number else [str(k) for k in range(number)]


def _doubts(found: LeaveOneOut, names: list[str]) -> tuple[str, ...]:
    high = [names[k] for k in np.argsort(-found.k) if found.decisive[k]]
    if not high:
        return ()
    more = f" and {len(high) - NAMED:,} more" if len(high) > NAMED else ""
    which = ", ".join(high[:NAMED]) + more if more else listed(high)
    one = "observation has" if len(high) == 1 else "observations have"
    unreliable = f"so that leave-one-out is unreliable there; {REMEDY}"
    so = unreliable if found.high.any() else "so much does the answer hang on it"
    return (f"{len(high):,} {one} a high Pareto k ({which}), {so}",)


def _table(found: LeaveOneOut, names: list[str]) -> Table:
    """All of high Pareto k, and those least expected."""
    order = np.argsort(np.nan_to_num(found.elpd, nan=-np.inf))
    least = list(order[:SHOWN])
    high = [k for k in np.argsort(-found.k) if found.decisive[k] and k not in least]
    rows = tuple((names[k], float(found.elpd[k]), float(found.k[k])) for k in [*least, *high])
    head = ("observation", "log density given the others", "Pareto k")
    return Table(head, rows[:500], "The least expected first, then those of high Pareto k", digits=3)
