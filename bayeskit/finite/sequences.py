"""The recursions of a finite chain over many sequences, compiled by numba.

Each argument comes as a stack of its distinct values and, for each sequence, the index of its own, besides its length:
nothing is copied to give a thousand sequences the same transitions, or a thousand draws of the transitions the same
data. What is returned for a sequence that cannot be observed is meaningless, except its outcome: the step that is
impossible. After the end of a sequence that is shorter than others are zeros.
"""

from __future__ import annotations

import numpy as np

from bayeskit.finite import chain_arithmetic, forward_backward, state_paths
from bayeskit.finite.chain_arithmetic import compensated_sum, exponentiate, fill_zero
from bayeskit.finite.forward_backward import backward, forward
from bayeskit.finite.state_paths import best_path, draw_path
from bayeskit.graphs.numba_functions import as_written

__all__ = ["ChainArrays", "best_paths", "draw_paths", "evidence", "filtering", "smoothing"]

CALLED = (chain_arithmetic.__file__, forward_backward.__file__, state_paths.__file__)

# log_initial (·, K), log_transition (·, S, K, K), log_likelihood (·, T, K); of each sequence three indices, its length.
type ChainArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@as_written(*CALLED)
def evidence(
    log_initial: np.ndarray, log_transition: np.ndarray, log_likelihood: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Log evidence of each sequence; −inf where an observation is impossible."""
    steps, states = log_likelihood.shape[1:]
    filtered = np.empty((1, states))
    log_density = np.empty(steps)
    result = np.empty(len(index))
    for n in range(len(index)):
        i, j, k, length = index[n]
        outcome, _ = forward(log_initial[i], log_transition[j], log_likelihood[k, :length], filtered, log_density)
        result[n] = compensated_sum(log_density[:length]) if outcome < 0 else -np.inf
    return result


@as_written(*CALLED)
def filtering(
    log_initial: np.ndarray, log_transition: np.ndarray, log_likelihood: np.ndarray, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Filtered probabilities, log p(y_t | y_1 … y_{t-1}), and the outcome."""
    steps, states = log_likelihood.shape[1:]
    filtered, log_density = np.empty((len(index), steps, states)), np.zeros((len(index), steps))
    outcomes = np.empty(len(index), dtype=np.int64)
    for n in range(len(index)):
        i, j, k, length = index[n]
        outcomes[n], logarithms = forward(
            log_initial[i], log_transition[j], log_likelihood[k, :length], filtered[n, :length], log_density[n]
        )
        fill_zero(filtered[n, length:])
        if logarithms:
            exponentiate(filtered[n, :length], filtered[n, :length])
    return filtered, log_density, outcomes


@as_written(*CALLED)
def smoothing(
    log_initial: np.ndarray,
    log_transition: np.ndarray,
    log_likelihood: np.ndarray,
    index: np.ndarray,
    pairs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smoothed probabilities, log evidence, and the outcome; ``pairs`` (N, T-1 or 1, K, K) is written."""
    steps, states = log_likelihood.shape[1:]
    smoothed, value = np.empty((len(index), steps, states)), np.empty(len(index))
    outcomes = np.empty(len(index), dtype=np.int64)
    log_density = np.empty(steps)
    for n in range(len(index)):
        i, j, k, length = index[n]
        outcomes[n], logarithms = forward(
            log_initial[i], log_transition[j], log_likelihood[k, :length], smoothed[n, :length], log_density
        )
        if outcomes[n] >= 0:
            continue
        value[n] = compensated_sum(log_density[:length])
        fill_zero(smoothed[n, length:])
        inside = smoothed[n, :length]
        backward(log_transition[j], inside, logarithms, inside, pairs[n])
    return smoothed, value, outcomes


@as_written(*CALLED)
def best_paths(
    log_initial: np.ndarray, log_transition: np.ndarray, log_likelihood: np.ndarray, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable path of each sequence, −1 after its end, and its log joint probability."""
    steps, states = log_likelihood.shape[1:]
    paths, value = np.full((len(index), steps), -1), np.empty(len(index))
    best = np.empty((steps, states))
    for n in range(len(index)):
        i, j, k, length = index[n]
        value[n] = best_path(log_initial[i], log_transition[j], log_likelihood[k, :length], best, paths[n, :length])
    return paths, value


@as_written(*CALLED)
def draw_paths(
    log_initial: np.ndarray,
    log_transition: np.ndarray,
    log_likelihood: np.ndarray,
    index: np.ndarray,
    rng: np.random.Generator,
    paths: np.ndarray,
) -> np.ndarray:
    """Write draws of the path of each sequence into ``paths`` (draws, N, T), as far as it goes; return the outcome."""
    steps, states = log_likelihood.shape[1:]
    outcomes = np.empty(len(index), dtype=np.int64)
    filtered, log_density = np.empty((steps, states)), np.empty(steps)
    for n in range(len(index)):
        i, j, k, length = index[n]
        outcomes[n], logarithms = forward(
            log_initial[i], log_transition[j], log_likelihood[k, :length], filtered[:length], log_density
        )
        if outcomes[n] < 0:
            for draw in range(len(paths)):
                draw_path(
                    log_transition[j], filtered[:length], logarithms, rng.random((length,)), paths[draw, n, :length]
                )
    return outcomes
