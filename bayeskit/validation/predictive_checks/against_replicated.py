r"""``posterior_check``: would the fitted model produce data like these?

.. math:: p_T = \Pr\{T(\tilde y) \ge T(y) \mid y\}, \quad
          \tilde y \sim p(\cdot \mid \theta), \; \theta \sim p(\theta \mid y)

With p_T' = Pr{T(ỹ) ≤ T(y) | y} the tail probability is 2 min(p_T, p_T'), or p_T of a distance, which says nothing where
it is small. From n independent data sets, k of them on that side, p_T is (k + 1) / (n + 1), which is no smaller than n
can show; correlated draws count as many as they are worth. All statistics are corrected together by Holm's method.

Residuals are of each draw of the parameters: T(ỹ, θ) against T(y, θ), of several data sets from each of a part of the
draws (realised discrepancies, Gelman, Meng and Stern 1996).

The data are used twice: θ has seen y, and statistics that a parameter is fitted to (mean and sd of a Normal) are hardly
ever in their tails. So a right model is accused less often than the level says; and a wrong one may pass: what passes
here is not proved. Of 300 data sets each, with parameters from the prior and exact draws, at level 0.05 two of a line
with known noise were accused, two of a Poisson regression, two of Binomials under one Beta, and none of a line with
unknown noise or where rows have means or chances of their own. (In theory p_T below α comes up at most 2 α of the time,
of statistics of the data and of realised ones alike, Meng 1994.)

Sources: Rubin (1984), Annals of Statistics 12; Meng (1994), Annals of Statistics 22; Gelman, Meng and Stern (1996),
Statistica Sinica 6; Gelman et al. (2013), Bayesian Data Analysis, chapter 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats

from bayeskit.arguments import Probability, RandomSeed, whole_seed
from bayeskit.errors import ModelError
from bayeskit.graphs.environment import silently
from bayeskit.model.snapshot import on_its_data
from bayeskit.results.records import Posterior
from bayeskit.validation.predictive_checks.columns import Column, in_order, unit_of
from bayeskit.validation.predictive_checks.data_kinds import data_kind, in_columns
from bayeskit.validation.predictive_checks.misfit_sentences import misfit_sentence
from bayeskit.validation.predictive_checks.predictive_check import PredictiveCheck
from bayeskit.validation.predictive_checks.replicated_data import REPEATED, Replicated, replicated_data
from bayeskit.validation.predictive_checks.statistics_by_kind import Measured, statistics_of
from bayeskit.validation.statistics import holm

__all__ = ["posterior_check"]

SAMPLE = ("chain", "draw")
SMALL_RESIDUALS = (
    "of the residuals of {} only large ones are looked at: the replicated data are one set a draw, and there is no "
    "model to draw more"
)
POTENTIAL = (
    "the replicated data know nothing of the Potential {}: what it says of other data, or of how the observed ones "
    "were chosen (censored rows, truncation), is not in them"
)
TIES = 1e-9  # relative difference of numbers that are the same but for rounding


@on_its_data
def posterior_check(
    posterior: Posterior | xr.DataTree,
    model: pm.Model | None = None,
    *,
    var_names: Sequence[str] | None = None,
    alpha: Probability = 0.05,
    random_seed: RandomSeed = None,
) -> PredictiveCheck:
    """Check a fitted model on data replicated from it, by test statistics that suit the kind of data.

    Mean, standard deviation, minimum and maximum of measurements and counts, the share of zeros of counts, the shares
    of categories; the likeness of neighbouring rows; where rows are predicted to differ, the spread and the largest of
    the residuals, and whether these are alike, or grow, along the predictions (a curved effect, another link, noise
    that grows with the level); where they are not, whether the observed values lie in their predictive distributions
    as draws do (PIT). Both tails mean a misfit: data may vary more, and less, than the model says.
    Each column of a matrix of at most eight is looked at by itself.

    Parameters
    ----------
    posterior : Posterior or xarray.DataTree
        As :func:`bayeskit.infer` or ``pymc.sample`` give it. Replicated data that it holds (``posterior_predictive``)
        are used as they are; else they are drawn.
    model : pymc.Model, optional
        The model that a tree is of; a Posterior has it.
    var_names : sequence of str, optional
        Observed variables to look at; all by default.
    alpha : float, default 0.05
        Level of all statistics together: the probability that a right model has any of them in its tail is less,
        because the data are used twice.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        By default that of the posterior.

    Returns
    -------
    PredictiveCheck
        ``sentences`` says what the model does not reproduce, ``table`` has all statistics, ``plot()`` draws them.

    Raises
    ------
    ModelError, DataError, OptionError
        If nothing is observed, there is no such variable, or the draws are not those of the model.

    Notes
    -----
    Cost: a pass of PyMC's forward sampling, and milliseconds for a million replicated values.

    Examples
    --------
    >>> bk.posterior_check(bk.infer(model)).sentences  # doctest: +SKIP
    ('n: the counts vary more than a Poisson: 99.8 % of replicated standard deviations are below the observed ...',)
    """
    seed = getattr(posterior, "random_seed", None) if random_seed is None else random_seed
    seed = whole_seed(seed)
    replicated = replicated_data(posterior, model, seed)
    if unknown := [n for n in var_names or () if n not in replicated.names]:
        raise ModelError(f"{unknown[0]!r} is no observed variable; there are {', '.join(replicated.names)}")
    # A stream of its own: with the seed alone, ranks in ties would repeat the numbers that made the data.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    with silently():
        return _checked(replicated, list(var_names or replicated.names), alpha, rng)


def _checked(replicated: Replicated, names: Sequence[str], alpha: float, rng: np.random.Generator) -> PredictiveCheck:
    rows: list[dict[str, Any]] = []
    sentences: list[str] = []
    draws: dict[str, Any] = {}
    notes = [POTENTIAL.format(name) for name in replicated.potentials]
    sizes = replicated.predicted.sizes["chain"], replicated.predicted.sizes["draw"]
    for column, distribution in _columns(replicated, names, notes):
        for found in statistics_of(column, rng):
            statistic = found.statistic
            unit = column.unit if statistic.in_unit else 1.0
            observed, tail = unit * float(found.observed.mean()), _tail(found, sizes, replicated.independent)
            tail["median"] *= unit
            rows.append({"variable": column.name, "statistic": statistic.name, "observed": observed, **tail})
            said = (column.name, column.kind, distribution, statistic, observed, tail["median"], tail["below"])
            sentences.append(misfit_sentence(*said))
            one_sided = statistic.below is not None and not found.two_sided
            if one_sided and (note := SMALL_RESIDUALS.format(column.name)) not in notes:
                notes.append(note)
            if found.replicated.size == sizes[0] * sizes[1]:
                draws[f"{column.name}: {statistic.name}"] = (SAMPLE, unit * found.replicated.reshape(sizes))
    table = pd.DataFrame(rows, columns=["variable", "statistic", "observed", "median", "below", "tail", "error"])
    tails = holm(table["tail"].to_numpy(dtype=float), alpha)
    table["verdict"] = np.where(tails, "in its tail", "")
    kept = tuple(sentence for sentence, tail in zip(sentences, tails, strict=True) if tail)
    return PredictiveCheck(table, kept, alpha, sizes[0] * sizes[1], xr.Dataset(draws), tuple(notes))


def _columns(replicated: Replicated, names: Sequence[str], notes: list[str]) -> Iterator[tuple[Column, str]]:
    """Every column of the variables, with the name of its distribution."""
    orders = _orders(replicated)
    for name in names:
        drawn, data = replicated.predicted[name], replicated.observed[name]
        # Observed data that the tree lacks come from the model as numbers, without the labels of replicated ones.
        data = data.assign_coords({d: drawn[d] for d in data.dims if d in drawn.coords and d not in data.coords})
        bad = [100 * np.mean(~np.isfinite(values.to_numpy())) for values in (drawn, data)]
        if any(bad):
            whose, share = ("replicated", bad[0]) if bad[0] else ("observed", bad[1])
            notes.append(f"{share:.3g} % of the {whose} values of {name} are not finite: it was not looked at")
            continue
        kind = data_kind(data.to_numpy(), drawn.to_numpy(), name in replicated.labels)
        whole = in_columns(drawn, SAMPLE)
        for label, values in in_columns(data).items():
            y, many = values.to_numpy(), whole[label].to_numpy()
            rows = y.shape[0] if y.ndim else 1
            many = many.reshape(many.shape[0] * many.shape[1], rows, -1)
            labels = replicated.labels.get(name, ())
            unit = unit_of(y) if kind in ("continuous", "count") else 1.0
            y, many = (y, many) if unit == 1 else (y / unit, many / unit)
            repeated = partial(_repeated, replicated, name, label, rows, unit)
            by = next((other for other, length in orders.items() if other != name and length == rows), "")
            column = Column(f"{name}{label}", kind, y.reshape(rows, -1), many, labels, repeated, unit, by)
            if column.sorted and rows > 2:
                whose, order = (name, by) if by else (column.name, "their values")
                said = f"the rows of {whose} are in the order of {order}: neighbours were not compared"
                notes += [said] if said not in notes else []
            yield column, replicated.distributions.get(name, "")


def _orders(replicated: Replicated) -> dict[str, int]:
    """The observed variables in whose order the rows are, as a table sorted by class has them, with their number."""
    found: dict[str, int] = {}
    for name in replicated.names:
        values, many = replicated.observed[name].to_numpy(), replicated.predicted[name].to_numpy()
        known = values.ndim == 1 and np.isfinite(values).all() and np.isfinite(many).all()
        if known and values.size > 2 and np.ptp(values) > 0:
            kind = data_kind(values, many, name in replicated.labels)
            found |= {name: values.size} if in_order(values, kind) else {}
    return found


def _repeated(replicated: Replicated, name: str, label: str, rows: int, unit: float) -> np.ndarray | None:
    """Several data sets of each of some draws of the parameters, of one column; None where there are none."""
    if replicated.repeated is None or not np.isfinite(drawn := replicated.repeated[name]).all():
        return None
    values = in_columns(drawn, REPEATED)[label].to_numpy()
    values = values if unit == 1 else values / unit
    return values.reshape(*values.shape[:2], rows, -1)


def _tail(found: Measured, sizes: tuple[int, int], independent: bool) -> dict[str, float]:
    """The tail probability of an observed statistic among replicated ones, and its Monte Carlo standard error."""
    values, observed = found.replicated, found.observed[:, None]
    same = TIES * max(float(np.max(np.abs(observed))), float(np.max(np.abs(values))))
    sides = [values <= observed + same, values >= observed - same]
    smaller, larger = (float(side.mean()) for side in sides)
    side = sides[0] if found.two_sided and smaller < larger else sides[1]
    number = _worth(found, side, sizes, independent)
    share = (1 + number * float(side.mean())) / (1 + number)
    times = 2 if found.two_sided else 1
    error = times * float(np.sqrt(share * (1 - share) / number))
    below = (smaller + 1 - larger) / 2
    return {"median": float(np.median(values)), "below": below, "tail": min(1.0, times * share), "error": error}


def _worth(found: Measured, side: np.ndarray, sizes: tuple[int, int], independent: bool) -> float:
    """As how many independent data sets the replicated ones count, for the share that lie on one side."""
    number, parameters = float(side.size), len(side)
    # Of realised statistics the draws of the parameters differ in the observed one, of others in the replicated ones.
    series = found.observed if parameters > 1 else found.replicated.ravel()
    apart = 1.0
    if not independent and series.size % sizes[0] == 0 and (parameters > 1 or series.size == sizes[0] * sizes[1]):
        worth = float(array_stats.ess(series.reshape(sizes[0], -1), method="mean", chain_axis=0, draw_axis=1))
        apart = min(1.0, worth / series.size) if np.isfinite(worth) else 1.0
    if parameters > 1 and (variance := side.mean(axis=1).var(ddof=1) / parameters) > 0:
        # Data sets of one draw are alike in it.
        number = min(number, float(side.mean() * (1 - side.mean()) / variance))
    return number * apart
