"""The labelling under which draws of components agree best (Stephens 2000), as arrays.

A Normal is fitted to each label and a permutation to each draw, in turn; see
:mod:`bayeskit.marginal_likelihood.relabelling`.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import optimize

from bayeskit.errors import DataError
from bayeskit.types import Array

__all__ = ["agreed_orders"]

FITTED = 2_000  # draws that the components' Normals are fitted to
ROUNDS = 100
FEW = 4  # labels up to which every permutation is looked at, of all draws at once
NARROW = 1e-10  # least variance of a component, relative to that of all


def agreed_orders(features: np.ndarray, pivot: tuple[int, int]) -> np.ndarray:
    """For each draw, the old label that becomes each new one: shape (chain, draw, labels)."""
    chains, length, size, number = features.shape
    flat = features.reshape(-1, size, number)
    some = flat[:: -(-len(flat) // FITTED)]
    overall = np.maximum(flat.var(axis=(0, 1)), np.finfo(float).tiny)
    starts = [(features[pivot], np.broadcast_to(overall, (size, number))), _chains_agreed(features, overall)]
    # A pivot lets features that differ by noise alone decide as much as any other, and twelve draws that agreed came
    # out with two components exchanged in a third of them; chains by themselves seldom exchange labels.
    centre, spread = max((_iterated(some, *start, overall) for start in starts), key=lambda fit: _height(some, *fit))
    # Numbered by the feature whose components lie farthest apart in their own standard deviations.
    order = np.argsort(centre[:, int(np.argmax(centre.var(axis=0) / spread.mean(axis=0)))])
    return _assigned(flat, centre[order], spread[order]).reshape(chains, length, size)


def _iterated(some: Array, centre: Array, spread: Array, overall: Array) -> tuple[Array, Array]:
    """Normals of the labels, and permutations of the draws, each chosen given the other until they stay."""
    before = None
    for _ in range(ROUNDS):
        orders = _assigned(some, centre, spread)
        if before is not None and np.array_equal(orders, before):
            break
        agreed = np.take_along_axis(some, orders[..., None], axis=1)
        centre, spread, before = agreed.mean(axis=0), np.maximum(agreed.var(axis=0), NARROW * overall), orders
    return centre, spread


def _chains_agreed(features: np.ndarray, overall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normals of the labels if each chain keeps its own labelling: those of chains matched to the first."""
    within = np.maximum(features.var(axis=1), NARROW * overall)
    centres = features.mean(axis=1)
    orders = _assigned(centres, centres[0], np.broadcast_to(within.mean(axis=(0, 1)), centres[0].shape))
    agreed = np.take_along_axis(features, orders[:, None, :, None], axis=2).reshape(-1, *centres[0].shape)
    return agreed.mean(axis=0), np.maximum(agreed.var(axis=0), NARROW * overall)


def _height(some: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> float:
    """Σ_t Σ_k log N, without its constant, under the best permutations."""
    costs = _costs(some, centre, spread)
    taken = np.take_along_axis(costs, _assigned(some, centre, spread)[:, None, :], axis=1)  # old label of each new one
    return -0.5 * float(np.sum(taken))


def _assigned(features: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The most likely permutation of each draw: shape (n, labels)."""
    costs, number = _costs(features, centre, spread), len(centre)
    if not np.isfinite(costs).all():  # the least of what is no number would be the first: no draw would be relabelled
        raise DataError("draws as large as 1e154 have no square, by which labels are told apart; leave them out")
    if number <= FEW:
        every = np.array(list(itertools.permutations(range(number))))
        return every[np.argmin(costs[:, every, np.arange(number)].sum(axis=2), axis=1)]
    return np.array([optimize.linear_sum_assignment(c.T)[1] for c in costs], dtype=int)


def _costs(features: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """−2 log N, without its constant, of each old label (rows) under the Normal of each new one (columns)."""
    precision = 1 / spread
    square = features**2 @ precision.T - 2 * features @ (centre * precision).T
    return square + np.sum(centre**2 * precision + np.log(spread), axis=1)
