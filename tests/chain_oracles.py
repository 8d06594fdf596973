"""Finite Markov chains with random parameters, and every path of theirs with its probability."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Problem = tuple[np.ndarray, np.ndarray, np.ndarray]


def log(values: Any) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


def distribution(rng: np.random.Generator, *shape: int, zeros: float = 0.0) -> np.ndarray:
    """Log probabilities over the last axis, of which some are exactly zero."""
    weights = rng.gamma(0.7, size=shape) * (rng.random(shape) >= zeros)
    keep = rng.integers(shape[-1], size=shape[:-1])
    weights[(*np.indices(shape[:-1]), keep)] += 0.1
    return log(weights / weights.sum(axis=-1, keepdims=True))


def problem(
    seed: int, steps: int, states: int, *, time_varying: bool = False, zeros: float = 0.3, batch: tuple[int, ...] = ()
) -> Problem:
    """Random parameters and log likelihoods, with impossible transitions and emissions and missing observations."""
    rng = np.random.default_rng(seed)
    matrices = steps - 1 if time_varying else 1
    likelihood = rng.normal(scale=2.0, size=(*batch, steps, states))
    likelihood[rng.random(likelihood.shape) < zeros / 2] = -np.inf
    likelihood[rng.random((*batch, steps)) < 0.2] = 0.0
    return (
        distribution(rng, *batch, states, zeros=zeros),
        distribution(rng, *batch, matrices, states, states, zeros=zeros),
        likelihood,
    )


def all_paths(initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every path, and its log joint probability with the observations."""
    steps, states = likelihood.shape
    paths = np.array(list(itertools.product(range(states), repeat=steps)))
    matrices = np.broadcast_to(transition, (steps - 1, states, states))
    value = initial[paths[:, 0]] + likelihood[np.arange(steps), paths].sum(axis=1)
    for t in range(steps - 1):
        value = value + matrices[t, paths[:, t], paths[:, t + 1]]
    return paths, value


def one_hot(paths: np.ndarray, states: int) -> np.ndarray:
    return (paths[..., None] == np.arange(states)).astype(float)
