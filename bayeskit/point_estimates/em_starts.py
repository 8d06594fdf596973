"""Where expectation–maximisation starts: state probabilities from clusters of the data, or a draw from the prior."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.cluster import vq

from bayeskit.finite.sum_out import Summed
from bayeskit.point_estimates.complete_data import CompleteData

__all__ = ["start_weights"]

SOFT = 0.05  # of each start's probability, spread over all states: a cluster of one point has no variance


def _features(data: CompleteData, step: Summed) -> np.ndarray | None:
    """What was observed beside each entry of a variable, if anything: (entries, numbers), columns of variance one."""
    finite = {s.name for s in data.finite}
    shape, columns = step.shape, []
    if step.kind == "joint" or not shape:
        return None
    for rv in data.joint.model.observed_RVs:
        name = str(rv.name)
        if not data.joint.scopes.get(name, frozenset()) & finite:
            continue
        value = data.joint.model.rvs_to_values[rv]
        held = np.asarray(value.get_value() if hasattr(value, "get_value") else getattr(value, "data", np.nan))
        if held.shape[: len(shape)] == shape and held.dtype.kind in "biuf":
            columns.append(held.reshape(int(np.prod(shape, dtype=int)), -1).astype(float))
    if not columns:
        return None
    table = np.concatenate(columns, axis=1)
    spread = np.std(table, axis=0)
    table = (table - np.mean(table, axis=0)) / np.where(spread > 0, spread, 1.0)
    return table if np.all(np.isfinite(table)) else None


def start_weights(data: CompleteData, number: int, rng: np.random.Generator) -> list[np.ndarray] | None:
    """State probabilities in the order of the weights of Q, if the data give any.

    Starts of an even number are from k-means, those of an odd one from the nearest of K random rows.
    """
    weights: list[np.ndarray] = []
    for s in data.sums:
        table = _features(data, s.summed)
        states = len(s.summed.values)
        if table is None or len(np.unique(table, axis=0)) < states:
            return None
        labels = _labels(table, states, number, rng).reshape(s.summed.shape)
        weights += _of_labels(s.summed, labels, [w.type.ndim for w in s.weights])
    return weights


def _labels(table: np.ndarray, states: int, number: int, rng: np.random.Generator) -> np.ndarray:
    seeds = np.unique(table, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an empty cluster
        if number % 2 == 0:
            return vq.kmeans2(table, states, iter=20, minit="++", rng=rng)[1]
        return vq.vq(table, seeds[rng.choice(len(seeds), states, replace=False)])[0]


def _of_labels(step: Summed, labels: np.ndarray, ndims: Sequence[int]) -> list[np.ndarray]:
    states = len(step.values)
    each = (1 - SOFT) * (labels[..., None] == np.arange(states)) + SOFT / states
    if step.kind != "chain":
        return [np.moveaxis(each, -1, 0)]
    pairs = each[..., :-1, :, None] * each[..., 1:, None, :]
    transitions = pairs if ndims[2] - ndims[1] == 2 else pairs.sum(axis=-3)
    return [each, _added(each[..., 0, :], ndims[1]), _added(transitions, ndims[2])]


def _added(values: np.ndarray, ndim: int) -> np.ndarray:
    """Sums over the leading axes, down to ``ndim``: sequences share their parameters."""
    return values.sum(axis=tuple(range(values.ndim - ndim)))
