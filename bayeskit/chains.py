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
size. The recursions are in :mod:`bayeskit.chains_recursions`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeskit import chains_recursions
from bayeskit.errors import DataError, ModelError, OptionError

__all__ = [
    "FilteredStates",
    "SmoothedStates",
    "StatePath",
    "draw_states",
    "filter_states",
    "forecast_states",
    "log_evidence",
    "most_likely_states",
    "pair_probabilities",
    "smooth_states",
]

TOLERANCE = 1e-6  # of a sum of probabilities that should be one: they may have been computed in single precision


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

    @property
    def run_length(self) -> np.ndarray:
        """Expected steps in each state divided by its expected number of runs; NaN where that is zero; (…, K)."""
        visits = self.visits
        return np.divide(self.occupancy, visits, out=np.full(visits.shape, np.nan), where=visits > 0)


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
    chains = _read(log_initial, log_transition, log_likelihood, time_varying, lengths)
    return chains_recursions.evidence(*chains.arrays).reshape(chains.batch)


def filter_states(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> FilteredStates:
    """p(z_t | y_1 … y_t) at every step.

    See the module for the arguments.

    Raises
    ------
    ModelError, DataError
        As :func:`log_evidence`, and where the observations are impossible.
    """
    chains = _read(log_initial, log_transition, log_likelihood, time_varying, lengths)
    filtered, log_densities, outcomes = chains_recursions.filtering(*chains.arrays)
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
    chains = _read(log_initial, log_transition, log_likelihood, time_varying, lengths)
    states = chains.core[1]
    pairs = np.empty((len(chains.index), 1, states, states))
    smoothed, value, outcomes = chains_recursions.smoothing(*chains.arrays, pairs)
    chains.require_possible(outcomes)
    return SmoothedStates(
        smoothed.reshape(*chains.batch, *chains.core),
        pairs.reshape(*chains.batch, states, states),
        value.reshape(chains.batch),
    )


def pair_probabilities(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    *,
    time_varying: bool = False,
    lengths: ArrayLike | None = None,
) -> np.ndarray:
    """p(z_t = i, z_{t+1} = j | y_1 … y_T), of shape (…, T-1, K, K).

    Their sum over the steps is in :func:`smooth_states`, which takes less room. See the module for the arguments.

    Raises
    ------
    ModelError, DataError
        As :func:`filter_states`.
    """
    chains = _read(log_initial, log_transition, log_likelihood, time_varying, lengths)
    steps, states = chains.core
    pairs = np.empty((len(chains.index), max(steps - 1, 1), states, states))
    _, _, outcomes = chains_recursions.smoothing(*chains.arrays, pairs)
    chains.require_possible(outcomes)
    return pairs[:, : steps - 1].reshape(*chains.batch, steps - 1, states, states)


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
    chains = _read(log_initial, log_transition, log_likelihood, time_varying, lengths)
    paths, value = chains_recursions.best_paths(*chains.arrays)
    if np.any(np.isneginf(value)):
        chains.require_possible(chains_recursions.filtering(*chains.arrays)[-1])
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
    chains = _read(log_initial, log_transition, log_likelihood, time_varying, lengths)
    if size is not None and size < 0:
        raise OptionError(f"size is {size}; it must be a number of draws, zero or more")
    paths = np.full((1 if size is None else size, len(chains.index), chains.core[0]), -1)
    chains.require_possible(chains_recursions.draw_paths(*chains.arrays, rng, paths))
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
        _require_distributions(future, "transition matrix of the future")
        transition = np.exp(future)
    batch = _broadcast(states.shape[:-1], transition.shape[:-3])
    result = np.empty((*batch, steps, count))
    for h in range(steps):
        states = np.einsum("...i,...ij->...j", states, transition[..., h if log_future is not None else 0, :, :])
        result[..., h, :] = states
    return result


@dataclass(frozen=True)
class _Chains:
    """Arguments, checked: stacks of distinct values, and the three indices and the length of each sequence."""

    stacks: tuple[np.ndarray, np.ndarray, np.ndarray]
    index: np.ndarray
    batch: tuple[int, ...]

    @property
    def arrays(self) -> chains_recursions.Arrays:
        return *self.stacks, self.index

    @property
    def core(self) -> tuple[int, int]:
        """T and K."""
        return self.stacks[2].shape[1:]

    def require_possible(self, outcomes: np.ndarray) -> None:
        if not np.any(outcomes >= 0):
            return
        n = int(np.argmax(outcomes >= 0))
        where = f" of sequence {n + 1} of {len(outcomes)}" if len(outcomes) > 1 else ""
        raise DataError(
            f"the observation at step {outcomes[n] + 1}{where} is impossible in every state that the chain can be in "
            "then, so that the states have no posterior; correct it, or give it or the transitions a probability"
        )


def _read(
    log_initial: ArrayLike,
    log_transition: ArrayLike,
    log_likelihood: ArrayLike,
    time_varying: bool,
    lengths: ArrayLike | None,
) -> _Chains:
    initial, transition, likelihood = (
        np.asarray(values, dtype=np.float64) for values in (log_initial, log_transition, log_likelihood)
    )
    if likelihood.ndim < 2 or 0 in likelihood.shape[-2:]:
        raise DataError(f"log_likelihood has shape {likelihood.shape}; it must end in (steps, states)")
    steps, states = likelihood.shape[-2:]
    matrices = (steps - 1,) if time_varying else ()
    for name, values, core in (
        ("log_initial", initial, (states,)),
        ("log_transition", transition, (*matrices, states, states)),
    ):
        if values.ndim < len(core) or values.shape[values.ndim - len(core) :] != core:
            raise ModelError(
                f"{name} has shape {values.shape}; for {steps} steps and {states} states it must end in {core}"
            )
    length = np.asarray(steps if lengths is None else lengths)
    if length.dtype.kind not in "iu" or np.any((length < 1) | (length > steps)):
        raise DataError(f"the lengths of the sequences must be integers from 1 to {steps}, the steps of log_likelihood")
    if lengths is not None:
        # What pads a sequence may be anything.
        inside = np.arange(steps)[:, None] < length[..., None, None]
        likelihood = np.where(inside, likelihood, 0.0)
    if not np.max(likelihood, initial=-np.inf) < np.inf:
        *_, step, state = np.argwhere(~(likelihood < np.inf))[0]
        value = likelihood[~(likelihood < np.inf)][0]
        raise DataError(
            f"the log likelihood of the observation at step {step + 1} in state {state} is {value}; it must be a "
            "number or −inf, and zero in every state for a missing observation"
        )
    _require_distributions(initial, "distribution of the first state")
    _require_distributions(transition, "transition matrix")
    if not time_varying:
        transition = transition[..., None, :, :]
    stacks = (initial, transition, likelihood)
    batches = [v.shape[: v.ndim - c] for v, c in zip(stacks, (1, 3, 2), strict=True)]
    batch = _broadcast(*batches, length.shape)
    columns = [np.broadcast_to(np.arange(int(np.prod(b))).reshape(b), batch).ravel() for b in batches]
    columns.append(np.broadcast_to(length, batch).ravel())
    # Writable, though nothing is written: numba would compile everything again for an array that is not.
    first, second, third = (
        np.require(v.reshape(int(np.prod(b)), *v.shape[len(b) :]), requirements=["C", "W"])
        for v, b in zip(stacks, batches, strict=True)
    )
    return _Chains((first, second, third), np.stack(columns, axis=-1).astype(np.int64), batch)


def _broadcast(*batches: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*batches)
    except ValueError:
        shapes = ", ".join(str(batch) for batch in batches)
        raise ModelError(
            f"the leading axes {shapes} do not broadcast; they must be the same sequences or draws"
        ) from None


def _require_distributions(logarithms: np.ndarray, what: str) -> None:
    with np.errstate(over="ignore"):
        sums = np.sum(np.exp(logarithms), axis=-1)
    wrong = ~(np.abs(sums - 1) <= TOLERANCE)
    if np.any(wrong):
        row = np.argwhere(wrong)[0]
        where = f"row {row[-1]} of the {what}" if "matrix" in what else f"the {what}"
        raise ModelError(f"{where} sums to {sums[wrong][0]:.6g}; probabilities must sum to one")
