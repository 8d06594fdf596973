"""One path of the states of a finite chain: drawn from its posterior, or the most probable one; compiled by numba.

The arguments are those of :mod:`bayeskit.finite.forward_backward`.
"""

from __future__ import annotations

import numpy as np

from bayeskit.finite import chain_arithmetic
from bayeskit.finite.chain_arithmetic import add_compensated, exponentiate, log_sum
from bayeskit.graphs.numba_functions import as_written
from bayeskit.types import Array

__all__ = ["best_path", "draw_path"]


@as_written(chain_arithmetic.__file__)
def draw_path(log_transition: Array, filtered: Array, logarithms: bool, uniforms: Array, path: np.ndarray) -> None:
    """Write one draw from p(z | y), backwards: p(z_t = i | z_{t+1} = j, y) is proportional to filtered_t(i) A_ij.

    ``filtered`` holds probabilities or, if said so, their logarithms; ``uniforms`` are T numbers in [0, 1).
    """
    steps, states = filtered.shape
    varying = log_transition.shape[0] > 1
    weights = np.empty(states)
    transition = np.empty((states, states))
    for t in range(steps - 1, -1, -1):
        last = t == steps - 1
        at = t if varying else 0
        if logarithms:
            for i in range(states):
                weights[i] = filtered[t, i] + (0.0 if last else log_transition[at, i, path[t + 1]])
            total = log_sum(weights)
            for i in range(states):
                weights[i] = np.exp(weights[i] - total)
        else:
            if not last and (varying or t == steps - 2):
                exponentiate(log_transition[at], transition)
            for i in range(states):
                weights[i] = filtered[t, i] * (1.0 if last else transition[i, path[t + 1]])
        remaining = 0.0
        for i in range(states):
            remaining += uniforms[t] * weights[i]
        chosen = 0
        for i in range(states):
            # A state of probability zero is never chosen, whatever the rounding.
            if weights[i] > 0:
                chosen = i
                remaining -= weights[i]
                if remaining < 0:
                    break
        path[t] = chosen


@as_written(chain_arithmetic.__file__)
def best_path(log_initial: Array, log_transition: Array, log_likelihood: Array, best: Array, path: np.ndarray) -> float:
    """Write the most probable path and return its log joint probability (Viterbi 1967).

    ``best`` (T, K) is room for the largest log probability of a path that ends in each state, up to a number of each
    step's. Among equals the lowest last state is taken, then the lowest one before it, and so on.
    """
    steps, states = log_likelihood.shape
    varying = log_transition.shape[0] > 1
    before = np.empty(states)
    for j in range(states):
        best[0, j] = log_initial[j] + log_likelihood[0, j]
    for t in range(1, steps):
        at = t - 1 if varying else 0
        for i in range(states):
            before[i] = best[t - 1, i]
        for j in range(states):
            arriving = -np.inf
            for i in range(states):
                value = before[i] + log_transition[at, i, j]
                arriving = value if value > arriving else arriving
            best[t, j] = arriving + log_likelihood[t, j]
        # Else the digits that decide between states would be lost behind the sum of all steps.
        if t % 16 == 0:
            highest = -np.inf
            for j in range(states):
                highest = max(highest, best[t, j])
            if highest == -np.inf:
                return highest
            for j in range(states):
                best[t, j] -= highest
    total, lost, state = 0.0, 0.0, 0
    for t in range(steps - 1, -1, -1):
        at = t if varying else 0
        following, arriving = state, -np.inf
        for i in range(states):
            before[i] = best[t, i] if t == steps - 1 else best[t, i] + log_transition[at, i, following]
            arriving = before[i] if before[i] > arriving else arriving
        # The first of the best: to look for it afterwards is faster than to keep its number.
        state = 0
        while before[state] < arriving:
            state += 1
        path[t] = state
        total, lost = add_compensated(total, lost, log_likelihood[t, state])
        if t < steps - 1:
            total, lost = add_compensated(total, lost, log_transition[at, state, following])
    total, lost = add_compensated(total, lost, log_initial[state])
    return total + lost
