"""The recursions of a finite chain over many sequences, compiled by numba.

Each argument comes as a stack of its distinct values and, for each sequence, the index of its own: nothing is copied to
give a thousand sequences the same transitions, or a thousand draws of the transitions the same data. What is returned
for a sequence that cannot be observed is meaningless, except its outcome: the step that is impossible.
"""

from __future__ import annotations

import numpy as np

from bayeskit.finite import chain_arithmetic, forward_backward, state_paths
from bayeskit.finite.chain_arithmetic import compensated_sum, exponentiate
from bayeskit.finite.forward_backward import evidence_and_filter, evidence_gradient, forward
from bayeskit.finite.state_paths import best_path, draw_path
from bayeskit.graphs.numba_functions import as_written
from bayeskit.types import Array

__all__ = ["best_paths", "draw_paths", "evidences_and_filters", "filtering", "log_evidences", "smoothing"]

type Outcomes = tuple[np.ndarray, np.ndarray]  # what is found for each sequence, and the outcome (or its log density)

# In what follows: log_initial (·, K), log_transition (·, S, K, K), log_likelihood (·, T, K), index (N, 3).
CALLED = (chain_arithmetic.__file__, forward_backward.__file__, state_paths.__file__)


@as_written(*CALLED)
def log_evidences(log_initial: Array, log_transition: Array, log_likelihood: Array, index: np.ndarray) -> Array:
    """Log evidence of each sequence; −inf where an observation is impossible."""
    filtered, log_density = np.empty(log_likelihood.shape[1:]), np.empty(log_likelihood.shape[1])
    result = np.empty(len(index))
    for n in range(len(index)):
        i, j, k = index[n]
        outcome, _ = forward(log_initial[i], log_transition[j], log_likelihood[k], filtered, log_density)
        result[n] = compensated_sum(log_density) if outcome < 0 else -np.inf
    return result


@as_written(*CALLED)
def evidences_and_filters(
    log_initial: Array, log_transition: Array, log_likelihood: Array, index: np.ndarray
) -> tuple[Array, Array, np.ndarray]:
    """What :func:`~bayeskit.finite.forward_backward.evidence_and_filter` gives, of each sequence."""
    steps, states = log_likelihood.shape[1:]
    values, logarithms = np.empty(len(index)), np.empty(len(index), dtype=np.bool_)
    filtered = np.empty((len(index), steps, states))
    for n in range(len(index)):
        i, j, k = index[n]
        values[n], found, logarithms[n] = evidence_and_filter(log_initial[i], log_transition[j], log_likelihood[k])
        for t in range(steps):
            for state in range(states):
                filtered[n, t, state] = found[t, state]
    return values, filtered, logarithms


@as_written(*CALLED)
def filtering(log_initial: Array, log_transition: Array, log_likelihood: Array, index: np.ndarray) -> Outcomes:
    """Filtered probabilities, and the outcome."""
    steps, states = log_likelihood.shape[1:]
    filtered, log_density = np.empty((len(index), steps, states)), np.empty(steps)
    outcomes = np.empty(len(index), dtype=np.int64)
    for n in range(len(index)):
        i, j, k = index[n]
        path = filtered[n]
        outcomes[n], logarithms = forward(log_initial[i], log_transition[j], log_likelihood[k], path, log_density)
        if logarithms:
            exponentiate(path, path)
    return filtered, outcomes


@as_written(*CALLED)
def smoothing(log_initial: Array, log_transition: Array, log_likelihood: Array, index: np.ndarray) -> Outcomes:
    """Smoothed probabilities, and the outcome."""
    steps, states = log_likelihood.shape[1:]
    filtered, log_density = np.empty((steps, states)), np.empty(steps)
    smoothed, outcomes = np.empty((len(index), steps, states)), np.empty(len(index), dtype=np.int64)
    for n in range(len(index)):
        i, j, k = index[n]
        outcomes[n], logarithms = forward(log_initial[i], log_transition[j], log_likelihood[k], filtered, log_density)
        if outcomes[n] < 0:
            found, _ = evidence_gradient(log_transition[j], filtered, logarithms)
            for t in range(steps):
                for state in range(states):  # an array stored into another: numba compiles what words its error, too
                    smoothed[n, t, state] = found[t, state]
    return smoothed, outcomes


@as_written(*CALLED)
def best_paths(log_initial: Array, log_transition: Array, log_likelihood: Array, index: np.ndarray) -> Outcomes:
    """The most probable path of each sequence, and its log joint probability."""
    steps, states = log_likelihood.shape[1:]
    paths, value = np.empty((len(index), steps), dtype=np.int64), np.empty(len(index))
    best = np.empty((steps, states))
    for n in range(len(index)):
        i, j, k = index[n]
        value[n] = best_path(log_initial[i], log_transition[j], log_likelihood[k], best, paths[n])
    return paths, value


@as_written(*CALLED)
def draw_paths(
    log_initial: Array, log_transition: Array, log_likelihood: Array, index: np.ndarray, rng: np.random.Generator
) -> Outcomes:
    """A draw of the path of each sequence, and the outcome."""
    steps, states = log_likelihood.shape[1:]
    paths, outcomes = np.empty((len(index), steps), dtype=np.int64), np.empty(len(index), dtype=np.int64)
    filtered, log_density = np.empty((steps, states)), np.empty(steps)
    for n in range(len(index)):
        i, j, k = index[n]
        outcomes[n], logarithms = forward(log_initial[i], log_transition[j], log_likelihood[k], filtered, log_density)
        if outcomes[n] < 0:
            draw_path(log_transition[j], filtered, logarithms, rng.random((steps,)), paths[n])
    return paths, outcomes
