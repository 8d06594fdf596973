"""Queries on finite Markov chains that are observed through noise (hidden Markov models), at fixed parameters.

A chain z_1 … z_T of K states has p(z_1 = k) = π_k and p(z_{t+1} = j | z_t = i) = A_ij, and each observation depends on
its own state, through log p(y_t | z_t = k) = l_tk. Every function takes

- ``log_initial`` (…, K): log π;
- ``log_transition`` (…, K, K): log A; with ``time_varying=True`` (…, T-1, K, K), the t-th leading from step t to t+1;
- ``log_likelihood`` (…, T, K): l. A missing observation is a row of zeros: it says nothing about its state.

Impossible states, transitions and observations are −inf. The leading axes are several sequences, or several values of
the parameters, and broadcast as in NumPy. Sequences of different length are padded at their end to the longest, with
anything, and ``lengths`` (…) says how long each is: all probabilities after its end are zero, all states −1.

Every function takes time T K² and, but for what it returns, room for T K numbers; the log likelihood may have any
size. The recursions are in :mod:`bayeskit.finite.forward_backward`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeskit.errors import ModelError, OptionError
from bayeskit.finite import sequences
from bayeskit.finite.hmm_arguments import broadcast_batches, read_chains, require_distributions

__all__ = [
    "FilteredStates",
    "SmoothedStates",
    "StatePath",
    "draw_states",
    "filter_states",
    "forecast_states",
    "log_evidence",
    "most_likely_states",
    "smooth_states",
]


@dataclass(frozen=True)
class FilteredStates:
    """What the observations up to each step say of its state.

    Attributes
    ----------
    probabilities : numpy.ndarray of shape (…, T, K)
        p(z_t = k | y_1 … y_t).
    log_densities : numpy.ndarray of shape (…, T)
        log p(y_t | y_1 … y_{t-1}); zero for a missing observation, and after the end.
    """

    probabilities: np.ndarray
    log_densities: np.ndarray

    @property
    def log_evidence(self) -> np.ndarray:
        """log p(y_1 … y_T), of shape (…)."""
        return np.sum(self.log_densities, axis=-1)


@dataclass(frozen=True)
class SmoothedStates:
    """What all observations say of the states.

    Attributes
    ----------
    probabilities : numpy.ndarray of shape (…, T, K)
        p(z_t = k | y).
    transition_counts : numpy.ndarray of shape (…, K, K)
        Expected number of transitions from i to j, Σ_t p(z_t = i, z_{t+1} = j | y).
    log_evidence : numpy.ndarray of shape (…)
        log p(y).
    """

    probabilities: np.ndarray
    transition_counts: np.ndarray
    log_evidence: np.ndarray

    @property
    def occupancy(self) -> np.ndarray:
        """Expected number of steps in each state, of shape (…, K)."""
        return np.sum(self.probabilities, axis=-2)

    @property
    def visits(self) -> np.ndarray:
        """Expected number of runs of each state, a run being the steps between entering and leaving it; (…, K)."""
        stays = np.einsum("...kk->...k", self.transition_counts)
        return self.occupancy - stays


@dataclass(frozen=True)
class StatePath:
    """A path of the states.

    Attributes
    ----------
    states : numpy.ndarray of int, of shape (…, T)
    log_probability : numpy.ndarray of shape (…)
        log p(z, y); less the log evidence, the log posterior probability of the path.
    """

    states: np.ndarray
    log_probability: np.ndarray


def log_evidence(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> np.ndarray:
    """log p(y_1 … y_T) = log Σ_z p(z, y), of shape (…).

    −inf if the observations are impossible. See the module for the arguments.

    Raises
    ------
    ModelError, DataError
        Probabilities that do not sum to one; shapes that do not fit; a log likelihood that is NaN or +inf.
    """
    chains = read_chains(log_initial, log_transition, log_likelihood, time_varying, lengths)
    return sequences.evidence(*chains.arrays).reshape(chains.batch)


def filter_states(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> FilteredStates:
    """p(z_t | y_1 … y_t) at every step. See the module for the arguments.

    Raises
    ------
    ModelError, DataError
        As :func:`log_evidence`, and where the observations are impossible.
    """
    chains = read_chains(log_initial, log_transition, log_likelihood, time_varying, lengths)
    filtered, log_densities, outcomes = sequences.filtering(*chains.arrays)
    chains.require_possible(outcomes)
    return FilteredStates(
        filtered.reshape(*chains.batch, *chains.core), log_densities.reshape(*chains.batch, chains.core[0])
    )


def smooth_states(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> SmoothedStates:
    """p(z_t | y_1 … y_T) at every step, and the expected numbers of transitions: the E step of Baum and Welch.

    See the module for the arguments.

    Raises
    ------
    ModelError, DataError
        As :func:`filter_states`.
    """
    chains = read_chains(log_initial, log_transition, log_likelihood, time_varying, lengths)
    states = chains.core[1]
    pairs = np.empty((len(chains.index), 1, states, states))
    smoothed, value, outcomes = sequences.smoothing(*chains.arrays, pairs)
    chains.require_possible(outcomes)
    return SmoothedStates(
        smoothed.reshape(*chains.batch, *chains.core),
        pairs.reshape(*chains.batch, states, states),
        value.reshape(chains.batch),
    )


def most_likely_states(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> StatePath:
    """The path of largest joint probability p(z, y), by Viterbi's recursion.

    Among equally probable paths it takes the lowest last state, then the lowest one before it, and so on; sums that
    differ by rounding alone may break a tie otherwise. See the module for the arguments.

    Raises
    ------
    ModelError, DataError
        As :func:`filter_states`.
    """
    chains = read_chains(log_initial, log_transition, log_likelihood, time_varying, lengths)
    paths, value = sequences.best_paths(*chains.arrays)
    if np.any(np.isneginf(value)):
        chains.require_possible(sequences.filtering(*chains.arrays)[-1])
    return StatePath(paths.reshape(*chains.batch, chains.core[0]), value.reshape(chains.batch))


def draw_states(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    rng: np.random.Generator,
    size: int | None = None,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> np.ndarray:
    """Draws of the whole path from p(z_1 … z_T | y), by forward filtering and backward sampling.

    Parameters
    ----------
    log_initial, log_transition, log_likelihood, time_varying, lengths
        See the module. With draws of the parameters as a leading axis, one path for each.
    rng : numpy.random.Generator
    size : int, optional
        Number of draws a sequence, as a new first axis. The forward pass is made once for all.

    Returns
    -------
    numpy.ndarray of int, of shape (…, T) or (size, …, T)

    Raises
    ------
    ModelError, DataError
        As :func:`filter_states`.
    OptionError
        If ``size`` is negative.
    """
    chains = read_chains(log_initial, log_transition, log_likelihood, time_varying, lengths)
    if size is not None and size < 0:
        raise OptionError(f"size is {size}; it must be a number of draws, zero or more")
    paths = np.full((1 if size is None else size, len(chains.index), chains.core[0]), -1)
    chains.require_possible(sequences.draw_paths(*chains.arrays, rng, paths))
    leading = () if size is None else (size,)
    return paths.reshape(*leading, *chains.batch, chains.core[0])


def forecast_states(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    steps: int,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
    log_future: ArrayLike | None = None,
) -> np.ndarray:
    """p(z_{T+h} | y_1 … y_T) for h = 1 … ``steps``: the last filtered probabilities times A^h.

    Parameters
    ----------
    log_initial, log_transition, log_likelihood, time_varying, lengths
        See the module.
    steps : int
        How far ahead.
    log_future : array of shape (…, steps, K, K), optional
        Log transitions after step T; the first leads from T to T+1. Required if the transitions vary in time.

    Returns
    -------
    numpy.ndarray of shape (…, steps, K)

    Raises
    ------
    ModelError, DataError
        As :func:`filter_states`.
    OptionError
        If ``steps`` is negative, or the future transitions are missing.
    """
    if steps < 0:
        raise OptionError(f"steps is {steps}; it must be a number of steps, zero or more")
    if time_varying and log_future is None:
        raise OptionError("transitions that vary in time are not known after the last step; give log_future")
    arguments = (log_initial, log_transition, log_likelihood)
    filtered = filter_states(*arguments, time_varying=time_varying, lengths=lengths).probabilities
    last = np.broadcast_to(filtered.shape[-2] if lengths is None else lengths, filtered.shape[:-2]) - 1
    states = np.take_along_axis(filtered, last[..., None, None], axis=-2)[..., 0, :]
    count = states.shape[-1]
    future = np.asarray(log_transition if log_future is None else log_future, dtype=np.float64)
    if log_future is None:
        transition = np.exp(future)[..., None, :, :]
    elif future.shape[-3:] != (steps, count, count):
        raise ModelError(f"log_future has shape {future.shape}; it must end in {(steps, count, count)}")
    else:
        require_distributions(future, "transition matrix of the future")
        transition = np.exp(future)
    batch = broadcast_batches(states.shape[:-1], transition.shape[:-3])
    result = np.empty((*batch, steps, count))
    for h in range(steps):
        states = np.einsum("...i,...ij->...j", states, transition[..., h if log_future is not None else 0, :, :])
        result[..., h, :] = states
    return result
