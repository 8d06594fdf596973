"""The recursions of a finite Markov chain, one sequence at a time, compiled by numba.

With the log densities l of T observations under K states, a distribution π of the first state and transitions A, the
forward pass gives, in time T K² (Rabiner 1989; Cappé, Moulines and Rydén 2005, chapter 3)

    predicted_t(j) = p(z_t = j | y_1 … y_{t-1}) = Σ_i filtered_{t-1}(i) A_ij,      predicted_1 = π
    filtered_t(j)  = p(z_t = j | y_1 … y_t) = predicted_t(j) exp(l_tj) / p(y_t | y_1 … y_{t-1})

and the backward pass, which needs the likelihood no more,

    p(z_t = i, z_{t+1} = j | y) = filtered_t(i) A_ij smoothed_{t+1}(j) / predicted_{t+1}(j)

with smoothed_t its sum over j. All terms are positive, so nothing cancels. Each pass is written twice. The scaled one
works with probabilities, normalised at each step after the largest log likelihood is taken out. What a state loses by
underflow there cannot matter as long as every state that can be reached is predicted with at least ``SMALLEST``; where
one is not (two regimes that never mix, say), the pass stops, and the one in logarithms, which loses nothing, is used.

Arrays: ``log_initial`` (K), ``log_likelihood`` (T, K), ``log_transition`` (1, K, K) or, one matrix a step, (T-1, K, K).
"""

from __future__ import annotations

import numpy as np

from bayeskit.finite import chain_arithmetic
from bayeskit.finite.chain_arithmetic import compensated_sum, exponentiate, log_sum
from bayeskit.graphs.numba_functions import as_written
from bayeskit.types import Array

__all__ = ["evidence_and_filter", "evidence_gradient", "forward"]

SMALLEST = 1e-100  # of a predicted probability: far above the least number there is, far below what data can outweigh
# A forward pass returns one of these, or the step, from zero, whose observation is impossible.
COMPLETE, OUT_OF_RANGE = -1, -2


@as_written(chain_arithmetic.__file__)
def _predict(filtered: np.ndarray, transition: np.ndarray, predicted: np.ndarray) -> None:
    for j in range(len(filtered)):
        total = 0.0
        for i in range(len(filtered)):
            total += filtered[i] * transition[i, j]
        predicted[j] = total


@as_written(chain_arithmetic.__file__)
def _reachable(state: int, log_transition: np.ndarray, log_likelihood: np.ndarray, predicted: np.ndarray) -> bool:
    """Whether a state can follow the step whose predicted probabilities these are, with whatever probability."""
    for i in range(len(predicted)):
        if predicted[i] > 0 and log_likelihood[i] > -np.inf and log_transition[i, state] > -np.inf:
            return True
    return False


@as_written(chain_arithmetic.__file__)
def _forward_scaled(
    log_initial: Array, log_transition: Array, log_likelihood: Array, filtered: Array, log_density: Array
) -> int:
    """Write filtered probabilities and log p(y_t | y_1 … y_{t-1}); return the outcome."""
    steps, states = log_likelihood.shape
    varying = log_transition.shape[0] > 1
    transition = np.empty((states, states))
    current, predicted, before = np.empty(states), np.empty(states), np.empty(states)
    for t in range(steps):
        at = t - 1 if varying else 0
        if t == 0:
            for j in range(states):
                predicted[j] = np.exp(log_initial[j])
        else:
            if varying or t == 1:
                exponentiate(log_transition[at], transition)
            for j in range(states):
                before[j] = predicted[j]
            _predict(current, transition, predicted)
        highest = -np.inf
        for j in range(states):
            if SMALLEST <= predicted[j] <= 1 / SMALLEST:
                # Not a number must not be passed over.
                if not log_likelihood[t, j] <= highest:
                    highest = log_likelihood[t, j]
            elif (t == 0 and log_initial[j] != -np.inf) or (
                t > 0 and _reachable(j, log_transition[at], log_likelihood[t - 1], before)
            ):
                return OUT_OF_RANGE
            else:
                predicted[j] = 0.0
        if highest == -np.inf:
            return t
        total = 0.0
        for j in range(states):
            # The likelihood of a state that cannot be reached may be above the largest of the others.
            value = predicted[j] * np.exp(log_likelihood[t, j] - highest) if predicted[j] > 0 else 0.0
            current[j] = value
            total += value
        scale = 1.0 / total
        for j in range(states):
            current[j] *= scale
            filtered[t, j] = current[j]
        log_density[t] = highest + np.log(total)
    return COMPLETE


@as_written(chain_arithmetic.__file__)
def _predict_log(filtered: np.ndarray, log_transition: np.ndarray, predicted: np.ndarray, terms: np.ndarray) -> None:
    for j in range(len(filtered)):
        for i in range(len(filtered)):
            terms[i] = filtered[i] + log_transition[i, j]
        predicted[j] = log_sum(terms)


