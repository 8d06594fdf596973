"""From the evidences of submodels to the tables of a :class:`~bayeskit.comparison.subsets.selection.Selection`."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from bayeskit.comparison.subsets.averaging import Averaged, averaged_moments
from bayeskit.comparison.subsets.in_pieces import Submodels
from bayeskit.comparison.subsets.inclusion_prior import InclusionPrior
from bayeskit.comparison.subsets.integrate_scales import Integrated
from bayeskit.comparison.subsets.model_search import Walk
from bayeskit.comparison.subsets.normal_prediction import NormalData, NormalPrediction, normal_data
from bayeskit.comparison.subsets.populations import AllSubsets, ListedSubsets, Population
from bayeskit.comparison.subsets.scale_integral import Evidences
from bayeskit.comparison.subsets.selection import Selection, predictor_labels
from bayeskit.model.snapshot import Snapshot
from bayeskit.results.log_evidence import LogEvidence

__all__ = ["enumerated", "searched"]

ROUNDING = 1e-20  # share of a sum of squares that projecting on a design may leave where nothing is left
COUNTED = 1e-12  # posterior probability below which the error of a submodel does not count
LARGEST = 100_000_000  # entries of the design matrix up to which R² is computed
KEPT = 5_000  # submodels of a search that coefficients are averaged over


def enumerated(
    found: Integrated,
    prior: InclusionPrior,
    submodels: Submodels,
    top: int,
    notes: list[str],
) -> Selection:
    """All submodels are summed over."""
    population, evidences = AllSubsets(found.linear.size), submodels.evidences()
    joint = evidences.value + prior.log(population)
    average = float(np.logaddexp.reduce(joint))
    weights = np.exp(joint - average)
    error = float(np.max(evidences.error[weights > COUNTED * weights.max()]))
    inside, outside = population.inclusion(weights)
    table = _inclusion_table(found, prior, inside)
    table["error"] = 2 * inside * outside * error + len(inside) * np.finfo(float).eps
    table["log_bayes_factor"] = _log_odds(joint, inside, outside) - _logit(prior.inclusion)
    log_evidence = LogEvidence(average, error, evidences.label)
    moments = averaged_moments(found, population, prior.log(population) - average, submodels.shares(average))
    return _selection(found, prior, population, evidences, joint - average, table, moments, log_evidence, top, notes)


def _log_odds(joint: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Of inclusion; from the logarithms, too, where the submodels without a coefficient have no weight left."""
    with np.errstate(divide="ignore"):
        found = np.log(inside) - np.log(outside)
    for j in np.flatnonzero(np.isinf(found)):
        without, within = (
            np.logaddexp.reduce(half, axis=None) for half in np.moveaxis(joint.reshape(-1, 2, 1 << j), 1, 0)
        )
        found[j] = within - without
    return found


def searched(found: Integrated, prior: InclusionPrior, result: Walk, top: int, notes: list[str]) -> Selection:
    """Some were visited."""
    order = np.argsort(-result.log_joint, kind="stable")
    population = ListedSubsets(result.visited.marks[order])
    evidences = Evidences(result.log_evidence[order], result.error[order], "estimated")
    joint = result.log_joint[order]
    seen = float(np.logaddexp.reduce(joint))
    inside, _ = population.inclusion(np.exp(joint - seen))
    table = _inclusion_table(found, prior, result.inclusion)
    table["error"] = result.inclusion_error
    with np.errstate(divide="ignore"):
        table["log_bayes_factor"] = _logit(result.inclusion) - _logit(prior.inclusion)
    table["visited_probability"] = inside
    best = ListedSubsets(population.marks[:KEPT])
    kept = float(np.logaddexp.reduce(joint[:KEPT]))
    moments = averaged_moments(found, best, prior.log(best) - kept)
    notes = [
        *notes,
        f"submodels were searched, not summed over: coefficients and predictions average over the {len(best.marks):,} "
        f"best that were visited, and posterior probabilities of submodels are those among the visited",
    ]
    scale = result.average.value if math.isfinite(result.average.value) else seen
    return _selection(
        found, prior, population, evidences, joint - max(scale, seen), table, moments, result.average, top, notes
    )


def _logit(chance: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(chance) - np.log1p(-chance))


def _labels(found: Integrated) -> list[object]:
    linear = found.linear
    model = linear.joint.model
    return predictor_labels(model.coords, model.named_vars_to_dims.get(linear.name), linear.size)


