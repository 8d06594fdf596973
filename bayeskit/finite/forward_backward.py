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

The functions at the end run over many sequences. Each argument comes as a stack of its distinct values and, for each
sequence, the index of its own, besides its length: nothing is copied to give a thousand sequences the same transitions,
or a thousand draws of the transitions the same data. What they return for a sequence that cannot be observed is
meaningless, except its outcome: the step that is impossible. After the end of a sequence that is shorter than others
are zeros.

All of it is one file, because numba's cache of a compiled function does not notice that a function it calls has changed
in another.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = [
    "Arrays",
    "backward",
    "best_paths",
    "compensated_sum",
    "draw_paths",
    "evidence",
    "evidence_and_filter",
    "filtering",
    "forward",
    "gradient",
    "smoothing",
]

SMALLEST = 1e-100  # of a predicted probability: far above the least number there is, far below what data can outweigh
# A forward pass returns one of these, or the step, from zero, whose observation is impossible.
COMPLETE, OUT_OF_RANGE = -1, -2

# log_initial (·, K), log_transition (·, S, K, K), log_likelihood (·, T, K); of each sequence three indices, its length.
type Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@as_written
def _add(total: float, lost: float, value: float) -> tuple[float, float]:
    """One more term of a sum, and what rounding has lost of the sum so far (Neumaier 1974)."""
    new = total + value
    if np.isfinite(new):
        lost += (total - new) + value if abs(total) >= abs(value) else (value - new) + total
    return new, lost


@as_written
def compensated_sum(values: np.ndarray) -> float:
    """Σ values, to working precision however many there are."""
    total, lost = 0.0, 0.0
    for value in values:
        total, lost = _add(total, lost, value)
    return total + lost


# Loops rather than array expressions, here and below: numba takes seconds to compile those.
@as_written
def _exponentiate(matrix: np.ndarray, result: np.ndarray) -> None:
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            result[i, j] = np.exp(matrix[i, j])


@as_written
def _fill_zero(matrix: np.ndarray) -> None:
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0


@as_written
def _log_sum(values: np.ndarray) -> float:
    highest = -np.inf
    for value in values:
        if not value <= highest:
            highest = value
    if highest == -np.inf:
        return highest
    total = 0.0
    for value in values:
        total += np.exp(value - highest)
    return highest + np.log(total)


@as_written
def _predict(filtered: np.ndarray, transition: np.ndarray, predicted: np.ndarray) -> None:
    for j in range(len(filtered)):
        total = 0.0
        for i in range(len(filtered)):
            total += filtered[i] * transition[i, j]
        predicted[j] = total


@as_written
def _reachable(state: int, log_transition: np.ndarray, log_likelihood: np.ndarray, predicted: np.ndarray) -> bool:
    """Whether a state can follow the step whose predicted probabilities these are, with whatever probability."""
    for i in range(len(predicted)):
        if predicted[i] > 0 and log_likelihood[i] > -np.inf and log_transition[i, state] > -np.inf:
            return True
    return False


@as_written
def _forward_scaled(
    log_initial: np.ndarray,
    log_transition: np.ndarray,
    log_likelihood: np.ndarray,
    filtered: np.ndarray,
    log_density: np.ndarray,
) -> int:
    """Write filtered probabilities and log p(y_t | y_1 … y_{t-1}); return the outcome.

    ``filtered`` has T rows, or one, which then is the last step's.
    """
    steps, states = log_likelihood.shape
    every = filtered.shape[0] == steps
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
                _exponentiate(log_transition[at], transition)
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
        row = t if every else 0
        scale = 1.0 / total
        for j in range(states):
            current[j] *= scale
            filtered[row, j] = current[j]
        log_density[t] = highest + np.log(total)
    return COMPLETE


@as_written
def _predict_log(filtered: np.ndarray, log_transition: np.ndarray, predicted: np.ndarray, terms: np.ndarray) -> None:
    for j in range(len(filtered)):
        for i in range(len(filtered)):
            terms[i] = filtered[i] + log_transition[i, j]
        predicted[j] = _log_sum(terms)