@as_written(chain_arithmetic.__file__)
def _forward_log(
    log_initial: Array, log_transition: Array, log_likelihood: Array, filtered: Array, log_density: Array
) -> int:
    """As :func:`_forward_scaled`, but ``filtered`` are the logarithms; never out of range."""
    steps, states = log_likelihood.shape
    varying = log_transition.shape[0] > 1
    terms, predicted, current = np.empty(states), np.empty(states), np.empty(states)
    for t in range(steps):
        if t == 0:
            for j in range(states):
                predicted[j] = log_initial[j]
        else:
            _predict_log(current, log_transition[t - 1 if varying else 0], predicted, terms)
        for j in range(states):
            current[j] = predicted[j] + log_likelihood[t, j]
        log_density[t] = log_sum(current)
        if log_density[t] == -np.inf:
            return t
        for j in range(states):
            current[j] -= log_density[t]
            filtered[t, j] = current[j]
    return COMPLETE


@as_written(chain_arithmetic.__file__)
def _backward_scaled(log_transition: np.ndarray, filtered: np.ndarray, smoothed: np.ndarray, pairs: np.ndarray) -> None:
    """Write the smoothed probabilities, and add those of pairs: (T-1, K, K) each step's, (1, K, K) their sum."""
    steps, states = filtered.shape
    varying = log_transition.shape[0] > 1
    transition = np.empty((states, states))
    current, predicted, ratio, value = np.empty(states), np.empty(states), np.empty(states), np.empty(states)
    for j in range(states):
        value[j] = filtered[steps - 1, j]
        smoothed[steps - 1, j] = value[j]
    for t in range(steps - 2, -1, -1):
        if varying or t == steps - 2:
            exponentiate(log_transition[t if varying else 0], transition)
        for i in range(states):
            current[i] = filtered[t, i]
        _predict(current, transition, predicted)  # again: to keep those of all steps costs more than that
        for j in range(states):
            # Below this only what cannot be reached is predicted: the forward pass has seen to that.
            ratio[j] = value[j] / predicted[j] if predicted[j] >= SMALLEST else 0.0
        at = t if varying else 0
        total = 0.0
        for i in range(states):
            following = 0.0
            for j in range(states):
                following += transition[i, j] * ratio[j]
            value[i] = current[i] * following
            total += value[i]
            for j in range(states):
                pairs[at, i, j] += current[i] * ratio[j]
        if varying or t == 0:  # what all terms of the sum have in common
            for i in range(states):
                for j in range(states):
                    pairs[at, i, j] *= transition[i, j]
        scale = 1.0 / total
        for i in range(states):
            value[i] *= scale
            smoothed[t, i] = value[i]


@as_written(chain_arithmetic.__file__)
def _backward_log(log_transition: np.ndarray, filtered: np.ndarray, smoothed: np.ndarray, pairs: np.ndarray) -> None:
    """As :func:`_backward_scaled`, from what :func:`_forward_log` wrote; the results are probabilities again."""
    steps, states = filtered.shape
    varying = log_transition.shape[0] > 1
    current, predicted, terms, value = np.empty(states), np.empty(states), np.empty(states), np.empty(states)
    for j in range(states):
        value[j] = filtered[steps - 1, j]
        smoothed[steps - 1, j] = np.exp(value[j])
    for t in range(steps - 2, -1, -1):
        matrix = log_transition[t if varying else 0]
        for i in range(states):
            current[i] = filtered[t, i]
        _predict_log(current, matrix, predicted, terms)
        for j in range(states):
            # −inf less −inf is not a number.
            predicted[j] = value[j] - predicted[j] if value[j] > -np.inf else -np.inf
        for i in range(states):
            for j in range(states):
                terms[j] = current[i] + matrix[i, j] + predicted[j]
                pairs[t if varying else 0, i, j] += np.exp(terms[j])
            value[i] = log_sum(terms)
        total = log_sum(value)
        for i in range(states):
            value[i] -= total
            smoothed[t, i] = np.exp(value[i])


@as_written(chain_arithmetic.__file__)
def forward(
    log_initial: Array, log_transition: Array, log_likelihood: Array, filtered: Array, log_density: Array
) -> tuple[int, bool]:
    """The forward pass, scaled if that is safe; the outcome, and whether the results are logarithms."""
    outcome = _forward_scaled(log_initial, log_transition, log_likelihood, filtered, log_density)
    if outcome != OUT_OF_RANGE:
        return outcome, False
    return _forward_log(log_initial, log_transition, log_likelihood, filtered, log_density), True


@as_written(chain_arithmetic.__file__)
def evidence_and_filter(log_initial: Array, log_transition: Array, log_likelihood: Array) -> tuple[float, Array, bool]:
    """Log evidence, filtered probabilities, and whether these are logarithms; −inf and zeros where it is impossible."""
    filtered = np.empty(log_likelihood.shape)
    log_density = np.empty(len(log_likelihood))
    outcome, logarithms = forward(log_initial, log_transition, log_likelihood, filtered, log_density)
    if outcome < 0:
        return compensated_sum(log_density), filtered, logarithms
    filtered[:] = 0.0
    return -np.inf, filtered, False


@as_written(chain_arithmetic.__file__)
def evidence_gradient(log_transition: Array, filtered: Array, logarithms: bool) -> tuple[Array, Array]:
    """Smoothed probabilities and those of pairs, from what :func:`evidence_and_filter` returned."""
    smoothed, pairs = np.zeros(filtered.shape), np.zeros(log_transition.shape)
    # Where the observations are impossible, the density is −inf all around, and its gradient is called zero.
    if logarithms:
        _backward_log(log_transition, filtered, smoothed, pairs)
    elif np.sum(filtered[-1]) != 0:
        _backward_scaled(log_transition, filtered, smoothed, pairs)
    return smoothed, pairs
