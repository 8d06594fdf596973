r"""``prior_check``: what a prior says of parameters and of data, before the data are used.

.. math:: \theta \sim p(\theta), \quad \tilde y \sim p(\cdot \mid \theta)

Draws of both, by PyMC's own forward sampling. A prior on which nobody would bet (a coefficient of a thousand, counts in
the billions, probabilities that are zero or one) shows in them, and so do data that the prior does not foresee: the
mean and the standard deviation of the data have the two-sided probabilities of
:func:`bayeskit.posterior_check` among those of prior predictive data sets, where nothing is used twice, so they are
uniform if the prior is right (Box 1980).

Sources: Box (1980), Journal of the Royal Statistical Society A 143; Gabry, Simpson, Vehtari, Betancourt and Gelman
(2019), Journal of the Royal Statistical Society A 182; Evans and Moshonov (2006), Bayesian Analysis 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_observations
from pytensor.graph.traversal import ancestors

from bayeskit.arguments import RandomSeed, Range, numeric, whole_seed
from bayeskit.errors import ModelError, OptionError
from bayeskit.graphs.environment import silently
from bayeskit.model.snapshot import on_its_data
from bayeskit.model.support import has_own_transform, is_improper
from bayeskit.results.marginals import scalar_labels
from bayeskit.results.tree import dims_of
from bayeskit.validation.predictive_checks.data_kinds import category_labels, data_kind
from bayeskit.validation.predictive_checks.prior_and_data import sampled_from_prior
from bayeskit.validation.predictive_checks.prior_record import PriorCheck
from bayeskit.validation.predictive_checks.prior_sentences import of_data, of_parameter, of_shares

__all__ = ["prior_check"]

NO_ORDER = (
    "the values of {} are categories: their codes have no median, interval, mean or spread, which the table leaves open"
)
INTERVAL = (0.03, 0.97)
SCALARS = 30  # entries of a variable that have a row each
FAR = 10.0  # lengths of the observed range
COLUMNS = ["median", "low", "high", "not_finite", "outside"]


@on_its_data
def prior_check(
    model: pm.Model,
    *,
    draws: Annotated[int, Range(2, 10**6)] = 1000,
    plausible: Mapping[str, Sequence[float]] | None = None,
    random_seed: RandomSeed = None,
) -> PriorCheck:
    """Check a prior by what it says of parameters, on their natural scale, and of data.

    Parameters
    ----------
    model : pymc.Model
        With or without data. Of what depends on an improper prior nothing can be drawn; it is named.
    draws : int, default 1000
        From the prior, each with a data set.
    plausible : mapping of str to (float, float), optional
        The lowest and highest plausible value of variables, observed ones and Deterministics among them:
        ``{"height": (0.5, 2.5)}``.
    random_seed : int, sequence of int or numpy.random.Generator, optional

    Returns
    -------
    PriorCheck
        ``sentences`` names what is absurd, ``parameters`` and ``predicted`` are tables, ``plot()`` draws both.

    Raises
    ------
    ModelError
        If the model has no variable, or PyMC cannot draw from it.
    OptionError
        If ``plausible`` names no variable, or its ends are not two numbers in order.

    Notes
    -----
    Cost: one pass of PyMC's forward sampling. What a Potential, or a transform that cuts a prior, says is not in the
    draws, and a note says so.

    Examples
    --------
    >>> bk.prior_check(model, plausible={"height": (0.5, 2.5)}).sentences  # doctest: +SKIP
    ('height: half of the prior predictive draws lie beyond 1.2e+06, where the data reach 30',)
    """
    return _summarised(model, draws, _ranges(model, plausible or {}), whole_seed(random_seed))


def _summarised(model: pm.Model, draws: int, ranges: Mapping[str, tuple[float, float]], seed: int) -> PriorCheck:
    improper = [str(rv.name) for rv in model.free_RVs if is_improper(rv)]
    names = _drawable(model, improper)
    sentences = [f"{n}: its prior is improper ({_law(model, n)}): nothing can be drawn from it" for n in improper]
    found = sampled_from_prior(model, names, draws, seed)
    observed = {n: np.asarray(v) for n, v in find_observations(model).items()}
    rows: dict[str, list[Any]] = {"parameters": [], "predicted": []}
    coded: list[str] = []
    with silently():
        for name in (n for n in names if found[n].size):
            if name in [rv.name for rv in model.observed_RVs]:
                row, said = _of_observed(model, name, found[name], observed.get(name), ranges.get(name))
                rows["predicted"].append(row)
                coded += [NO_ORDER.format(name)] if np.isnan(row[1]["median"]) and row[1]["not_finite"] < 1 else []
            else:
                table, said = _of_parameter(found, name, ranges.get(name))
                rows["parameters"] += table
            sentences += said
    tables = [pd.DataFrame([r for _, r in of], index=[n for n, _ in of]) for of in rows.values()]
    parameters = tables[0] if len(tables[0]) else pd.DataFrame(columns=COLUMNS, dtype=float)
    shaped = {n: (dims_of(model, n, v.ndim), v) for n, v in observed.items()}
    record = (
        parameters,
        tables[1],
        tuple(sentences),
        draws,
        found,
        xr.Dataset(shaped),
        (*_notes(model, improper, names), *coded),
    )
    return PriorCheck(*record)


def _ranges(model: pm.Model, plausible: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """What was said to be plausible."""
    result = {}
    for name, ends in plausible.items():
        if name not in model.named_vars:
            raise OptionError(f"plausible: there is no variable {name!r}; the model has {', '.join(model.named_vars)}")
        values = numeric(f"plausible: the ends of {name!r}", ends)
        if values.shape != (2,) or not values[0] < values[1]:
            raise OptionError(f"plausible: {name!r} needs its lowest and its highest value, (0, 10) say")
        result[name] = float(values[0]), float(values[1])
    return result


def _drawable(model: pm.Model, improper: Sequence[str]) -> list[str]:
    """Free variables, Deterministics and observed ones that depend on no improper prior."""
    without = [model[name] for name in improper]
    every = [*model.free_RVs, *model.deterministics, *model.observed_RVs]
    if not every:
        raise ModelError("the model has no variable, so there is no prior to check")
    return [str(v.name) for v in every if not set(ancestors([v])).intersection(without)]


def _law(model: pm.Model, name: str) -> str:
    return type(model[name].owner.op).__name__.removesuffix("RV")


def _of_parameter(found: xr.Dataset, name: str, plausible: Any) -> tuple[list[Any], list[str]]:
    """A row for each scalar, or one for all entries of a large variable; and what is said of all entries together."""
    values = found[name].transpose("chain", "draw", ...).to_numpy()
    values = values.reshape(values.shape[0] * values.shape[1], -1)
    if values.shape[1] <= SCALARS:
        parts = dict(zip(scalar_labels(found, name), values.T, strict=True))
    else:
        parts = {f"{name} ({values.shape[1]:,} entries)": values.ravel()}
    rows = [(label, _summary(part, plausible)) for label, part in parts.items()]
    return rows, list(of_parameter(name, values.ravel(), _outside(values, plausible)))


def _of_observed(
    model: pm.Model, name: str, drawn: xr.DataArray, observed: np.ndarray | None, plausible: Any
) -> tuple[Any, list[str]]:
    values = drawn.transpose("chain", "draw", ...).to_numpy()
    values = values.reshape(values.shape[0] * values.shape[1], -1)
    data = None if observed is None or not observed.size else observed.ravel()
    near = plausible
    if near is None and data is not None:
        length = float(np.ptp(data)) or float(np.abs(data).max()) or 1.0
        near = float(data.min()) - FAR * length, float(data.max()) + FAR * length
    row = _summary(values, near) | {"observed_min": np.nan, "observed_max": np.nan}
    labelled = name in category_labels(model)
    kind = "continuous" if data is None else data_kind(data, values, labelled)
    tails: dict[str, float] = {}
    if data is not None:
        row |= {"observed_min": float(data.min()), "observed_max": float(data.max())}
        if kind != "category":
            tails["mean"] = _two_sided(float(data.mean()), values.mean(axis=1))
            if kind != "binary" and data.size > 1:
                tails["sd"] = _two_sided(float(data.std()), values.std(axis=1))
    row |= {f"tail_{statistic}": tails.get(statistic, np.nan) for statistic in ("mean", "sd")}
    if kind == "category":  # codes have no order
        row |= dict.fromkeys(("median", "low", "high"), np.nan)
    if kind in ("category", "binary"):
        conflict = of_data(name, values, None, row["outside"], plausible is not None, tails)
        return (name, row), [*of_shares(name, values), *conflict]
    return (name, row), list(of_data(name, values, data, row["outside"], plausible is not None, tails))


def _summary(values: np.ndarray, plausible: Any) -> dict[str, float]:
    finite = values[np.isfinite(values)]
    ends = np.quantile(finite, (0.5, *INTERVAL)) if finite.size else np.full(3, np.nan)
    shares = (1 - finite.size / values.size, _outside(values, plausible))
    return dict(zip(COLUMNS, (*map(float, ends), *shares), strict=True))


def _outside(values: np.ndarray, plausible: Any) -> float:
    if plausible is None:
        return float("nan")
    return float(np.mean(~((values >= plausible[0]) & (values <= plausible[1]))))


def _two_sided(observed: float, replicated: np.ndarray) -> float:
    """The tail probability of a number among independent ones, of which infinite ones are as large as they are."""
    kept = replicated[~np.isnan(replicated)]
    least = min(np.count_nonzero(kept <= observed), np.count_nonzero(kept >= observed))
    return min(1.0, 2 * (1 + least) / (1 + kept.size))


def _notes(model: pm.Model, improper: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    every = [str(v.name) for v in (*model.free_RVs, *model.deterministics, *model.observed_RVs)]
    notes = []
    if left := [n for n in every if n not in names and n not in improper]:
        notes.append(f"{', '.join(left)} depend{'s' * (len(left) == 1)} on an improper prior and was not drawn")
    for potential in model.potentials:
        notes.append(f"the draws know nothing of the Potential {potential.name}")
    for rv in model.free_RVs:
        if not is_improper(rv) and not has_own_transform(model, rv):
            notes.append(f"the draws of {rv.name} know nothing of its transform, which leaves a part of its prior")
    return tuple(notes)