@as_written
def _forward_log(
    log_initial: np.ndarray,
    log_transition: np.ndarray,
    log_likelihood: np.ndarray,
    filtered: np.ndarray,
    log_density: np.ndarray,
) -> int:
    """As :func:`_forward_scaled`, but ``filtered`` are the logarithms; never out of range."""
    steps, states = log_likelihood.shape
    every = filtered.shape[0] == steps
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
        log_density[t] = _log_sum(current)
        if log_density[t] == -np.inf:
            return t
        row = t if every else 0
        for j in range(states):
            current[j] -= log_density[t]
            filtered[row, j] = current[j]
    return COMPLETE


@as_written
def _backward_scaled(log_transition: np.ndarray, filtered: np.ndarray, smoothed: np.ndarray, pairs: np.ndarray) -> None:
    """Write the smoothed probabilities, and those of pairs: (T-1, K, K) each step's, (1, K, K) their sum.

    ``smoothed`` may be ``filtered`` itself, which is then overwritten. The predicted probabilities are computed again:
    to keep those of all steps costs more than that.
    """
    steps, states = filtered.shape
    varying = log_transition.shape[0] > 1
    apart = pairs.shape[0] > 1
    transition = np.empty((states, states))
    current, predicted, ratio, value = np.empty(states), np.empty(states), np.empty(states), np.empty(states)
    for t in range(len(pairs)):
        _fill_zero(pairs[t])
    for j in range(states):
        value[j] = filtered[steps - 1, j]
        smoothed[steps - 1, j] = value[j]
    for t in range(steps - 2, -1, -1):
        if varying or t == steps - 2:
            _exponentiate(log_transition[t if varying else 0], transition)
        for i in range(states):
            current[i] = filtered[t, i]
        _predict(current, transition, predicted)
        for j in range(states):
            # Below this only what cannot be reached is predicted: the forward pass has seen to that.
            ratio[j] = value[j] / predicted[j] if predicted[j] >= SMALLEST else 0.0
        at = t if apart else 0
        total = 0.0
        for i in range(states):
            following = 0.0
            for j in range(states):
                following += transition[i, j] * ratio[j]
            value[i] = current[i] * following
            total += value[i]
        for i in range(states):
            if apart or varying:
                for j in range(states):
                    pairs[at, i, j] += current[i] * transition[i, j] * ratio[j]
            else:
                for j in range(states):
                    pairs[0, i, j] += current[i] * ratio[j]
        scale = 1.0 / total
        for i in range(states):
            value[i] *= scale
            smoothed[t, i] = value[i]
    if steps > 1 and not (varying or apart):
        for i in range(states):
            for j in range(states):
                pairs[0, i, j] *= transition[i, j]


@as_written
def _backward_log(log_transition: np.ndarray, filtered: np.ndarray, smoothed: np.ndarray, pairs: np.ndarray) -> None:
    """As :func:`_backward_scaled`, from what :func:`_forward_log` wrote; the results are probabilities again."""
    steps, states = filtered.shape
    varying = log_transition.shape[0] > 1
    apart = pairs.shape[0] > 1
    current, predicted, terms, value = np.empty(states), np.empty(states), np.empty(states), np.empty(states)
    for t in range(len(pairs)):
        _fill_zero(pairs[t])
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
                pairs[t if apart else 0, i, j] += np.exp(terms[j])
            value[i] = _log_sum(terms)
        total = _log_sum(value)
        for i in range(states):
            value[i] -= total
            smoothed[t, i] = np.exp(value[i])


@as_written
def _draw_path(
    log_transition: np.ndarray,
    filtered: np.ndarray,
    logarithms: bool,
    uniforms: np.ndarray,
    path: np.ndarray,
) -> None:
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
            total = _log_sum(weights)
            for i in range(states):
                weights[i] = np.exp(weights[i] - total)
        else:
            if not last and (varying or t == steps - 2):
                _exponentiate(log_transition[at], transition)
            for i in range(states):
                weights[i] = filtered[t, i] * (1.0 if last else transition[i, path[t + 1]])
        left = 0.0
        for i in range(states):
            left += uniforms[t] * weights[i]
        chosen = 0
        for i in range(states):
            # A state of probability zero is never chosen, whatever the rounding.
            if weights[i] > 0:
                chosen = i
                left -= weights[i]
                if left < 0:
                    break
        path[t] = chosen