def _inclusion_table(found: Integrated, prior: InclusionPrior, chance: np.ndarray) -> pd.DataFrame:
    index = pd.Index(_labels(found), name="predictor")
    return pd.DataFrame({"prior_probability": prior.inclusion, "probability": chance}, index=index)


def _selection(
    found: Integrated,
    prior: InclusionPrior,
    population: Population,
    evidences: Evidences,
    log_posterior: np.ndarray,
    inclusion: pd.DataFrame,
    moments: Averaged,
    log_evidence: LogEvidence,
    top: int,
    notes: list[str],
) -> Selection:
    linear, labels = found.linear, _labels(found)
    data = normal_data(linear)
    chosen = _largest(log_posterior, top)
    none = found.integral.log_evidence(ListedSubsets(np.zeros((1, linear.size), dtype=bool))).value[0]
    members = [population.members(int(k)) for k in chosen]
    values = evidences.value[chosen]
    models = pd.DataFrame(
        {
            "predictors": [tuple(labels[j] for j in m) for m in members],
            "size": [len(m) for m in members],
            "log_evidence": values,
            "error": evidences.error[chosen],
            "log_bayes_factor_best": values - values[0],
            "log_bayes_factor_null": values - none,
            "posterior_probability": np.exp(log_posterior[chosen]),
            "r2": _explained(found, data, members),
        }
    )
    likely = inclusion["probability"].to_numpy() >= 0.5
    return Selection(
        inclusion=inclusion,
        models=models,
        coefficients=_coefficients(found, labels, moments),
        median_probability_model=tuple(label for label, kept in zip(labels, likely, strict=True) if kept),
        log_evidence=log_evidence,
        number=len(log_posterior),
        prior=prior.words,
        notes=tuple(notes),
        prediction=NormalPrediction(data, moments, Snapshot.of(linear.joint.model, borrow=False)),
    )


def _largest(values: np.ndarray, number: int) -> np.ndarray:
    """The places of the largest, the largest first."""
    every = np.arange(len(values))
    places = np.argpartition(-values, number)[:number] if number < len(values) else every
    return np.asarray(places[np.argsort(-values[places], kind="stable")])


def _coefficients(found: Integrated, labels: list[object], moments: Averaged) -> pd.DataFrame:
    """Of w by its labels, then of what all submodels have."""
    linear = found.linear
    origin = linear.theta.ravel(linear.origin)
    mean, sd = origin + moments.mean, np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
    names: list[object] = []
    for n in linear.nuisance:
        count = math.prod(linear.shapes[n])
        names += [n] if linear.shapes[n] == () else [f"{n}[{k}]" for k in range(count)]
    first = len(names)
    order = [*range(first, len(mean)), *range(first)]
    return pd.DataFrame({"mean": mean[order], "sd": sd[order]}, index=pd.Index([*labels, *names], name="coefficient"))


def _explained(found: Integrated, data: NormalData | None, members: list[tuple[int, ...]]) -> np.ndarray:
    """R² of least squares in each submodel, beside the terms that all have."""
    if data is None or data.observed.size * found.linear.theta.size > LARGEST:
        return np.full(len(members), math.nan)
    linear, point = found.linear, dict(found.integral.nodes[0].point)
    if found.common is not None:
        point[found.common.name] = found.common.value(1.0)
    offset, design = data.design(point)
    scale = 1 / np.sqrt(data.variance(point))
    rest, design = (np.ravel(data.observed) - offset) * scale, design * scale[:, None]
    inside, kept = design[:, : linear.theta.size - linear.size], design[:, linear.theta.slices[linear.name]]
    all_of_it = float(rest @ rest)
    if inside.shape[1]:
        base, _ = np.linalg.qr(inside)
        rest, kept = rest - base @ (base.T @ rest), kept - base @ (base.T @ kept)
    gram, cross, total = kept.T @ kept, kept.T @ rest, float(rest @ rest)
    explained = [
        float(cross[list(m)] @ np.linalg.lstsq(gram[np.ix_(m, m)], cross[list(m)], rcond=None)[0]) if m else 0.0
        for m in members
    ]
    # Where the means have noise of their own, these are in every model and leave nothing but rounding to explain.
    return np.array(explained) / total if total > ROUNDING * all_of_it else np.full(len(members), math.nan)
