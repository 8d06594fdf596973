"""Queries on finite Markov chains that are observed through noise (hidden Markov models), at fixed parameters.

A chain z_1 … z_T of K states has p(z_1 = k) = π_k and p(z_{t+1} = j | z_t = i) = A_ij, and each observation depends on
its own state, through log p(y_t | z_t = k) = l_tk. Every function takes

- ``log_initial`` (…, K): log π;
- ``log_transition`` (…, 1, K, K): log A; or (…, T-1, K, K), where the t-th leads from step t to t+1;
- ``log_likelihood`` (…, T, K): l. A missing observation is a row of zeros: it says nothing about its state.

Impossible states, transitions and observations are −inf. The leading axes are several sequences, or several values of
the parameters, and broadcast as in NumPy. Every function takes time T K² and, but for what it returns, room for T K
numbers; the log likelihood may have any size. The recursions are in :mod:`bayeskit.finite.forward_backward`.

All raise ModelError or DataError where probabilities do not sum to one, shapes do not fit, or a log likelihood is NaN
or +inf; those that ask for states also where the observations are impossible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeskit.arguments import Count, hold
from bayeskit.finite import sequences
from bayeskit.finite.hmm_arguments import read_chains
from bayeskit.types import Array

__all__ = [
    "StatePath",
    "draw_states",
    "filter_states",
    "forecast_states",
    "log_evidence",
    "most_likely_states",
    "smooth_states",
]


@dataclass(frozen=True)
class StatePath:
    """A path of the states (…, T), and log p(z, y) (…): less the log evidence, its log posterior probability."""

    states: np.ndarray
    log_probability: np.ndarray


def log_evidence(log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike) -> np.ndarray:
    """log p(y_1 … y_T) = log Σ_z p(z, y), of shape (…); −inf if the observations are impossible."""
    chains = read_chains(log_initial, log_transition, log_likelihood)
    return chains.shaped(sequences.log_evidences(*chains.arrays))


def filter_states(log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike) -> np.ndarray:
    """p(z_t = k | y_1 … y_t) at every step: (…, T, K)."""
    chains = read_chains(log_initial, log_transition, log_likelihood)
    filtered, outcomes = sequences.filtering(*chains.arrays)
    chains.require_possible(outcomes)
    return chains.shaped(filtered)


def smooth_states(log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike) -> np.ndarray:
    """p(z_t = k | y_1 … y_T) at every step: (…, T, K)."""
    chains = read_chains(log_initial, log_transition, log_likelihood)
    smoothed, outcomes = sequences.smoothing(*chains.arrays)
    chains.require_possible(outcomes)
    return chains.shaped(smoothed)


def most_likely_states(log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike) -> StatePath:
    """The path of largest joint probability p(z, y), by Viterbi's recursion.

    Among equally probable paths it takes the lowest last state, then the lowest one before it, and so on; sums that
    differ by rounding alone may break a tie otherwise.
    """
    chains = read_chains(log_initial, log_transition, log_likelihood)
    paths, value = sequences.best_paths(*chains.arrays)
    if np.any(np.isneginf(value)):
        chains.require_possible(sequences.filtering(*chains.arrays)[1])
    return StatePath(chains.shaped(paths), chains.shaped(value))


def draw_states(
    log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike, rng: np.random.Generator
) -> np.ndarray:
    """Draws of the whole path from p(z_1 … z_T | y), by forward filtering and backward sampling: (…, T)."""
    chains = read_chains(log_initial, log_transition, log_likelihood)
    paths, outcomes = sequences.draw_paths(*chains.arrays, rng)
    chains.require_possible(outcomes)
    return chains.shaped(paths)


def forecast_states(log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike, steps: int) -> Array:
    """p(z_{T+h} | y_1 … y_T) for h = 1 … ``steps``, the last filtered probabilities times A^h: (…, steps, K).

    Of a chain with one transition matrix: what follows the last step of another is not known.
    """
    hold("steps", steps, Count)
    states = filter_states(log_initial, log_transition, log_likelihood)[..., -1, :]
    transition = np.exp(np.asarray(log_transition)[..., 0, :, :])
    path = []
    for _ in range(steps):
        states = np.einsum("...i,...ij->...j", states, transition)
        path.append(states)
    return np.stack(path, axis=-2)