@as_written
def _best_path(
    log_initial: np.ndarray, log_transition: np.ndarray, log_likelihood: np.ndarray, best: np.ndarray, path: np.ndarray
) -> float:
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
        total, lost = _add(total, lost, log_likelihood[t, state])
        if t < steps - 1:
            total, lost = _add(total, lost, log_transition[at, state, following])
    total, lost = _add(total, lost, log_initial[state])
    return total + lost


@as_written
def forward(
    log_initial: np.ndarray,
    log_transition: np.ndarray,
    log_likelihood: np.ndarray,
    filtered: np.ndarray,
    log_density: np.ndarray,
) -> tuple[int, bool]:
    """The forward pass, scaled if that is safe; the outcome, and whether the results are logarithms."""
    outcome = _forward_scaled(log_initial, log_transition, log_likelihood, filtered, log_density)
    if outcome != OUT_OF_RANGE:
        return outcome, False
    return _forward_log(log_initial, log_transition, log_likelihood, filtered, log_density), True


@as_written
def backward(
    log_transition: np.ndarray,
    filtered: np.ndarray,
    logarithms: bool,
    smoothed: np.ndarray,
    pairs: np.ndarray,
) -> None:
    """The backward pass, from what :func:`forward` wrote and returned."""
    if logarithms:
        _backward_log(log_transition, filtered, smoothed, pairs)
    else:
        _backward_scaled(log_transition, filtered, smoothed, pairs)


@as_written
def evidence_and_filter(
    log_initial: np.ndarray, log_transition: np.ndarray, log_likelihood: np.ndarray
) -> tuple[float, np.ndarray, bool]:
    """Log evidence, filtered probabilities, and whether these are logarithms; −inf and zeros where it is impossible."""
    filtered = np.empty(log_likelihood.shape)
    log_density = np.empty(len(log_likelihood))
    outcome, logarithms = forward(log_initial, log_transition, log_likelihood, filtered, log_density)
    if outcome < 0:
        return compensated_sum(log_density), filtered, logarithms
    filtered[:] = 0.0
    return -np.inf, filtered, False


@as_written
def gradient(log_transition: np.ndarray, filtered: np.ndarray, logarithms: bool) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed probabilities and those of pairs, from what :func:`evidence_and_filter` returned."""
    smoothed, pairs = np.zeros(filtered.shape), np.zeros(log_transition.shape)
    # Where the observations are impossible, the density is −inf all around, and its gradient is called zero.
    if logarithms or np.sum(filtered[-1]) != 0:
        backward(log_transition, filtered, logarithms, smoothed, pairs)
    return smoothed, pairs


@as_written
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


@as_written
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
        _fill_zero(filtered[n, length:])
        if logarithms:
            _exponentiate(filtered[n, :length], filtered[n, :length])
    return filtered, log_density, outcomes


@as_written
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
        _fill_zero(smoothed[n, length:])
        inside = smoothed[n, :length]
        backward(log_transition[j], inside, logarithms, inside, pairs[n])
    return smoothed, value, outcomes


@as_written
def best_paths(
    log_initial: np.ndarray, log_transition: np.ndarray, log_likelihood: np.ndarray, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable path of each sequence, −1 after its end, and its log joint probability."""
    steps, states = log_likelihood.shape[1:]
    paths, value = np.full((len(index), steps), -1), np.empty(len(index))
    best = np.empty((steps, states))
    for n in range(len(index)):
        i, j, k, length = index[n]
        value[n] = _best_path(log_initial[i], log_transition[j], log_likelihood[k, :length], best, paths[n, :length])
    return paths, value


@as_written
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
                _draw_path(
                    log_transition[j], filtered[:length], logarithms, rng.random((length,)), paths[draw, n, :length]
                )
    return outcomes
