"""Class probabilities of new rows as averages over posterior draws, with their Monte Carlo error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from arviz_stats.base import array_stats
from pytensor.graph.replace import graph_replace
from scipy import special

from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.log_joint import LogJoint
from bayeskit.queries.class_rows import NEW, Classes
from bayeskit.queries.given_rows import GivenRows
from bayeskit.queries.new_rows import add_rows
from bayeskit.results.records import Posterior
from bayeskit.results.tree import thinned

__all__ = ["averaged_over_draws"]

RELIABLE = 0.7  # a Pareto shape up to which averages are (Vehtari, Simpson, Gelman, Yao and Gabry 2024)
TAIL = 25  # draws from which on a Pareto shape can be fitted: to five of them
FEW = 100  # effective draws, of as many equal weights
TOGETHER, HELD = 100, 10**6  # draws whose densities are made at once, and numbers of new rows times draws at most
BATCHES = 20  # of consecutive draws, from whose spread a Monte Carlo error is taken


def averaged_over_draws(
    post: Posterior, classes: Classes, rows: GivenRows, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """log of the average of p(c, x | θ) over posterior draws, and the Monte Carlo error of the probabilities.

    The error is the spread of the averages of consecutive draws, which holds for draws of a Markov chain too; that of a
    ratio by its linear expansion.
    """
    log_joint = _log_joint(post, classes, rows, draws)
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


def _log_joint(post: Posterior, classes: Classes, rows: GivenRows, draws: int) -> np.ndarray:
    """log p(c, x | θ) at posterior draws, of shape (draws, rows, classes)."""
    added = add_rows(post.model, classes, number=rows.number, normal_by_class=False)
    joint = LogJoint.from_model(added.model)
    label = f"{classes.label}{NEW}"
    given: dict[Any, np.ndarray] = {v: rows.input(n) for n, v in added.inputs.items()}
    for feature in classes.features:
        given |= {joint.values[feature.new(k)]: rows.values[feature.name] for k in range(len(feature.strata))}
    graphs: list[Any] = []
    for k in range(len(classes.labels)):
        factors: list[Any] = [joint.factors[n] for n in (label, *(f.new(k) for f in classes.features))]
        total = sum(pt.sum(f, axis=tuple(range(1, f.type.ndim))) for f in factors)
        codes = dict.fromkeys((added.code, joint.values[label]), np.full(rows.number, k))
        known = {v: pt.constant(value.astype(v.type.dtype)) for v, value in (given | codes).items()}
        graphs += graph_replace([total], known, strict=False)
    free = {n: v for n, v in joint.values.items() if n not in added.names}
    chosen = thinned(post.tree, free, draws)
    number = max((len(v) for v in chosen.values()), default=1)
    evaluate = over_draws(graphs, free)
    size = int(np.clip(HELD / (rows.number + sum(v.size for v in rows.values.values())), 1, TOGETHER))
    some = [slice(start, min(start + size, number)) for start in range(0, number, size)]
    parts = [evaluate({n: v[few] for n, v in chosen.items()}, few.stop - few.start) for few in some]
    return np.concatenate([np.stack(part, axis=-1) for part in parts])


def _few_decide(log_joint: np.ndarray) -> np.ndarray:
    """Whether an average of densities over draws is that of a few of them, so that its spread understates its error.

    In the Gaussian classifier, p(x | c, θ) of a row twenty standard deviations from a class is 10⁻¹² on average over
    400 draws, give or take 10⁻¹², but 10⁻¹¹ over all of them.
    """
    count = len(log_joint)
    shape = np.full(log_joint.shape[1:], np.inf)  # of too few draws to have a tail
    if count >= TAIL:
        finite = np.where(np.isfinite(log_joint), log_joint, -1e300)
        tail = np.sort(finite, axis=0)[-int(np.ceil(min(count / 5, 3 * np.sqrt(count)))) - 1 :]
        # The density of a class without parameters is one number for all draws, to which no tail can be fitted.
        differing = tail[-1] > tail[0]
        shape = np.where(differing, shape, 0.0)
        if differing.any():
            _, shape[differing] = array_stats.psislw(finite[:, differing], axis=0)
    heavy = ~(shape <= min(1 - 1 / np.log10(max(count, 2)), RELIABLE))
    # A tail may look heavy that is not: probabilities themselves, averaged where there are no features, are bounded.
    share = np.exp(log_joint - special.logsumexp(log_joint, axis=0))
    return np.asarray(heavy & (np.sum(share**2, axis=0) > 1 / FEW))
