"""Class probabilities of new rows as averages over posterior draws, with their Monte Carlo error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from arviz_stats.base import array_stats
from scipy import special

from bayeskit.graphs.compile import compile_small
from bayeskit.model.log_joint import LogJoint
from bayeskit.queries.class_rows import Classes
from bayeskit.queries.given_rows import GivenRows
from bayeskit.queries.new_rows import NEW, add_rows, new_names
from bayeskit.results.tree import thinned

if TYPE_CHECKING:
    from bayeskit.results.records import Posterior

__all__ = ["averaged_over_draws"]

RELIABLE = 0.7  # a Pareto shape up to which averages are (Vehtari, Simpson, Gelman, Yao and Gabry 2024)
FEW = 100  # effective draws, of as many equal weights
BATCHES = 20  # of consecutive draws, from whose spread a Monte Carlo error is taken


def averaged_over_draws(
    post: Posterior, classes: Classes, rows: GivenRows, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """log of the average of p(c, x | θ) over posterior draws, and the Monte Carlo error of the probabilities.

    The error is the spread of the averages of consecutive draws, which holds for draws of a Markov chain too; that of a
    ratio by its linear expansion.
    """
    added = add_rows(post.model, classes, number=rows.number, normal_by_class=False)
    joint = LogJoint.from_model(added.model)
    new = [joint.values[n] for n in joint.names if n.startswith(tuple(new_names(classes)))]
    label = joint.values[f"{classes.label}{NEW}"]
    log_label: Any = joint.factors[f"{classes.label}{NEW}"]
    terms: list[list[Any]] = [[] for _ in classes.labels]
    for feature in classes.features:
        for k in range(len(classes.labels)):
            stratum = f"{feature.name}{NEW}" + (f"_{k}" if feature.stratified else "")
            factor: Any = joint.factors[stratum]
            terms[k].append(pt.sum(factor, axis=tuple(range(1, factor.type.ndim))))
    free = [joint.values[n] for n in joint.names if joint.values[n] not in new]
    functions = [compile_small([*free, *new], pt.add(log_label, *t) if t else log_label) for t in terms]
    for name, value in zip(added.inputs, rows.inputs(added.inputs), strict=True):
        added.inputs[name].set_value(value)
    held: dict[Any, np.ndarray] = {}
    for feature in classes.features:
        for v in new:
            if str(v.name).startswith(f"{feature.name}{NEW}"):
                held[v] = rows.values[feature.name].astype(v.type.dtype)
    chosen = thinned(post.tree, [str(v.name) for v in free], draws)
    log_joint = np.empty((len(next(iter(chosen.values()))), rows.number, len(classes.labels)))
    for s in range(len(log_joint)):
        theta = [np.asarray(chosen[str(v.name)][s], dtype=v.type.dtype) for v in free]
        for k, function in enumerate(functions):
            added.code.set_value(np.full(rows.number, k))
            held[label] = np.full(rows.number, k, dtype=label.type.dtype)
            with np.errstate(all="ignore"):
                log_joint[s, :, k] = function(*theta, *(held[v] for v in new))
    mean = special.logsumexp(log_joint, axis=0) - np.log(len(log_joint))
    top = special.logsumexp(mean, axis=1)
    weight = np.exp(log_joint - top[:, None])  # of average one over draws, classes summed
    influence = weight - np.exp(mean - top[:, None]) * weight.sum(axis=2, keepdims=True)
    parts = np.array_split(influence, min(BATCHES, len(influence)))
    batches = np.stack([p.mean(axis=0) for p in parts])
    if len(batches) == 1:
        return mean, np.full_like(mean, np.inf)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    return mean, np.where(_few_decide(log_joint), np.inf, error)


def _few_decide(log_joint: np.ndarray) -> np.ndarray:
    """Whether an average of densities over draws is that of a few of them, so that its spread understates its error.

    In the Gaussian classifier, p(x | c, θ) of a row twenty standard deviations from a class is 10⁻¹² on average over
    400 draws, give or take 10⁻¹², but 10⁻¹¹ over all of them.
    """
    count = len(log_joint)
    _, shape = array_stats.psislw(np.where(np.isfinite(log_joint), log_joint, -1e300), axis=0)
    heavy = ~(shape <= min(1 - 1 / np.log10(max(count, 2)), RELIABLE))
    # A tail may look heavy that is not: probabilities themselves, averaged where there are no features, are bounded.
    share = np.exp(log_joint - special.logsumexp(log_joint, axis=0))
    return np.asarray(heavy & (np.sum(share**2, axis=0) > 1 / FEW))
